"""The stdout of a command that runs nodes: results only, whatever nodes and their children print."""

from __future__ import annotations

import fcntl
import os
import select
import sys
from typing import TextIO


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
        if sys.stderr is None:  # stderr is closed, but output needs a destination
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
        """Write a complete line; adds the newline. Raises `OSError`, `BrokenPipeError` without a reader."""
        self.write(line + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes. Waits for a slow reader."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # another holder of the descriptor made it non-blocking
                select.select([], [self._fd], [])

    def text(self) -> TextIO:
        """The same stdout as a text stream; closing it does not close stdout."""
        return open(self._fd, "w", encoding="utf-8", closefd=False)

    def _save_stdin(self) -> None:
        try:
            self._saved_stdin = _private(0)
        except OSError:  # closed already
            return
        _point_to_null(0)


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
