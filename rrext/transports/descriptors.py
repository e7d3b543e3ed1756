"""Bytes through file descriptors: writes that never block, and a reader that a loop or a thread can drive."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from socket import MSG_DONTWAIT, socket

__all__ = ["DescriptorSink", "SocketSink", "read_into", "wait_readable", "waits_to_be_read"]


class DescriptorSink:
    """Writes to a non-blocking descriptor.

    A descriptor that the loop cannot watch (a regular file) is always writable, so it is never waited for. `on_lost` is
    called on the loop's thread when nothing can be written any more.
    """

    __slots__ = ("_fd", "_is_closed", "_loop", "_on_lost")

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], object] = lambda: None) -> None:
        self._fd = fd
        self._loop = loop
        self._on_lost = on_lost
        self._is_closed = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """What fits now, in one system call; 0 when there is no room. Raises `OSError` when the peer is gone."""
        try:
            return self._write(pieces)
        except BlockingIOError:
            return 0
        except OSError:
            self._loop.call_soon_threadsafe(self._on_lost)
            raise

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` once, on the loop's thread, when there is room. From any thread."""
        self._loop.call_soon_threadsafe(self._watch, action)

    def close(self) -> None:
        """Watch the descriptor no more, which its owner may close now. On the loop's thread, after the last write."""
        self._is_closed = True
        self._loop.remove_writer(self._fd)

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        return os.writev(self._fd, pieces)

    def _watch(self, action: Callable[[], None]) -> None:
        if self._is_closed:
            return

        def ready() -> None:
            self._loop.remove_writer(self._fd)
            action()

        self._loop.add_writer(self._fd, ready)

    def __repr__(self) -> str:
        return f"<DescriptorSink fd={self._fd}>"


class SocketSink(DescriptorSink):
    """Writes to a socket without waiting, though reading from it waits."""

    __slots__ = ("_socket",)

    def __init__(self, end: socket, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], object]) -> None:
        super().__init__(end.fileno(), loop, on_lost)
        self._socket = end

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        return self._socket.sendmsg(pieces, (), MSG_DONTWAIT)


def read_into(fd: int, buffer: memoryview) -> int:
    """Read what is there, at most the buffer's size, waiting for the first byte; 0 at the end. Lost peers are an end."""
    try:
        return os.readv(fd, [buffer])
    except (ConnectionError, BrokenPipeError):
        return 0


def wait_readable(fd: int) -> None:
    """Block this thread until there is something to read, or the end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()


def waits_to_be_read(fd: int) -> bool:
    """Whether bytes have arrived that nobody read, or the end of a socket's input."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(0))
