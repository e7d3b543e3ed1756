"""A few connections to PostgreSQL that calls share: opened when needed, closed when their call is cancelled.

The driver's own pool opens connections in the background, so that a wrong password would be a timeout without a reason, and
its waiting cannot be cancelled; here the call opens its connection and gets the reason of a failure.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import psycopg
from psycopg import Connection, sql
from psycopg.pq import TransactionStatus

from rrext.errors import RrextError, ToolError
from rrext.nodes.databases.database import Pool, PoolExhausted, RunningStatement, TimerThread
from rrext.nodes.databases.postgres import connection_failure, place_of
from rrext.nodes.vectors.postgres.failures import failure_of
from rrext.tools.context import ToolContext

MAX_WAIT: Final = 30.0
"""Seconds that a call waits for a connection; after that it fails for lack of connections."""
CANCEL_TIMEOUT: Final = 2.0
"""Seconds for one attempt to cancel in the server."""
CUT_AFTER: Final = 5.0
"""Seconds after which the pool abandons a statement that ignores its cancel: other calls need the thread."""
SERVER_GRACE: Final = 1.0
"""Seconds by which the server's own limit is later than the call's, so that the caller sees the call's own timeout."""


class ConnectionPool:
    """At most `size` connections, all in autocommit, opened when needed. All methods are thread-safe.

    `parameters` are those of the driver; `prepare` is called with each new connection.
    """

    def __init__(self, parameters: dict[str, str], *, size: int, prepare: Callable[[Connection[Any]], object]) -> None:
        self._parameters = parameters
        self._size = size
        self._prepare = prepare
        self._pool = Pool(self._opened, size, MAX_WAIT)
        self._watch = TimerThread()
        self._timeouts: dict[Connection[Any], int] = {}
        self.place = place_of(parameters)
        """The server, database and user, for messages."""

    @contextlib.contextmanager
    def use(self, ctx: ToolContext) -> Iterator[Connection[Any]]:
        """A connection for a block of a call. Its statements end at the call's deadline, and when the call is cancelled.

        The driver's errors leave the block as rrext's; a connection after a failure that is not the statement's own is
        not used again.
        """
        connection = self._take(ctx)
        running = RunningStatement(_Cancel(connection), self._watch, 0, ctx)
        try:
            with running:
                ctx.check()
                self._limit(connection, ctx.remaining())
                yield connection
        except psycopg.Error as error:
            ctx.check()
            raise failure_of(error, self.place, lost=connection.closed) from None
        finally:
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            self._give_back(connection, is_good=is_idle and running.reason is None)

    def close(self) -> None:
        """Close all idle connections; the others follow when their calls are over. Later calls fail."""
        self._pool.close()
        self._watch.close()

    def _take(self, ctx: ToolContext) -> Connection[Any]:
        """Take a working idle connection, a new one, or the next that is returned."""
        while True:
            ctx.check()
            try:
                connection, is_new = self._pool.take(ctx)
            except PoolExhausted:
                raise ToolError(
                    f"All {self._size} connections of this node to {self.place} are in use",
                    code="database_busy",
                    hint='Call again later, or raise "connections" in the settings of the node.',
                ) from None
            except RrextError:
                ctx.check()
                raise
            if is_new or _is_alive(connection):
                return connection
            self._give_back(connection, is_good=False)

    def _give_back(self, connection: Connection[Any], *, is_good: bool) -> None:
        if not is_good:
            self._timeouts.pop(connection, None)
        self._pool.give_back(connection, is_good=is_good)

    def _opened(self, ctx: ToolContext | None) -> Connection[Any]:
        return self.connect(None if ctx is None else ctx.remaining())

    def connect(self, timeout: float | None = None) -> Connection[Any]:
        """Open a connection beside the shared ones, which the caller closes; `timeout` is in seconds."""
        parameters = dict(self._parameters)
        if timeout is not None:  # the driver counts in whole seconds
            parameters["connect_timeout"] = str(max(1, min(int(parameters["connect_timeout"]), math.ceil(timeout))))
        try:
            connection = psycopg.connect(**parameters, autocommit=True)  # pyright: ignore[reportArgumentType]
        except psycopg.Error as error:
            raise connection_failure(error, parameters) from None
        try:
            self._prepare(connection)
        except psycopg.Error as error:
            connection.close()
            raise failure_of(error, self.place, lost=True) from None
        return connection

    def _limit(self, connection: Connection[Any], remaining: float | None) -> None:
        """Let the server end statements after the call's deadline, even if this process is gone by then."""
        limit = 0 if remaining is None else math.ceil(remaining + SERVER_GRACE)
        if self._timeouts.get(connection, 0) != limit:
            connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(f"{limit}s")))
            self._timeouts[connection] = limit


class _Cancel:
    """Cancels the running statement in the server; cuts the connection on this side if the server ignores that for long."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._since: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        self._since = self._since or now
        with contextlib.suppress(OSError, psycopg.Error):
            if now - self._since < CUT_AFTER:
                self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
                return
            with socket.socket(fileno=os.dup(self._connection.fileno())) as line:  # frees the thread that waits
                line.shutdown(socket.SHUT_RDWR)


def _is_alive(connection: Connection[Any]) -> bool:
    """Whether an idle connection still works: unread data means that the server has closed it."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)
