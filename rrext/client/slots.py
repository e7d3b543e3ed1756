"""Turns for requests that the server would refuse beyond a number in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from rrext.client.event_loop import Waiter


class _Turn:
    """A place in the line."""

    __slots__ = ("has_come", "waiter")

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter
        self.has_come = False


class Slots:
    """A number of places, given in the order in which they were asked for; from any thread."""

    __slots__ = ("_free", "_lock", "_waiting")

    def __init__(self, number: int) -> None:
        self._free: list[None] = [None] * number
        """As many entries as places are free: a list needs no lock to take one away, or to put one back."""
        self._lock = Lock()
        """Held to change the line of waiting callers, and to give them slots."""
        self._waiting: deque[_Turn] = deque()

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
        turn = self._join(waiter)
        try:
            while not turn.has_come:
                await waiter.wait()
                check()
        except BaseException:
            self._quit(turn)
            raise

    def _join(self, waiter: Waiter) -> _Turn:
        turn = _Turn(waiter)
        with self._lock:
            self._waiting.append(turn)
        self._serve()  # a place may have been given before it stood in line
        return turn

    def _quit(self, turn: _Turn) -> None:
        with self._lock:
            if not turn.has_come:
                self._waiting.remove(turn)
                return
        self.give()

    def give(self) -> None:
        """Give a place back; the next in line has it at once."""
        self._free.append(None)
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        """Give free places to the line."""
        served: list[_Turn] = []
        with self._lock:
            while self._waiting and self._free:
                try:
                    self._free.pop()
                except IndexError:  # `take_now` of another thread, which saw no line, took it
                    break
                turn = self._waiting.popleft()
                turn.has_come = True
                served.append(turn)
        for turn in served:
            turn.waiter.wake()

    def __repr__(self) -> str:
        return f"<Slots {len(self._free)} free, {len(self._waiting)} wait>"
