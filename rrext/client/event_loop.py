"""The event loop that a connection lives on, and where its callers wait: tasks of that loop, and threads beside it. `Slots` are
the line of callers before a limit.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context
from functools import partial
from threading import Lock, get_ident
from typing import Any, Protocol, TypeAlias

import anyio
import msgspec


class Waiter(Protocol):
    """Where one caller waits: `await waiter`. A wake before the wait ends that wait at once; several count as one.

    Beside the loop the wait blocks the thread, and never suspends.
    """

    def wake(self) -> None:
        """End the wait; from any thread."""
        ...

    def __await__(self) -> Generator[Any, Any, None]:
        """Wait until this is woken."""
        ...


class EventLoop:
    """The running loop of asyncio or trio, as the parts of a connection need it. Made in one of its tasks."""

    __slots__ = ("_soon", "asyncio", "now", "thread", "woken")

    now: Callable[[], float]
    """The loop's clock; from any thread."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.asyncio: asyncio.AbstractEventLoop | None = None
        self.woken: list[_Step] | None = None
        """The tasks that were woken since `begin_reading`; None after `end_reading`."""
        self._soon: Callable[[Callable[[], object]], object]
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            loop = self.asyncio = asyncio.get_running_loop()
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
        return _EventWaiter(self) if self.asyncio is None else _TaskWaiter(self, self.asyncio)

    def begin_reading(self) -> None:
        """From now on the tasks that are woken wait for `end_reading`; on the loop's thread.

        asyncio runs a task one iteration of its loop after it was woken, which is a tenth of the time of a call (one core,
        November 2026). In a callback of the loop, as a channel over descriptors reads, no task runs, so those that wait may
        run at once.
        """
        if self.asyncio is not None and current_task(self.asyncio) is None:
            self.woken = []

    def end_reading(self) -> None:
        """Run the tasks that were woken; if one ends the loop, the others run when it runs again."""
        woken, self.woken = self.woken, None
        if not woken:
            return
        steps = iter(woken)
        try:
            for context, wakeup, waiter in steps:
                context.run(wakeup, waiter)
        finally:
            for _, wakeup, waiter in steps:  # a task raised KeyboardInterrupt or SystemExit
                waiter.run_soon(wakeup)


class _TaskWaiter(msgspec.Struct, eq=False):
    """A task of asyncio, which awaits this as a future of a kind that is not asyncio's.

    asyncio's own future would have the loop run the task in its next iteration. Of a future, a task uses `_loop`,
    `_asyncio_future_blocking`, `add_done_callback`, `cancel` and `result`.
    """

    _client_loop: EventLoop
    _loop: asyncio.AbstractEventLoop
    _is_woken: bool = False
    _wakeup: Callable[[_TaskWaiter], object] | None = None
    """Makes the task go on; None unless it waits, and was neither woken nor cancelled."""
    _context: Context | None = None
    result: Callable[[], object] = bool
    """What the task calls when it goes on; in C, because each step from there into Python costs a hundredth of a call."""
    _asyncio_future_blocking: bool = False

    def wake(self) -> None:
        loop, wakeup = self._client_loop, self._wakeup
        if get_ident() != loop.thread:
            loop.run(self.wake)
        elif wakeup is None:
            self._is_woken = True
        else:
            self._wakeup = None
            if loop.woken is None:
                self.run_soon(wakeup)
            else:
                loop.woken.append((self._context, wakeup, self))

    def __await__(self) -> Generator[Any, Any, None]:
        if self._is_woken:
            self._is_woken = False
        else:
            self._asyncio_future_blocking = True
            yield self

    def run_soon(self, wakeup: Callable[[_TaskWaiter], object]) -> None:
        """Make the task go on in the loop's next iteration."""
        self._loop.call_soon(wakeup, self, context=self._context)

    def add_done_callback(self, callback: Callable[[_TaskWaiter], object], *, context: Context) -> None:
        self._wakeup = callback
        self._context = context

    def cancel(self, msg: object = None) -> bool:
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is None:
            return False
        self.result = partial(self._raise, asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        self.run_soon(wakeup)
        return True

    def _raise(self, error: asyncio.CancelledError) -> None:
        self.result = bool
        raise error


_Step: TypeAlias = tuple[Any, Callable[[_TaskWaiter], object], _TaskWaiter]
"""What runs a woken task: its context, its callback, and that's argument."""


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
        return
        yield


class _WaitingCaller:
    """A caller in the line."""

    __slots__ = ("has_slot", "waiter")

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter
        self.has_slot = False


class Slots:
    """A number of places, given in the order in which they were asked for; from any thread."""

    __slots__ = ("_free", "_lock", "_waiting")

    def __init__(self, number: int) -> None:
        self._free: list[None] = [None] * number
        """As many entries as places are free: a list needs no lock to take one away, or to put one back."""
        self._lock = Lock()
        """Held to change the line of waiting callers, and to give them slots."""
        self._waiting: deque[_WaitingCaller] = deque()

    def take_now(self) -> bool:
        """Take a slot if one is free and no caller waits."""
        if self._waiting:
            return False
        try:
            self._free.pop()
        except IndexError:
            return False
        return True

    async def take(self, waiter: Waiter, check: Callable[[], object] = bool) -> None:
        """Wait for a slot, first come, first served. `check` is called after each wait; its exception ends the waiting."""
        caller = self._join(waiter)
        try:
            while not caller.has_slot:
                await waiter
                check()
        except BaseException:
            self._leave_line(caller)
            raise

    def _join(self, waiter: Waiter) -> _WaitingCaller:
        caller = _WaitingCaller(waiter)
        with self._lock:
            self._waiting.append(caller)
        self._serve()  # a place may have been given before it stood in line
        return caller

    def _leave_line(self, caller: _WaitingCaller) -> None:
        with self._lock:
            if not caller.has_slot:
                self._waiting.remove(caller)
                return
        self.give()

    def give(self) -> None:
        """Give a place back; the next caller in line gets it at once."""
        self._free.append(None)
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        """Give free places to the line."""
        served: list[_WaitingCaller] = []
        with self._lock:
            while self._waiting and self._free:
                try:
                    self._free.pop()
                except IndexError:  # `take_now` of another thread, which saw no line, took it
                    break
                caller = self._waiting.popleft()
                caller.has_slot = True
                served.append(caller)
        for caller in served:
            caller.waiter.wake()

    def __repr__(self) -> str:
        return f"<Slots {len(self._free)} free, {len(self._waiting)} wait>"
