"""A few connections to PostgreSQL that calls share: opened when needed, closed when their call is cancelled.

The driver's own pool opens connections in the background, so that a wrong password would be a timeout without a
reason, and its waiting cannot be cancelled; here, who needs a connection opens it and sees why that failed.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.pq import TransactionStatus

from rrext.errors import ToolError, Unavailable
from rrext.nodes.databases.postgres import connection_failure, place_of
from rrext.nodes.vectors.limits import CANCEL_AGAIN, CANCEL_TIMEOUT, CUT_AFTER, MAX_WAIT, SERVER_GRACE
from rrext.nodes.vectors.postgres.failures import failure_of
from rrext.tools.context import ToolContext


class Connections:
    """At most `size` connections, all in autocommit, opened when needed. All methods are thread-safe.

    `parameters` are those of the driver; `prepare` is called with each new connection.
    """

    def __init__(self, parameters: dict[str, str], *, size: int, prepare: Callable[[Connection[Any]], object]) -> None:
        self._parameters = parameters
        self._size = size
        self._prepare = prepare
        self._turn = threading.Condition()
        self._idle: list[Connection[Any]] = []
        self._open = 0
        self._timeouts: dict[Connection[Any], int] = {}
        self._closed = False
        self.place = place_of(parameters)
        """The server, database and user, for messages."""

    @contextlib.contextmanager
    def use(self, ctx: ToolContext) -> Iterator[Connection[Any]]:
        """A connection for a block of a call. Its statements end at the call's deadline, and when the call is cancelled.

        The driver's errors leave the block as rrext's; a connection after a failure that is not the statement's own is
        not used again.
        """
        connection = self._take(ctx)
        watch = _ConnectionUse(connection)
        ctx.on_cancel(watch.cancel)
        try:
            ctx.check()
            self._limit(connection, ctx.remaining())
            yield connection
        except psycopg.Error as error:
            ctx.check()
            raise failure_of(error, self.place, lost=connection.closed) from None
        finally:
            ctx.token.forget(watch.cancel)
            self._give_back(connection, usable=watch.finish())

    def close(self) -> None:
        """Close all idle connections; the others follow when their calls are over. Later calls fail."""
        with self._turn:
            self._closed = True
            idle, self._idle = self._idle, []
            self._turn.notify_all()
        for connection in idle:
            self._end(connection)

    def _take(self, ctx: ToolContext) -> Connection[Any]:
        """Take a working idle connection, a new one, or the next that is returned."""
        ctx.on_cancel(self._wake)
        try:
            with self._turn:
                self._await_turn(ctx)
                connection = self._idle.pop() if self._idle else None
                if connection is None:
                    self._open += 1
        finally:
            ctx.token.forget(self._wake)
        if connection is not None:
            if _is_alive(connection):
                return connection
            with self._turn:
                self._timeouts.pop(connection, None)
            connection.close()
        try:
            return self.connect(ctx.remaining())
        except BaseException:
            self._leave()
            ctx.check()
            raise

    def _await_turn(self, ctx: ToolContext) -> None:
        """Wait for an idle connection, or for room for a new one."""
        remaining = ctx.remaining()
        wait = MAX_WAIT if remaining is None else remaining

        def is_settled() -> bool:
            return self._closed or ctx.cancelled or bool(self._idle) or self._open < self._size

        in_time = self._turn.wait_for(is_settled, wait)
        ctx.check()
        if self._closed:
            raise Unavailable("This vector store is closed")
        if not in_time:
            raise ToolError(
                f"All {self._size} connections of this node to {self.place} are in use",
                code="database_busy",
                hint='Call again later, or raise "connections" in the settings of the node.',
            )

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

    def _give_back(self, connection: Connection[Any], *, usable: bool) -> None:
        if usable and connection.info.transaction_status == TransactionStatus.IDLE:
            with self._turn:
                if not self._closed:
                    self._idle.append(connection)
                    self._turn.notify()
                    return
        self._end(connection)

    def _end(self, connection: Connection[Any]) -> None:
        self._timeouts.pop(connection, None)
        connection.close()
        self._leave()

    def _leave(self) -> None:
        with self._turn:
            self._open -= 1
            self._turn.notify()

    def _wake(self) -> None:
        with self._turn:
            self._turn.notify_all()


class _ConnectionUse:
    """One use of a connection; until `finish`, `cancel` ends its statement in the server."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def cancel(self) -> None:
        """Cancel the running statement, from a thread of its own: the cancelling thread must not wait for the network."""
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._cancel, name="rrext-pg-cancel", daemon=True)
                self._thread.start()

    def finish(self) -> bool:
        """End the use. Returns whether the connection can be reused: not if a cancel may still reach it."""
        with self._lock:
            self._over.set()
        if self._thread is None:
            return not self._connection.closed
        self._thread.join()
        self._connection.close()
        return False

    def _cancel(self) -> None:
        give_up = time.monotonic() + CUT_AFTER
        while time.monotonic() < give_up:
            if self._over.is_set():
                return
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
            if self._over.wait(CANCEL_AGAIN):
                return
        self._cut()

    def _cut(self) -> None:
        """Close the connection on this side when the server ignores a cancel; that frees the waiting thread."""
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


def _is_alive(connection: Connection[Any]) -> bool:
    """Whether an idle connection still works: unread data means that the server has closed it."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)
