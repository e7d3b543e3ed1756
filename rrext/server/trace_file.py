"""Trace files: the events of an engine as lines of JSON, the newest last; each run of a server or a command begins with a line
that says so.

    {"rrext_trace":1,"version":"0.1.0","time":1795900000.0,"content":false}
    {"event":"call_started","time":…,"call":1,"command":"tool",…}
    {"event":"dropped","count":3}
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import (
    KINDS,
    AgentStep,
    AnyEvent,
    CallChunk,
    CallEnded,
    CallProgress,
    CallStarted,
    EngineEvent,
    Filter,
    FlowStep,
    LaneIn,
    Message,
    ObjectEnded,
    Output,
    kind_of,
)
from rrext.secrets.names import masked
from rrext.secrets.private_file import exposure
from rrext.transports.lossy import LossyWriter
from rrext.version import __version__

if TYPE_CHECKING:
    from rrext.engine.interface.engine import Engine

FORM: Final = 1
"""The form of the lines; a reader refuses another one."""

CONTENTS: Final[dict[type[EngineEvent], tuple[str, ...]]] = {
    CallStarted: ("arguments", "meta"),
    CallEnded: ("result",),
    CallChunk: ("chunk",),
    AgentStep: ("data",),
    ObjectEnded: ("result",),
    LaneIn: ("data",),
    Message: ("data",),
}
"""Event type → its members that hold content."""

LEFT_OUT: Final = frozenset(map(kind_of, (FlowStep, Output)))
"""Events that say the same in another form, and what nodes print, which the log has."""

CONTENT_ALONE: Final = frozenset(map(kind_of, (CallChunk, CallProgress, Message)))
"""Events that say little without their content, and are many."""


class TraceFile:
    """The writer of one run. `content` says whether inputs, results and texts are written too, without secrets."""

    def __init__(self, path: str, *, content: bool, on_failure: Callable[[OSError], object]) -> None:
        """Open the file, which is made for its owner alone. Raises `OSError`, also for a file that others may use, and for a
        link to a file.
        """
        fd, is_link = _opened(path)
        try:
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and (fault := LINK if is_link else exposure(status)):
                raise PermissionError(errno.EPERM, fault, path)
            begin = b"\n" if _is_cut(fd) else b""
            self.writer = LossyWriter(fd, lambda count: _line({"event": "dropped", "count": count}), on_failure)
        finally:
            os.close(fd)
        self._content = content
        self.writer.write(begin + _line({"rrext_trace": FORM, "version": __version__, "time": time(), "content": content}))

    def begin(self, engine: Engine) -> None:
        """Write the events of an engine from now on."""
        kinds = frozenset(KINDS) - LEFT_OUT - (frozenset() if self._content else CONTENT_ALONE)
        engine.subscribe(Filter(kinds=kinds, data=self._content), self._write)

    def _write(self, event: EngineEvent) -> None:
        if not self._content and isinstance(event, AgentStep) and event.step == "chunk":
            return
        self.writer.write(msgspec.json.encode(shown(event, content=self._content)) + b"\n")


def shown(event: EngineEvent, *, content: bool) -> EngineEvent:
    """An event with its content, but for what its name says to be secret; or without content, for which others asked."""
    given = {name: getattr(event, name) for name in CONTENTS.get(type(event), ())}
    told = {name: masked(value) if content else msgspec.UNSET for name, value in given.items() if value is not msgspec.UNSET}
    return msgspec.structs.replace(event, **told) if told else event


LINK: Final = "this is a link to a file; name the file itself"


def _opened(path: str) -> tuple[int, bool]:
    """A descriptor, and whether the path is a link. Links are followed because `/dev/stderr` is one; through a link no file is
    made."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600), False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    return os.open(path, flags), True


def _is_cut(fd: int) -> bool:
    """Whether a file ends within a line, as a writer that was killed leaves it."""
    status = os.fstat(fd)
    return stat.S_ISREG(status.st_mode) and status.st_size > 0 and os.pread(fd, 1, status.st_size - 1) != b"\n"


def _line(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"


class TraceInvalid(Exception):
    """A file is no trace, or one of another form; the message says which."""


class TraceHead(msgspec.Struct):
    """The first line of a run."""

    rrext_trace: int
    version: str = ""
    time: float = 0.0
    content: bool = False


class TraceGap(msgspec.Struct):
    """Lines that are not there: dropped because the file took no more, or cut off where the writer ended."""

    count: int
    is_cut: bool = False


def read_trace(path: str) -> Iterator[TraceHead | TraceGap | EngineEvent]:
    """The lines of a trace file, in their order. Raises `OSError`, and `TraceInvalid` for another file."""
    decode = msgspec.json.Decoder(AnyEvent).decode
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if line.startswith(b'{"rrext_trace"'):
                    head = msgspec.json.decode(line, type=TraceHead)
                    if head.rrext_trace != FORM:
                        raise TraceInvalid(
                            f"{path}:{number}: a trace of form {head.rrext_trace}; this version reads form {FORM}"
                        )
                    yield head
                elif number == 1:
                    raise TraceInvalid(f"{path}: no trace file of rrext")
                elif line.startswith(b'{"event":"dropped"'):
                    yield msgspec.json.decode(line, type=TraceGap)
                else:
                    yield decode(line)
            except msgspec.DecodeError:
                yield TraceGap(1, is_cut=True)
