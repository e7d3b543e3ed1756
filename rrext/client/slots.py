"""Turns for requests that the server would refuse beyond a number in flight."""

from __future__ import annotations

from collections import deque

import anyio

__all__ = ["Slots"]


class Slots:
    """A number of places, given in the order in which they were asked for."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: deque[anyio.Event] = deque()

    def take_now(self) -> bool:
        """Take a place if one is free and nobody waits."""
        if self._free <= 0 or self._waiting:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take a place when its turn comes."""
        if self.take_now():
            return
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give()
            else:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """Give a place back; the next in line has it at once."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1

    def __repr__(self) -> str:
        return f"<Slots {self._free} free, {len(self._waiting)} wait>"
