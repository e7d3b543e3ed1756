"""What all calls of one database node share: its pools of connections, its sessions and the snapshot of its schema."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.gate import Gate
from rrext.nodes.sql.running import error_of
from rrext.nodes.sql.sessions import Sessions
from rrext.nodes.sql.transaction import Transaction
from rrext.nodes.sql.watch import Watch

if TYPE_CHECKING:
    from sqlalchemy.pool import QueuePool

    from rrext.nodes.sql.schema import Schema
    from rrext.tools.context import ToolContext

__all__ = ["Database", "PoolLimits"]

log: Final = logging.getLogger("rrext.sql")


class PoolLimits(msgspec.Struct, frozen=True):
    """`connections` at most, of each kind that the backend has; the rest are seconds."""

    connections: int
    wait: float
    statement: float
    session_idle: float


class Database:
    """One database, connected to when a call first needs it. Thread-safe."""

    __slots__ = ("_is_closed", "_limits", "_lock", "_pools", "_schema", "_watch", "backend", "gate", "sessions")

    def __init__(self, backend: Backend, limits: PoolLimits, allowed_functions: Iterable[str] = ()) -> None:
        self.backend = backend
        self.gate = Gate(backend.dialect, allowed_functions)
        self._is_closed = False
        self._limits = limits
        self._lock = threading.Lock()
        self._pools: dict[bool, QueuePool] = {}
        self._schema: Schema | None = None
        self._watch = Watch()
        self.sessions = Sessions(self.begin, self._watch, limits.session_idle)

    # transactions

    @contextmanager
    def transaction(self, *, read_only: bool) -> Iterator[Transaction]:
        """A transaction of one call: rolled back at the end of the block unless it was committed."""
        transaction = self.begin(read_only=read_only)
        try:
            yield transaction
        finally:
            transaction.close()

    def begin(self, *, read_only: bool) -> Transaction:
        """Begin a transaction on a connection of the pool; the caller closes it.

        Connections that broke while nobody used them, as when the server was restarted, are replaced: nothing was sent
        on them yet. Raises `ToolError` (`pool_exhausted`) and what connecting raises.
        """
        pool = self._pool(read_only=read_only)
        while True:
            lease = self._lease(pool)
            is_new = not lease.info
            lease.info["used"] = True
            connection: Any = lease.dbapi_connection
            try:
                self.backend.begin(connection, read_only=read_only)
            except BaseException as error:
                self._give_back(pool, lease, is_good=False)
                failure = self.backend.failure(error) if isinstance(error, Exception) else None
                if failure is not None and failure.kind == "lost" and not is_new:
                    continue
                raise
            give_back = partial(self._give_back, pool, lease)
            return Transaction(self.backend, connection, give_back, self._watch, self._limits.statement, read_only=read_only)

    def _give_back(self, pool: QueuePool, lease: Any, *, is_good: bool) -> None:
        try:
            if not is_good:
                lease.invalidate()
            lease.close()
            if self._is_closed:  # a call that outlived the component
                pool.dispose()
        except Exception:
            log.warning("a connection could not be given back", exc_info=True)

    def _lease(self, pool: QueuePool) -> Any:
        from sqlalchemy.exc import TimeoutError as PoolTimeout

        try:
            return pool.connect()
        except PoolTimeout:
            sessions = len(self.sessions)
            held = f", {sessions} of them by open transactions" if sessions else ""
            raise ToolError(
                f"All {self._limits.connections} connections are in use{held}: none became free within "
                f"{self._limits.wait:g} s (pool_timeout)",
                code="pool_exhausted",
                hint='Ask again later, end open transactions, or let the operator raise "pool_size".',
            ) from None

    def _pool(self, *, read_only: bool) -> QueuePool:
        kind = read_only and self.backend.separate_readers
        pool = self._pools.get(kind)
        if pool is None:
            with self._lock:
                pool = self._pools.get(kind)
                if pool is None:
                    pool = self._pools[kind] = self._new_pool(read_only=kind)
        return pool

    def _new_pool(self, *, read_only: bool) -> QueuePool:
        from sqlalchemy.pool import QueuePool

        def connect() -> Any:
            try:
                return self.backend.connect(read_only=read_only)
            except Exception as error:
                told = error_of(self.backend, error)
                if told is error:
                    raise
                raise told from error

        limits = self._limits
        return QueuePool(
            connect, pool_size=limits.connections, max_overflow=0, timeout=limits.wait, reset_on_return=None, use_lifo=True
        )

    @property
    def connections_in_use(self) -> int:
        """How many connections calls and sessions have now."""
        return sum(pool.checkedout() for pool in self._pools.values())

    # schema

    def schema(self, ctx: ToolContext, *, refresh: bool = False) -> Schema:
        """The snapshot of the schema; read when it is first asked for, and again with `refresh`."""
        found = self._schema
        if found is None or refresh:
            with self.transaction(read_only=True) as transaction, transaction.guarded(ctx):
                found = self._schema = self.backend.read_schema(transaction.connection)
        return found

    def close(self) -> None:
        """Roll back every session and close every connection. Calls that still run fail, or end theirs themselves."""
        self._is_closed = True
        self.sessions.close()
        self._watch.close()
        for pool in self._pools.values():
            pool.dispose()
        self.backend.close()

    def __repr__(self) -> str:
        return f"<Database {self.backend.dialect}>"
