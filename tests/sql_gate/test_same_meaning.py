"""Statements mean the same after the gate: each runs as it was written and as it is sent, on a real database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from mariadb_server import running_mariadb
from postgres_server import Database
from reading_statements import READING, TABLES

from rrext.errors import RrextError
from rrext.nodes.sql.gate import Gate

Run = Callable[[str], list[Any]]

NOT_PARSED = {
    "sqlite": 0,
    "duckdb": 4,
    "postgres": 3,
    "mysql": 0,
}
"""Dialect → how many of the statements the gate refuses though the database runs them: sqlglot cannot parse them, or they
hold an operator that it reads in another way. A refusal is safe; that their number grows is not wanted."""


def check(dialect: str, run: Run) -> None:
    gate = Gate(dialect)
    refused: list[str] = []
    changed: list[str] = []
    same = 0
    for sql in READING[dialect]:
        try:
            wanted = run(sql)
        except Exception:  # this version of the database lacks it
            continue
        try:
            sent = gate.read_only(sql).sql
        except RrextError as error:
            refused.append(f"{sql}: {error.message}")
            continue
        try:
            found: Any = run(sent)
        except Exception as error:
            found = error
        if repr(found) == repr(wanted):
            same += 1
        else:
            changed.append(f"{sql} → {sent}: {wanted} → {found}")
    assert changed == []
    assert len(refused) <= NOT_PARSED[dialect], refused
    assert same >= 80


def test_on_sqlite() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    check("sqlite", lambda sql: connection.execute(sql).fetchall())
    connection.close()


def test_on_duckdb() -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(TABLES)
        check("duckdb", lambda sql: connection.execute(sql).fetchall())


def test_on_postgres(postgres_database: Database) -> None:
    with postgres_database.connect() as connection:
        connection.execute(TABLES.encode())
        check("postgres", lambda sql: connection.execute(sql.encode()).fetchall())


@pytest.mark.system
def test_on_mariadb() -> None:
    with running_mariadb() as server, server.create_database("same").connect() as connection:

        def run(sql: str) -> list[Any]:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())

        for statement in TABLES.replace("'back\\slash'", "'back\\\\slash'").split(";\n"):
            if statement.strip():
                run(statement)
        check("mysql", run)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres", "mysql"])
def test_the_gate_lets_most_of_them_through(dialect: str) -> None:
    gate = Gate(dialect)
    refused = []
    for sql in READING[dialect]:
        try:
            gate.read_only(sql)
        except RrextError as error:
            refused.append(f"{sql}: {error.message}")
    assert len(refused) <= 8, refused


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "SELECT '{\"a\": 1}'::jsonb -> 'a'::text"),
        ("postgres", "SELECT @ -4 + 9"),
        ("postgres", "SELECT |/ 16 + 9"),
        ("duckdb", "SELECT @ -4 + 9"),
        ("mysql", "SELECT 1 <=> 2 < 3"),
        ("mysql", "SELECT 5 BETWEEN 0 AND 2 = 1"),
        ("mysql", "SELECT (1 + 1) LIKE 2 NOT REGEXP 3"),
    ],
)
def test_what_sqlglot_reads_in_another_way_than_the_database_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(RrextError, match="two ways"):
        Gate(dialect).read_only(sql)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgres", "mysql"])
@pytest.mark.parametrize(
    "sql",
    ["SELECT a FROM t WHERE b IN ($1,$2) OR c IN ($1,$2)", "SELECT $1,$2", "SELECT ($1)+($2)/$1", "SELECT $1*$12-$1,'$1,$2'"],
)
def test_placeholders_need_no_blanks_around_them(dialect: str, sql: str) -> None:
    sent = Gate(dialect).read_only(sql).sql
    assert sent.replace(" ", "") == sql.replace(" ", "")


def test_placeholders_between_brackets_of_arrays_stay_apart() -> None:
    assert Gate("postgres").read_only("SELECT a[$1][$2] FROM t").sql == "SELECT a[$1][$2] FROM t"


def test_a_key_of_json_with_a_dot_stays_one_key() -> None:
    for dialect in ("sqlite", "duckdb", "postgres"):
        assert Gate(dialect).read_only("SELECT a -> 'b.c'").sql == "SELECT a -> 'b.c'"


def test_types_of_sqlite_keep_their_affinity() -> None:
    sql = "SELECT CAST('7' AS NUMERIC), CAST('1.5' AS BOOLEAN), CAST(1 AS DECIMAL(10, 2))"
    assert Gate("sqlite").read_only(sql).sql == sql


def test_names_of_functions_are_sent_as_they_were_written() -> None:
    for dialect in ("sqlite", "postgres", "mysql"):
        assert Gate(dialect).read_only("SELECT Count(*), lOwEr(a) FROM t").sql == "SELECT Count(*), lOwEr(a) FROM t"


def test_operators_that_look_like_functions_are_operators() -> None:
    for dialect, sql in (
        ("sqlite", "SELECT 1 % (3), LIKE('a', 'b'), a LIKE ('x') FROM t"),
        ("mysql", "SELECT mod(7, 3), left(a, 1) FROM t LEFT JOIN u ON (a = b) WHERE NOT (a = 1) AND (b < 2) = 1"),
    ):
        assert Gate(dialect).read_only(sql).sql == sql


def test_two_signs_that_the_database_would_take_for_one_are_kept_apart() -> None:
    assert Gate("postgres").read_only("SELECT - ~0").sql == "SELECT -(~0)"


def test_literals_of_times_keep_their_fraction() -> None:
    sql = "SELECT TIME '10:00:00.5', TIMESTAMP '2024-01-01 10:00:00.25', DATE '2024-01-01'"
    assert Gate("mysql").read_only(sql).sql == sql
