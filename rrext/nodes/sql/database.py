"""The shared state of all calls of an SQL node: its pools of connections, its sessions and the snapshot of its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec

from rrext.errors import ToolError
from rrext.nodes.databases.pool import Pool, PoolExhausted
from rrext.nodes.databases.sessions import Sessions
from rrext.nodes.databases.timer_thread import TimerThread
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.conflicts import retried
from rrext.nodes.sql.gate.gate import SqlGate
from rrext.nodes.sql.schema import Schema
from rrext.nodes.sql.transaction import SqlTransaction, error_of
from rrext.tools.context import ToolContext

T = TypeVar("T")


class PoolLimits(msgspec.Struct, frozen=True):
    """`connections` at most, of each kind that the backend has; the rest are seconds."""

    connections: int
    wait: float
    statement: float
    session_idle: float


class SqlDatabase:
    """One database; the first call connects. Thread-safe.

    `shown` makes a text with settings safe to show.
    """

    def __init__(
        self,
        backend: Backend,
        limits: PoolLimits,
        allowed_functions: Iterable[str] = (),
        *,
        shown: Callable[[str], str] = str,
    ) -> None:
        self.backend = backend
        self.shown = shown
        self.gate = SqlGate(backend.dialect, allowed_functions)
        self._limits = limits
        self._writers = self._new_pool(read_only=False)
        self._readers = self._new_pool(read_only=True) if backend.separate_readers else self._writers
        self._schema: Schema | None = None
        self._watch = TimerThread()
        self.sessions = Sessions(self._begin_session, self._watch, limits.session_idle)

    # transactions

    @contextmanager
    def transaction(
        self, ctx: ToolContext | None = None, *, read_only: bool, timeout: float | None = None
    ) -> Iterator[SqlTransaction]:
        """A transaction of one call: rolled back at the end of the block unless it was committed."""
        transaction = self.begin(ctx, read_only=read_only, timeout=timeout)
        try:
            yield transaction
        finally:
            transaction.close()

    def reading(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, a single read that gets its limit in seconds, and return the result. The read is repeated if
        another call ended the database's process."""
        return self.backend.repeated(attempt, ctx, reads=True, timeout=self._limits.statement)

    def writing(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, a transaction that may write; it is repeated only if nothing of it had begun, or if another
        transaction changed the same rows."""
        whole = partial(self._once, ctx, attempt)
        return retried(whole, ctx, self._limits.statement) if self.backend.retries_conflicts else whole(self._limits.statement)

    def _once(self, ctx: ToolContext, attempt: Callable[[float], T], timeout: float) -> T:
        return self.backend.repeated(attempt, ctx, reads=False, timeout=timeout)

    def _begin_session(self, ctx: ToolContext, *, read_only: bool) -> SqlTransaction:
        return self._once(ctx, lambda _: self.begin(ctx, read_only=read_only), self._limits.statement)

    def begin(self, ctx: ToolContext | None = None, *, read_only: bool, timeout: float | None = None) -> SqlTransaction:
        """Begin a transaction on a connection of the pool; the caller closes it. `ctx` may end the wait for one. A statement
        may take `timeout` seconds; None: as the settings say.

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
            limit = self._limits.statement if timeout is None else timeout
            return SqlTransaction(self.backend, connection, give_back, self._watch, limit, read_only=read_only)

    def _lent(self, pool: Pool, ctx: ToolContext | None) -> tuple[Any, bool]:
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
            told = error_of(self.backend, error)
            if told is error:
                raise
            raise told from error

    @property
    def connections_in_use(self) -> int:
        """How many connections calls and sessions have now."""
        return sum(pool.in_use for pool in {self._readers, self._writers})

    # schema

    def schema(self, ctx: ToolContext, *, refresh: bool = False) -> Schema:
        """The snapshot of the schema; read when it is first asked for, and again with `refresh`."""
        found = self._schema
        if found is None or refresh:
            found = self._schema = self.reading(ctx, partial(self._read_schema, ctx))
        return found

    def _read_schema(self, ctx: ToolContext, timeout: float) -> Schema:
        with self.transaction(ctx, read_only=True, timeout=timeout) as transaction, transaction.guarded(ctx):
            found = self.backend.read_schema(transaction.connection)
        return msgspec.structs.replace(found, database=self.shown(found.database))

    def close(self) -> None:
        """Roll back every session and close every connection. Calls that still run fail, or end theirs themselves."""
        self.sessions.close()
        self._watch.close()
        for pool in {self._readers, self._writers}:
            pool.close()
        self.backend.close()
