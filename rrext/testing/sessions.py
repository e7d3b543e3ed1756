"""A client and an engine, connected in this process by a session over a stream in memory or over two pipes of the system; and a
clock that tests turn by hand.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal
from uuid import uuid4

import anyio
from anyio.abc import ByteStream

from rrext.client.client import Client
from rrext.engine.interface.call import Caller
from rrext.engine.local_engine import LocalEngine
from rrext.limits import MEMORY_PIPE_SIZE
from rrext.server.outbox import Sink
from rrext.server.peer_end import Peer
from rrext.server.reader import Reader
from rrext.transports.descriptor_channel import FdChannel
from rrext.transports.descriptors import DescriptorSink
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength, Framer
from rrext.wire.messages import ServerEvent


class StreamReading:
    """Reads a stream of the loop into a session."""

    def __init__(self, stream: MemoryStream, framer: Framer[ServerEvent]) -> None:
        self._stream = stream
        self._framer = framer
        self._answered = asyncio.Event()
        self._stopped = False

    def stop(self) -> None:
        """Stop reading: later input is dropped."""
        self._stopped = True

    def unpause(self) -> None:
        """Continue, because a request was answered."""
        self._answered.set()

    @property
    def has_more(self) -> bool:
        """False: input is handled in the same iteration of the loop."""
        return False

    async def run(self, peer: Peer) -> None:
        """Read until the end."""
        session = peer.session
        while True:
            try:
                data = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                break
            if not self._stopped:
                session.handle_all(self._framer.receive_data(data))
            while session.unread_bytes > session.limits.max_inflight_bytes:
                session.reports_answers = True
                self._answered.clear()
                await self._answered.wait()
        if not self._stopped:
            session.handle_all(self._framer.receive_eof())
        peer.lost("the client is gone")


def _peer(engine: LocalEngine, framer: Framer[ServerEvent], sink: Sink, *, trusted: bool) -> Peer:
    """A peer whose end, also by `shutdown`, leaves the engine to the test."""
    caller = Caller(connection_id=f"pair-{uuid4().hex}", trusted=trusted)
    connection = ServerConnection(framer, engine.limits)
    return Peer(engine, connection, sink, host=engine.host, limits=engine.limits, caller=caller)


class StreamSink:
    """A sink through which any thread can write to a stream of the loop."""

    def __init__(self, stream: MemoryStream, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._taken = 0
        """Bytes ever written, counted by writers, one at a time; the loop counts `_given`."""
        self._given = 0
        self._action: Callable[[], None] | None = None
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._is_gone = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Take all data, or none while enough waits. Raises `BrokenPipeError` after the client is gone."""
        if self._is_gone:
            raise BrokenPipeError
        if self._taken - self._given >= MEMORY_PIPE_SIZE:
            return 0
        data = b"".join(pieces)
        self._waiting.append(data)
        self._taken += len(data)
        self._loop.call_soon_threadsafe(self._wake.set)
        return len(data)

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` on the loop's thread once there is room."""
        self._action = action
        self._loop.call_soon_threadsafe(self._wake.set)

    async def empty(self) -> None:
        """Return when all data is sent."""
        while self._taken > self._given:
            self._sent.clear()
            await self._sent.wait()

    def forget(self) -> None:
        """Drop waiting data, because the client is gone."""
        self._is_gone = True
        self._waiting.clear()
        self._given = self._taken
        self._sent.set()

    async def run(self) -> None:
        """Send the written data."""
        while True:
            while self._waiting:
                data = self._waiting.popleft()
                await self._stream.send(data)
                self._given += len(data)
            self._sent.set()
            action, self._action = self._action, None
            if action is not None:
                action()
                continue
            self._wake.clear()
            await self._wake.wait()


class MemorySession:
    """Serves one client over a stream in memory, entirely on the loop."""

    def __init__(self, engine: LocalEngine, *, trusted: bool) -> None:
        self.client_end, self._stream = memory_pair()
        framer: ContentLength[ServerEvent] = ContentLength(engine.limits)
        self._sink = StreamSink(self._stream, engine.host.loop)
        self._peer = _peer(engine, framer, self._sink, trusted=trusted)
        self._peer.reading = self._reading = StreamReading(self._stream, framer)

    async def run(self) -> None:
        """Serve until the client is gone."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            tasks.start_soon(self._reading.run, self._peer)
            await self._peer.ended()
            with anyio.move_on_after(self._peer.session.limits.eof_grace):
                await self._sink.empty()
            tasks.cancel_scope.cancel()
        await self._stream.aclose()

    async def _write(self) -> None:
        try:
            await self._sink.run()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._sink.forget()
            self._peer.lost()


class PipeSession:
    """Serves one client over two pipes of the system, as a process does: threads may read and run quick tools."""

    def __init__(self, engine: LocalEngine, *, trusted: bool) -> None:
        self._read_fd, client_write = os.pipe()
        client_read, self._write_fd = os.pipe()
        self.client_end = FdChannel(client_read, client_write)
        os.set_blocking(self._write_fd, False)
        host = engine.host
        framer: ContentLength[ServerEvent] = ContentLength(engine.limits)
        self._sink = DescriptorSink(self._write_fd, host.loop, lambda: self._peer.lost())
        self._peer = _peer(engine, framer, self._sink, trusted=trusted)
        self._reader = Reader(self._peer.session, framer, self._read_fd, host.loop, host.workers, self._peer.lost)
        self._peer.reading = self._reader

    async def run(self) -> None:
        """Serve until the client is gone. A descriptor is closed only after all threads have stopped reading it."""
        self._reader.start()
        await self._peer.ended()
        self._sink.close()
        os.close(self._write_fd)
        left = asyncio.Event()
        self._reader.when_left(left.set)
        await left.wait()
        os.close(self._read_fd)


SESSIONS = {"memory": MemorySession, "pipes": PipeSession}


@asynccontextmanager
async def pair(
    engine: LocalEngine,
    *,
    over: Literal["memory", "pipes"] = "memory",
    dialect: Literal["dap", "jsonrpc"] = "dap",
    context: Mapping[str, Any] | None = None,
    trusted: bool = True,
) -> AsyncIterator[Client]:
    """A `Client` of an engine in this process, on asyncio, with the behaviour of a spawned server.

    `over` selects the transport: memory, entirely on the event loop, or two pipes of the system, as to a process. A client that
    is not `trusted` gets no texts of exceptions. The engine stays open at the end.
    """
    session = SESSIONS[over](engine, trusted=trusted)
    serving = engine.host.spawn(session.run(), "pair")
    try:
        async with Client.over(session.client_end, dialect=dialect, context=context) as client:
            yield client
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([serving], timeout=engine.limits.drain)


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


class ManualTimer:
    """A scheduled action of a `ManualClock`."""

    __slots__ = ("action", "is_cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] = action
        self.is_cancelled: bool = False

    def cancel(self) -> None:
        """Cancel the action."""
        self.is_cancelled = True


class ManualClock:
    """A clock for `LocalEngine(clock=…)` that stands still until `advance`: deadlines and idle times without waiting."""

    __slots__ = ("_now", "_order", "_timers")

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def now(self) -> float:
        """The current time in seconds."""
        return self._now

    def call_later(self, delay: float, action: Callable[[], None]) -> ManualTimer:
        """Run `action` when `advance` reaches its time."""
        timer = ManualTimer(action)
        heapq.heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Advance the time and run due actions in order, each at its own time. Call it on the event loop's thread."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if not timer.is_cancelled:
                timer.action()
        self._now = end

    def __repr__(self) -> str:
        waiting = sum(not timer.is_cancelled for _, _, timer in self._timers)
        return f"<ManualClock {self._now:g} s, {waiting} timers>"
