"""The event loop that a connection lives on, and where its callers wait: tasks of that loop, and threads beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from threading import Lock, get_ident
from typing import Any, Protocol

import anyio

__all__ = ["EventLoop", "Waiter"]


class Waiter(Protocol):
    """Where one caller waits. A wake before the wait ends that wait at once; several count as one."""

    def wake(self) -> None:
        """End the wait; from any thread."""
        ...

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait until woken. In a thread beside the loop this blocks the thread, and never suspends."""
        ...


class EventLoop:
    """The running loop of asyncio or trio, as the parts of a connection need it. Made in one of its tasks."""

    __slots__ = ("_future", "_soon", "now", "thread")

    now: Callable[[], float]
    """The loop's clock; from any thread."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self._future: Callable[[], asyncio.Future[None]] | None = None
        self._soon: Callable[[Callable[[], object]], object]
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            loop = asyncio.get_running_loop()
            self._soon, self._future, self.now = loop.call_soon_threadsafe, loop.create_future, loop.time
        else:
            from trio.lowlevel import current_clock, current_trio_token

            self._soon, self.now = current_trio_token().run_sync_soon, current_clock().current_time

    @property
    def is_here(self) -> bool:
        """Whether this thread is the loop's."""
        return get_ident() == self.thread

    def run(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread: now if this is it, else soon. After the loop's end nothing is called."""
        if get_ident() == self.thread:
            function()
            return
        try:
            self._soon(function)
        except RuntimeError:  # the loop has ended, and with it whatever the function would have told
            pass

    def waiter(self) -> Waiter:
        """A place to wait for the caller that asks."""
        if get_ident() != self.thread:
            return _ThreadWaiter()
        return _EventWaiter(self) if self._future is None else _TaskWaiter(self, self._future)


class _TaskWaiter:
    """A task of asyncio. A future costs a third of an `anyio.Event`."""

    __slots__ = ("_future", "_is_woken", "_loop", "_make")

    def __init__(self, loop: EventLoop, make: Callable[[], asyncio.Future[None]]) -> None:
        self._loop = loop
        self._make = make
        self._future: asyncio.Future[None] | None = None
        self._is_woken = False

    def wake(self) -> None:
        if get_ident() != self._loop.thread:
            self._loop.run(self.wake)
            return
        future = self._future
        if future is None or future.done():
            self._is_woken = True
        else:
            future.set_result(None)

    def __await__(self) -> Generator[Any, Any, None]:
        future = self._future = self._make()
        if self._is_woken:
            self._is_woken = False
            future.set_result(None)
        return future.__await__()


class _EventWaiter:
    """A task of trio."""

    __slots__ = ("_event", "_loop")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._event = anyio.Event()

    def wake(self) -> None:
        self._loop.run(self._set)

    def _set(self) -> None:
        self._event.set()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self._event.wait().__await__()
        self._event = anyio.Event()


class _ThreadWaiter:
    """A thread that is not the loop's. A signal handler may raise out of its wait, as Ctrl-C does."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def wake(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # woken already
            pass

    def __await__(self) -> Generator[Any, Any, None]:
        self._lock.acquire()
        yield from ()
