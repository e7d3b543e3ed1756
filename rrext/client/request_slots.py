"""A limit of requests in flight: further requests wait here, because the server would refuse them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from rrext.client.event_loop import Waiter


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
            self._quit(caller)
            raise

    def _join(self, waiter: Waiter) -> _WaitingCaller:
        caller = _WaitingCaller(waiter)
        with self._lock:
            self._waiting.append(caller)
        self._serve()  # a place may have been given before it stood in line
        return caller

    def _quit(self, caller: _WaitingCaller) -> None:
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
