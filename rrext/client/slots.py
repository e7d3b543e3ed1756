"""Turns for requests that the server would refuse beyond a number in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from rrext.client.event_loop import Waiter

__all__ = ["Slots"]


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
        self._free = number
        self._lock = Lock()
        self._waiting: deque[_Turn] = deque()

    def take_now(self) -> bool:
        """Take a place if one is free and nobody waits."""
        with self._lock:
            if self._free <= 0 or self._waiting:
                return False
            self._free -= 1
            return True

    async def take(self, waiter: Waiter, check: Callable[[], object] = bool) -> None:
        """Take a place when the caller's turn comes. What `check`, called after each wait, raises ends that."""
        turn = self._join(waiter)
        try:
            while not turn.has_come:
                await waiter
                check()
        except BaseException:
            self._quit(turn)
            raise

    def _join(self, waiter: Waiter) -> _Turn:
        turn = _Turn(waiter)
        with self._lock:
            if self._free > 0 and not self._waiting:
                self._free -= 1
                turn.has_come = True
            else:
                self._waiting.append(turn)
        return turn

    def _quit(self, turn: _Turn) -> None:
        with self._lock:
            if not turn.has_come:
                self._waiting.remove(turn)
                return
        self.give()

    def give(self) -> None:
        """Give a place back; the next in line has it at once."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            turn = self._waiting.popleft()
            turn.has_come = True
        turn.waiter.wake()

    def __repr__(self) -> str:
        return f"<Slots {self._free} free, {len(self._waiting)} wait>"
