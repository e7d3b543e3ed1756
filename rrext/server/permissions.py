"""Questions to a client for permission to call a tool, which wait for its answers."""

from __future__ import annotations

import asyncio
from itertools import count


class Permissions:
    """The unanswered questions of one connection, by their numbers. On the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[bool]] = {}

    def ask(self) -> tuple[int, asyncio.Future[bool]]:
        """A new question: its number, and its answer to wait for."""
        number, answer = next(self._numbers), self._loop.create_future()
        self._asked[number] = answer
        answer.add_done_callback(lambda done: self._asked.pop(number, None))
        return number, answer

    def answer(self, number: int, allow: bool) -> bool:
        """Answer a question; False if nobody waits for the answer any more, or it was never asked."""
        answer = self._asked.get(number)
        if answer is None or answer.done():
            return False
        answer.set_result(allow)
        return True
