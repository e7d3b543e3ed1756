"""A worker as the server sees it from outside: a process with two pipes and a certain end, whose cause its stderr tells."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import TaskLost
from rrext.limits import DEFAULTS, KIB, MIB
from rrext.tasks.families import set_mark
from rrext.tasks.fork_server import Forked, WorkerStarter, handle_of
from rrext.tasks.settings import WorkerSettings
from rrext.transports.descriptors import DescriptorSink, read_into, waits_to_be_read

if TYPE_CHECKING:
    from rrext.tasks.worker import LinkEvents

READ_AT_ONCE: Final = 64 * KIB
"""Bytes of stderr that are read at once."""

PIPE_SIZE: Final = MIB
"""Bytes of the pipes between the server and a worker: a large raw tail passes in few steps."""


class PipeSink(DescriptorSink):
    """The writer to the pipe of a process, which counts."""

    __slots__ = ("written",)

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(fd, loop)
        self.written = 0

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        written = os.writev(self._fd, pieces)
        self.written += written
        return written

    @property
    def left(self) -> int:
        """All that was written: it is in the pipe at least."""
        return self.written


class WorkerProcess:
    """A started process."""

    is_here = True
    node_number = ""

    def __init__(self, settings: WorkerSettings, starter: WorkerStarter) -> None:
        """Start it. Raises `OSError`. In a thread: a start takes milliseconds."""
        self._popen, self.write_fd, self.read_fd, self.stderr_fd = starter.start()
        self.pid = self._popen.pid
        self._handle = self._popen.handle if isinstance(self._popen, Forked) else handle_of(self.pid)
        self.mark = set_mark(self.pid)
        for fd in (self.write_fd, self.read_fd):
            with suppress(OSError, AttributeError):  # a user has many large pipes already
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        try:
            self._write(msgspec.structs.replace(settings, mark=self.mark).first_message)
        except OSError:
            pass  # it ended at once, which its watch tells
        for fd in (self.write_fd, self.read_fd, self.stderr_fd):
            os.set_blocking(fd, False)
        self.stderr = Stderr()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = False
        self._code: int | None = None

    def _write(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            view = view[os.write(self.write_fd, view) :]

    def sink(self, loop: asyncio.AbstractEventLoop) -> PipeSink:
        """Where bytes for it are written."""
        self._sink = PipeSink(self.write_fd, loop)
        return self._sink

    def watch(self, loop: asyncio.AbstractEventLoop, worker: LinkEvents) -> None:
        """Tell what comes from the process, and its end. On the loop."""
        self._loop, self._worker = loop, worker
        loop.add_reader(self.read_fd, worker.readable)
        loop.add_reader(self.stderr_fd, self._read_stderr)
        if self._handle >= 0:
            loop.add_reader(self._handle, self._exited)
        else:
            self._poll()

    def receive(self, buffer: memoryview) -> int:
        """Read bytes that have arrived; 0 at the end."""
        return read_into(self.read_fd, buffer)

    @property
    def has_input(self) -> bool:
        """Whether bytes wait to be read, or their end."""
        return waits_to_be_read(self.read_fd)

    def stop_reading(self) -> None:
        """Tell no more of bytes."""
        assert self._loop is not None
        self._loop.remove_reader(self.read_fd)

    def _poll(self) -> None:
        """Look for the end now and then, on a system that does not tell it, or without a descriptor left."""
        assert self._loop is not None
        if self._has_ended():
            self._exited()
        else:
            self._loop.call_later(DEFAULTS.parent_poll, self._poll)

    def _has_ended(self) -> bool:
        if isinstance(self._popen, Forked):
            return self._popen.is_over
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _read_stderr(self) -> bool:
        try:
            piece = os.read(self.stderr_fd, READ_AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            assert self._loop is not None
            self._loop.remove_reader(self.stderr_fd)
            return False
        self.stderr.add(piece)
        self._worker.wrote_stderr(piece)
        return True

    def _exited(self) -> None:
        """Take the last words, and end what the process left behind: its group has its number until it is reaped."""
        assert self._loop is not None
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
        self.signal_group(signal.SIGKILL)
        self._read_stderr()  # all that a pipe holds; a process that is left may write to it for ever
        self._code = self._popen.wait()
        self._is_over = True
        if not isinstance(self._popen, Forked) and self._handle >= 0:
            os.close(self._handle)
        self._loop.remove_reader(self.stderr_fd)
        os.close(self.stderr_fd)
        self._worker.exited()

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants, but for those in sessions of their own.

        Not if another process may have its number: then nobody is left but descendants, and these are swept by their mark.
        """
        if not self._is_over and (not isinstance(self._popen, Forked) or self._popen.has_number):
            with suppress(OSError):
                os.killpg(self.pid, number)

    def bound(self, memory: int) -> None:
        """Nothing: its engine looks at the memory of all processes of this machine."""

    async def is_stopped(self) -> bool:
        """Whether a signal, or a debugger, has stopped it; False on a system that does not tell."""
        return is_stopped(self.pid)

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        code = self._code
        if not self._is_over:
            return "it still runs"
        if code is None:
            return "nobody saw how, as the process that had forked it was gone"
        return f"it was killed by {_signal_name(-code)}" if code < 0 else f"its exit code was {code}"

    @property
    def exit_code(self) -> int | None:
        """Its exit code; that of a killed one is the number of the signal, below zero. None if nobody saw it."""
        return self._code

    def close(self) -> None:
        """Close the pipes, which ends the process. On the loop, with nobody watching them."""
        self._sink.close()
        for fd in (self.write_fd, self.read_fd):
            if fd >= 0:
                os.close(fd)
        self.write_fd = self.read_fd = -1


