"""The event loop that a connection lives on, and where its callers wait: tasks of that loop, and threads beside it."""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import Awaitable, Callable, Generator
from threading import Lock, get_ident
from typing import Any, Protocol

import anyio
import msgspec


class Waiter(Protocol):
    """Where one caller waits. A wake before the wait ends that wait at once; several count as one."""

    def wake(self) -> None:
        """End the wait; from any thread."""
        ...

    def wait(self) -> Awaitable[None]:
        """Await the result at once: that ends when this is woken. Beside the loop it blocks the thread, and never suspends."""
        ...


class EventLoop:
    """The running loop of asyncio or trio, as the parts of a connection need it. Made in one of its tasks."""

    __slots__ = ("_asyncio", "_may_step", "_soon", "now", "thread")

    now: Callable[[], float]
    """The loop's clock; from any thread."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._may_step = False
        """Whether a task that is woken may run at once."""
        self._soon: Callable[[Callable[[], object]], object]
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            loop = self._asyncio = asyncio.get_running_loop()
            self._soon, self.now = loop.call_soon_threadsafe, loop.time
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
        except RuntimeError:  # the loop has ended, and its callers with it
            pass

    def waiter(self) -> Waiter:
        """A place to wait for the caller that asks."""
        if get_ident() != self.thread:
            return _ThreadWaiter()
        return _EventWaiter(self) if self._asyncio is None else _TaskWaiter(self, self._asyncio)

    def begin_reading(self) -> None:
        """From now on, until `end_reading`, a wake runs its task at once; on the loop's thread.

        asyncio runs a task one iteration of its loop after it was woken, which is a tenth of the time of a call (one core,
        November 2026). In a callback of the loop, as a channel over descriptors reads, no task runs, so one may do so.
        """
        self._may_step = self._asyncio is not None and current_task(self._asyncio) is None

    def end_reading(self) -> None:
        """Tasks that are woken run in the loop's next iteration again."""
        self._may_step = False

    def end(self, future: asyncio.Future[None]) -> None:
        """The task that waits for the future goes on: now if no task runs, else in the loop's next iteration."""
        if future.done():  # cancelled
            return
        waiting: Any = getattr(future, "_callbacks", None) if self._may_step else None
        if not waiting or len(waiting) > 1:
            future.set_result(None)
            return
        ((callback, context),) = waiting
        future.remove_done_callback(callback)  # else the result has the loop call it, in its next iteration
        future.set_result(None)
        self._may_step = False
        context.run(callback, future)
        self._may_step = True


class _TaskWaiter(msgspec.Struct, eq=False):
    """A task of asyncio."""

    _loop: EventLoop
    _asyncio: asyncio.AbstractEventLoop
    _future: asyncio.Future[None] | None = None
    """Where the task waits; None while it does not."""
    _is_woken: bool = False

    def wait(self) -> Awaitable[None]:
        if self._is_woken:
            self._is_woken = False
            return _NO_WAIT
        future = self._future = self._asyncio.create_future()
        return future

    def wake(self) -> None:
        loop = self._loop
        if get_ident() != loop.thread:
            loop.run(self.wake)
            return
        future = self._future
        if future is None:
            self._is_woken = True
        else:
            self._future = None
            loop.end(future)


class _NoWait:
    """Ends at once."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


_NO_WAIT = _NoWait()


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

    async def wait(self) -> None:
        await self._event.wait()
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

    async def wait(self) -> None:
        self._lock.acquire()
