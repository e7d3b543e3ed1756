"""The read-only gate: decides from the words of a statement whether it only reads. The caller's own text is sent.

The gate gives early and clear errors, and refuses what a read-only transaction lets pass: functions that read files or hold
locks, `COPY … TO`, several statements in one text. It is the first of two walls: the second is the database, in which
everything that passed runs in a transaction that the database keeps read-only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from rrext.errors import InvalidArguments
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.gate.inspection import Inspection
from rrext.nodes.sql.gate.tokens import ReadingSql

MAX_STATEMENT: Final = 4 * 1024 * 1024
"""Characters of a statement that is judged: a list of some 500,000 numbers. Values belong into parameters."""
CACHE_ENTRIES: Final = 1024
"""Statements that a gate remembers; programs repeat a few dozen."""
CACHE_BYTES: Final = 4 * 1024 * 1024
"""Characters of remembered statements: a few huge ones must not fill the memory."""


class SqlGate:
    """The gate of one dialect. Many threads may use it at once."""

    def __init__(self, dialect: SqlDialect, allowed_functions: Iterable[str] = ()) -> None:
        """`allowed_functions`: names beside the known ones, as `my_function`, `schema.function` or `prefix_*`."""
        self.dialect = dialect
        self._allowed = tuple(allowed_functions)
        self._inspection = Inspection(dialect, self._allowed)
        self._entries: OrderedDict[str, ReadingSql] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Gate {self.dialect.name}, {len(self._entries)} statements>"

    def read_only(self, sql: str) -> ReadingSql:
        """Judge a statement. About a microsecond for a known one; else in proportion to its length.

        Raises `InvalidArguments` at `/input/sql` for a text that is no single statement of the dialect (with `line` and
        `column` in its data), and `ToolError` with code `not_read_only` for a statement that does, or may do, more than
        read.
        """
        with self._lock:
            known = self._entries.get(sql)
            if known is not None:
                self._entries.move_to_end(sql)
                return known
        if len(sql) > MAX_STATEMENT:
            text = f"the statement has {len(sql):,} characters: MAX_STATEMENT is {MAX_STATEMENT:,}"
            raise InvalidArguments.at("/input/sql", text).with_data(limit="MAX_STATEMENT", maximum=MAX_STATEMENT)
        made = self._inspection.statement(sql)
        self._remember(sql, made)
        return made

    def learn(self, functions: frozenset[str]) -> None:
        """Let functions pass that the catalog of the connected server says only compute or look."""
        self._inspection = Inspection(self.dialect, self._allowed, functions)

    def _remember(self, sql: str, made: ReadingSql) -> None:
        with self._lock:
            if sql in self._entries:
                return
            self._entries[sql] = made
            self._size += len(sql)
            while len(self._entries) > CACHE_ENTRIES or self._size > CACHE_BYTES:
                old, _ = self._entries.popitem(last=False)
                self._size -= len(old)


def read_only(sql: str, dialect: SqlDialect, allowed_functions: Iterable[str] = ()) -> ReadingSql:
    """Run `SqlGate.read_only` for one statement, without a cache."""
    return SqlGate(dialect, allowed_functions).read_only(sql)
