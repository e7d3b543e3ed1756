"""Progress of a call, and its questions to the user, whose client is told and asked by coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

MAX_WAITING_PROGRESS: Final = 64
"""Reports of a call that wait for a client that reads slowly; earlier ones are dropped."""


T = TypeVar("T")


class ProgressFeed:
    """Takes the progress of a call from any thread, and reports it on the loop. While the client reads slowly, the latest
    reports wait and earlier ones are dropped.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[float, float | None, str | None], Awaitable[None]],
        ask: Callable[[str, dict[str, Any]], Awaitable[Any]],
    ) -> None:
        self._loop = loop
        self._report = report
        self._ask = ask
        self._waiting: deque[tuple[float, float | None, str | None]] = deque(maxlen=MAX_WAITING_PROGRESS)
        self._changed = asyncio.Event()
        self._is_over = False

    async def sent_during(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call and report its progress meanwhile, all of it before this returns."""
        sending = self._loop.create_task(self._send())
        try:
            result = await call
            self._is_over = True
            self._changed.set()
            await sending
        finally:
            sending.cancel()
        return result

    async def _send(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                await self._report(*self._waiting.popleft())
            if self._is_over:
                return

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Take a report."""
        text = None if message is None else message.encode("utf-8", "replace").decode()
        self._waiting.append((value, total, text))
        self._loop.call_soon_threadsafe(self._changed.set)

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Drop a chunk: no call of this protocol asks for them."""

    def call_event(self, body: dict[str, Any]) -> None:
        """Drop an event: no call of this protocol asks for them."""

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the client."""
        return await self._ask(event, body)

    def wait_for_room(self) -> None:
        """Return at once."""

    async def room(self) -> None:
        """Return at once."""

    def end(self) -> None:
        """Do nothing: what waits is reported by `sent_during`."""
