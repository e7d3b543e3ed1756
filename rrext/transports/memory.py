"""A byte stream in memory with two ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

from rrext.limits import MEMORY_PIPE_SIZE


class _Way:
    """One direction: a bounded buffer with an end."""

    __slots__ = ("capacity", "changed", "closed", "data", "ended")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.data = bytearray()
        self.ended = False
        """Whether the sender has finished."""
        self.closed = False
        """Whether the receiver has closed."""
        self.changed = anyio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class MemoryStream(ByteStream):
    """One end of a pair; an anyio `ByteStream` with the backpressure of a pipe."""

    __slots__ = ("_incoming", "_outgoing", "_receiving", "_sending")

    def __init__(self, incoming: _Way, outgoing: _Way) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._receiving = False
        self._sending = False

    @property
    def buffered(self) -> int:
        """The number of bytes that the other end has not received."""
        return len(self._outgoing.data)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        way = self._incoming
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        self._receiving = True
        try:
            await anyio.lowlevel.checkpoint()
            while not way.data:
                if way.closed:
                    raise anyio.ClosedResourceError
                if way.ended:
                    raise anyio.EndOfStream
                await way.changed.wait()
        finally:
            self._receiving = False
        piece = bytes(way.data[:max_bytes])
        del way.data[:max_bytes]
        way.notify()
        return piece

    async def send(self, item: bytes) -> None:
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._sending = True
        try:
            await anyio.lowlevel.checkpoint()
            await self._put(memoryview(item))
        finally:
            self._sending = False

    async def _put(self, rest: memoryview) -> None:
        way = self._outgoing
        while True:
            if way.ended:
                raise anyio.ClosedResourceError
            if way.closed:
                raise anyio.BrokenResourceError
            room = way.capacity - len(way.data)
            if room > 0:
                way.data += rest[:room]
                rest = rest[room:]
                way.notify()
            if not rest:
                return
            await way.changed.wait()

    async def send_eof(self) -> None:
        self._outgoing.ended = True
        self._outgoing.notify()

    async def aclose(self) -> None:
        await self.send_eof()
        self._incoming.closed = True
        self._incoming.notify()
        await anyio.lowlevel.checkpoint()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {}


def memory_pair(capacity: int = MEMORY_PIPE_SIZE) -> tuple[MemoryStream, MemoryStream]:
    """Two connected streams with at most `capacity` bytes in flight in each direction."""
    there, back = _Way(capacity), _Way(capacity)
    return MemoryStream(back, there), MemoryStream(there, back)
