"""The claim of stdin and stdout for the wire, so that no other code can read from or write to it."""

from __future__ import annotations

import fcntl
import os
import sys
from stat import S_ISFIFO, S_ISSOCK
from typing import TextIO

from rrext.transports.lossy import LossyWriter, lossy_text, reopen

PRIVATE = 3
"""The lowest number of a private descriptor, above the standard ones."""


class ClaimedStdio:
    """The wire's own descriptors, while the public ones are redirected.

    `read_fd` blocks and `write_fd` does not; children inherit neither. Descriptor 0 is `/dev/null`, and 1 is a copy of 2:
    `input()` reads the end of file, and output of Python, C code and children goes to stderr. `sys.stdout` and `sys.stderr`
    never block; unread output is dropped and counted (`stderr`, the writer behind both).

    If 1 and 2 are one pipe or socket (`2>&1`) whose reader expects `frames`, that output would be read as frames. So printed
    messages are held until either `frames_begin`, and from then on dropped, or `no_frames_come`, which writes them. A terminal
    as stdin is no client: messages are written at once.
    """

    __slots__ = ("_blocking", "_saved", "_streams", "read_fd", "stderr", "write_fd")

    def __init__(self, *, frames: bool = True) -> None:
        os.fstat(0)
        os.fstat(1)
        if not _is_open(2):
            _point(2, _null())
        is_shared = frames and not os.isatty(0) and _is_same_pipe(1, 2)
        self._saved = [_private(fd) for fd in (0, 1, 2)]
        self._blocking = [os.get_blocking(fd) for fd in self._saved]
        self._streams: tuple[TextIO | None, TextIO | None] = (sys.stdout, sys.stderr)
        self.read_fd = _own_reader(0)
        self.write_fd = _own_writer(1)
        _point(0, _null())
        if is_shared:
            _point(2, _null())
        os.dup2(2, 1)
        self.stderr = LossyWriter(2, _dropped)
        if is_shared:
            self.stderr.hold()
        self._rebind()
        os.register_at_fork(after_in_child=self._close_in_child)

    def _rebind(self) -> None:
        for stream in self._streams:
            if stream is not None:  # earlier output goes to the redirected descriptors too
                stream.flush()
        sys.stdout = lossy_text(self.stderr, 1, "<stdout>")
        sys.stderr = lossy_text(self.stderr, 2, "<stderr>")

    def frames_begin(self) -> None:
        """From now on a peer reads frames: held messages are dropped, as those that follow."""
        self.stderr.release(None)

    def no_frames_come(self) -> None:
        """Write held messages, and those that follow, to the pipe: the service ends before its first frame."""
        self.stderr.release(self.write_fd)

    def silence(self) -> None:
        """Redirect output of C code and children to nowhere, because stderr has no reader and writing would kill them."""
        _point(1, _null())
        _point(2, _null())

    def _close_in_child(self) -> None:
        """In a forked child: close the descriptors, which would keep the peer from seeing the end of the server."""
        for fd in (self.read_fd, self.write_fd, *self._saved):
            if _is_open(fd):
                os.close(fd)

    def restore(self) -> None:
        """Restore the former state, for a process that continues, such as a test."""
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = self._streams  # type: ignore[assignment]
        for fd, (saved, blocking) in enumerate(zip(self._saved, self._blocking, strict=True)):
            os.set_blocking(saved, blocking)
            _point(fd, saved)
        self.stderr.close()
        os.close(self.read_fd)
        os.close(self.write_fd)
        self.read_fd = self.write_fd = -1
        self._saved = []

    def __repr__(self) -> str:
        return f"<ClaimedStdio read_fd={self.read_fd} write_fd={self.write_fd}>"


def claim_stdio(*, frames: bool = True) -> ClaimedStdio:
    """Claim stdin and stdout; call it before any code that might print. `frames` tells whether stdout will carry any.

    Raises `OSError` when one of them is closed.
    """
    return ClaimedStdio(frames=frames)


def open_missing() -> None:
    """Open `/dev/null` as stdin and stdout if they are closed, for a server with clients elsewhere."""
    for fd in (0, 1):
        if not _is_open(fd):
            _point(fd, _null())


def _own_reader(fd: int) -> int:
    """A private blocking descriptor, even if other holders of `fd` made it non-blocking."""
    own = reopen(fd, os.O_RDONLY)
    number = _private(fd) if own is None else _moved(own)
    os.set_blocking(number, True)
    return number


def _own_writer(fd: int) -> int:
    """A private non-blocking descriptor. If it must share its file description, the other holders do not block either."""
    own = reopen(fd, os.O_WRONLY)
    number = _private(fd) if own is None else _moved(own)
    os.set_blocking(number, False)
    return number


def _private(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, PRIVATE)


def _moved(fd: int) -> int:
    """A duplicate of a descriptor above the standard numbers, which the original may have."""
    if fd >= PRIVATE:
        return fd
    number = _private(fd)
    os.close(fd)
    return number


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def _point(fd: int, to: int) -> None:
    """Make `fd` a copy of `to`, inheritable, and close `to`."""
    if fd == to:
        os.set_inheritable(fd, True)
    else:
        os.dup2(to, fd)
        os.close(to)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _is_same_pipe(one: int, other: int) -> bool:
    a, b = os.fstat(one), os.fstat(other)
    return (S_ISFIFO(a.st_mode) or S_ISSOCK(a.st_mode)) and os.path.samestat(a, b)


def _dropped(count: int) -> bytes:
    return b"rrext: lines dropped here, because nobody read them in time: %d\n" % count
