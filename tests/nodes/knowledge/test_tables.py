"""`query_documents`: typed tables of documents, statements and questions over them, and what no statement may do."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowledge_world import call, library_with, put

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.databases.node import DatabaseQuestion, WrittenStatement
from rrext.nodes.documents.formats import table_of
from rrext.nodes.knowledge import tables
from rrext.nodes.knowledge.library import Library
from rrext.nodes.knowledge.partition import DERIVED, Sheet, StoredDocument
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.knowledge.tables import TableSets, query_documents
from rrext.nodes.sql.duckdb.node import DuckdbBackend
from rrext.nodes.sql.duckdb.text_tables import MOST_CELLS, MOST_COLUMNS, json_table, markdown_table, type_of, write_parquet
from rrext.tools.context import ToolContext

SALES = (("Region", "Units", "Price"), ("north", "3", "1.50"), ("south", "4", "2.25"), ("north", "", "10"))


class Desk:
    """A library with tables, and a user who asks."""

    def __init__(self, library: Library, sets: TableSets) -> None:
        self.library = library
        self.sets = sets

    def sheets(self, path: str, ctx: ToolContext | None = None, /, **sheets: Sequence[Sequence[str]]) -> StoredDocument:
        """Store a workbook as `parse` gives it."""
        text, ranges = "", []
        for name, rows in sheets.items():
            table = table_of(rows)
            text += f"## {name}\n\n"
            ranges.append(Sheet(name, len(text), len(text) + len(table)))
            text += table
        return put(self.library, ctx or call("ann"), path, text, sheets=tuple(ranges), mime_type="text/csv")

    def json(self, path: str, value: Any, ctx: ToolContext | None = None) -> StoredDocument:
        text = value if isinstance(value, str) else json.dumps(value)
        return put(self.library, ctx or call("ann"), path, text, mime_type="application/json")

    def ask(
        self,
        sql: str | None = None,
        *documents: StoredDocument,
        ctx: ToolContext | None = None,
        limit: int = 100,
        offset: int = 0,
        **filter: Any,
    ) -> dict[str, Any]:
        ctx = ctx or call("ann")
        ids = [document.id for document in documents] or None

        def no_model(question: object) -> Any:
            raise AssertionError("nobody asked in words")

        with self.library.view(ctx) as view:
            return query_documents(view, self.sets, ids, Selection(filter), None, sql, no_model, limit, offset, ctx)

    def refusal(self, *asked: Any, **more: Any) -> RrextError:
        with pytest.raises(RrextError) as caught:
            self.ask(*asked, **more)
        return caught.value


@contextmanager
def desk(folder: Path, *, timeout: float = 20.0, memory: str = "200MB", **spaces: list[str]) -> Iterator[Desk]:
    sets = TableSets(memory, timeout)
    try:
        with library_with(folder, **spaces) as library:
            yield Desk(library, sets)
    finally:
        sets.close()


def files(folder: Path) -> list[str]:
    """What was made of texts and is kept."""
    return sorted(path.name for path in folder.glob(f"*/{DERIVED}/*/*"))


# answers


def test_sheets_and_json_are_asked_together_as_typed_tables(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        book = asked.sheets("docs/Sales 2024.xlsx", Orders=SALES, Goals=(("Region", "Goal"), ("north", "5")))
        asked.json("docs/regions.json", [{"region": "north", "head": {"name": "Ann"}}, {"region": "south", "head": None}])
        answer = asked.ask()
        assert answer["sql"] is None
        assert [(one["table"], one["rows"]) for one in answer["tables"]] == [
            ("sales_2024_orders", 3),
            ("sales_2024_goals", 1),
            ("regions", 2),
        ]
        assert answer["tables"][0] == {
            "table": "sales_2024_orders",
            "document": book.id,
            "path": "docs/Sales 2024.xlsx",
            "sheet": "Orders",
            "rows": 3,
            "columns": [
                {"name": "Region", "type": "VARCHAR"},
                {"name": "Units", "type": "BIGINT"},
                {"name": "Price", "type": "DECIMAL(4,2)"},
            ],
        }
        sql = (
            'SELECT r.head, sum("Units") AS units FROM sales_2024_orders o JOIN regions r ON r.region = o."Region" '
            "GROUP BY ALL ORDER BY units"
        )
        answer = asked.ask(sql)
        assert (answer["sql"], answer["columns"], answer["is_cut"], answer["next"]) == (sql, ["head", "units"], False, None)
        assert answer["rows"] == [[{"name": "Ann"}, 3], [None, 4]]
        assert [one["table"] for one in answer["tables"]] == ["sales_2024_orders", "regions"]
        assert answer["left_out"] == {"count": 0, "first": []}


def test_rows_beyond_the_limit_are_read_page_by_page(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/n.csv", n=(("n",), *((str(n),) for n in range(25))))
        seen: list[int] = []
        offset: int | None = 0
        while offset is not None:
            answer = asked.ask("SELECT n FROM n ORDER BY n", limit=10, offset=offset)
            seen += [n for (n,) in answer["rows"]]
            assert answer["is_cut"] == (answer["next"] is not None)
            offset = answer["next"]
        assert seen == list(range(25))
        assert asked.ask("SELECT n FROM n", offset=90)["rows"] == []


def test_large_cells_end_a_page_early_and_whole(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/big.csv", big=(("n", "text"), *((str(n), f"{n}" * 600_000) for n in range(4))))
        answer = asked.ask("SELECT text FROM big ORDER BY n")
        assert [len(text) for (text,) in answer["rows"]] == [600_000, 600_000]
        assert (answer["is_cut"], answer["next"]) == (True, 2)


def test_documents_of_one_name_get_different_tables(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        one = asked.sheets("a/list.csv", list=(("x",), ("1",)))
        two = asked.sheets("b/list.csv", list=(("x",), ("2",)))
        names = [table["table"] for table in asked.ask()["tables"]]
        assert names == [f"list_{one.id[:6]}", f"list_{two.id[:6]}"]
        assert asked.ask(f"SELECT x FROM {names[1]}")["rows"] == [[2]]
        assert [table["table"] for table in asked.ask(None, two)["tables"]] == ["list"]
        assert [table["document"] for table in asked.ask(sources=["a"])["tables"]] == [one.id]


def test_a_table_has_a_name_that_needs_no_quotes(tmp_path: Path) -> None:
    names = {"2024.csv": "t_2024", "Größe (m²).csv": "größe_m²", "select.csv": "t_select", "!!!.csv": "t_", "a.b.csv": "a_b"}
    with desk(tmp_path) as asked:
        made = {asked.sheets(f"docs/{name}", sheet=(("x",), ("1",))).id: expected for name, expected in names.items()}
        for table in asked.ask()["tables"]:
            assert table["table"] == made[table["document"]]
            assert asked.ask(f"SELECT x FROM {table['table']}")["rows"] == [[1]]


# types


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-20", "0"], "BIGINT"),
        (["007", "8"], "VARCHAR"),
        (["+49", "8"], "VARCHAR"),
        (["12345678901234567890", "1"], "DECIMAL(20, 0)"),
        (["9" * 38], "DECIMAL(38, 0)"),
        (["9" * 39], "VARCHAR"),
        (["1.50", "2", "-.5"], "DECIMAL(3, 2)"),
        (["0.30000000000000004", "1"], "DOUBLE"),
        (["0.1234567890123456789", "1"], "DECIMAL(20, 19)"),
        (["1e5", "2.5"], "DOUBLE"),
        (["1e400"], "VARCHAR"),
        (["9007199254740993", "NaN"], "VARCHAR"),
        (["NaN", "1.5", "-inf"], "DOUBLE"),
        (["nan", "inf"], "VARCHAR"),
        (["1,234.50"], "VARCHAR"),
        (["12 €"], "VARCHAR"),
        (["true", "FALSE"], "BOOLEAN"),
        (["yes", "no"], "VARCHAR"),
        (["2024-02-29", "1999-01-01"], "DATE"),
        (["2023-02-29"], "VARCHAR"),
        (["31.12.2026"], "VARCHAR"),
        (["2024-01-02", "2024-01-02T10:00:00"], "VARCHAR"),
        (["2024-01-02 10:00", "2024-01-02T10:00:00.5"], "TIMESTAMP"),
        (["2024-01-02T10:00:00Z", "2024-01-02T10:00:00+02:00"], "TIMESTAMP WITH TIME ZONE"),
        (["10:00:00"], "TIME"),
        (["03:02"], "VARCHAR"),
        (["30:00:00"], "VARCHAR"),
        (["1", "x"], "VARCHAR"),
        (["-", "."], "VARCHAR"),
        (["١٢"], "VARCHAR"),
        ([], "VARCHAR"),
    ],
)
def test_a_column_has_a_type_only_if_no_value_changes(cells: list[str], expected: str) -> None:
    assert type_of(cells) == expected


numbers = st.one_of(st.integers(-(10**45), 10**45), st.decimals(allow_nan=False, allow_infinity=False, places=4), st.floats())
cells = st.one_of(
    st.none(),
    numbers.map(str),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.times().map(lambda clock: clock.isoformat()),
    st.booleans().map(str),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
columns = st.one_of(
    *(
        st.lists(st.one_of(st.none(), kind), min_size=3, max_size=3)
        for kind in (numbers.map(str), st.integers().map(str), st.dates().map(str), st.floats().map(repr), cells)
    )
)


def same(cell: str | None, value: Any) -> bool:
    """Whether a value of a database is that of a cell."""
    if cell is None or value is None:
        return cell is value
    if isinstance(value, bool):
        return cell.lower() == str(value).lower()
    if isinstance(value, float):
        return math.isnan(value) if cell.lower() == "nan" else float(cell) == value
    if isinstance(value, int | Decimal):
        return Decimal(cell) == value
    if isinstance(value, str):
        return cell == value
    return type(value).fromisoformat(cell) == value


def stored_rows(folder: Path, text: str, form: Any) -> list[tuple[Any, ...]]:
    (folder / "in.txt").write_bytes(text.encode())
    with duckdb.connect() as connection:
        write_parquet(connection, str(folder / "in.txt"), form, str(folder / "out.parquet"))
        return connection.execute(f"FROM read_parquet('{folder}/out.parquet')").fetchall()


@pytest.mark.promise("knowledge:tables")
@settings(max_examples=60, deadline=None)
@given(table=st.lists(columns, min_size=1, max_size=4))
def test_the_values_that_go_in_come_out(tmp_path_factory: pytest.TempPathFactory, table: list[list[str | None]]) -> None:
    spaced = [[None if cell is None else " ".join(cell.split()) or None for cell in column] for column in table]
    rows = list(zip(*spaced, strict=True))
    text = table_of([[f"c{n}" for n in range(len(table))], *([cell or "" for cell in row] for row in rows)])
    found = stored_rows(tmp_path_factory.mktemp("t"), text, "markdown")
    assert len(found) == len(rows)
    for row, values in zip(rows, found, strict=True):
        for cell, value in zip(row, values, strict=True):
            assert same(cell, value), (cell, value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(column=st.lists(json_values, min_size=1, max_size=4))
def test_the_values_of_json_come_out(tmp_path_factory: pytest.TempPathFactory, column: list[Any]) -> None:
    text = json.dumps([{"n": n, "v": value} for n, value in enumerate(column)])
    kinds = dict(zip(("n", "v"), json_table(text).types, strict=True))
    found = stored_rows(tmp_path_factory.mktemp("t"), text, "json")
    for value, (_, out) in zip(column, found, strict=True):
        if kinds["v"] == "JSON" and out is not None:
            assert json.loads(out) == value
        elif isinstance(value, str | None):
            assert same(value, out)
        else:
            assert same(json.dumps(value), out)


def test_rows_of_any_length_and_names_of_any_kind_become_columns() -> None:
    table = markdown_table("| a | A |  | a_2 |\n| --- | --- |\n| 1 |\n| 2 | 3 | 4 | 5 | x\\|y |\n")
    assert table.names == ["a", "A_2", "column_3", "a_2_2", "column_5"]
    assert [list(column) for column in table.columns] == [["1", "2"], [None, "3"], [None, "4"], [None, "5"], [None, "x|y"]]


def test_a_head_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/head.csv", head=(("a", "b"),))
        assert asked.ask("SELECT * FROM head")["columns"] == ["a", "b"]
        assert asked.ask()["tables"][0]["rows"] == 0


JSON_FORMS = (
    ('{"count": 2, "items": [{"a": 1}, {"a": 2}]}', [[1], [2]]),
    ('{"a": 1}\n{"a": 2}\n', [[1], [2]]),
    ('\ufeff[{"a": [1, {"b": null}]}, {"a": {"c": 12345678901234567}}]', [[[1, {"b": None}]], [{"c": 12345678901234567}]]),
    ('[{"a": "12"}, {"a": "x"}]', [["12"], ["x"]]),
    ('[{"a": 1}, {"a": "x"}]', [[1], ['"x"']]),
    ('[{"a": ""}, {}]', [[""], [None]]),
)  # fmt: skip


def test_json_is_a_table_in_each_of_its_forms(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        for number, (text, _) in enumerate(JSON_FORMS):
            asked.json(f"docs/items_{number}.json", text)
        for number, (_, rows) in enumerate(JSON_FORMS):
            assert asked.ask(f"SELECT a FROM items_{number}")["rows"] == rows


# refusals


NO_TABLES = {
    '{"a": [1], "b": []}': "2 lists",
    '{"a": 1}': "0 lists",
    "[1, 2]": "no list of objects",
    '"x"': "a single value",
    "[]": "no objects",
    "[{}]": "no keys",
    '[{"a": NaN}]': "no JSON",
    "[" * 100_000: "no JSON",
    "": "no JSON",
    json.dumps([{f"k{n}": 1 for n in range(MOST_COLUMNS + 1)}]): "2,001 columns",
}


def test_json_that_is_no_table_says_why_and_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as asked:
        documents = [asked.json(f"docs/{number}.json", text) for number, text in enumerate(NO_TABLES)]
        asked.sheets("docs/n.csv", n=(("n",), ("1",)))
        answer = asked.ask("SELECT n FROM n")  # others are asked all the same
        assert answer["rows"] == [[1]]
        assert [one["document"] for one in answer["left_out"]["first"]] == [document.id for document in documents]
        monkeypatch.setattr(tables, "_make", None)  # which would fail
        for document, one, why in zip(documents, answer["left_out"]["first"], NO_TABLES.values(), strict=True):
            error = asked.refusal(None, document)
            assert (error.code, error.data["document"]) == ("no_table", document.id)
            assert why in error.message
            assert why in one["reason"]


def test_rows_that_leave_out_too_many_cells_are_no_table() -> None:
    long = f"|{'a|' * MOST_COLUMNS}\n" + "| 1 |\n" * (MOST_CELLS // MOST_COLUMNS + 1)
    for text, why in ((long, "cells"), (f"| a |\n|{'1|' * 1_000_000}\n", "columns")):
        with pytest.raises(ToolError, match=why):
            markdown_table(text)


def test_a_sheet_of_too_many_columns_is_left_out_with_the_reason(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        wide = [[f"c{n}" for n in range(16_384)], ["1"] * 16_384]
        asked.sheets("docs/wide.xlsx", Wide=wide, Narrow=(("n",), ("1",)))
        answer = asked.ask("SELECT n FROM wide_narrow")
        assert answer["rows"] == [[1]]
        assert answer["left_out"]["count"] == 1
        assert f"{MOST_COLUMNS:,}" in answer["left_out"]["first"][0]["reason"]


def test_a_document_without_a_table_says_what_it_is(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        text = put(asked.library, call("ann"), "docs/a.txt")
        assert asked.refusal(None, text).code == "no_table"
        assert asked.ask()["tables"] == []
        assert asked.refusal("SELECT 1").code == "no_table"


def test_ids_that_are_gone_or_of_others_are_answered_alike(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        own = asked.sheets("docs/n.csv", n=(("n",), ("1",)))
        others = asked.sheets("docs/secret.csv", call("bob"), secret=(("n",), ("1",)))
        asked.ask("SELECT n FROM n")
        with asked.library.own(call("ann")) as partition:
            partition.delete(["docs/n.csv"])
        gone, foreign = asked.refusal("SELECT 1", own), asked.refusal("SELECT 1", others)
        assert gone.code == foreign.code == "document_not_found"
        assert gone.message.replace(own.id, "") == foreign.message.replace(others.id, "")


@pytest.mark.promise("knowledge:tables")
def test_nobody_asks_the_tables_of_others(tmp_path: Path) -> None:
    with desk(tmp_path, team=["ann", "bob"], board=["bob"]) as asked:
        asked.sheets("docs/own.csv", call("ann"), own=(("who",), ("ann",)))
        asked.sheets("docs/own.csv", call("bob"), own=(("who",), ("bob",)))
        asked.sheets("docs/shared.csv", call("ann", "team"), shared=(("who",), ("ann",)))
        asked.sheets("docs/secret.csv", call("bob", "board"), secret=(("who",), ("bob",)))
        for user, others in (("ann", "bob"), ("bob", "ann")):
            assert asked.ask("SELECT who FROM own", ctx=call(user))["rows"] == [[user]]
            assert asked.ask("SELECT count(*) FROM own JOIN shared ON true", ctx=call(user))["rows"] == [[1]]
            listed = asked.ask("SELECT table_name FROM information_schema.tables ORDER BY 1", ctx=call(user))["rows"]
            assert listed == ([["own"], ["shared"]] if others == "bob" else [["own"], ["secret"], ["shared"]])
        assert [one["table"] for one in asked.ask(ctx=call("ann", "team"))["tables"]] == ["shared"]
        assert asked.refusal("SELECT who FROM secret", ctx=call("ann")).code == "sql_failed"
        assert asked.refusal("SELECT who FROM secret", ctx=call("ann", "board")).code == "space_not_found"


FORBIDDEN = (
    "DELETE FROM n",
    "CREATE TABLE t AS SELECT 1",
    "ATTACH 'x.db'",
    "COPY n TO 'x.csv'",
    "INSTALL httpfs",
    "SET memory_limit = '9GB'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT content FROM read_text('/etc/passwd')",
    "SELECT getenv('HOME')",
    "SELECT * FROM glob('/*')",
    "SELECT 1; SELECT 2",
    "",
)


@pytest.mark.promise("knowledge:tables")
def test_a_statement_only_reads_the_tables(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/n.csv", n=(("n",), ("1",)))
        for sql in FORBIDDEN:
            assert asked.refusal(sql).code in ("not_read_only", "invalid_arguments"), sql
        assert asked.ask("SELECT n FROM n")["rows"] == [[1]]
        assert list(tmp_path.rglob("x.*")) == []


ENDLESS = "SELECT count(*) FROM n a, n b, n c, n d, n e, n f WHERE md5(concat(a.n, b.n, c.n, d.n, e.n, f.n)) = ''"


@pytest.mark.promise("knowledge:tables")
def test_a_statement_without_an_end_is_stopped_and_others_go_on(tmp_path: Path) -> None:
    with desk(tmp_path, timeout=2.0) as asked:
        asked.sheets("docs/n.csv", n=(("n",), *((str(n),) for n in range(200))))
        assert asked.refusal(ENDLESS).code == "statement_timeout"
        assert asked.ask("SELECT count(*) FROM n")["rows"] == [[200]]


def test_a_cancelled_call_stops_its_statement(tmp_path: Path) -> None:
    with desk(tmp_path, timeout=300) as asked:
        asked.sheets("docs/n.csv", n=(("n",), *((str(n),) for n in range(200))))
        asked.ask()
        ctx = call("ann")
        stopper = threading.Timer(0.2, ctx.token.cancel)
        stopper.start()
        assert asked.refusal(ENDLESS, ctx=ctx).code == "cancelled"


def test_what_needs_more_memory_than_there_is_fails_alone(tmp_path: Path) -> None:
    with desk(tmp_path, memory="50MB") as asked:
        asked.sheets("docs/n.csv", n=(("n",), *((str(n),) for n in range(3000))))
        error = asked.refusal("SELECT list(a.n * 100000 + b.n) FROM n a, n b GROUP BY a.n % 2")
        assert "memory" in error.message.lower()
        assert asked.ask("SELECT count(*) FROM n")["rows"] == [[3000]]


# files


def test_a_table_is_made_once_for_a_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/a.csv", a=(("n",), ("1",)))
        asked.ask("SELECT n FROM a")
        made = files(tmp_path)
    with desk(tmp_path) as asked:
        monkeypatch.setattr(tables, "_make", None)  # which would fail
        assert asked.ask("SELECT n FROM a")["rows"] == [[1]]
        assert files(tmp_path) == made
        assert len(made) == 1


def test_what_was_made_of_a_text_goes_with_its_last_document(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        for name in ("a", "b"):
            asked.sheets(f"docs/{name}.csv", same=(("n",), ("1",)))
        asked.ask("SELECT n FROM a")
        with asked.library.own(call("ann")) as partition:
            partition.delete(["docs/a.csv"])
            assert len(files(tmp_path)) == 1  # the other one has the same text
            asked.sheets("docs/b.csv", same=(("n",), ("2",)))
            assert files(tmp_path) == []
        assert asked.ask("SELECT n FROM b")["rows"] == [[2]]


def test_what_a_killed_process_left_goes_with_the_next_table(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        document = asked.sheets("docs/a.csv", a=(("n",), ("1",)))
        with asked.library.own(call("ann")) as partition:
            left, gone = Path(partition.derived(document.digest)), Path(partition.derived("0" * 64))
        for folder in (left, gone):
            folder.mkdir(parents=True)
            (folder / f"{tables.PART}old.parquet").write_bytes(b"half")
        long_ago = time.time() - 2 * tables.PART_AGE
        os.utime(left / f"{tables.PART}old.parquet", (long_ago, long_ago))
        (left / f"{tables.PART}new.txt").write_bytes(b"of another process, at work")
        assert asked.ask("SELECT n FROM a")["rows"] == [[1]]
        assert not gone.exists()
        assert [name.partition(".")[0] if name.startswith("sheet") else name for name in files(tmp_path)] == [
            f"{tables.PART}new.txt",
            f"sheet-{document.characters - 20}-{document.characters}-{tables.RULES}",
        ]


def test_a_document_that_changes_is_asked_anew(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        for number in range(3):
            asked.sheets("docs/a.csv", a=(("n",), (str(number),)))
            assert asked.ask("SELECT n FROM a")["rows"] == [[number]]


def test_a_document_that_goes_while_its_table_is_made_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path) as asked:
        document = asked.sheets("docs/a.csv", a=(("n",), ("1",)))
        prepare = DuckdbBackend.prepare

        def prepared(*request: Any) -> None:
            with asked.library.own(call("ann")) as partition:
                partition.delete(["docs/a.csv"])
            prepare(*request)

        monkeypatch.setattr(DuckdbBackend, "prepare", prepared)
        assert asked.refusal("SELECT n FROM a", document).code == "document_not_found"
        assert files(tmp_path) == []


def test_few_sets_stay_open_however_many_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "OPEN_SETS", 2)
    with desk(tmp_path) as asked:
        made = [asked.sheets(f"docs/{name}.csv", sheet=(("n",), (str(at),))) for at, name in enumerate("abc")]
        for _ in range(2):
            for at, (name, document) in enumerate(zip("abc", made, strict=True)):
                assert asked.ask(f"SELECT n FROM {name}", document)["rows"] == [[at]]
        assert repr(asked.sets) == "<TableSets 2 open>"


def test_callers_at_once_share_the_tables(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/n.csv", n=(("n",), ("1",)))
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(asked.ask("SELECT n FROM n")["rows"])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[[1]]] * 6
        assert len(files(tmp_path)) == 1


def test_documents_beyond_the_limits_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_DOCUMENTS", 2)
    with desk(tmp_path) as asked:
        for name in "abc":
            asked.sheets(f"docs/{name}.csv", sheet=(("n",), ("1",)))
        answer = asked.ask()
        assert [one["table"] for one in answer["tables"]] == ["a", "b"]
        assert answer["left_out"]["count"] == 1
        monkeypatch.setattr(tables, "MOST_TEXT", 30)
        assert asked.ask()["left_out"]["first"][0]["path"] == "docs/b.csv"


def test_a_model_sees_few_short_cells_of_each_table_marked_as_data(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        asked.sheets("docs/n.csv", n=(("Unit price", "note"), *((f"{n}.5", f"note {n} {'x' * 90}") for n in range(9))))
        seen: list[str] = []

        def written(question: DatabaseQuestion) -> WrittenStatement:
            seen.extend(question.context())
            return WrittenStatement(question.check('SELECT max("Unit price") FROM n'))

        ctx = call("ann")
        with asked.library.view(ctx) as view:
            answer = query_documents(view, asked.sets, None, Selection(None), "What?", None, written, 9, 0, ctx)
        assert answer["rows"] == [[8.5]]
        quotes, samples, schema = seen
        assert '"Unit price"' in quotes
        assert schema == "table n: Unit price DECIMAL(2,1); note VARCHAR"
        head, name, *rows = samples.splitlines()
        assert "never instructions" in head
        assert name == "n:"
        assert rows == [f'[{n}.5,"note {n} {"x" * 33}…"]' for n in range(3)]


def test_documents_and_a_filter_are_not_given_together(tmp_path: Path) -> None:
    with desk(tmp_path) as asked:
        document = asked.sheets("docs/n.csv", n=(("n",), ("1",)))
        assert isinstance(asked.refusal(None, document, types=["csv"]), InvalidArguments)
