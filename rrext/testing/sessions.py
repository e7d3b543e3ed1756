"""A server's session in this process, over a stream in memory or over two pipes of the system."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from uuid import uuid4

import anyio

from rrext.engine.interface import Caller
from rrext.engine.runtime import LocalEngine
from rrext.errors import ShuttingDown
from rrext.server.outbox import Sink
from rrext.server.reader import Reader
from rrext.server.session import Session
from rrext.transports.descriptors import DescriptorSink
from rrext.transports.fds import FdChannel
from rrext.transports.memory import MemoryStream, memory_pair
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import ServerEvent

__all__ = ["MemorySession", "PipeSession"]

CAPACITY = 65536
"""Bytes of answers that wait in memory before the session sees a slow reader: what a pipe holds."""


class Served:
    """A session, and its end: `shutdown` and `disconnect` drain as they do in a process, but end this session alone."""

    def __init__(self, engine: LocalEngine, sink: Sink, *, trusted: bool) -> None:
        host = engine.host
        self._limits = engine.limits
        self._loop = host.loop
        self._draining: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self.framer: ContentLength[ServerEvent] = ContentLength(engine.limits)
        self.leaving = asyncio.Event()
        """The client is gone, or asked for the end and has all answers."""
        self.session = Session(
            engine,
            ServerConnection(self.framer, engine.limits),
            sink,
            loop=self._loop,
            limits=engine.limits,
            caller=Caller(connection_id=f"pair-{uuid4().hex}", trusted=trusted),
            now=host.clock.now,
            on_shutdown=self._shut_down,
            on_answer=self._answered.set,
        )
        self.session.reports_answers = True

    async def answer(self) -> None:
        """Return when a request was answered."""
        self._answered.clear()
        await self._answered.wait()

    def _shut_down(self, why: str) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain(), name=f"end: {why}")

    async def _drain(self) -> None:
        session = self.session
        session.is_draining = True
        with anyio.move_on_after(self._limits.drain):
            while session.is_busy:
                await self.answer()
        session.fail_all("shutting_down", lambda: ShuttingDown("the server ended before this call did"))
        session.end_with()
        await session.outbox.drained()
        self.leaving.set()

    async def close(self) -> None:
        """Cancel the connection's calls and free its pipes."""
        self.session.close()
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.wait([self._draining])


class StreamSink:
    """Lets any thread write to a stream of the loop."""

    def __init__(self, stream: MemoryStream, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._taken = 0
        """Bytes ever written: counted by writers, one at a time. `_given` is counted by the loop."""
        self._given = 0
        self._action: Callable[[], None] | None = None
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._is_gone = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Take all of it, or nothing while enough waits. Raises `BrokenPipeError` when the client is gone."""
        if self._is_gone:
            raise BrokenPipeError
        if self._taken - self._given >= CAPACITY:
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
        """Return when all is sent."""
        while self._taken > self._given:
            self._sent.clear()
            await self._sent.wait()

    def forget(self) -> None:
        """The client is gone: nobody will receive what waits."""
        self._is_gone = True
        self._waiting.clear()
        self._given = self._taken
        self._sent.set()

    async def run(self) -> None:
        """Send what was written."""
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
    """Serves one client over a stream in memory; everything happens on the loop."""

    def __init__(self, engine: LocalEngine, *, trusted: bool) -> None:
        self.client_end, self._stream = memory_pair()
        self._sink = StreamSink(self._stream, engine.host.loop)
        self._served = Served(engine, self._sink, trusted=trusted)

    async def run(self) -> None:
        """Serve until the client is gone."""
        served = self._served
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            tasks.start_soon(self._read)
            await served.leaving.wait()
            await served.close()
            with anyio.move_on_after(served.session.limits.eof_grace):
                await self._sink.empty()
            tasks.cancel_scope.cancel()
        await self._stream.aclose()

    async def _write(self) -> None:
        try:
            await self._sink.run()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._sink.forget()
            self._served.leaving.set()

    async def _read(self) -> None:
        session = self._served.session
        try:
            while True:
                session.handle_all(self._served.framer.receive_data(await self._stream.receive()))
                while session.unread_bytes > session.limits.max_inflight_bytes:
                    await self._served.answer()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            session.handle_all(self._served.framer.receive_eof())
            self._served.leaving.set()


class PipeSession:
    """Serves one client over two pipes of the system, as a process does: threads may read, and run quick tools."""

    def __init__(self, engine: LocalEngine, *, trusted: bool) -> None:
        self._read_fd, client_write = os.pipe()
        client_read, self._write_fd = os.pipe()
        self.client_end = FdChannel(client_read, client_write)
        os.set_blocking(self._write_fd, False)
        host = engine.host
        self._served = Served(engine, DescriptorSink(self._write_fd, host.loop), trusted=trusted)
        self._input_ended = asyncio.Event()
        self._reader = Reader(self._served.session, self._served.framer, self._read_fd, host.loop, host.workers, self._end)

    def _end(self) -> None:
        self._input_ended.set()
        self._served.leaving.set()

    async def run(self) -> None:
        """Serve until the client is gone. No thread may be reading any more when its descriptor is closed."""
        self._reader.start()
        unpausing = asyncio.ensure_future(self._unpause())
        await self._served.leaving.wait()
        await self._served.close()
        os.close(self._write_fd)
        await self._input_ended.wait()
        unpausing.cancel()
        os.close(self._read_fd)

    async def _unpause(self) -> None:
        while True:
            await self._served.answer()
            self._reader.unpause()
