"""`query` answers what the driver alone answers: thousands of statements for each engine, with values, names and types."""

from __future__ import annotations

import json
import re
import sqlite3
from itertools import islice
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from comparison import Comparison, Found, mysql_alone, numbers, postgres_alone, sqlite_alone
from mariadb_server import running_mariadb
from postgres_server import Database
from reading_statements import TABLES
from sql_contract import opened
from statement_mill import statements

from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.mysql import MysqlBackend, MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.nodes.sql.sqlite import SqliteNode

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(300),
    pytest.mark.promise("data:statement:as-written"),
    pytest.mark.usefixtures("forked_children"),
]

STRIDE = 1 if hypothesis.settings().max_examples > 50 else 5
"""Of so many statements the plain profile takes one."""
LEAST = 2000 // STRIDE
REFUSED = 0.01
"""Of the statements that the database runs: the part that the gate may refuse."""


async def compare(dialect: str, comparison: Comparison) -> None:
    for sql in islice(statements(dialect), None, None, STRIDE):
        if not sql.startswith("EXPLAIN"):  # a plan is shown in another shape, as lines
            await comparison.ask(sql)
    counts = comparison.counts
    total = counts["same"] + counts["refused"]
    assert comparison.different == []
    assert counts["same"] + counts["failed"] >= LEAST, counts
    assert total >= LEAST * 0.7, counts
    assert len(comparison.refused) <= total * REFUSED, comparison.refused


async def test_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "same.db"
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.executescript(TABLES)
        async with opened(SqliteNode, {"path": str(path)}) as desk:
            await compare("sqlite", Comparison(desk, sqlite_alone(connection), sqlite3.Error))
    connection.close()


async def test_on_duckdb(tmp_path: Path) -> None:
    import duckdb

    paths = [str(tmp_path / folder / "same.duckdb") for folder in ("alone", "rrext")]
    for path in paths:
        Path(path).parent.mkdir()
        with duckdb.connect(path) as made:
            made.execute(TABLES)
    with duckdb.connect(paths[0]) as connection:

        def alone(sql: str) -> Found:
            cursor = connection.execute(sql)
            description = cursor.description or []
            types, rows = [str(column[1]) for column in description], [[*row] for row in cursor.fetchall()]
            texts: list[Any] = []
            if "INTERVAL" in types and sql.startswith("SELECT"):  # Python's intervals have no months
                texts = connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM ({sql})").fetchall()
            for number, kind in enumerate(types):
                for index, row in enumerate(rows):
                    if kind == "JSON" and row[number] is not None and row[number][:1] not in ('"', "n"):
                        row[number] = json.loads(row[number])  # strings and null stay JSON texts
                    elif kind == "INTERVAL" and row[number] is not None and texts:
                        row[number] = _iso_interval(texts[index][number])
            return [column[0] for column in description], types, numbers(types, rows)

        async with opened(DuckdbNode, {"path": paths[1]}) as desk:
            await compare("duckdb", Comparison(desk, alone, duckdb.Error))


_PARTS: Final = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?(?:(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?)?"
)


def _iso_interval(text: str) -> str:
    """DuckDB's text of an interval as ISO 8601 has it."""
    found = _PARTS.fullmatch(text)
    assert found is not None, text
    years, months, days, sign, hours, minutes, seconds, fraction = found.groups()
    date = "".join(f"{part}{name}" for part, name in ((years, "Y"), (months, "M"), (days, "D")) if part and int(part))
    fraction = "." + fraction.rstrip("0") if fraction and int(fraction) else ""
    parts = ((hours, "H"), (minutes, "M"))
    time = "".join(f"{sign}{int(part)}{name}" for part, name in parts if part and int(part))
    if seconds and (int(seconds) or fraction):
        time += f"{sign}{int(seconds)}{fraction}S"
    return f"P{date}{'T' if time else ''}{time}" if date or time else "PT0S"


async def test_on_postgres(postgres_database: Database) -> None:
    import psycopg

    from rrext.nodes.sql.postgres.rows import adapters  # how values are read: rrext's, with the driver alone

    with psycopg.connect(postgres_database.url, autocommit=True, context=adapters()) as connection:
        connection.execute(TABLES.encode())
        async with opened(PostgresNode, postgres_database.settings) as desk:
            await compare("postgres", Comparison(desk, postgres_alone(connection, postgres_database), psycopg.Error))


@pytest.mark.system
@pytest.mark.parametrize("mode", ["", "PIPES_AS_CONCAT", "ANSI", "NO_BACKSLASH_ESCAPES"])
async def test_on_mariadb(mode: str) -> None:
    import pymysql

    with running_mariadb(**({"sql-mode": mode} if mode else {})) as server:
        database = server.create_database("same")
        place = {"host": database.host, "port": database.port, "user": database.user, "password": database.password}
        settings = {**place, "database": database.name}
        # How values are read: rrext's, with the driver alone.
        conversions = MysqlBackend(settings, statement_timeout=0)._options["conv"]
        with pymysql.connect(**settings, autocommit=True, charset="utf8mb4", conv=conversions) as connection:
            backslash = "'back\\slash'" if mode == "NO_BACKSLASH_ESCAPES" else "'back\\\\slash'"
            for statement in TABLES.replace("'back\\slash'", backslash).split(";\n"):
                if statement.strip():
                    connection.cursor().execute(statement)

            async with opened(MysqlNode, settings) as desk:
                await compare("mysql", Comparison(desk, mysql_alone(connection), pymysql.MySQLError))
