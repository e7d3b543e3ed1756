"""A byte channel over two file descriptors, on asyncio and on trio.

One write or read costs one system call and no task switch when the descriptor is ready. A plain call hands bytes to the
receiver, so that an answer reaches the waiting task without a reading task in between.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from rrext.limits import MAX_CLIENT_PIECES

Buffer: TypeAlias = bytes | bytearray | memoryview


class Receiver(Protocol):
    """Takes bytes as they come: `get_buffer` says where to, `buffer_updated` that they are there."""

    def get_buffer(self, hint: int = 65536) -> memoryview:
        """Where the next bytes go; never empty."""
        ...

    def buffer_updated(self, n: int) -> anyio.Event | None:
        """`n` bytes arrived. An event in return means: read on when it is set."""
        ...


class WholeLines:
    """Gives whole lines on, as bytes come."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._buffer = bytearray(65536)
        self._rest = b""

    def get_buffer(self, hint: int = 65536) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, n: int) -> None:
        *lines, self._rest = (self._rest + self._buffer[:n]).split(b"\n")
        for line in lines:
            self._take(line)


class FdChannel:
    """Bytes in from one descriptor and out to another, both made non-blocking; closing the channel closes them.

    Raises `anyio.BrokenResourceError` when the peer no longer reads, `anyio.ClosedResourceError` after `close`.
    """

    __slots__ = ("_read_fd", "_write_fd")

    def __init__(self, read_fd: int, write_fd: int) -> None:
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self._read_fd = read_fd
        self._write_fd = write_fd

    async def pump(self, receiver: Receiver) -> None:
        """Give all bytes to `receiver` until the end of input. Exceptions of the receiver are raised here."""
        if self._read_fd < 0:
            raise anyio.ClosedResourceError
        if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
            await _AsyncioPump(self._read_fd, receiver).run()
            return
        while True:
            try:
                n = os.readv(self._read_fd, [receiver.get_buffer()])
            except BlockingIOError:
                await anyio.wait_readable(self._read_fd)
                continue
            if not n:
                return
            pause = receiver.buffer_updated(n)
            if pause is not None:
                await pause.wait()
            else:
                await checkpoint()

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Write without waiting, as much as fits, and return the rest."""
        rest = pieces
        while rest:
            try:
                n = os.writev(self._write_fd, rest if len(rest) <= MAX_CLIENT_PIECES else rest[:MAX_CLIENT_PIECES])
            except BlockingIOError:
                break
            except OSError as error:
                raise self._write_error(error) from error
            if n == len(rest[0]) and len(rest) == 1:
                return []
            rest = _without(rest, n)
        return list(rest)

    async def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces. If this is cancelled, a part may be written."""
        rest = self.write_now(pieces)
        while rest:
            await anyio.wait_writable(self._write_fd)
            rest = self.write_now(rest)

    def close_write(self) -> None:
        """Tell the peer that nothing more comes."""
        fd, self._write_fd = self._write_fd, -1
        close_fd(fd)

    def close(self) -> None:
        """Close both directions; harmless when they are closed."""
        self.close_write()
        fd, self._read_fd = self._read_fd, -1
        close_fd(fd)

    async def aclose(self) -> None:
        """The same, for `async` callers."""
        self.close()

    def _write_error(self, error: OSError) -> Exception:
        if self._write_fd < 0:
            return anyio.ClosedResourceError()
        if error.errno in (errno.EPIPE, errno.ECONNRESET):
            return anyio.BrokenResourceError()
        return error

    def __repr__(self) -> str:
        return f"<FdChannel in={self._read_fd} out={self._write_fd}>"


class SocketChannel(FdChannel):
    """Bytes both ways over a connected socket, which becomes the channel's own."""

    __slots__ = ("_writer",)

    def __init__(self, end: socket.socket) -> None:
        self._writer: socket.socket | None = end.dup()
        super().__init__(end.detach(), self._writer.fileno())

    def close_write(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.shutdown(socket.SHUT_WR)
            except OSError:  # the peer is gone
                pass
            writer.detach()
        super().close_write()

    def __repr__(self) -> str:
        return f"<SocketChannel {self._read_fd}>"


class _AsyncioPump:
    """Reads in the event loop's own callback, which stays registered: half the latency of waiting anew each time."""

    __slots__ = ("_fd", "_reading_ended", "_receiver")

    def __init__(self, fd: int, receiver: Receiver) -> None:
        self._fd = fd
        self._receiver = receiver

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        pause: anyio.Event | None
        while True:
            self._reading_ended: asyncio.Future[anyio.Event | None] = loop.create_future()
            loop.add_reader(self._fd, self._ready)
            try:
                pause = await self._reading_ended
            finally:
                loop.remove_reader(self._fd)
            if pause is None:
                return
            await pause.wait()

    def _ready(self) -> None:
        if self._reading_ended.done():
            return
        try:
            n = os.readv(self._fd, [self._receiver.get_buffer()])
            pause = self._receiver.buffer_updated(n) if n else None
        except BlockingIOError:
            return
        except Exception as error:  # the task that runs the pump raises it
            self._reading_ended.set_exception(error)
            return
        if not n or pause is not None:
            self._reading_ended.set_result(pause)


def _without(pieces: Sequence[Buffer], n: int) -> list[Buffer]:
    """The pieces less their first `n` bytes."""
    for i, piece in enumerate(pieces):
        size = len(piece)
        if n < size:
            return [memoryview(piece)[n:] if n else piece, *pieces[i + 1 :]]
        n -= size
    return []


def close_fd(fd: int) -> None:
    """Close a descriptor, and wake its waiting tasks with `anyio.ClosedResourceError`. A negative one is closed already."""
    if fd < 0:
        return
    try:
        anyio.notify_closing(fd)
    except RuntimeError:
        pass  # no event loop runs here, so no task waits
    os.close(fd)
