"""Bytes through file descriptors: writes that never block, reads for a loop or a thread, and detection of the end of the parent
process, or of another one that a server serves.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from socket import MSG_DONTWAIT, socket


class DescriptorSink:
    """A writer to a non-blocking descriptor.

    A descriptor that the loop cannot watch (a regular file) is always writable. `on_lost` is called on the loop's thread when
    no write can succeed any more.
    """

    __slots__ = ("_fd", "_is_closed", "_loop", "_on_lost")

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], object] = lambda: None) -> None:
        self._fd = fd
        self._loop = loop
        self._on_lost = on_lost
        self._is_closed = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Write as much as fits, in one system call; 0 without room. Raises `OSError` when the peer is gone."""
        try:
            return self._write(pieces)
        except BlockingIOError:
            return 0
        except OSError:
            self._loop.call_soon_threadsafe(self._on_lost)
            raise

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` once, on the loop's thread, when there is room. Thread-safe."""
        self._loop.call_soon_threadsafe(self._watch, action)

    def close(self) -> None:
        """Stop watching the descriptor, so that its owner can close it. On the loop's thread, after the last write."""
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


class SocketSink(DescriptorSink):
    """A writer to a socket that never waits, although reads from it do."""

    __slots__ = ("_socket",)

    def __init__(self, end: socket, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], object]) -> None:
        super().__init__(end.fileno(), loop, on_lost)
        self._socket = end

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        return self._socket.sendmsg(pieces, (), MSG_DONTWAIT)


def read_into(fd: int, buffer: memoryview) -> int:
    """Read available bytes, at most the buffer's size, waiting for the first; 0 at the end or after the loss of the peer."""
    try:
        return os.readv(fd, [buffer])
    except (ConnectionError, BrokenPipeError):
        return 0


def wait_readable(fd: int) -> None:
    """Block this thread until input or its end arrives."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll()


def waits_to_be_read(fd: int) -> bool:
    """Whether unread bytes, or the end of a socket's input, have arrived."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(0))


def has_hung_up(fd: int) -> bool:
    """Whether nobody can write to the other end of a pipe any more."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


class ParentWatch:
    """Detects by polling whether the process that started us is still our parent, and whether another one that we serve lives:
    between that one and us may be a shell, or a program that keeps our stdin open.

    An orphan gets another parent at once, so a changed parent id is sufficient. Linux could send a signal instead
    (`PR_SET_PDEATHSIG`), but it would kill us before pending requests are answered, it fires at the end of the *thread* that
    started us, and it is lost when a program with other rights is executed.
    """

    def __init__(self, parent: int | None = None, *, is_parent: bool = True) -> None:
        """Watch `parent`, by default the present parent. A parent that has already ended is detected only if it is named.
        `is_parent` is False for a process that let another one start us.
        """
        self.pid = os.getppid() if parent is None else parent
        self._end: int | None = None
        self._client: int | None = None
        self._is_parent = is_parent
        self._was_gone = not is_parent and not self.watch(self.pid)

    def watch(self, pid: int) -> bool:
        """Watch a process as well. False for one that does not exist here: it has ended, or its number is from another machine
        or container.
        """
        if not hasattr(os, "pidfd_open"):
            self._client = pid if _exists(pid) else None
            return self._client is not None
        try:
            self._end = os.pidfd_open(pid)  # it becomes readable at the end, also of a zombie
        except (OSError, OverflowError):  # no process has a number that is too large for the system
            return False
        return True

    def is_gone(self) -> bool:
        """Whether one of them has ended. From any thread."""
        if self._was_gone or (self._is_parent and os.getppid() != self.pid):
            return True
        if self._end is not None:
            return waits_to_be_read(self._end)
        return self._client is not None and not _exists(self._client)

    def __repr__(self) -> str:
        return f"<ParentWatch of {self.pid}>"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
