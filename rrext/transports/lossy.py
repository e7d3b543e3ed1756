"""Text for people who may not be reading: writes that never block."""

from __future__ import annotations

import errno
import io
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from stat import S_ISREG
from typing import TYPE_CHECKING

from rrext.transports.reopen import reopen

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

__all__ = ["LossyWriter", "lossy_text"]

BACKLOG = 256 * 1024
"""Bytes that wait for a slow reader before more are dropped: four pipes full, so that a burst is not lost."""

SURE = 512
"""What a descriptor that polls as writable takes without blocking: the smallest `PIPE_BUF` that POSIX allows."""

PAUSE = 0.1
"""Seconds between attempts on what says that it is writable and yet takes nothing: a full disk, for example."""

LOOK = 1000
"""Milliseconds after which a thread that waits looks whether the writer was closed."""

NO_ROOM = frozenset({errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS, errno.EINTR})
"""Errors that pass; after any other one nobody will ever read more."""


class LossyWriter:
    """Writes messages to a descriptor, whole and in order, from any thread, and never blocks the caller.

    What finds no room waits, up to a limit, for a thread that lives as long as something waits. Beyond the limit messages
    are dropped and counted; once there is room again `notice(count)` is written in their place. When nobody can ever read
    the rest, all of it is dropped. Nothing is raised: a log must not break what it tells about.
    """

    __slots__ = ("_backlog", "_drops", "_fd", "_lock", "_notice", "_polls", "_waiter", "_waiting")

    def __init__(self, fd: int, notice: Callable[[int], bytes]) -> None:
        """Write to what `fd` stands for; the descriptor itself may be closed or redirected afterwards."""
        own = reopen(fd, os.O_WRONLY)
        self._fd = os.dup(fd) if own is None else own
        self._polls = own is None and not S_ISREG(os.fstat(fd).st_mode)
        self._notice = notice
        self._lock = threading.RLock()  # a finalizer may write while its thread writes
        self._backlog: deque[bytes] = deque()
        self._waiting = 0
        self._drops = 0
        self._waiter: threading.Thread | None = None
        os.register_at_fork(after_in_child=self._forget)

    def fileno(self) -> int:
        """The descriptor that is written to."""
        return self._fd

    @property
    def drops(self) -> int:
        """Messages that were dropped since the last notice."""
        return self._drops

    def write(self, message: bytes) -> None:
        """Write a message now, or when there is room, or count it."""
        with self._lock:
            if self._fd < 0:
                return
            if self._backlog and self._waiting + len(message) > BACKLOG:
                self._drops += 1
                return
            self._put(message)
            self._send_backlog()
            if self._backlog and self._waiter is None:
                self._wait_in_thread()

    def flush(self, seconds: float) -> bool:
        """Wait for a slow reader, but not longer than this. Whether everything is written."""
        if (waiter := self._waiter) is not None:
            waiter.join(seconds)
        return not self._backlog

    def close(self) -> None:
        """Let go of the descriptor; what still waits is lost."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1
            self._backlog.clear()
            self._waiting = self._drops = 0

    def _put(self, message: bytes) -> None:
        if self._drops:
            drops, self._drops = self._drops, 0
            self._put(self._notice(drops))
        self._backlog.append(message)
        self._waiting += len(message)

    def _send_backlog(self) -> None:
        while self._backlog:
            message = self._backlog[0]
            sent = self._send(message)
            self._waiting -= sent
            if self._fd < 0:
                return
            if sent < len(message):
                self._backlog[0] = message[sent:]
                return
            self._backlog.popleft()
            if self._drops and not self._backlog:
                self._put(b"")

    def _send(self, message: bytes) -> int:
        """How much could be written, without waiting."""
        try:
            return self._send_polled(message) if self._polls else os.write(self._fd, message)
        except OSError as error:
            if error.errno not in NO_ROOM:
                self.close()
            return 0

    def _send_polled(self, message: bytes) -> int:
        """The same where a write may block: no more at once than what is sure to fit."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        sent = 0
        while sent < len(message) and poll.poll(0):
            sent += os.write(self._fd, message[sent : sent + SURE])
        return sent

    def _wait_in_thread(self) -> None:
        waiter = threading.Thread(target=self._wait_for_room, name="rrext-stderr", daemon=True)
        self._waiter = waiter
        try:
            waiter.start()
        except RuntimeError:  # no more threads: the next message tries again
            self._waiter = None

    def _wait_for_room(self) -> None:
        poll = select.poll()
        with self._lock:
            if self._fd < 0:
                return
            poll.register(self._fd, select.POLLOUT)
        while True:
            has_room = bool(poll.poll(LOOK))
            with self._lock:
                before = self._waiting
                if has_room:
                    self._send_backlog()
                if not self._backlog:
                    self._waiter = None
                    return
                is_stuck = has_room and self._waiting == before
            if is_stuck:
                time.sleep(PAUSE)

    def _forget(self) -> None:
        """In a forked child: its parent's other threads are not there, and what waits is the parent's."""
        self._lock = threading.RLock()
        self._backlog.clear()
        self._waiting = self._drops = 0
        self._waiter = None

    def __repr__(self) -> str:
        return f"<LossyWriter fd={self._fd} {self._waiting} bytes wait, {self._drops} messages dropped>"


class _LossyStream(io.RawIOBase):
    """The bytes below a text stream: to a writer, under the number of the descriptor that the stream stands for."""

    def __init__(self, writer: LossyWriter, fd: int, name: str) -> None:
        self._writer = writer
        self._fd = fd
        self.name = name

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        message = bytes(data)
        self._writer.write(message)
        return len(message)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)


def lossy_text(writer: LossyWriter, fd: int, name: str) -> io.TextIOWrapper:
    """A text stream like `sys.stderr`, a message per line, that never blocks. Children that are given it get `fd`."""
    stream = _LossyStream(writer, fd, name)
    return io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[arg-type]
