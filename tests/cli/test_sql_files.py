"""`rrext sql FILE…`: files are asked without a pipeline."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import openpyxl
import pytest
from commands import EXAMPLES, Done, InProcess
from postgres_server import Database

from rrext.cli.data_files import table_of

Ask = Callable[..., Done]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with orders and customers, and a database."""
    (tmp_path / "orders.csv").write_text("id,customer,price\n1,a,3.5\n2,b,4\n3,a,1\n")
    names = [{"customer": "a", "name": "Ada"}, {"customer": "b", "name": "Ben"}]
    (tmp_path / "customers.json").write_text(json.dumps(names))
    with sqlite3.connect(tmp_path / "crm.db") as database:
        database.execute("create table visit (day text)")
        database.execute("insert into visit values ('2026-11-29')")
    database.close()
    return tmp_path


@pytest.fixture
def ask(run: InProcess, data: Path) -> Ask:
    def ask(*words: str) -> Done:
        return run("sql", *words, cwd=data)

    return ask


def test_files_are_tables_of_their_names_and_can_be_joined(ask: Ask) -> None:
    statement = "select name, sum(price) as s from orders join customers using (customer) group by name order by 1"
    done = ask("orders.csv", "customers.json", statement)
    assert (done.code, done.out) == (0, b"name,s\nAda,4.5\nBen,4.0\n")


def test_a_database_is_asked_itself_and_joined_with_other_files(ask: Ask) -> None:
    assert ask("crm.db", "select * from visit").out == b"day\n2026-11-29\n"
    done = ask("orders.csv", "crm.db", "select day, sum(price) as s from orders, crm.visit group by day")
    assert (done.code, done.out) == (0, b"day,s\n2026-11-29,8.5\n")


def test_a_database_of_a_server_is_asked_itself_and_joined_with_files(
    ask: Ask, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*words: str) -> bytes:
        monkeypatch.setenv("ROCKETRIDE_SECRET_WORD", postgres_database.password)  # a command takes it away
        return ask(*words).out

    postgres_database.run("create table city (customer text, name text)", "insert into city values ('a', 'Oslo')")
    url = f"postgresql://postgres:${{ROCKETRIDE_SECRET_WORD}}@127.0.0.1:{postgres_database.port}/fresh"
    joined = "select name, count(*) as c from crm.city join orders using (customer) group by 1"
    assert answer("orders.csv", f"crm={url}", joined) == b"name,c\nOslo,2\n"
    assert answer(url, "orders.csv", "select name from fresh.city") == b"name\nOslo\n"
    assert answer(url, "select name from city") == b"name\nOslo\n"
    assert answer(url.replace("postgresql", "POSTGRESQL"), "select name from city") == b"name\nOslo\n"
    encoded = url.replace("${ROCKETRIDE_SECRET_WORD}", quote(postgres_database.password, safe=""))
    assert answer("orders.csv", f"crm={encoded}", joined) == b"name,c\nOslo,2\n"


def test_a_server_that_cannot_be_asked_is_said_without_its_password(ask: Ask) -> None:
    url = "mysql://u:hidden-word@127.0.0.1:1/d"
    for words, told in (
        (["orders.csv", f"orders={url}", "select 1"], "orders.csv and the database orders would both be the table orders"),
        (["orders.csv", f"crm={url}", "select * from crm.city"], 'The database "crm": MySQL at 127.0.0.1:1'),
        ([url, "select 1"], "MySQL at 127.0.0.1:1"),
        ([url, "orders.csv", "select * from order_"], "order_"),
    ):
        done = ask(*words)
        assert (done.code == 0, told in done.err, "hidden-word" in done.err) == (False, True, False), done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["one.csv", "POSTGRESQL://u:hidden-word@127.0.0.1:1/d", "from d.t"], "PostgreSQL at 127.0.0.1:1"),
        (["POSTGRESQL://u:hidden-word@127.0.0.1:1/d", "select 1"], "PostgreSQL at 127.0.0.1:1"),
        (["orders.csv", "größe=postgresql://u:hidden-word@h/d", "select 1"], "the name of a database"),
        (["orders.csv", "crm=postgresql://u:hidden-word@${ROCKETRIDE_NO_HOST}/d", "select 1"], "${ROCKETRIDE_NO_HOST} has no"),
        (["orders.csv", "crm=oracle://u:hidden-word@h/d", "select 1"], "crm=oracle://•••@h/d: the URL of a database begins"),
        (["oracle://u:hidden-word@h/d", "select 1"], "oracle://•••@h/d: the URL of a database begins"),
        (["orders.csv", "select", "'a://u:hidden-word@h b'"], "the statements are one text"),
        *((["orders.csv", f"crm={url}", "from crm.t"], "has one @") for url in (
            "postgresql://u:hidden-word@hidden-word/x@h/d",
            "postgresql://u:1/hidden-word@h/d",
            "mysql://u:x@hidden-word@h/d",
            "mysql://u:1?hidden-word=1@h/d",
            "mysql://u:1#hidden-word@h/d",
        )),
    ],
)  # fmt: skip
def test_no_message_has_a_part_of_a_password_on_the_command_line(ask: Ask, data: Path, words: list[str], told: str) -> None:
    (data / "one.csv").write_text("a\n1\n")
    done = ask(*words)
    assert (done.code == 0, told in done.err, "hidden-word" in done.err) == (False, True, False), done.err


