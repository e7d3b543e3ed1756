"""The shared state of all calls of an SQL node: its pools of connections, its sessions and the snapshot of its schema."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

import msgspec

from rrext.errors import ToolError
from rrext.nodes.databases.database import SharedDatabase
from rrext.nodes.databases.pool import Pool, PoolExhausted
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.gate.gate import SqlGate
from rrext.nodes.sql.gate.tokens import ReadingSql
from rrext.nodes.sql.schema import Schema
from rrext.nodes.sql.transaction import SqlTransaction, error_of, raise_told
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


T = TypeVar("T")


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
