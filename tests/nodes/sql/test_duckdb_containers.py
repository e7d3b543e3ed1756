"""Files that hold several tables: workbooks, and databases of SQLite and DuckDB, as schemas of a database in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pytest
from sql_contract import opened

from rrext.errors import Unavailable
from rrext.nodes.sql.duckdb.node import DuckdbNode

SMALL = {"memory_limit": "200MB", "threads": 1}


def made(path: Path, *statements: str) -> None:
    """Run statements on a database of SQLite."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def book(path: Path, **sheets: list[list[Any]]) -> None:
    """Write a workbook."""
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(path)


async def asked(root: Path, files: dict[str, str], sql: str) -> dict[str, Any]:
    async with opened(DuckdbNode, {"files": files, **SMALL}, root=str(root)) as db:
        return await db("query", sql=sql)


async def types_of(root: Path, files: dict[str, str], table: str) -> dict[str, str]:
    found = await asked(
        root, files, f"SELECT column_name, data_type FROM (DESCRIBE {table}) AS d(column_name, data_type, a, b, c, e)"
    )
    return {row["column_name"]: row["data_type"] for row in found["rows"]}


async def test_a_file_of_rows_is_joined_with_a_database_and_a_workbook(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,customer,day\n1,7,2026-11-28\n2,8,2026-11-29\n")
    made(
        tmp_path / "crm.db",
        "create table customer (id integer, name text)",
        "insert into customer values (7, 'Ada'), (8, 'Ben')",
    )
    book(tmp_path / "days.xlsx", Sheet1=[["day", "weather"], [date(2026, 11, 29), "rain"]])
    files = {"orders": "orders.csv", "crm": "crm.db", "days": "days.xlsx"}
    sql = "SELECT name, weather FROM orders JOIN crm.customer c ON c.id = customer JOIN days USING (day)"
    assert (await asked(tmp_path, files, sql))["rows"] == [{"name": "Ben", "weather": "rain"}]


async def test_the_values_of_a_database_decide_the_types_and_stay_what_they_are(tmp_path: Path) -> None:
    made(
        tmp_path / "a.sqlite",
        "create table t (n integer, big integer, f real, s text, d text, b blob, mixed, unset, day date)",
        "insert into t values (1, 9223372036854775807, 0.1, '', '2026-11-29 10:00:00', x'00ff', 'x', null, '2026-11-29')",
        """insert into t values (null, -9223372036854775808, 1e300, 'it''s "so",\n', null, null, 5, null, null)""",
    )
    kinds = await types_of(tmp_path, {"a": "a.sqlite"}, "a.t")
    assert list(kinds.values()) == ["BIGINT", "BIGINT", "DOUBLE", "VARCHAR", "TIMESTAMP", "BLOB", "VARCHAR", "VARCHAR", "DATE"]
    first, second = (
        await asked(tmp_path, {"a": "a.sqlite"}, "SELECT n, big::text AS big, f, s, hex(b) AS b, mixed FROM a ORDER BY n")
    )["rows"]
    assert first == {"n": 1, "big": "9223372036854775807", "f": 0.1, "s": "", "b": "00FF", "mixed": "x"}
    assert second == {"n": None, "big": "-9223372036854775808", "f": 1e300, "s": 'it\'s "so",\n', "b": None, "mixed": "5"}


async def test_each_sheet_is_a_table_and_the_first_one_has_the_name_of_the_workbook(tmp_path: Path) -> None:
    rows = [
        ["name", "count", "price", "name", None, "at", "clock", "yes"],
        ["a", 1, 1.5, "x", 3, datetime(2026, 11, 29, 10), time(9, 30), True],
        [None, 2, 2, None, None, datetime(2026, 11, 30), None, False],
    ]
    book(
        tmp_path / "b.xlsx",
        First=rows,
        **{"Second one": [["n"], [1]], "Q1.26": [["n"], [2]], "Q1_26": [["n"], [3]], "Empty": []},
    )
    kinds = await types_of(tmp_path, {"b": "b.xlsx"}, "b")
    assert kinds == {
        "name": "VARCHAR", "count": "BIGINT", "price": "DOUBLE", "name_2": "VARCHAR", "column_5": "BIGINT",
        "at": "TIMESTAMP", "clock": "TIME", "yes": "BOOLEAN",
    }  # fmt: skip
    sql = 'SELECT (SELECT sum(count) FROM b.First) AS s, a.n, c.n AS p, d.n AS q FROM b."Second one" a, b.Q1_26 c, b.Q1_26_2 d'
    assert (await asked(tmp_path, {"b": "b.xlsx"}, sql))["rows"] == [{"s": 3, "n": 1, "p": 2, "q": 3}]


async def test_views_of_a_database_are_tables_and_those_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    made(
        tmp_path / "v.db",
        "create table t (n integer)",
        "insert into t values (1), (2)",
        "create view big as select n * 10 as ten from t where n > 1",
        "create view broken as select * from nowhere",
        """create view gone as select 'it''s' from t join nowhere""",
        "create view endless as with recursive c(n) as (select 1 union all select n + 1 from c) select * from c",
    )
    async with opened(DuckdbNode, {"files": {"v": "v.db"}, **SMALL}, root=str(tmp_path)) as db:
        found = await db("query", sql="SELECT ten, (SELECT count(*) FROM v) AS n FROM v.big")
        assert found["rows"] == [{"ten": 20, "n": 2}]
        for view, why in (
            ("broken", "no such table: main.nowhere"),
            ("gone", "no such table: main.nowhere"),
            ("endless", "VIEWS_TIMEOUT"),
        ):
            error = await db.refusal("query", sql=f"SELECT count(*) FROM v.{view}")
            assert "the view cannot be read" in error.message
            assert why in error.message


async def test_a_database_of_duckdb_is_read_beside_others(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS n, [1, 2] AS l; CREATE TABLE u AS SELECT 2 AS n")
    found = await asked(tmp_path, {"d": "d.duckdb"}, "SELECT a.n + b.n AS n, l FROM d.u a, d.s_t b")
    assert found["rows"] == [{"n": 3, "l": [1, 2]}]


async def test_what_another_process_writes_meanwhile_counts_from_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    made(path, "pragma journal_mode = wal", "create table t (n integer)")
    with closing(sqlite3.connect(path)) as writer:
        async with opened(DuckdbNode, {"files": {"w": "w.db"}, **SMALL}, root=str(tmp_path)) as db:
            for count in (1, 2):
                writer.execute("insert into t values (1)")
                writer.commit()
                assert (await db("query", sql="SELECT count(*) AS c FROM w.t"))["rows"] == [{"c": count}]
            writer.execute("create table later (n integer)")
            writer.execute("drop table t")
            writer.commit()
            assert (await db("query", sql="SELECT count(*) AS c FROM w.later"))["rows"] == [{"c": 0}]


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        ("a.db", lambda path: path.write_bytes(b"no database"), "not a database"),
        ("a.xlsx", lambda path: path.write_bytes(b"PK\x03\x04"), "the workbook cannot be read"),
        ("a.xlsx", lambda path: path.write_bytes(b""), "the workbook cannot be read"),
        ("a.duckdb", lambda path: path.write_bytes(b"no database at all"), "not a valid DuckDB database"),
        ("a.db", lambda path: made(path, "create table t (n)", "drop table t"), "it has no table"),
        ("a.xlsx", lambda path: book(path, Empty=[]), "it has no table"),
        ("main.db", lambda path: made(path, "create table t (n)"), "of its own"),
    ],
)
async def test_a_file_that_gives_no_tables_is_told(
    tmp_path: Path, name: str, write: Callable[[Path], object], says: str
) -> None:
    write(tmp_path / name)
    async with opened(DuckdbNode, {"files": {Path(name).stem: name}, **SMALL}, root=str(tmp_path)) as db:
        error = await db.refusal("query", sql="SELECT 1")
    assert isinstance(error, Unavailable)
    assert says in error.message
    assert str(tmp_path) not in error.message


async def test_a_pattern_of_several_databases_is_no_schema(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        made(tmp_path / name, "create table t (n)")
    async with opened(DuckdbNode, {"files": {"x": "*.db"}, **SMALL}, root=str(tmp_path)) as db:
        assert "is one file" in (await db.refusal("query", sql="SELECT 1")).message


async def test_no_statement_writes_to_the_file(tmp_path: Path) -> None:
    made(tmp_path / "a.db", "create table t (n integer)", "insert into t values (1)")
    async with opened(DuckdbNode, {"files": {"a": "a.db"}, "allow_execute": True, **SMALL}, root=str(tmp_path)) as db:
        await db("execute", sql="DELETE FROM a.t")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        assert database.execute("select count(*) from t").fetchone() == (1,)