def test_a_workbook_is_the_table_of_its_first_sheet(ask: Ask, data: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["customer", "city"])
    book.active.append(["a", "Oslo"])
    book.save(data / "cities.xlsx")
    done = ask("cities.xlsx", "orders.csv", "select city, count(*) as c from cities join orders using (customer) group by city")
    assert (done.code, done.out) == (0, b"city,c\nOslo,2\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.csv", "select 1"], "there is no such file"),
        (["none.db", "select 1"], "none.db"),
        (["orders.csv", "insert into orders values (1)"], "Files are only read."),
        (["orders.csv", "--write", "delete from orders"], "files are only read"),
        (["orders.csv", "select", "1"], "one text in quotes, not 2 words"),
        (["orders.csv", "./orders.csv", "select 1"], "would both be the table orders"),
        (["orders.csv", "select * from order_"], "order_"),
    ],
)
def test_what_cannot_be_asked_is_said(ask: Ask, words: list[str], told: str) -> None:
    done = ask(*words)
    assert (done.code, done.out) in ((1, b""), (2, b""))
    assert told in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [(["orders.csv", "select * from read_csv('x')"], 1), (["none.db", "select 1"], 2), (["none.duckdb", "select 1"], 2)],
)
def test_files_get_no_hint_to_the_settings_of_a_node(ask: Ask, words: list[str], code: int) -> None:
    done = ask(*words)
    assert (done.code, "settings" in done.err) == (code, False)


def test_a_misspelt_file_is_told_before_a_package_that_is_missing(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = ask("order.csv", "select 1")
    assert (done.code, done.err) == (2, "rrext: order.csv: there is no such file. Did you mean orders.csv?\n")
    done = ask("orders.csv", "select 1")
    assert (done.code, "(files)" in done.err) == (2, False)
    assert done.err.startswith("rrext: files are read with DuckDB: duckdb cannot be imported; install with: pip install")
    assert ask("crm.db", "select * from visit").code == 0


def test_the_hint_of_a_refused_statement_is_a_way_that_works(run: InProcess) -> None:
    done = run("sql", EXAMPLES / "duckdb.pipe", "delete from catalog")
    assert 'hint: The node "db_1" only reads; with "allow_execute": true in its settings, --write' in done.err


@pytest.mark.parametrize(
    ("file", "table"),
    [("a/orders.csv", "orders"), ("Our customers.2026.json.gz", "our_customers"), ("2026.csv", "t_2026"), ("--.csv", "t_")],
)
def test_the_name_of_a_table_needs_no_quotes(file: str, table: str) -> None:
    assert table_of(file) == table


@pytest.mark.parametrize("word", ["order", "Select", "left", "values", "user"])
def test_a_table_of_a_word_of_sql_is_asked_without_quotes(ask: Ask, data: Path, word: str) -> None:
    (data / f"{word}.csv").write_text("n\n1\n")
    done = ask(f"{word}.csv", f"select n from {table_of(word)}")
    assert (done.code, done.out) == (0, b"n\n1\n")


def test_no_word_of_the_database_is_the_name_of_a_table_that_needs_quotes() -> None:
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    words = [word for (word,) in database.execute("select keyword_name from duckdb_keywords()").fetchall()]
    for name in {table_of(f"{word}.csv") for word in words}:
        database.execute(f'create table "{name}" (n int)').execute(f"select {name}.n from {name} where {name}.n > 0")


def test_a_file_with_a_blank_in_its_name_is_asked(ask: Ask, data: Path) -> None:
    (data / "my sales.csv").write_text("n\n1\n")
    assert ask("my sales.csv", "select n from my_sales").out == b"n\n1\n"
    assert ask("orders.csv", "my sales.csv", "select count(*) as c from orders, my_sales").out == b"c\n3\n"
    assert "no such file" in ask("our sales.csv", "select 1").err
    done = ask("orders.csv", "select * from main.csv")  # a statement
    assert (done.code, "is no pipeline" in done.err, "main" in done.err) == (1, False, True)


def test_only_a_file_that_can_be_asked_is_said_to_be(ask: Ask, data: Path) -> None:
    (data / "a.docx").write_bytes(b"PK\x03\x04")
    done = ask("a.docx", "select 1")
    assert (done.code, "asks it" in done.err, "Name a pipeline" in done.err) == (2, False, True)


def test_a_file_that_is_not_there_is_no_statement_for_the_default_pipeline(ask: Ask, data: Path) -> None:
    (data / "p.pipe").write_text('{"components": [{"id": "t", "provider": "tools"}]}')
    (data / "rrext.toml").write_text('pipeline = "p.pipe"')
    done = ask("ordrs.csv", "select * from ordrs")
    assert (done.code, "there is no such file" in done.err) == (2, True)
