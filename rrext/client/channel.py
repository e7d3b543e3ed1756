"""The byte channel below an endpoint, and its form over any anyio byte stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import anyio
from anyio.abc import ByteStream

from rrext.limits import MAX_JOINED_PIECES
from rrext.transports.descriptor_channel import Buffer, Receiver


class Channel(Protocol):
    """Bytes both ways. `rrext.transports.descriptor_channel.FdChannel` is one; `as_channel` makes one of a byte stream."""

    async def pump(self, receiver: Receiver) -> None:
        """Give all incoming bytes to `receiver`, until the end."""
        ...

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Write without waiting, as much as the transport takes now, and return the rest."""
        ...

    async def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces."""
        ...

    async def aclose(self) -> None:
        """Close both directions."""
        ...


class StreamChannel:
    """A channel over an anyio `ByteStream`, which it owns."""

    __slots__ = ("_stream",)

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def pump(self, receiver: Receiver) -> None:
        while True:
            try:
                data = memoryview(await self._stream.receive(65536))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            while data:
                buffer = receiver.get_buffer(len(data))
                n = min(len(data), len(buffer))
                buffer[:n] = data[:n]
                data = data[n:]
                pause = receiver.buffer_updated(n)
                if pause is not None:
                    await pause.wait()

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        return list(pieces)

    async def write(self, pieces: Sequence[Buffer]) -> None:
        if sum(map(len, pieces)) <= MAX_JOINED_PIECES:
            await self._stream.send(b"".join(pieces))
            return
        for piece in pieces:
            await self._stream.send(bytes(piece))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __repr__(self) -> str:
        return f"<StreamChannel {self._stream!r}>"


def as_channel(stream: ByteStream | Channel) -> Channel:
    """The stream itself if it is a channel, else a channel over it."""
    return StreamChannel(stream) if isinstance(stream, ByteStream) else stream
