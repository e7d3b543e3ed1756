"""`query` answers what the driver alone answers: thousands of statements for each engine, with values, names and types."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import hypothesis
import pytest
from mariadb_server import running_mariadb
from postgres_server import Database
from reading_statements import TABLES
from sql_contract import Desk, opened
from statement_mill import statements

from rrext.errors import RrextError
from rrext.nodes.databases.cells import json_rows, unique_names
from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.mysql.node import MysqlBackend, MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.nodes.sql.sqlite.node import SqliteNode

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(300),
    pytest.mark.promise("data:statement:as-written"),
    pytest.mark.usefixtures("forked_children"),
]

Found: TypeAlias = tuple[list[str], list[str] | None, Sequence[Sequence[Any]]]
Alone: TypeAlias = Callable[[str], Found]
"""A statement → the names of its columns, their types if the driver tells them, and its rows, as the driver alone has them."""

STRIDE = 1 if hypothesis.settings().max_examples > 50 else 5
"""Of so many statements the plain profile takes one."""
LEAST = 2000 // STRIDE
REFUSED = 0.01
"""Of the statements that the database runs: the part that the gate may refuse."""


async def compare(dialect: str, desk: Desk, alone: Alone, failures: type[Exception] | tuple[type[Exception], ...]) -> None:
    refused: list[str] = []
    different: list[str] = []
    counts: Counter[str] = Counter()
    for sql in islice(statements(dialect), None, None, STRIDE):
        if sql.startswith("EXPLAIN"):
            continue  # a plan is shown in another shape, as lines
        wanted: Found | None
        try:
            wanted = alone(sql)
        except failures:
            wanted = None
        try:
            answer = await desk("query", sql=sql, limit=25_000, row_mode="array")
        except RrextError as error:
            if error.code == "not_read_only" or "line" in error.data:
                counts["refused"] += wanted is not None
                refused += [f"{sql}: {error.message}"] if wanted is not None else []
            elif wanted is not None:
                different.append(f"{sql}: {error.code} {error.message}, not {wanted}")
            counts["failed"] += wanted is None
            continue
        if wanted is None:
            different.append(f"{sql}: the driver alone fails")
        elif (said := _difference(wanted, answer)) is not None:
            different.append(f"{sql}: {said}")
        counts["same"] += 1
    total = counts["same"] + counts["refused"]
    assert different == []
    assert counts["same"] + counts["failed"] >= LEAST, counts
    assert total >= LEAST * 0.7, counts
    assert len(refused) <= total * REFUSED, refused


def _difference(wanted: Found, answer: dict[str, Any]) -> str | None:
    names, types, rows = wanted
    expected = _settled(json_rows([list(row) for row in rows], nested_as_text=False))
    if answer["columns"] != unique_names(names):
        return f"columns {answer['columns']}, not {names}"
    if types is not None and answer["types"] != types:
        return f"types {answer['types']}, not {types}"
    if repr(_settled(answer["rows"])) != repr(expected):
        return f"rows {answer['rows']}, not {expected}"
    return None


_SHORT: Final = re.compile(r"(?:numeric|decimal)\((?:\d|1[0-5]),\d+\)(\[\])?(?: unsigned)?", re.IGNORECASE)


def _numbers(types: Sequence[str | None], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The rows with decimals of at most 15 digits as numbers: the type of the column says it."""

    def number(kind: str | None, cell: Any) -> Any:
        found = _SHORT.fullmatch(kind or "")
        if found is None or cell is None:
            return cell
        return [number(kind and kind[:-2], entry) for entry in cell] if found[1] else float(cell)

    return [[number(kind, cell) for kind, cell in zip(types, row, strict=True)] for row in rows]


def _settled(rows: Any) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(rows, default=str))


async def test_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "same.db"
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.executescript(TABLES)

        def alone(sql: str) -> Found:
            cursor = connection.execute(sql)
            return [column[0] for column in cursor.description], None, cursor.fetchall()

        async with opened(SqliteNode, {"path": str(path)}) as desk:
            await compare("sqlite", desk, alone, sqlite3.Error)
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
            return [column[0] for column in description], types, _numbers(types, rows)

        async with opened(DuckdbNode, {"path": paths[1]}) as desk:
            await compare("duckdb", desk, alone, duckdb.Error)


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

    from rrext.nodes.sql.postgres.connection import adapters  # how values are read: rrext's, with the driver alone

    with psycopg.connect(postgres_database.url, autocommit=True, context=adapters()) as connection:
        connection.execute(TABLES.encode())
        known: dict[tuple[int, int], str] = {}

        def name_of(kind: int, modifier: int) -> str:
            if (kind, modifier) not in known:
                with postgres_database.connect() as other:
                    row = other.execute("SELECT format_type(%s, %s)", (kind, None if modifier < 0 else modifier)).fetchone()
                    assert row is not None
                    known[kind, modifier] = row[0]
            return known[kind, modifier]

        def alone(sql: str) -> Found:
            cursor = connection.execute(sql.encode())
            result = cursor.pgresult
            assert result is not None
            types = [name_of(result.ftype(index), result.fmod(index)) for index in range(result.nfields)]
            return [column.name for column in cursor.description or ()], types, _numbers(types, cursor.fetchall())

        async with opened(PostgresNode, postgres_database.settings) as desk:
            await compare("postgres", desk, alone, psycopg.Error)


@pytest.mark.system
@pytest.mark.parametrize("mode", ["", "PIPES_AS_CONCAT", "ANSI", "NO_BACKSLASH_ESCAPES"])
async def test_on_mariadb(mode: str) -> None:
    import pymysql

    from rrext.nodes.sql.mysql.types import name_of_expression

    with running_mariadb(**({"sql-mode": mode} if mode else {})) as server:
        database = server.create_database("same")
        place = {"host": database.host, "port": database.port, "user": database.user, "password": database.password}
        settings = {**place, "database": database.name}
        # How values are read: rrext's, with the driver alone.
        conversions = MysqlBackend(settings, statement_timeout=0)._options["conv"]
        with pymysql.connect(**settings, autocommit=True, charset="utf8mb4", conv=conversions) as connection:

            def run(sql: str) -> Any:
                cursor = connection.cursor()
                cursor.execute(sql)
                return cursor

            backslash = "'back\\slash'" if mode == "NO_BACKSLASH_ESCAPES" else "'back\\\\slash'"
            for statement in TABLES.replace("'back\\slash'", backslash).split(";\n"):
                if statement.strip():
                    run(statement)

            def alone(sql: str) -> Found:
                cursor = run(sql)
                types = [name_of_expression(field) for field in cursor._result.fields]
                return [column[0] for column in cursor.description or ()], None, _numbers(types, cursor.fetchall())

            async with opened(MysqlNode, settings) as desk:
                await compare("mysql", desk, alone, pymysql.MySQLError)
