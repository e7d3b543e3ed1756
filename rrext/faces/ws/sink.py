"""The way of answers from an outbox to a WebSocket: whole messages, handed over a few at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock, get_ident

from rrext.faces.ws.limits import SINK_WINDOW


class MessageSink:
    """Takes messages from any thread, a piece each, and gives them to a writer on the loop. Made on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = get_ident()
        self._lock = Lock()
        self._messages: deque[bytes | memoryview] = deque()
        self._size = 0
        self._action: Callable[[], None] | None = None
        self._arrived = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_lost = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Take as many messages as there is room for; the number of their bytes."""
        if self._is_lost:
            raise ConnectionResetError("the client is gone")
        taken = 0
        with self._lock:
            for piece in pieces:
                if self._size + taken >= SINK_WINDOW:
                    break
                self._messages.append(piece)
                taken += len(piece)
            self._size += taken
        if taken:
            self._on_loop(self._arrived.set)
        return taken

    def when_writable(self, action: Callable[[], None]) -> None:
        self._on_loop(lambda: self._wait(action))

    def _on_loop(self, action: Callable[[], None]) -> None:
        if get_ident() == self._loop_thread:
            action()
            return
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed, and nobody gets answers any more
            pass

    def _wait(self, action: Callable[[], None]) -> None:
        self._action = action
        self._tell()

    def _tell(self) -> None:
        if self._action is not None and (self._size < SINK_WINDOW or self._is_lost):
            action, self._action = self._action, None
            self._loop.call_soon(action)

    # on the loop

    async def next(self) -> bytes | memoryview:
        """The next message to be sent; `sent` says that it was."""
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages[0]

    def sent(self) -> None:
        """The last message of `next` was sent."""
        with self._lock:
            self._size -= len(self._messages.popleft())
        self._changed.set()
        self._tell()

    async def drained(self) -> None:
        """Wait until all messages were sent, or the client is lost."""
        while self._messages and not self._is_lost:
            self._changed.clear()
            await self._changed.wait()

    def lose(self) -> None:
        """Take and give no more: the client is gone."""
        self._is_lost = True
        self._changed.set()
        self._tell()
