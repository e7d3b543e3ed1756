"""A transaction on a connection of the pool, and the rows of the statements that run in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn, Protocol

from rrext.errors import InvalidArguments, RrextError
from rrext.nodes.databases.cells import Rows, json_rows, size_of, unique_names
from rrext.nodes.databases.failure import SQL
from rrext.nodes.databases.running_statement import RunningStatement, cancellation, too_slow
from rrext.nodes.databases.timer_thread import TimerThread
from rrext.nodes.sql.backend import Backend, Cursor
from rrext.nodes.sql.gate.lexer import line_and_column
from rrext.tools.context import ToolContext

FIRST_BATCH: Final = 64
"""Rows of the first batch. Each one after it is twice as large, up to `LAST_BATCH`, as long as rows are small."""
LAST_BATCH: Final = 1024
SMALL_BATCH: Final = 64 * 1024
"""Bytes that a batch may have for the next one to be larger."""

_GAP: Final = r"(?:[\s;\ufeff]|--[^\n]*+|\#[^\n]*+|/\*.*?\*/|\*/)"
"""The text between words in any of the dialects; `*/` remains of a nested comment."""
_FIRST_WORD: Final = re.compile(
    rf"{_GAP}*+(?:EXPLAIN{_GAP}++ANALYZE{_GAP}++)?([A-Za-z]++)(?:{_GAP}++(?:WORK|TRANSACTION)\b)?(?:{_GAP}++(TO)\b)?",
    re.DOTALL | re.IGNORECASE,
)
_NOTHING: Final = re.compile(rf"{_GAP}*+\Z", re.DOTALL)
_CONTROLS: Final = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"})

log: Final = logging.getLogger("rrext.sql")


def check_statement(sql: str) -> None:
    """Raise `InvalidArguments` for a text without a statement, and for one that begins or ends a transaction: a session
    does that, or each call alone. `ROLLBACK TO` a savepoint does not end one."""
    found = _FIRST_WORD.match(sql)
    if found is None and _NOTHING.match(sql):
        raise InvalidArguments.at("/input/sql", "holds no statement")
    if found is not None and found[1].upper() in _CONTROLS and not found[2]:
        raise InvalidArguments.at(
            "/input/sql",
            f"{found[1].upper()} is not run as a statement",
            hint="The tools begin, commit and rollback make transactions; a call without a session is one of its own.",
        )


def error_of(backend: Backend, error: Exception) -> Exception:
    """The caller's error for an exception outside of a statement: connecting, beginning, committing."""
    failure = None if isinstance(error, RrextError) else backend.failure(error)
    return error if failure is None else SQL.error(failure)


def raise_told(told: Exception, error: Exception) -> NoReturn:
    """Raise the caller's error for an exception, which it may be itself. No frame of its traceback keeps it: such a cycle holds
    all that was at work until the garbage collector comes.
    """
    try:
        if told is error:
            raise told
        raise told from error
    finally:
        del told, error


class ReturnConnection(Protocol):
    """Returns a connection to its pool; a bad one is closed."""

    def __call__(self, *, is_good: bool) -> None: ...


class Result:
    """The rows of one statement, fetched in batches while it runs."""

    __slots__ = ("_cursor", "_is_json", "_nested_as_text", "_size", "columns", "has_rows", "types", "warnings")

    def __init__(self, cursor: Cursor, *, nested_as_text: bool) -> None:
        self._cursor = cursor
        self._nested_as_text = nested_as_text
        self._is_json: bool = getattr(cursor, "is_json", False)
        self._size = FIRST_BATCH
        description = cursor.description
        self.has_rows = description is not None
        self.columns = unique_names(column[0] for column in description or ())
        self.types: list[str | None] = []
        self.warnings: list[str] = []

    @property
    def affected(self) -> int:
        """The number of rows that the statement changed; if it only reads, those fetched so far. 0 if unknown."""
        return max(0, self._cursor.rowcount)

    def batch(self, at_most: int = LAST_BATCH, /) -> tuple[Rows, int]:
        """Fetch the next rows with their cells in JSON, and their approximate bytes; no rows at the end."""
        if not self.has_rows:
            return [], 0
        rows = self._cursor.fetchmany(min(self._size, at_most))
        size = size_of(rows)
        if self._size < LAST_BATCH and size < SMALL_BATCH:
            self._size *= 2
        return list(rows) if self._is_json else json_rows(rows, nested_as_text=self._nested_as_text), size

    def close(self) -> None:
        """End the statement; no row can be fetched after that."""
        self._cursor.close()

    def describe(self) -> None:
        """Fill in `types` and `warnings`, once the statement is over."""
        self.warnings = list(self._cursor.warnings)  # before any other query on the connection
        self.types = list(self._cursor.types)


