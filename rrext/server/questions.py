"""Questions to a client, for permits and for input of its user, which wait for its answers."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any


class Questions:
    """The unanswered questions of one connection, by their numbers. On the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = count(1)
        self._asked: dict[tuple[str, int], asyncio.Future[Any]] = {}

    def ask(self, event: str) -> tuple[int, asyncio.Future[Any]]:
        """A new question that an event asks: its number, and its answer to wait for."""
        number, answer = next(self._numbers), self._loop.create_future()
        self._asked[event, number] = answer
        answer.add_done_callback(lambda done: self._asked.pop((event, number), None))
        return number, answer

    def answer(self, event: str, number: int, given: Any) -> bool:
        """Answer a question; False if nobody waits for the answer any more, or no such event asked it."""
        answer = self._asked.get((event, number))
        if answer is None or answer.done():
            return False
        answer.set_result(given)
        return True