def is_stopped(pid: int) -> bool:
    """Whether a signal, or a debugger, has stopped a process; False on a system that does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"Tt"
    except OSError:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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


def last_words(stderr: Stderr, exit_code: int | None, redact: Callable[[str], str]) -> LastWords:
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


def _cause(text: str, exit_code: int | None) -> str:
    """The last line that the process wrote itself, and not the log; none of a process that a signal ended from outside.

    A traceback is the cause only if it ended the process, which Python tells by the exit code 1.
    """
    if exit_code is not None and exit_code < 0 and exit_code not in _CRASHES:
        return ""
    return next((line for line in reversed([*_shown_lines(text.splitlines(), exit_code == 1)]) if line), "")


def _shown_lines(lines: list[str], tracebacks: bool) -> Iterator[str]:
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


LIMIT_NAMES: Final = {"task_memory": "--task-memory", "resources.memory": "resources.memory of its pipeline"}
"""Limit of the memory of a worker → its name in a message."""


def process_lost(
    name: str | None, how: str, exit_code: int | None, words: LastWords | None, excess: dict[str, Any] | None = None
) -> TaskLost:
    """The error, with the exit code or the signal, and the last words of the process for those who may read them.

    There is no exit code if nobody saw it. `excess` is the use of memory for which it was killed.
    """
    what = "a process" if name is None else f'the process of pipeline "{name}"'
    data: dict[str, object] = {} if exit_code is None else {"exitCode": exit_code}
    if exit_code is not None and exit_code < 0:
        data["signal"] = _name_of(-exit_code)
    text = f"{what[0].upper()}{what[1:]} ended before it answered: {how}"
    if excess is not None:
        data.update(excess)
        text += (
            f", because it used {excess['used'] / MIB:,.0f} MiB of memory with its children, and "
            f"{LIMIT_NAMES[excess['limit']]} is {excess['maximum'] / MIB:,.0f} MiB"
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


STDERR_TAIL: Final = 8 * KIB
"""Bytes of the last words of a process that an error tells: a traceback of a crash, 4 KiB since Python 3.14, and what was
before it; not its whole log."""

STDERR_KEPT: Final = 2 * STDERR_TAIL
"""Bytes of them that are kept. A secret at their beginning may be cut, and cannot be found: the first half is not told."""
