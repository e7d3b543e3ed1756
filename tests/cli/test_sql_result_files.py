"""`rrext sql -o FILE`: rows in files, of text, of Parquet and of Excel, which are there when they are whole."""

from __future__ import annotations

import datetime
import json
import signal
from collections.abc import Callable
from pathlib import Path

import duckdb
import openpyxl
import pytest
from commands import Done, InProcess, spawned

Ask = Callable[..., Done]
ALL = """select *, [1, 2] as l, 1.25::decimal(10, 2) as d, 'x'::blob as b, id = 1 as t, timestamp '2026-01-02 03:04:05' as ts,
time '01:02:03' as tt, 12345678901234567890 as big, null as n, 'y' as "a/b ~'" from orders order by id"""


@pytest.fixture
def ask(run: InProcess, tmp_path: Path) -> Ask:
    (tmp_path / "orders.csv").write_text("id,customer,price,day\n1,a,3.5,2026-11-01\n2,=b(),4,2026-11-02\n3,,1,\n")

    def ask(*words: str) -> Done:
        return run("sql", "orders.csv", *words, cwd=tmp_path)

    return ask


@pytest.mark.parametrize("ending", ["csv", "json", "md"])
def test_a_file_has_what_stdout_would_have(ask: Ask, tmp_path: Path, ending: str) -> None:
    said = ask(f"--{ending}", "select id, customer from orders; select 1 as b").out
    done = ask("-o", f"a.{ending}", "select id, customer from orders; select 1 as b")
    assert (done.code, done.out) == (0, b"")
    assert (tmp_path / f"a.{ending}").read_bytes() == said


def test_a_parquet_file_has_the_types_of_its_columns(ask: Ask, tmp_path: Path) -> None:
    assert ask("-o", "a.parquet", ALL).code == 0
    with duckdb.connect() as base:
        found = base.execute("describe select * from read_parquet($1)", [str(tmp_path / "a.parquet")]).fetchall()
        rows = base.execute("from read_parquet($1)", [str(tmp_path / "a.parquet")]).fetchall()
    assert [(name, kind) for name, kind, *_ in found] == [
        ("id", "BIGINT"),
        ("customer", "VARCHAR"),
        ("price", "DOUBLE"),
        ("day", "DATE"),
        ("l", "VARCHAR"),
        ("d", "DECIMAL(10,2)"),
        ("b", "BLOB"),
        ("t", "BOOLEAN"),
        ("ts", "TIMESTAMP"),
        ("tt", "TIME"),
        ("big", "VARCHAR"),
        ("n", "VARCHAR"),
        ("a/b ~'", "VARCHAR"),
    ]
    first, _, last = rows
    assert first[1:5] == ("a", 3.5, datetime.date(2026, 11, 1), "[1,2]")
    assert first[6:10] == (b"x", True, datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.time(1, 2, 3))
    assert (first[10], first[12], last[1], last[3]) == ("12345678901234567890", "y", None, None)


def test_a_text_that_no_date_holds_leaves_its_column_a_text(run: InProcess, tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "a.db") as base:
        base.execute("create table visit (day date, n integer)")
        base.executemany("insert into visit values (?, ?)", [("2026-11-01", 2**70 % 2**62), ("someday", 2)])
    base.close()
    assert run("sql", "a.db", "-o", "a.parquet", "select * from visit order by n", cwd=tmp_path).code == 0
    with duckdb.connect() as made:
        found = made.execute("select typeof(day), day from read_parquet($1)", [str(tmp_path / "a.parquet")]).fetchall()
    assert sorted(found) == [("VARCHAR", "2026-11-01"), ("VARCHAR", "someday")]


def test_an_excel_file_has_a_sheet_for_each_statement_and_no_formula(ask: Ask, tmp_path: Path) -> None:
    assert ask("-o", "a.xlsx", f"{ALL}; select 1 as one").code == 0
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    first, second = book.worksheets
    rows = [*first.iter_rows()]
    assert [cell.value for cell in rows[1]][:4] == [1, "a", 3.5, datetime.datetime(2026, 11, 1)]
    assert [(cell.value, cell.data_type) for cell in rows[2]][1] == ("=b()", "s")
    assert [cell.value for cell in rows[1]][8:11] == [
        datetime.datetime(2026, 1, 2, 3, 4, 5),
        datetime.time(1, 2, 3),
        "12345678901234567890",
    ]
    assert [[cell.value for cell in row] for row in second.iter_rows()] == [["one"], [1]]


