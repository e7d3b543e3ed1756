"""Tables, columns and keys of an SQLite database, from its PRAGMAs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from rrext.nodes.sql.schema import Column, ForeignKey, Schema, SqlTable

_NAMES: Final = """
SELECT name, type = 'view' FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"""
_SHADOWS: Final = "SELECT name FROM pragma_table_list WHERE type = 'shadow' AND schema = 'main'"
"""Tables in which a virtual table, such as a full-text index, keeps its data."""
_HIDDEN: Final = 1
"""The value of `table_xinfo` for columns that are arguments of a virtual table."""


def read_schema(connection: sqlite3.Connection, database: str) -> Schema:
    """Read every table and view of the file. `problem` explains those that SQLite cannot read, as a view of a dropped table,
    and those with a column whose name is not UTF-8."""
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        shadows = {name for (name,) in connection.execute(_SHADOWS)}
    except sqlite3.OperationalError:  # SQLite before 3.37 does not report them
        shadows = set()
    names = connection.execute(_NAMES).fetchall()
    connection.text_factory = str
    return Schema(
        database, {name: _table(connection, name, is_view=bool(is_view)) for name, is_view in names if name not in shadows}
    )


def _table(connection: sqlite3.Connection, name: str, *, is_view: bool) -> SqlTable:
    try:
        rows = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
        keys = connection.execute(f"PRAGMA foreign_key_list({_quoted(name)})").fetchall()
    except sqlite3.DatabaseError as error:
        return SqlTable(name, (), is_view=is_view, problem=str(error))
    columns = tuple(Column(row[1], row[2]) for row in rows if row[6] != _HIDDEN)
    primary = tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])
    return SqlTable(name, columns, primary, _foreign_keys(connection, keys), is_view)


def _foreign_keys(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> tuple[ForeignKey, ...]:
    found: dict[int, tuple[str, list[str], list[str | None]]] = {}
    for number, _, table, column, reference, *_ in rows:
        _, columns, references = found.setdefault(number, (table, [], []))
        columns.append(column)
        references.append(reference)
    return tuple(
        ForeignKey(tuple(columns), table, _referenced(connection, table, references))
        for table, columns, references in reversed(found.values())
    )


def _referenced(connection: sqlite3.Connection, table: str, columns: list[str | None]) -> tuple[str, ...]:
    """The columns that a foreign key references; the other table's primary key if it names none."""
    if None not in columns:
        return tuple(name for name in columns if name is not None)
    rows = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    return tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
