"""`StdoutInbox`: messages of a server on their way to the session of the SDK."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

import anyio
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage

from rrext.providers.mcp.limits import INBOX_LENGTH, MESSAGES_PER_TURN


class StdoutInbox:
    """A stream as the SDK reads it, filled by plain calls: an answer reaches the session without a task in between."""

    __slots__ = ("_is_closed", "_is_ended", "_messages", "_room", "_turn", "_waiter")

    def __init__(self) -> None:
        self._messages: deque[SessionMessage | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room: anyio.Event | None = None
        self._turn = 0
        self._is_ended = self._is_closed = False

    def put(self, message: SessionMessage) -> None:
        """Add a message; after `close` it is dropped."""
        if not self._is_closed:
            self._messages.append(message)
            self._wake()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_ended = True
        self._wake()

    def close(self) -> None:
        """Nobody reads any more."""
        self._is_closed = True
        self._messages.clear()
        self._make_room()
        self.end()

    def room(self) -> anyio.Event | None:
        """None while there is room, else an event that is set when there is room again."""
        if len(self._messages) <= INBOX_LENGTH:
            return None
        self._room = self._room or anyio.Event()
        return self._room

    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises `EndOfStream` after the last."""
        self._turn += 1
        if self._turn % MESSAGES_PER_TURN == 0:  # a flood must not keep the loop from other tasks
            await checkpoint()
        while not self._messages:
            if self._is_ended:
                raise anyio.EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._messages.popleft()
        if not self._messages:
            self._make_room()
        return message

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> StdoutInbox:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> StdoutInbox:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None
