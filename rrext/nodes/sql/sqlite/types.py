"""The declared types of a result's columns, from a temporary view of the statement: Python's driver does not report them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rrext.nodes.sql.gate.placeholders import split_at_placeholders
from rrext.nodes.sql.limits import KEPT_STATEMENTS, LONGEST_KEPT
from rrext.nodes.sql.sqlite.dialect import SQLITE

if TYPE_CHECKING:
    from rrext.nodes.sql.sqlite.node import SqliteConnection

_VIEWS: Final = frozenset({sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_DROP_TEMP_VIEW})
_CHANGES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_OWN_TABLES: Final = frozenset({"sqlite_temp_master", "sqlite_temp_schema", "described"})


class SqliteTypes:
    """The column types of the statements of one database. Uses a connection of its own that runs no caller's statement."""

    def __init__(self, opened: Callable[[], SqliteConnection]) -> None:
        """`opened` opens a read-only connection."""
        self._open = opened
        self._lock = threading.Lock()
        self._connection: SqliteConnection | None = None
        self._statements: dict[tuple[int, str], list[str | None] | None] = {}

    def of(self, connection: SqliteConnection, sql: str, parameters: int, count: int) -> list[str | None]:
        """The types of the columns of a statement with that many parameters and columns; None for an expression.

        All are None for a statement that is no query, and where the connection has changed tables and committed nothing
        yet.
        """
        found: list[str | None] | None = None
        if len(sql) <= LONGEST_KEPT:
            with self._lock:
                found = self._known(connection, sql, parameters)
        return found if found is not None and len(found) == count else [None] * count

    def _known(self, asking: SqliteConnection, sql: str, parameters: int) -> list[str | None] | None:
        try:
            own = self._connection
            if own is None or own.file != asking.file:
                self.close()
                own = self._connection = self._open()
                _authorize(own)
            version = _version(own)
            if version != _version(asking):
                return None
            if (version, sql) not in self._statements:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                texts, _ = split_at_placeholders(sql, SQLITE, parameters) if parameters else ([sql], None)
                self._statements[version, sql] = _described(own, "NULL".join(texts))
            return self._statements[version, sql]
        except (sqlite3.Error, OSError):
            return None

    def close(self) -> None:
        """Close the connection and drop the cache."""
        self._statements.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA schema_version").fetchone()[0]


def _described(connection: sqlite3.Connection, sql: str) -> list[str | None] | None:
    connection.execute("SELECT 1 FROM main.sqlite_master LIMIT 1").fetchone()  # makes SQLite read the current schema
    try:
        connection.execute(f"CREATE TEMP VIEW described AS {sql}")
    except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError):
        return None
    try:
        return [row[2] or None for row in connection.execute("PRAGMA temp.table_info(described)")]
    except sqlite3.Error:
        return None
    finally:
        connection.execute("DROP VIEW temp.described")


def _authorize(connection: sqlite3.Connection) -> None:
    """Allow only to create, inspect and drop a view of any query."""
    connection.execute("PRAGMA temp_store=MEMORY")

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        is_allowed = (
            action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
            or action in _VIEWS
            or (action in _CHANGES and (first or "") in _OWN_TABLES)
            or (action == sqlite3.SQLITE_PRAGMA and first in ("schema_version", "table_info"))
        )
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(may)