@pytest.mark.parametrize("ending", ["parquet", "xlsx", "csv", "json"])
def test_a_table_without_rows_has_its_columns(ask: Ask, tmp_path: Path, ending: str) -> None:
    assert ask("-o", f"a.{ending}", "select id, day from orders where id > 9").code == 0
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        with duckdb.connect() as base:
            assert [row[:2] for row in base.execute("describe from read_parquet($1)", [str(path)]).fetchall()] == [
                ("id", "BIGINT"),
                ("day", "DATE"),
            ]
    elif ending == "xlsx":
        assert [[cell.value for cell in row] for row in openpyxl.load_workbook(path).active.iter_rows()] == [["id", "day"]]
    else:
        assert path.read_text() in ("id,day\n", "[]\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-o", "a.doc", "select 1"], 2, "the ending says the form of the rows: .csv, .json"),
        (["-o", "no/a.csv", "select 1"], 2, "no/a.csv: No such file or directory"),
        (["-o", "a.parquet", "--csv", "select 1"], 2, "--csv does not go with .parquet"),
        (["-o", "a.parquet", "select nix"], 1, "nix"),
        (["-o", "a.parquet", "select 1; select 2"], 2, "has the rows of one statement"),
        (["-o", "a.xlsx", "--explain", "select 1"], 2, "A plan is no table"),
        (["-o", "a.xlsx", "select repeat('x', 40000) as t"], 2, "Row 1 has a text of 40,000 characters"),
    ],
)
def test_what_cannot_be_written_leaves_the_file_that_was_there(
    ask: Ask, tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    path = tmp_path / words[1]
    if path.parent == tmp_path:
        path.write_text("before")
    done = ask(*words)
    assert (done.code, told in done.err) == (code, True), done.err
    assert {each.name for each in tmp_path.iterdir()} <= {"orders.csv", path.name}
    assert path.parent != tmp_path or path.read_text() == "before"


def test_a_sheet_has_no_more_rows_than_excel_takes(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.cli.console.result_files.SHEET_ROWS", 3)
    assert ask("-o", "a.xlsx", "select 1 as a union all select 2").code == 0
    done = ask("-o", "b.xlsx", "select 1 as a union all select 2 union all select 3")
    assert (done.code, "A sheet of Excel has 2 rows" in done.err) == (2, True)
    assert not (tmp_path / "b.xlsx").exists()


def test_a_file_keeps_its_rights_and_another_one_gets_the_usual_ones(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch(0o600)
    assert ask("-o", "a.csv", "select 1 as a").code == ask("-o", "b.csv", "select 1 as a").code == 0
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a.csv", "b.csv", "orders.csv")]
    assert (modes[0], modes[1]) == (0o600, modes[2])


def test_a_link_stays_one_and_a_folder_is_no_file(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "a.csv").symlink_to("kept/b.csv")
    (tmp_path / "folder.csv").mkdir()
    assert ask("-o", "a.csv", "select 1 as a").code == 0
    assert ((tmp_path / "a.csv").is_symlink(), (tmp_path / "kept" / "b.csv").read_text()) == (True, "a\n1\n")
    done = ask("-o", "folder.csv", "select 1 as a")
    assert (done.code, "folder.csv is no file" in done.err) == (2, True)


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_ctrl_c_leaves_nothing_of_a_file(tmp_path: Path, ending: str) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    words = ["sql", "a.csv", "-o", f"b.{ending}", "select * from range(10000000000)"]
    with spawned(*words, cwd=tmp_path) as process:
        while not (spools := [*tmp_path.glob(".*")]) or not any(path.stat().st_size for path in spools):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv"}


def test_json_of_a_form_may_have_another_ending(ask: Ask, tmp_path: Path) -> None:
    assert ask("-o", "a.jsonl", "--json", "select 1 as a").code == 0
    assert json.loads((tmp_path / "a.jsonl").read_text()) == [{"a": 1}]


@pytest.mark.parametrize(("ending", "module", "extra"), [("parquet", "duckdb", "duckdb"), ("xlsx", "xlsxwriter", "cli")])
def test_without_its_package_a_form_names_the_line_that_installs_it(
    tmp_path: Path, ending: str, module: str, extra: str
) -> None:
    import sqlite3
    import sys

    from commands import environment
    from forked import completed

    sqlite3.connect(tmp_path / "a.db").close()
    code = f"import sys; sys.modules['{module}'] = None; from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "sql", "a.db", "-o", f"a.{ending}", "select 1"]
    done = completed(command, b"", cwd=tmp_path, env=environment())
    assert (done.returncode, f'pip install "rrext[{extra}]"'.encode() in done.stderr) == (2, True), done.stderr
