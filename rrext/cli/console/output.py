"""The output of a command: results alone on stdout, whatever nodes and their children print; messages and errors on stderr."""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from rrext.cli.console.exit_codes import EXIT_FAILED, EXIT_UNREAD
from rrext.columns import printable
from rrext.errors import NUMBERS, RrextError, near_matches

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


PACKAGE: Final = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir)) + os.sep

KNOWN_DATA: Final = frozenset({"errors", "exception", "nodeId", "path", "tool"})
"""Members of a failed tool's data that rrext adds, and that its message repeats."""


def print_error(error: RrextError, about: str = "") -> None:
    """Write an error: its message and code, every invalid path, and the hint. `about` names the failed part."""
    sys.stderr.write(
        "".join(f"{line}\n" for line in error_lines(error, about))
    )  # in one write, because tools print concurrently


def unwritten(error: OSError) -> int:
    """Report that results could not be written, unless their reader has gone; the exit code."""
    if is_unread(error):
        return EXIT_UNREAD
    print(f"rrext: stdout: {error.strerror}", file=sys.stderr)
    return EXIT_FAILED


def unreadable(path: str, error: OSError) -> str:
    """The reason why a pipeline file cannot be read, with the files of its folder that have nearly its name."""
    from rrext.secrets.names import without_user

    reason = f"rrext: {printable(without_user(path))}: {error.strerror}"
    if not isinstance(error, FileNotFoundError):
        return reason
    folder, name = os.path.split(path)
    try:
        stems = [other.removesuffix(".pipe") for other in os.listdir(folder or ".") if other.endswith(".pipe")]
    except OSError:
        return reason
    near = [name] if name in stems else near_matches(os.path.splitext(name)[0], stems)
    if not near:
        return reason
    return f"{reason}. Did you mean {' or '.join(printable(os.path.join(folder, f'{stem}.pipe')) for stem in near)}?"


def error_lines(error: RrextError, about: str = "") -> list[str]:
    """The lines of `print_error`, without terminal control characters."""
    lines = [f"rrext: {about + ': ' if about else ''}{error.message} [{error.code}]"]
    problems = error.data.get("errors")
    if isinstance(problems, list) and len(problems) > 1:
        lines += [f"  {problem['path'] or '/'}: {problem['message']}" for problem in problems]
    if error.hint and error.hint not in error.message:
        lines.append(f"  hint: {error.hint}")
    if own := _own_data(error):
        lines.append(f"  data: {_json(own)}")
    return [printable(line) for line in lines]


def _own_data(error: RrextError) -> dict[str, Any]:
    """The data that a tool's author added to the error."""
    if error.code not in NUMBERS:
        return error.data
    return {key: value for key, value in error.data.items() if key not in KNOWN_DATA} if error.code == "tool_failed" else {}


def _json(value: object) -> str:
    from rrext.wire.codec import encode

    try:
        return encode(value).decode()
    except ValueError as error:
        return f"(is no JSON: {error})"
