"""The stdout of a server: `LineReader` cuts it into lines of bounded size, `StdoutInbox` hands messages to the session."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from types import TracebackType
from typing import Final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage

LINE_ENDS: Final = 256
"""Bytes kept of both ends of a line that is too long, in which its id is looked for."""
INBOX_LENGTH: Final = 64
"""Messages that wait for the session before the server is not read any more."""
MESSAGES_PER_TURN: Final = 16
"""Messages of one server that are handled in one iteration of the loop."""


_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,64}")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ANSWER: Final = rb'"(?:result|error)"\s*:'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b,\s*%b" % (_VERSION, _ID, _ANSWER))
_ANSWER_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b" % (_VERSION, _ANSWER))
_ID_LAST: Final = re.compile(rb"%b(?:,\s*%b)?\}\s*\Z" % (_ID, _VERSION))


class LongLine(msgspec.Struct, frozen=True):
    """Stands in place of a line over the limit: its size, and the bytes at its ends."""

    size: int
    head: bytes
    tail: bytes


class LineReader:
    """Holds the beginning of an unfinished line, at most `limit` bytes; of a longer line only its ends."""

    __slots__ = ("_head", "_limit", "_line", "_skipped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._head = b""
        self._skipped = 0

    @property
    def skipped(self) -> int:
        """Bytes of the present line that were thrown away; 0 for a line within the limit."""
        return self._skipped

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Take bytes as they come, and return the lines that they finish, without line feeds."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | LongLine] = []
        for end in ends:
            if self._line or self._skipped:
                self._add(end)
                lines.append(self._finished())
            elif len(end) <= self._limit:
                lines.append(end)
            else:
                lines.append(LongLine(len(end), end[:LINE_ENDS], end[-LINE_ENDS:]))
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._line += piece
        if self._skipped == 0 and len(self._line) <= self._limit:
            return
        if self._skipped == 0:
            self._head = bytes(self._line[:LINE_ENDS])
        cut = max(0, len(self._line) - LINE_ENDS)
        self._skipped += cut
        del self._line[:cut]

    def _finished(self) -> bytes | LongLine:
        line, self._line = bytes(self._line), bytearray()
        skipped, self._skipped = self._skipped, 0
        return LongLine(skipped + len(line), self._head, line) if skipped else line


def answered_id(head: bytes, tail: bytes) -> int | str | None:
    """The id of the request that an unreadable message answers, found at its ends; None if that is not certain."""
    found = _ID_FIRST.match(head)
    if found is None and _ANSWER_FIRST.match(head):
        found = _ID_LAST.search(tail)
    return None if found is None else msgspec.json.decode(found[1])


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
