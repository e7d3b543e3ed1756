"""`rrext sql`: statements from the shell, what their rows look like, and what is said when something is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import EXAMPLES, Done, call, command, component, environment, here, pipeline, spawned, until

from rrext.cli.commands.calls.sql_prompt import SchemaNames, completions
from rrext.cli.console.formats import grid
from rrext.columns import columns

MANY = "with recursive c(n) as (select 1 union all select n + 1 from c where n < {}) select n, 'row ' || n as t from c"
ENDLESS = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c"


@pytest.fixture
def visits(tmp_path: Path) -> str:
    """A pipeline with one database, and three visits in it."""
    with sqlite3.connect(tmp_path / "visits.db") as database:
        database.execute("create table visit (day text, people integer, note)")
        rows = [("2026-11-21", 40, None), ("日本", 7, ""), ("a\nb", None, 'say "hi", |you|')]
        database.executemany("insert into visit values (?, ?, ?)", rows)
    database.close()
    return written(tmp_path, component("db_1", "db_sqlite", control="tools_1", path="visits.db", allow_execute=True))


def written(folder: Path, *databases: dict[str, object]) -> str:
    return pipeline(folder, component("tools_1", "tools", mode="Source"), *databases)


@pytest.fixture
def sql(visits: str, capfd: pytest.CaptureFixture[str]):
    def run(*args: str) -> Done:
        return here(capfd, "sql", visits, *args)

    return run


def test_rows_are_csv_where_no_terminal_reads(sql) -> None:
    done = sql("select * from visit")
    assert done.out.decode() == 'day,people,note\n2026-11-21,40,\n日本,7,""\n"a\nb",,"say ""hi"", |you|"\n'
    assert (done.code, done.err) == (0, "")


def test_csv_has_json_for_nested_values_and_base64_for_bytes(capfd: pytest.CaptureFixture[str]) -> None:
    statement = "select [1, null] as l, {'a': 'x'} as s, '\\xFF\\x00'::blob as b, true as t"
    done = here(capfd, "sql", str(EXAMPLES / "duckdb.pipe"), statement)
    assert [*csv.reader(io.StringIO(done.out.decode()))][1] == ["[1,null]", '{"a":"x"}', "/wA=", "true"]


def test_a_table_is_aligned_by_what_a_terminal_shows(sql) -> None:
    done = sql("select day, people from visit", "--table")
    assert done.out.decode().splitlines() == [
        "day        | people",
        "-----------+-------",
        "2026-11-21 |     40",
        "日本       |      7",
        "a↵b        |   NULL",
    ]


def test_json_is_an_array_with_a_row_per_line(sql) -> None:
    done = sql("--json", "select day, people from visit")
    assert json.loads(done.out) == [
        {"day": "2026-11-21", "people": 40},
        {"day": "日本", "people": 7},
        {"day": "a\nb", "people": None},
    ]
    assert len(done.out.splitlines()) == 5
    assert sql("--json", "select 1 where false").out == b"[]\n"


def test_markdown_escapes_what_would_end_a_cell(sql) -> None:
    done = sql("select people, note from visit where note <> ''", "--md")
    assert done.out.decode().splitlines() == ["| people | note |", "| --: | --- |", '|  | say "hi", \\|you\\| |']


def test_no_rows_still_have_columns(sql) -> None:
    assert sql("select day from visit where false").out == b"day\n"
    assert sql("select day from visit where false", "--table").out == b"day\n---\n"


def test_parameters_are_json_or_else_text(sql) -> None:
    statement = "select typeof($1) as a, typeof($2) as b, typeof($3) as c, $2 as d"
    assert sql(statement, "-p", "40", "-p", "it's", "-p", "null", "--json").rows == [
        {"a": "integer", "b": "text", "c": "null", "d": "it's"}
    ]
    assert sql("select typeof($1) as a", "-p", '"40"', "--json").rows == [{"a": "text"}]
    assert sql("select $1 + $2 as a", "--params", "[1, 2]", "--json").rows == [{"a": 3}]
    assert sql("select $1 as a", "--params", "1").code == 2


def test_statements_only_read_unless_asked_to_write(sql) -> None:
    refused = sql("delete from visit")
    assert refused.code == 1
    assert "not_read_only" in refused.err
    assert "--write" in refused.err
    assert "--write" in sql("begin").err
    done = sql("--write", "delete from visit where people > 100; delete from visit")
    assert (done.code, done.err) == (0, "0 rows changed\n3 rows changed\n")
    assert sql("select count(*) as c from visit").out == b"c\n0\n"


def test_what_was_written_has_few_rows_and_the_error_says_what_to_do(sql) -> None:
    done = sql("--write", MANY.format(30_000))
    assert done.code == 1
    assert "read without --write" in done.err


def test_a_transaction_is_kept_when_it_is_committed_and_only_then(sql) -> None:
    left = sql("--write", "begin; delete from visit")
    assert left.code == 1
    assert "rolled back" in left.err
    assert sql("select count(*) as c from visit").out == b"c\n3\n"
    assert sql("--write", "begin; delete from visit; rollback; begin; delete from visit where people = 7; commit").code == 0
    assert sql("select count(*) as c from visit").out == b"c\n2\n"
    assert sql("--write", "commit").code == 2


def test_statements_of_a_file_run_in_order_up_to_the_first_that_fails(sql, tmp_path: Path) -> None:
    (tmp_path / "report.sql").write_text(
        "-- a report\nselect 1 as a;\nselect ';' as b;\n\nselect c from nowhere;\nselect 4 as d"
    )
    done = sql("-f", str(tmp_path / "report.sql"))
    assert done.code == 1
    assert done.out == b"a\n1\n\nb\n;\n"
    assert "report.sql:5: SQL execution failed: no such table: nowhere" in done.err


def test_statements_come_from_a_pipe_and_from_no_endless_file(sql, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as threads:
        written = threads.submit((tmp_path / "pipe").write_text, "select 1 as a")
        assert sql("-f", str(tmp_path / "pipe")).out == b"a\n1\n"
        assert written.result() == 13
    done = sql("-f", "/dev/zero")
    assert (done.code, "/dev/zero has more than 64 MiB of statements (MOST_SCRIPT)" in done.err) == (2, True)


def test_stdin_is_read_where_it_is_no_terminal(visits: str) -> None:
    assert call("sql", visits, stdin=b"select 1 as a").out == b"a\n1\n"
    assert call("sql", visits, "-f", "-", stdin=b"select 1 as a").out == b"a\n1\n"
    assert call("sql", visits, stdin=b"\xff").code == 2
    assert call("sql", visits, stdin=b"").code == 2


@pytest.mark.parametrize(
    "words", [("select 1", "-f", "x.sql"), ("-f", "no-such.sql"), ("select 1; select 2", "-p", "1"), (" ; ",)]
)
def test_what_makes_no_sense_is_said_before_anything_is_asked(sql, words: tuple[str, ...]) -> None:
    done = sql(*words)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("rrext: ")


def test_a_table_says_that_there_are_more_rows(sql) -> None:
    done = sql(MANY.format(5000), "--table")
    assert len(done.out.splitlines()) == 1002
    assert "more than 1,000 rows" in done.err
    assert len(sql(MANY.format(5000), "--table", "--limit", "5000").out.splitlines()) == 5002
    too_many = sql("select 1", "--table", "--limit", "25001")
    assert too_many.code == 2
    assert "--csv" in too_many.err


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_a_limit_cuts_what_is_streamed_and_says_so(sql, form: str) -> None:
    done = sql(MANY.format(5000), form, "--limit", "700")
    assert len(done.out.splitlines()) == 702 - (form == "--csv")
    assert (done.code, done.err) == (0, "rrext: there are more than 700 rows\n")
    assert sql(MANY.format(700), form, "--limit", "700").err == ""


@pytest.mark.promise("data:sql:flat")
@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_a_large_result_is_written_as_it_comes(visits: str, form: str) -> None:
    peaks = []
    for count in (2_000, 200_000):
        words = command("sql", visits, form, MANY.format(count))
        with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            size = sum(map(len, process.stdout))
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert (process.returncode, size > 10 * count) == (0, True)
        peaks.append(used.ru_maxrss)
    assert peaks[1] - peaks[0] < 20_000, "kilobytes; all of the rows take 50 MB"


def test_whoever_has_read_enough_ends_it_quietly(visits: str) -> None:
    with spawned("sql", visits, MANY.format(10_000_000)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"n,t\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_ctrl_c_ends_a_statement(visits: str) -> None:
    with spawned("sql", visits, f"select 1 as a; {ENDLESS}") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        until(process.stdout, "1")
        process.send_signal(2)
        assert process.stderr.read() == b"rrext: cancelled\n"
        assert process.wait() == 130


def test_a_statement_that_takes_too_long_is_stopped(visits: str) -> None:
    done = call("sql", visits, ENDLESS, "--timeout", "0.2")
    assert done.code == 1
    assert "tool_timeout" in done.err


def test_the_database_is_the_only_one_or_the_one_that_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    two = [component(name, "db_sqlite", control="tools_1", path=":memory:") for name in ("sales", "stock")]
    path = written(tmp_path, *two)
    several = here(capfd, "sql", path, "select 1 as a")
    assert several.code == 2
    assert "sales (db_sqlite), stock (db_sqlite)" in several.err
    assert "--node ID" in several.err
    near = here(capfd, "sql", path, "--node", "stok", "select 1 as a")
    assert near.code == 2
    assert "Did you mean stock?" in near.err
    assert here(capfd, "sql", path, "--node", "tools_1", "select 1 as a").code == 2
    assert here(capfd, "sql", path, "--node", "stock", "select 1 as a").out == b"a\n1\n"
    none = here(capfd, "sql", written(tmp_path, component("m", "memory_internal", control="tools_1")), "select 1")
    assert none.code == 2
    assert "no database" in none.err


def test_the_place_of_a_mistake_is_pointed_at(sql) -> None:
    done = sql("select day,\n  '日本' as x, \"no end")
    assert done.code == 2
    *_, line, caret = done.err.splitlines()
    assert line == "    '日本' as x, \"no end"
    assert columns(caret.partition("^")[0]) == columns(line.partition('"')[0])


def test_a_plan_is_shown_as_the_database_draws_it(sql, capfd: pytest.CaptureFixture[str]) -> None:
    assert b"SCAN visit" in sql("--explain", "select * from visit", "--table").out
    drawn = here(capfd, "sql", str(EXAMPLES / "duckdb.pipe"), "--explain", "select * from catalog order by pages").out.decode()
    assert "catalog" in drawn
    assert not drawn.startswith(("[", '"'))
    assert len(drawn.splitlines()) > 1
    assert json.loads(sql("--explain", "select * from visit", "--json").out)


def test_a_table_keeps_to_its_width_and_says_what_it_cut() -> None:
    rows = [["x" * 50, 12345, None], ["本" * 30, 1, "short"]]
    lines, is_cut = grid(["text", "number", "rest"], rows, [False, True, False], width=40, styled=False)
    shown = [*lines]
    assert is_cut
    assert max(map(columns, shown)) == 40
    assert shown[2].split(" | ")[1] == " 12345"
    assert shown[2].startswith("xxx")
    assert "…" in shown[2]
    lines, is_cut = grid(["text"], [["x" * 30]], [False], width=40, styled=False)
    assert not is_cut


def test_rows_that_fit_no_table_are_lists() -> None:
    names = [f"column {number}" for number in range(12)]
    lines, is_cut = grid(names, [[f"value {name}" for name in names]], [False] * 12, width=60, styled=False)
    shown = [*lines]
    assert not is_cut
    assert shown[0].startswith("-[ 1 ]")
    assert shown[12] == "column 11 | value column 11"


def test_no_character_of_a_value_steers_the_terminal(sql) -> None:
    out = sql("select '\x1b[31mred' || char(7) || char(13) as a", "--table").out
    assert not set(out) & {0x1B, 7, 13}


SCHEMA = {
    "tables": {
        "visit": {"columns": [{"column": "day", "type": "text"}, {"column": "People", "type": "int"}]},
        "order": {"columns": [{"column": "two words", "type": "text"}]},
        "archive.visit": {"columns": [{"column": "year", "type": "int"}]},
    }
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select * from vi", {"visit"}),
        ("select * from o", {'"order"'}),
        ("select * from archive.", {"visit"}),
        ("select v.d", {"day"}),
        ("select v.p", {'"People"'}),
        ("select visit.d", {"day"}),
        ("select nowhere.", set()),
    ],
)
def test_names_are_completed_where_they_fit(text: str, expected: set[str]) -> None:
    names = SchemaNames("postgres", SCHEMA)
    whole = text if "from" in text else f"{text} from visit as v"
    assert {name for name, _, _ in completions(text, whole, names)} == expected


def test_columns_of_the_tables_that_are_named_come_first() -> None:
    found = [name for name, _, _ in completions("select ", "select  from visit", SchemaNames("sqlite", SCHEMA))]
    assert found[:2] == ["day", "People"]


def test_labels_and_their_properties_are_completed_in_a_graph() -> None:
    kind = {"properties": [{"property": "title", "type": "STRING"}]}
    names = SchemaNames("ladybug", {"nodes": {"Book": kind}, "relationships": {}})
    assert [name for name, _, _ in completions("match (b:B", "match (b:B", names)] == ["Book"]
    whole = "match (b:Book) return b.t"
    assert [name for name, _, _ in completions(whole, whole, names)] == ["title"]
