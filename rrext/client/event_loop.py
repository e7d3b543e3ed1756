"""The event loop that a connection lives on, and where its callers wait: tasks of that loop, and threads beside it."""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import Callable, Generator
from contextvars import Context
from threading import Lock, get_ident
from typing import Any, Protocol

import anyio
import msgspec

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

    __slots__ = ("_asyncio", "_soon", "held", "now", "thread")

    now: Callable[[], float]
    """The loop's clock; from any thread."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self.held: list[_TaskWaiter] | None = None
        """A list while bytes are read, on the loop's thread: tasks of asyncio that are woken meanwhile run in `step`."""
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
        except RuntimeError:  # the loop has ended, and with it whatever the function would have told
            pass

    def waiter(self) -> Waiter:
        """A place to wait for the caller that asks."""
        if get_ident() != self.thread:
            return _ThreadWaiter()
        return _EventWaiter(self) if self._asyncio is None else _TaskWaiter(self, self._asyncio)

    def step(self) -> None:
        """Run the tasks in `held`, until each waits again.

        asyncio runs a task one turn of its loop after it was woken, which is a tenth of the time of a call (one core,
        November 2026). In a callback of the loop, as a channel over descriptors reads, no task runs, so one may do so.
        """
        held, self.held = self.held, None
        if not held:
            return
        if current_task(self._asyncio) is not None:  # a task reads
            for waiter in held:
                waiter.ring_soon()
            return
        try:
            while held:
                held.pop(0).ring()
        finally:
            for waiter in held:  # the one before raised KeyboardInterrupt or SystemExit
                waiter.ring_soon()


class _TaskWaiter(msgspec.Struct, eq=False):
    """A task of asyncio. It has what asyncio asks of foreign futures: the blocking mark, the loop, a callback, a result."""

    _loop: EventLoop
    _asyncio: asyncio.AbstractEventLoop
    _asyncio_future_blocking: bool = False
    _callback: Callable[[Any], object] | None = None
    """Runs the task until it waits again; None while it does not wait."""
    _context: Context | None = None
    _is_woken: bool = False
    _cancel: asyncio.CancelledError | None = None

    def wake(self) -> None:
        if get_ident() != self._loop.thread:
            self._loop.run(self.wake)
            return
        if self._is_woken:
            return
        self._is_woken = True
        if self._callback is None:
            return
        if self._loop.held is None:
            self.ring_soon()
        else:
            self._loop.held.append(self)

    def ring_soon(self) -> None:
        """Run the task in the loop's next turn."""
        self._asyncio.call_soon(self.ring)

    def ring(self) -> None:
        """Run the task now, if it waits; no other may be running."""
        callback, context = self._callback, self._context
        if callback is not None and context is not None:
            self._callback = self._context = None
            context.run(callback, self)

    def __await__(self) -> Generator[Any, None, None]:
        try:
            if not self._is_woken:
                self._asyncio_future_blocking = True
                yield self
        finally:
            self._is_woken = False
            self._cancel = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """asyncio asks whether it is its own."""
        return self._asyncio

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context) -> None:
        """The task waits."""
        self._callback = callback
        self._context = context

    def result(self) -> None:
        """asyncio asks when the task goes on."""
        if self._cancel is not None:
            raise self._cancel

    def cancel(self, msg: object = None) -> bool:
        """The task is cancelled. False: it was woken, or cancelled, before; asyncio cancels its next step then."""
        if self._is_woken or self._cancel is not None:
            return False
        self._cancel = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self.ring_soon()
        return True


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
