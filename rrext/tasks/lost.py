"""The end of a process, from what it wrote to stderr: its cause, and the error of the calls that it left."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from rrext.errors import TaskLost
from rrext.limits import KIB, MIB
from rrext.tasks.limits import STDERR_KEPT, STDERR_TAIL

FATAL_KEPT: Final = 256 * KIB
"""Bytes of the trace of a crash that are kept, whose head and crashed thread are told: 64 threads with thirty calls each."""

FATAL: Final = b"Fatal Python error: "
_EVENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ ")
"""The beginning of an event in the log; what else belongs to it, such as a traceback, is indented by two spaces."""
_CRASHES: Final = frozenset(-getattr(signal, name) for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV"))
"""The exit codes of a process that a signal of its own ended, which the interpreter or a library may tell before."""
_TRACEBACK: Final = "Traceback (most recent call last):"


class Stderr:
    """What is kept of what a process writes: the end, and from its beginning on the trace of a crash of the interpreter."""

    __slots__ = ("fatal", "tail")

    def __init__(self) -> None:
        self.tail = b""
        self.fatal = b""

    def add(self, piece: bytes) -> None:
        """Take what the process wrote next."""
        before = self.tail[-len(FATAL) :]
        self.tail = (self.tail + piece)[-STDERR_KEPT:]
        if (at := (text := before + piece).rfind(FATAL)) >= 0:
            self.fatal = text[at : at + FATAL_KEPT]
        elif self.fatal:
            self.fatal += piece[: FATAL_KEPT - len(self.fatal)]


class LastWords(msgspec.Struct, frozen=True):
    """The end of what a process wrote to stderr, without secrets, and the line of it that says why the process ended."""

    text: str
    cause: str


def last_words(stderr: Stderr, exit_code: int, redact: Callable[[str], str]) -> LastWords:
    """The last words of a process. Of a crash they are the head of its trace, its thread's calls, and the end."""
    text = redact(stderr.tail.decode("utf-8", "replace"))
    end = (text if len(stderr.tail) < STDERR_KEPT else text[STDERR_TAIL:])[-STDERR_TAIL:]
    if exit_code not in _CRASHES or not stderr.fatal:
        return LastWords(end, _cause(end, exit_code))
    whole = redact(stderr.fatal.decode("utf-8", "replace"))
    if len(stderr.fatal) == FATAL_KEPT:
        whole = whole[:-STDERR_TAIL]  # a secret at its end may be cut, and cannot be found
    head, frames = _crash(whole)
    cause = f"{head}, {frames[0].strip()}" if frames else head
    if FATAL.decode() not in end:
        kept = ""
        for line in (head, "", *frames, "[...]"):
            if len(kept) + len(line) < STDERR_TAIL // 2:
                kept += f"{line}\n"
        end = kept + end[-(STDERR_TAIL - len(kept)) :]
    return LastWords(end, cause)


def _crash(trace: str) -> tuple[str, list[str]]:
    """The first line of the trace of a crash, and the calls of the thread that crashed, with the line before them."""
    lines = trace.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith("Current thread")), len(lines))
    frames = []
    for line in lines[begin + 1 :]:
        if not line.startswith("  "):
            break
        frames.append(line)
    return lines[0], frames


def _cause(text: str, exit_code: int) -> str:
    """The last line that the process wrote itself, and not the log; none of a process that a signal ended from outside.

    A traceback is the cause only if it ended the process, which Python tells by the exit code 1.
    """
    if exit_code < 0 and exit_code not in _CRASHES:
        return ""
    return next((line for line in reversed([*_said(text.splitlines(), exit_code == 1)]) if line), "")


def _said(lines: list[str], tracebacks: bool) -> Iterator[str]:
    """The lines of a text that are no events of the log and, unless `tracebacks`, no tracebacks."""
    within = "event"  # the first lines may be the rest of one
    for line in lines:
        if _EVENT.match(line):
            within = "event"
        elif line == _TRACEBACK and not tracebacks:
            within = "traceback"
        elif within and line.startswith("  "):
            continue
        elif within == "traceback":  # the line of the exception
            within = ""
        else:
            within = ""
            yield line.strip()


def process_lost(
    name: str | None, how: str, exit_code: int, words: LastWords | None, excess: dict[str, Any] | None = None
) -> TaskLost:
    """The error, with the exit code or the signal, and the last words of the process for those who may read them.

    `excess` is the use of memory for which it was killed.
    """
    what = "a process" if name is None else f'the process of pipeline "{name}"'
    data: dict[str, object] = {"exitCode": exit_code}
    if exit_code < 0:
        data["signal"] = _name_of(-exit_code)
    text = f"{what[0].upper()}{what[1:]} ended before it answered: {how}"
    if excess is not None:
        data.update(excess)
        text += (
            f", because it used {excess['used'] / MIB:,.0f} MiB of memory with its children, and --task-memory is "
            f"{excess['maximum'] / MIB:,.0f} MiB"
        )
        if ran := excess.get("ran"):
            text += f"; it ran {', '.join(ran)}"
    if words is not None:
        data["stderr"] = words.text
        text += f". Its last words: {words.cause}" if words.cause else ""
    return TaskLost(text, hint="execute the pipeline again", data=data)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