class SqlTransaction:
    """An open transaction. One thread uses it at a time; `close` ends it in any case, and may be called twice."""

    __slots__ = ("_backend", "_give_back", "_is_stopped", "_timeout", "_watch", "connection", "is_lost", "read_only")

    def __init__(
        self,
        backend: Backend,
        connection: Any,
        give_back: ReturnConnection,
        watch: TimerThread,
        timeout: float,
        *,
        read_only: bool,
    ) -> None:
        self._backend = backend
        self._give_back: ReturnConnection | None = give_back
        self._watch = watch
        self._timeout = timeout
        self._is_stopped = False
        self.connection = connection
        self.read_only = read_only
        self.is_lost = False

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be committed or rolled back."""
        return not self.is_lost and self._backend.in_transaction(self.connection)

    @contextmanager
    def statement(self, sql: str, params: Sequence[Any], ctx: ToolContext, *, only: int | None = None) -> Iterator[Result]:
        """Run a statement; its rows can be fetched in the block, its types and warnings are known after it. With `only`, no
        other follows, and `commit` is next unless it fails or has more rows than so many."""
        backend = self._backend
        try:
            with self.guarded(ctx):
                if only is None:
                    cursor = backend.run(self.connection, sql, params, read_only=self.read_only)
                else:
                    cursor = backend.run_only(self.connection, sql, params, most_rows=only)
                result = Result(cursor, nested_as_text=not self.read_only)
                try:
                    yield result
                finally:
                    result.close()
                result.describe()
        except RrextError as error:
            note_place(error, sql)
            raise

    @contextmanager
    def guarded(self, ctx: ToolContext) -> Iterator[None]:
        """A block that works with the connection: its statements are cancelled with the call, and when they take too long.
        Failures of the driver come out as ours."""
        ctx.check()
        running = RunningStatement(partial(self._backend.cancel, self.connection), self._watch, self._timeout, ctx)
        try:
            with running:
                yield
        except Exception as error:
            self._note(error)
            raise_told(self._error_of(error, running, ctx), error)
        finally:
            self._is_stopped = self._is_stopped or running.reason is not None

    def _error_of(self, error: Exception, running: RunningStatement, ctx: ToolContext) -> Exception:
        """The caller's error for an exception of the statement."""
        if isinstance(error, RrextError):
            return error
        if (running.reason == "cancelled" or ctx.cancelled) and (stopped := cancellation(ctx)) is not None:
            return stopped
        failure = self._backend.failure(error)
        if running.reason == "timeout" and (failure is None or failure.kind != "lost"):
            failure = too_slow(self._timeout)
        return error if failure is None else SQL.error(failure)

    def commit(self, ctx: ToolContext | None = None) -> None:
        """Commit, unless the call is cancelled or late."""
        if ctx is not None and not self._backend.is_committing(self.connection):
            ctx.check()
        self._end(self._backend.commit)

    def _end(self, end: Callable[[Any], None]) -> None:
        try:
            end(self.connection)
        except Exception as error:
            self._note(error)
            raise_told(error_of(self._backend, error), error)

    def _note(self, error: Exception) -> None:
        failure = self._backend.failure(error)
        if failure is not None and failure.kind == "lost":
            self.is_lost = True

    def begin_again(self) -> None:
        """Begin a new transaction after a statement ended this one, as MySQL's DDL does."""
        self._end(lambda connection: self._backend.begin(connection, read_only=self.read_only))

    def close(self) -> None:
        """Roll back uncommitted changes and return the connection; a broken or stopped one is closed."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back(is_good=self._is_good())

    def _is_good(self) -> bool:
        backend = self._backend
        if self.is_lost or (self._is_stopped and not backend.reusable_after_cancel):
            return False
        try:
            if backend.in_transaction(self.connection):
                backend.rollback(self.connection)
            return backend.is_clean(self.connection)
        except Exception:
            log.debug("rollback failed; the connection is thrown away", exc_info=True)
            return False


_CHARACTER: Final = re.compile(r"\(at character (\d+)\)")
"""PostgreSQL reports the number of the character."""
_NEAR: Final = re.compile(r"near '(.+)' at line \d+|near \"([^\"]+)\"", re.DOTALL)
"""MySQL reports the rest of the text; SQLite and DuckDB report a word."""


def note_place(error: RrextError, sql: str) -> None:
    """Add `line` and `column`, counted from 1, to the data of a failure, if the message fits one position only."""
    at = _place(error.message, sql)
    if at is not None and "line" not in error.data:
        error.data["line"], error.data["column"] = line_and_column(sql, at)


def _place(message: str, sql: str) -> int | None:
    counted = _CHARACTER.search(message)
    if counted is not None:
        return int(counted[1]) - 1
    near = _NEAR.search(message)
    if near is None:
        return None
    text = near[1] or near[2]
    word = rf"(?<![\w$]){re.escape(text)}(?![\w$])" if near[2] and text.isidentifier() else re.escape(text)
    found = [match.start() for match in re.finditer(word, sql)]
    return found[0] if len(found) == 1 else None
