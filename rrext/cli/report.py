"""Error messages on stderr."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any, Final

from rrext.cli.output import EXIT_FAILED, EXIT_UNREAD, is_unread
from rrext.columns import printable
from rrext.errors import NUMBERS, RrextError, near_matches

PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
NODES: Final = os.path.join(PACKAGE, "nodes") + os.sep
FAILURES: Final = "rrext.failures"
TOLD_AGAIN: Final = (FAILURES, "rrext.component")
"""Loggers of exceptions that also return as the failure of a call, which is printed."""
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
    reason = f"rrext: {printable(path)}: {error.strerror}"
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


class NodeLog(logging.Handler):
    """A context manager that prints rrext's log records about nodes, for their authors.

    A traceback keeps the frames of the author's code and omits rrext's, and is printed once: a thousand files may fail at one
    line.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._shown: set[tuple[object, ...]] = set()
        self._log = logging.getLogger("rrext")

    def __enter__(self) -> NodeLog:
        self._log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, without its message if that is printed elsewhere."""
        raised = record.exc_info[1] if record.exc_info else None
        lines = [] if raised is None else self._frames(raised)
        if record.name != FAILURES and (raised is None or record.name not in TOLD_AGAIN):
            lines.insert(0, f"rrext: {record.getMessage()}")
        if lines:
            print(printable("\n".join(lines)), file=sys.stderr)

    def _frames(self, error: BaseException) -> list[str]:
        told = traceback.TracebackException.from_exception(error)
        key = (type(error), *((frame.filename, frame.lineno) for frame in told.stack))
        if key in self._shown:
            return []
        self._shown.add(key)
        _leave_out_machinery(told)
        return "".join(told.format()).splitlines()


def _leave_out_machinery(told: traceback.TracebackException | None) -> None:
    """Keep the frames of the author's code, also in causes; without any, it is our own bug and all stay."""
    while told is not None:
        own = [frame for frame in told.stack if not frame.filename.startswith(PACKAGE) or frame.filename.startswith(NODES)]
        told.stack[:] = own or told.stack
        told = told.__cause__ or told.__context__
