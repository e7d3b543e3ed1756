"""A bounded pool of database connections, which threads share."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rrext.errors import Unavailable
from rrext.tools.context import ToolContext

log: Final = logging.getLogger("rrext.sql")


class PoolExhausted(Exception):
    """No connection became free in time."""


class Pool:
    """At most `size` connections, opened when they are needed. The one that was given back last is lent first, so that
    those that are not needed stay idle. Callers that wait are served in the order in which they came. Thread-safe.

    No lock is held while a connection is opened or closed.
    """

    def __init__(self, connect: Callable[[ToolContext | None], Any], size: int, wait: float) -> None:
        """`connect` opens a connection for a call. `wait`: seconds that `take` waits for a connection in use."""
        self._connect = connect
        self._size = size
        self._wait = wait
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._open = 0
        """The number of open connections, and of those being opened or closed; never more than `size`."""
        self._waiting: deque[_Waiter] = deque()
        """Callers in line. While there is one, no connection is idle and `size` are open."""
        self._is_closed = False

    def take(self, ctx: ToolContext | None = None) -> tuple[Any, bool]:
        """Take a connection and whether it is a new one; `give_back` returns it.

        Raises `PoolExhausted`, `Unavailable` when the pool is closed, the errors of `connect`, and the error of `ctx` when its
        call is cancelled meanwhile.
        """
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._idle:
                return self._idle.pop(), False
            place = _Waiter()
            if self._open < self._size:
                self._open += 1
                place.is_granted = True
            else:
                self._waiting.append(place)
        if not place.is_granted:
            self._wait_in_line(place, ctx)
        return (place.connection, False) if place.connection is not None else (self._opened(ctx), True)

    def give_back(self, connection: Any, *, is_good: bool) -> None:
        """Return a connection; a bad one is closed, and then there is room for another."""
        with self._lock:
            if is_good and not self._is_closed:
                self._pass_on(connection)
                return
        try:
            _close(connection)
        finally:
            with self._lock:
                self._pass_on(None)

    @property
    def in_use(self) -> int:
        """The number of connections in use, including those being opened."""
        with self._lock:
            return self._open - len(self._idle)

    def close(self) -> None:
        """Close every connection, those in use when they are returned. Waiting callers fail, as do later ones."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            waiting, self._waiting = self._waiting, deque()
            for place in waiting:
                place.ready.set()
        for connection in idle:
            _close(connection)

    def _wait_in_line(self, place: _Waiter, ctx: ToolContext | None) -> None:
        """Wait until the place in the line is granted. An error removes it from the line, and no connection is lost."""
        if ctx is not None:
            ctx.on_cancel(place.ready.set)
        remaining = None if ctx is None else ctx.remaining()
        try:
            place.ready.wait(self._wait if remaining is None else min(self._wait, remaining))
        finally:
            if ctx is not None:
                ctx.token.forget(place.ready.set)
        with self._lock:
            if place.is_granted:  # even if it came too late: callers are served in their order
                return
            if self._is_closed:
                raise _closed()
            self._waiting.remove(place)
        if ctx is not None:
            ctx.check()
        raise PoolExhausted

    def _opened(self, ctx: ToolContext | None) -> Any:
        try:
            return self._connect(ctx)
        except BaseException:
            with self._lock:
                self._pass_on(None)
            raise

    def _pass_on(self, connection: Any | None) -> None:
        """Under the lock: to the first in line, else to those who come. None passes on the right to open one."""
        if self._waiting:
            place = self._waiting.popleft()
            place.connection = connection
            place.is_granted = True
            place.ready.set()
        elif connection is not None:
            self._idle.append(connection)
        else:
            self._open -= 1


class _Waiter:
    """A caller's place in the line. Granted without a connection, it is the right to open one."""

    __slots__ = ("connection", "is_granted", "ready")

    def __init__(self) -> None:
        self.connection: Any = None
        self.is_granted = False
        self.ready = threading.Event()


def _closed() -> Unavailable:
    return Unavailable("The database is closed: its component was unloaded")


def _close(connection: Any) -> None:
    try:
        connection.close()
    except Exception:
        log.warning("a connection could not be closed", exc_info=True)
