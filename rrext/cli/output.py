"""The output of a command: results alone on stdout, whatever nodes and their children print, and messages on stderr."""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Results:
    """A context manager around the real stdout. Other output goes to stderr: descriptor 1 becomes a copy of 2.

    Descriptor 0 becomes `/dev/null` unless it is a terminal or `keeps_stdin`, so that a child of a tool cannot consume the
    input of a shell loop; a debugger in a terminal keeps its keyboard. The end restores everything.
    """

    def __init__(self, *, keeps_stdin: bool = False) -> None:
        self._keeps_stdin = keeps_stdin
        self._fd = self._saved_stdin = -1
        self._stdout: TextIO | None = None
        self.is_terminal = False

    def __enter__(self) -> Results:
        """Redirect. Raises `OSError` when stdout is closed."""
        self._stdout = sys.stdout
        if self._stdout is not None:
            self._stdout.flush()
        self._fd = _private(1)
        self.is_terminal = os.isatty(self._fd)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        if not self._keeps_stdin and not _is_terminal(0):
            self._save_stdin()
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout = self._stdout  # pyright: ignore[reportAttributeAccessIssue]
        os.dup2(self._fd, 1)
        os.close(self._fd)
        if self._saved_stdin >= 0:
            os.dup2(self._saved_stdin, 0)
            os.close(self._saved_stdin)

    def write_line(self, line: bytes) -> None:
        """Write a complete line; adds the newline. Raises `OSError`, which `is_unread` without a reader."""
        self.write(line + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes. Waits for a slow reader."""
        _write(self._fd, data)

    def text(self) -> TextIO:
        """The same stdout as a text stream; closing it does not close stdout."""
        return open(self._fd, "w", encoding="utf-8", closefd=False)

    def _save_stdin(self) -> None:
        try:
            self._saved_stdin = _private(0)
        except OSError:  # closed already
            return
        _point_to_null(0)


class _Messages(io.RawIOBase):
    """stderr: a message that cannot be written is lost, and ends no command and no tool that prints."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)

    def write(self, data: ReadableBuffer, /) -> int:
        message = bytes(data)
        with suppress(OSError):
            _write(2, message)
        return len(message)


EXIT_FAILED: Final = 1
EXIT_UNREAD: Final = 141
"""The exit code of a command whose stdout has no reader any more, as shells tell of SIGPIPE."""


def is_unread(error: OSError) -> bool:
    """Whether stdout could not be written because its reader has gone: one of a pipe, or of a socket that it did not empty."""
    return isinstance(error, (BrokenPipeError, ConnectionResetError))


def let_messages_fail() -> None:
    """Go on without a reader of stderr, without room for its lines, and without stderr."""
    encoding = "utf-8"
    if sys.stderr is None:  # no file may get its number, and no message go to stdout
        _point_to_null(2)
    else:
        encoding = sys.stderr.encoding
    sys.stderr = io.TextIOWrapper(_Messages(), encoding, "backslashreplace", line_buffering=True)  # type: ignore[arg-type]


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:  # another holder of the descriptor made it non-blocking
            select.select([], [fd], [])


def _private(fd: int) -> int:
    """A duplicate that children do not inherit, above the standard numbers."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _point_to_null(fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)
