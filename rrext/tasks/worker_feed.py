"""The progress and the chunks of a call in a worker, on their way to the server."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from rrext.server.call_feed import SessionFeed
from rrext.tasks.limits import FEED_WINDOW

if TYPE_CHECKING:
    from rrext.tasks.worker_session import WorkerSession


class WorkerFeed(SessionFeed):
    """Sends chunks as far as the server gave credit for: one client that reads slowly stops its own call alone."""

    __slots__ = ("_changed", "_credit", "_is_over", "_loop", "_rooms", "key")

    def __init__(self, session: WorkerSession, key: int | str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(session, key)
        self.key = key
        self._loop = loop
        self._credit = FEED_WINDOW
        self._changed = threading.Condition()
        self._rooms: list[asyncio.Future[None]] = []
        self._is_over = False

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        with self._changed:
            self._credit -= len(chunk) + len(tail or b"")
        super().chunk(index, chunk, tail)

    def give(self, credit: int) -> None:
        """Allow more bytes. On the loop."""
        with self._changed:
            self._credit += credit
            self._changed.notify_all()
        self._wake()

    def wait_for_room(self) -> None:
        with self._changed:
            while self._credit <= 0 and not self._is_over:
                self._changed.wait()

    async def room(self) -> None:
        while self._credit <= 0 and not self._is_over:
            room: asyncio.Future[None] = self._loop.create_future()
            self._rooms.append(room)
            await room

    def end(self) -> list[bytes]:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._rooms:
            self._loop.call_soon_threadsafe(self._wake)
        return super().end()

    def _wake(self) -> None:
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)
