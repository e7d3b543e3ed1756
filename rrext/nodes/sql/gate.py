"""The read-only gate: which statements only read, told from their syntax tree, and the text that is sent instead of theirs.

The gate gives early and clear errors, and keeps away what a read-only transaction does not stop: functions that read
files or hold locks, `COPY … TO`, several statements in one text. It is the first of two walls: the second is the
database, in which everything that passed runs in a transaction that the database keeps read-only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, Final

from rrext.nodes.sql.functions import known_functions
from rrext.nodes.sql.statement import Statement

if TYPE_CHECKING:
    from rrext.nodes.sql.grammar import Grammar
    from rrext.nodes.sql.inspection import Inspection

__all__ = ["CACHE_BYTES", "CACHE_ENTRIES", "Gate", "Statement", "read_only"]

CACHE_ENTRIES: Final = 1024
"""Statements that a gate remembers; programs repeat a few dozen."""
CACHE_BYTES: Final = 4 * 1024 * 1024
"""Characters of remembered statements, theirs and ours together: a few huge ones must not fill the memory."""


class Gate:
    """Decides for one dialect. Makes sqlglot's parser at the first statement; may be used by many threads at once."""

    __slots__ = ("_allowed", "_entries", "_grammar", "_inspection", "_lock", "_size", "dialect")

    def __init__(self, dialect: str, allowed_functions: Iterable[str] = ()) -> None:
        """`allowed_functions`: names beside the known ones, as `my_function`, `schema.function` or `prefix_*`."""
        self.dialect = dialect
        self._allowed = tuple(allowed_functions)
        self._grammar: Grammar | None = None
        self._inspection: Inspection | None = None
        self._entries: OrderedDict[str, Statement] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Gate {self.dialect}, {len(self._entries)} statements>"

    def read_only(self, sql: str) -> Statement:
        """The statement to send instead of `sql`. About a microsecond if it was seen before.

        Raises `InvalidArguments` at `/input/sql` for what is no single statement of the dialect (with `line` and `column`
        in its data), and `ToolError` with code `not_read_only` for what does, or may do, more than read.
        """
        with self._lock:
            known = self._entries.get(sql)
            if known is not None:
                self._entries.move_to_end(sql)
                return known
        made = self._decide(sql)
        self._remember(sql, made)
        return made

    def _decide(self, sql: str) -> Statement:
        grammar, inspection = self._tools()
        return inspection.statement(grammar, sql)

    def _tools(self) -> tuple[Grammar, Inspection]:
        from rrext.nodes.sql.grammar import Grammar
        from rrext.nodes.sql.inspection import Inspection

        if self._grammar is None or self._inspection is None:
            self._inspection = Inspection(self.dialect, known_functions(self.dialect), self._allowed)
            self._grammar = Grammar(self.dialect)
        return self._grammar, self._inspection

    def _remember(self, sql: str, made: Statement) -> None:
        with self._lock:
            if sql in self._entries:
                return
            self._entries[sql] = made
            self._size += len(sql) + len(made.sql)
            while len(self._entries) > CACHE_ENTRIES or self._size > CACHE_BYTES:
                old, gone = self._entries.popitem(last=False)
                self._size -= len(old) + len(gone.sql)


def read_only(sql: str, dialect: str, allowed_functions: Iterable[str] = ()) -> Statement:
    """`Gate.read_only` for one statement, with nothing remembered."""
    return Gate(dialect, allowed_functions).read_only(sql)
