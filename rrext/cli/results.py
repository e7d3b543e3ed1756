"""stdout of a command that runs nodes: results alone go there, whatever nodes and their children print."""

from __future__ import annotations

import fcntl
import os
import select
import sys
from typing import TextIO

__all__ = ["Results"]


class Results:
    """The real stdout, inside of a `with` block. What is printed there goes to stderr: descriptor 1 is what 2 is.

    Descriptor 0 becomes `/dev/null` unless it is a terminal or `keeps_stdin`, so that a child of a tool does not read
    what a shell's loop was about to read; a debugger in a terminal keeps its keyboard. All is put back at the end.
    """

    __slots__ = ("_fd", "_keeps_stdin", "_saved_stdin", "_stdout", "is_terminal")

    def __init__(self, *, keeps_stdin: bool = False) -> None:
        self._keeps_stdin = keeps_stdin
        self._fd = self._saved_stdin = -1
        self._stdout: TextIO | None = None
        self.is_terminal = False

    def __enter__(self) -> Results:
        """Raises `OSError` when stdout is closed."""
        self._stdout = sys.stdout
        if self._stdout is not None:
            self._stdout.flush()
        if sys.stderr is None:  # it was closed: nobody wants to read what is printed, but it must go somewhere
            _point_to_null(2)
            sys.stderr = open(2, "w", closefd=False)
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
        """Write a line, whole; the newline is added. Raises `OSError`, `BrokenPipeError` when nobody reads any more."""
        self.write(line + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes as they are. Waits for a slow reader."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # whoever shares the descriptor made it non-blocking
                select.select([], [self._fd], [])

    def text(self) -> TextIO:
        """The same stdout for what writes text; closing it does not close stdout."""
        return open(self._fd, "w", encoding="utf-8", closefd=False)

    def _save_stdin(self) -> None:
        try:
            self._saved_stdin = _private(0)
        except OSError:  # closed already
            return
        _point_to_null(0)

    def __repr__(self) -> str:
        return f"<Results fd={self._fd}{' terminal' if self.is_terminal else ''}>"


def _private(fd: int) -> int:
    """A duplicate that children do not inherit, above the numbers that everybody believes to know."""
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
