"""The shared state of all calls of an SQL node: its pools of connections, its sessions and the snapshot of its schema; and a
transaction on a connection of the pool, with the rows of the statements that run in it.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, NoReturn, Protocol, TypeVar

import msgspec

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.databases.cells import Rows, json_rows, size_of, unique_names
from rrext.nodes.databases.database import (
    Pool,
    PoolExhausted,
    RunningStatement,
    SharedDatabase,
    TimerThread,
    cancellation,
    too_slow,
)
from rrext.nodes.databases.failure import SQL
from rrext.nodes.sql.backend import Backend, Cursor, Schema
from rrext.nodes.sql.dialect import ReadingSql
from rrext.nodes.sql.gate import SqlGate
from rrext.nodes.sql.lexer import line_and_column
from rrext.tools.context import ToolContext

CONFLICT_ATTEMPTS: Final = 50
"""The maximum number of attempts of a transaction."""

CONFLICT_FIRST_PAUSE: Final = 0.001
CONFLICT_LAST_PAUSE: Final = 0.05
"""Seconds between attempts: at most so many, twice as many each time, and fewer by chance, so that no two meet again."""

T = TypeVar("T")


class PoolLimits(msgspec.Struct, frozen=True):
    """`connections` at most, of each kind that the backend has; the rest are seconds."""

    connections: int
    wait: float
    statement: float
    session_idle: float


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
        copied = self._brought(sql, ctx)
        try:
            with self.guarded(ctx):
                if only is None:
                    cursor = backend.run(self.connection, sql, params, read_only=self.read_only)
                else:
                    cursor = backend.run_only(self.connection, sql, params, most_rows=only)
                result = Result(cursor, nested_as_text=not self.read_only)
                result.copied = copied
                try:
                    yield result
                finally:
                    result.close()
                result.describe()
        except RrextError as error:
            note_place(error, sql)
            raise

    def _brought(self, sql: str, ctx: ToolContext) -> Mapping[str, str]:
        try:
            return self._backend.bring(self.connection, sql, ctx)
        except Exception as error:
            self._note(error)
            raise_told(error_of(self._backend, error), error)

    @contextmanager
    def guarded(self, ctx: ToolContext) -> Iterator[None]:
        """A block that works with the connection: its statements are cancelled with the call, and when they take too long.
        Failures of the driver come out as ours."""
        ctx.check()
        backend, connection = self._backend, self.connection
        ask = None
        if backend.tells_progress and ctx.wants_progress:
            ask = partial(backend.ask_progress, connection, lambda percent: ctx.progress(int(percent), 100))
        running = RunningStatement(partial(backend.cancel, connection), self._watch, self._timeout, ctx, ask)
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


class SqlDatabase(SharedDatabase[Backend, SqlTransaction, Schema]):
    """One SQL database, with a pool of connections, or one for each kind that the backend has."""

    def __init__(
        self,
        backend: Backend,
        limits: PoolLimits,
        allowed_functions: Iterable[str] = (),
        *,
        shown: Callable[[str], str] = str,
    ) -> None:
        super().__init__(backend, statement=limits.statement, session_idle=limits.session_idle, shown=shown)
        self.gate = SqlGate(backend.dialect, allowed_functions)
        self._knows_functions = False
        self._limits = limits
        self._writers = self._new_pool(read_only=False)
        self._readers = self._new_pool(read_only=True) if backend.separate_readers else self._writers

    def writing(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """See `SharedDatabase`. The attempt is also repeated if another transaction changed the same rows."""
        if not self.backend.retries_conflicts:
            return super().writing(ctx, attempt)
        once = partial(self.backend.repeated, attempt, ctx, reads=False)
        return retried(lambda timeout: once(timeout=timeout), ctx, self._statement)

    def begin(self, ctx: ToolContext, *, read_only: bool, timeout: float | None = None) -> SqlTransaction:
        """See `SharedDatabase`. `ctx` may end the wait for a connection of the pool.

        Idle connections that broke, as when the server was restarted, are replaced: nothing was sent on them yet. Raises
        `ToolError` (`pool_exhausted`) and what connecting raises.
        """
        pool = self._readers if read_only else self._writers
        while True:
            connection, is_new = self._lent(pool, ctx)
            try:
                self.backend.begin(connection, read_only=read_only)
            except BaseException as error:
                pool.give_back(connection, is_good=False)
                failure = self.backend.failure(error) if isinstance(error, Exception) else None
                if failure is not None and failure.kind == "lost" and not is_new:
                    continue
                raise
            give_back = partial(pool.give_back, connection)
            limit = self._statement if timeout is None else timeout
            return SqlTransaction(self.backend, connection, give_back, self._watch, limit, read_only=read_only)

    def _lent(self, pool: Pool, ctx: ToolContext) -> tuple[Any, bool]:
        try:
            return pool.take(ctx)
        except PoolExhausted:
            sessions = len(self.sessions)
            held = f", {sessions} of them by open transactions" if sessions else ""
            raise ToolError(
                f"All {self._limits.connections} connections are in use{held}: none became free within "
                f"{self._limits.wait:g} s (pool_timeout)",
                code="pool_exhausted",
                hint='Ask again later, end open transactions, or let the operator raise "pool_size".',
            ) from None

    def _new_pool(self, *, read_only: bool) -> Pool:
        return Pool(partial(self._connect, read_only=read_only), self._limits.connections, self._limits.wait)

    def _connect(self, ctx: ToolContext | None, *, read_only: bool) -> Any:
        try:
            return self.backend.connect(read_only=read_only)
        except Exception as error:
            raise_told(error_of(self.backend, error), error)

    @property
    def connections_in_use(self) -> int:
        """How many connections calls and sessions have now."""
        return sum(pool.in_use for pool in {self._readers, self._writers})

    def read_schema(self, ctx: ToolContext) -> Schema:
        return self.reading(ctx, partial(self._schema_within, ctx))

    def all_tables(self, ctx: ToolContext, *, refresh: bool = False) -> Schema:
        """The schema, with the tables of other databases that statements may name."""
        schema = self.schema(ctx, refresh=refresh)
        others = self.backend.other_tables(ctx, refresh=refresh)
        return msgspec.structs.replace(schema, tables={**schema.tables, **others}) if others else schema

    def _schema_within(self, ctx: ToolContext, timeout: float) -> Schema:
        with self.transaction(ctx, read_only=True, timeout=timeout) as transaction, transaction.guarded(ctx):
            return self.backend.read_schema(transaction.connection)

    def judged(self, sql: str, ctx: ToolContext) -> ReadingSql:
        """The statement, if it only reads. For the first function that the gate does not know the server is asked for its own
        ones, once. Raises the errors of `SqlGate.read_only`."""
        try:
            return self.gate.read_only(sql)
        except ToolError as error:
            if self._knows_functions or "function" not in error.data:
                raise
        self.gate.learn(self.reading(ctx, partial(self._functions_within, ctx)))
        self._knows_functions = True
        return self.gate.read_only(sql)

    def _functions_within(self, ctx: ToolContext, timeout: float) -> frozenset[str]:
        try:
            with self.transaction(ctx, read_only=True, timeout=timeout) as transaction, transaction.guarded(ctx):
                return self.backend.functions(transaction.connection)
        except ToolError as error:
            if error.code != "sql_failed":
                raise
            return frozenset()  # a server with the protocol of another one, and a catalog of its own

    def close(self) -> None:
        self.sessions.close()
        for pool in {self._readers, self._writers}:
            pool.close()
        super().close()


def retried(attempt: Callable[[float], T], ctx: ToolContext, timeout: float) -> T:
    """Run `attempt`, one transaction with that many seconds (0: no limit), and return its result. It is repeated
    after `database_locked`, within its time and while the call is wanted; then that is raised."""
    until = monotonic() + timeout if timeout else None
    for number in range(CONFLICT_ATTEMPTS):
        left = timeout if until is None or not number else until - monotonic()
        try:
            return attempt(left)
        except ToolError as error:
            pause = random.uniform(0, min(CONFLICT_LAST_PAUSE, CONFLICT_FIRST_PAUSE * 2**number))
            is_late = until is not None and monotonic() + pause >= until
            if error.code != "database_locked" or number == CONFLICT_ATTEMPTS - 1 or is_late:
                raise
        _wait(pause, ctx)
    raise AssertionError("unreachable")


def _wait(seconds: float, ctx: ToolContext) -> None:
    """Raises if the call is cancelled or late."""
    woken = threading.Event()
    ctx.on_cancel(woken.set)
    try:
        woken.wait(seconds)
    finally:
        ctx.token.forget(woken.set)
    ctx.check()


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

    __slots__ = ("_cursor", "_is_json", "_nested_as_text", "_size", "columns", "copied", "has_rows", "types", "warnings")

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
        self.copied: Mapping[str, str] = {}
        """When tables of other databases were copied."""

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
