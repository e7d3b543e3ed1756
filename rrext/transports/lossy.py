"""Output for a reader that may be absent: writes that never block, also to a descriptor that other processes share."""

from __future__ import annotations

import errno
import io
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from stat import S_ISCHR, S_ISFIFO, S_ISREG
from typing import TYPE_CHECKING

from rrext.limits import FULL_DISK_PAUSE, LOSSY_BACKLOG, SURE_WRITE, WRITER_POLL_MILLISECONDS

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


NO_ROOM = frozenset({errno.EAGAIN, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS, errno.EINTR})
"""Temporary errors; after any other one no write can succeed."""


class LossyWriter:
    """Writes complete messages in order to a descriptor, from any thread, and never blocks the caller.

    Messages without room wait, up to a limit, for a thread that exists while any wait. Beyond the limit messages are dropped
    and counted, and `notice(count)` is written in their place later. After the loss of the reader all are dropped. Nothing is
    raised, because logging must not break the logged work.
    """

    def __init__(
        self, fd: int, notice: Callable[[int], bytes], on_failure: Callable[[OSError], object] = lambda error: None
    ) -> None:
        """Write to the file behind `fd`; the descriptor itself may be closed or redirected afterwards.

        `on_failure` is called without a lock for a write that a file refuses, and again only after one that succeeded.
        """
        self._open(fd)
        self._is_held = False
        self._notice = notice
        self._on_failure = on_failure
        self._failure: OSError | None = None
        self._is_told = False
        self._lock = threading.RLock()  # a finalizer may write while its thread writes
        self._backlog: deque[bytes] = deque()
        self._waiting = 0
        self._drops = 0
        self._waiter: threading.Thread | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _open(self, fd: int) -> None:
        own = reopen(fd, os.O_WRONLY)
        self._fd = os.dup(fd) if own is None else own
        self._polls = own is None and not S_ISREG(os.fstat(fd).st_mode)

    def fileno(self) -> int:
        """The descriptor of the output."""
        return self._fd

    @property
    def drops(self) -> int:
        """Messages that were dropped since the last notice."""
        return self._drops

    def write(self, message: bytes) -> None:
        """Write a message now, or when there is room, or drop and count it."""
        with self._lock:
            if self._fd < 0:
                return
            if self._backlog and self._waiting + len(message) > LOSSY_BACKLOG:
                self._drops += 1
                return
            self._put(message)
            if not self._is_held:
                self._send_or_wait()
            failure, self._failure = self._failure, None
        if failure is not None:
            self._on_failure(failure)

    def hold(self) -> None:
        """Let messages wait, up to the limit, until `release`."""
        self._is_held = True

    def release(self, fd: int | None) -> None:
        """Write the held messages, and all that follow, to the file behind `fd`; with None the held ones are lost."""
        with self._lock:
            if not self._is_held:
                return
            self._is_held = False
            if fd is None:
                self._backlog.clear()
                self._waiting = self._drops = 0
                return
            os.close(self._fd)
            self._open(fd)
            self._send_or_wait()

    def flush(self, seconds: float) -> bool:
        """Wait at most `seconds` for a slow reader. Returns whether everything is written."""
        if (waiter := self._waiter) is not None:
            waiter.join(seconds)
        return not self._backlog

    def close(self) -> None:
        """Close the descriptor; waiting messages are lost."""
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

    def _send_or_wait(self) -> None:
        self._send_backlog()
        if self._backlog and self._waiter is None:
            self._wait_in_thread()

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
        """Write without waiting; returns the number of bytes."""
        try:
            sent = self._send_polled(message) if self._polls else os.write(self._fd, message)
            self._is_told = False
            return sent
        except OSError as error:
            if error.errno != errno.EAGAIN and not self._polls and not self._is_told:
                self._is_told, self._failure = True, error.with_traceback(None)
            if error.errno not in NO_ROOM:
                self.close()
            return 0

    def _send_polled(self, message: bytes) -> int:
        """Write to a descriptor that may block, in pieces that fit for sure."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        sent = 0
        while sent < len(message) and poll.poll(0):
            sent += os.write(self._fd, message[sent : sent + SURE_WRITE])
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
            has_room = bool(poll.poll(WRITER_POLL_MILLISECONDS))
            with self._lock:
                before = self._waiting
                if has_room:
                    self._send_backlog()
                if not self._backlog:
                    self._waiter = None
                    return
                is_stuck = has_room and self._waiting == before
            if is_stuck:
                time.sleep(FULL_DISK_PAUSE)

    def _forget(self) -> None:
        """In a forked child: reset, because the parent's threads and waiting messages stay there."""
        self._lock = threading.RLock()
        self._backlog.clear()
        self._waiting = self._drops = 0
        self._waiter = None

    def __repr__(self) -> str:
        return f"<LossyWriter fd={self._fd} {self._waiting} bytes wait, {self._drops} messages dropped>"


class _LossyStream(io.RawIOBase):
    """The raw stream below a text stream: writes to a writer, with the number of the public descriptor."""

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
    """A text stream like `sys.stderr`, one message per line, that never blocks. Children that inherit it get `fd`."""
    stream = _LossyStream(writer, fd, name)
    return io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[arg-type]


def reopen(fd: int, flags: int) -> int | None:
    """The pipe or terminal behind `fd`, reopened non-blocking; None if that is impossible.

    Blocking is a property of the open file description, which all processes with an inherited descriptor share: changing it
    would affect strangers, and they may change it back. Sockets cannot be reopened; a file must not be, because its position
    would be lost; and systems without `/proc` cannot do it.
    """
    mode = os.fstat(fd).st_mode
    if not (S_ISFIFO(mode) or S_ISCHR(mode)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
