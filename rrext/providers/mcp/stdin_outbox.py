"""`StdinOutbox`: messages of the SDK's session on their way to the stdin of a server."""

from __future__ import annotations

from types import TracebackType
from typing import Final

import anyio
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from rrext.errors import Unavailable
from rrext.limits import MIB
from rrext.transports.descriptor_channel import Buffer, FdChannel

MAX_BACKLOG: Final = 32 * MIB
"""Bytes that wait for a server that does not read its stdin, before further calls fail."""

_encode = msgspec.json.Encoder(enc_hook=lambda model: model.model_dump(by_alias=True, exclude_unset=True)).encode


class StdinOutbox:
    """A stream as the SDK writes it. A message is written at once if the pipe has room; else `run` writes it later.

    `send` never waits, so that a cancelled call cannot leave half a line in the pipe.
    """

    __slots__ = ("_backlog", "_channel", "_is_writing", "_size", "_wake", "broken")

    def __init__(self, channel: FdChannel) -> None:
        self.broken = anyio.Event()
        """Set when the server reads no more."""
        self._channel = channel
        self._backlog: list[Buffer] = []
        self._size = 0
        self._is_writing = False
        self._wake = anyio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Raises `BrokenResourceError` after the end of the server, `Unavailable` for a request to a
        server that has not read its stdin for long."""
        message = item.message
        data = _encode({name: getattr(message, name) for name in message.model_fields_set}) + b"\n"
        pieces: list[Buffer] = [data]
        if not self._is_writing:
            try:
                pieces = self._channel.write_now(pieces)
            except anyio.BrokenResourceError:
                self.broken.set()
                raise
            if not pieces:
                return
        elif self._size > MAX_BACKLOG and isinstance(message, JSONRPCRequest):
            raise Unavailable(f"the MCP server does not read its stdin: {self._size:,} bytes wait for it")
        elif self._size > 2 * MAX_BACKLOG:
            return  # answers to a server that asks without end; cancels are few, as each has its request
        self._backlog += pieces
        self._size += sum(map(len, pieces))
        self._is_writing = True
        self._wake.set()

    async def run(self) -> None:
        """Write what found no room. Ends when the server reads no more."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            try:
                while self._backlog:
                    pieces, self._backlog, self._size = self._backlog, [], 0
                    await self._channel.write(pieces)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.broken.set()
                return
            self._is_writing = False

    async def aclose(self) -> None:
        """The pipe belongs to the process, which closes it."""

    async def __aenter__(self) -> StdinOutbox:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None
