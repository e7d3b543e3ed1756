"""Trace files: the events of an engine as lines of JSON, the newest last; each run of a server or a command begins with a line
that says so. A recording is a trace file with the messages of each connection too.

    {"rrext_trace":1,"version":"0.1.0","time":1795900000.0,"content":false}
    {"event":"call_started","time":…,"call":1,"command":"tool",…}
    {"event":"request","time":…,"connection_id":"stdio","id":1,"command":"rrext_process","arguments":{…}}
    {"event":"answer","time":…,"connection_id":"stdio","id":1,"command":"rrext_process","body":{…}}
    {"event":"dropped","count":3}
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from itertools import count
from time import time
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

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
from rrext.limits import GIB, MIB
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

MAX_RECORDING: Final = GIB
"""Bytes of a file beyond which a recording only counts its lines: clients decide how much they send, others need the disk."""

MAX_LINE: Final = 16 * MIB
"""Bytes of a line that a reader takes: contents have a MiB (`max_event_data`), and six times as much if they are escaped."""


class TraceFile:
    """The writer of one run. `content` says whether inputs, results and texts are written too, without secrets; `recording`
    what a recording tells of its server.
    """

    def __init__(
        self,
        path: str,
        *,
        content: bool,
        on_failure: Callable[[OSError], object],
        recording: RecordingHead | None = None,
        most: int = MAX_RECORDING,
    ) -> None:
        """Open the file, which is made for its owner alone. Raises `OSError`, also for a file that others may use, and for a
        link to a file. A recording ends at `most` bytes of the file, which `on_failure` hears once.
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
        self._on_failure = on_failure
        self._room = None if recording is None else most - status.st_size
        self._losses = count(1)
        self._lost = 0
        self.redact: Callable[[Any], Any] | None = None
        """Takes secrets out of events, beside those that the engine takes out."""
        head = TraceHead(FORM, __version__, time(), content, UNSET if recording is None else recording)
        self.writer.write(begin + _line(head))

    def begin(self, engine: Engine) -> None:
        """Write the events of an engine from now on."""
        kinds = frozenset(KINDS) - LEFT_OUT - (frozenset() if self._content else CONTENT_ALONE)
        engine.subscribe(Filter(kinds=kinds, data=self._content), self._write)

    def _write(self, event: EngineEvent) -> None:
        if not self._content and isinstance(event, AgentStep) and event.step == "chunk":
            return
        told: Any = shown(event, content=self._content)
        self.add(told if self.redact is None else self.redact(msgspec.to_builtins(told)))

    def add(self, line: Any) -> None:
        """Write a line, from any thread; it never blocks. Beyond the room of a recording it is counted."""
        encoded = _line(line)
        if self._room is not None:
            if self._lost or len(encoded) > self._room:
                self._lost = number = next(self._losses)  # of any thread
                if number == 1:
                    self.writer.write(_line({"event": "dropped", "count": 1}))
                    self._on_failure(OSError(errno.EFBIG, "it is as large as a recording may be"))
                return
            self._room -= len(encoded)
        self.writer.write(encoded)

    def end(self, seconds: float) -> None:
        """Tell how many lines more had no room, and give a slow reader some seconds."""
        if self._lost > 1:
            self.writer.write(_line({"event": "dropped", "count": self._lost - 1}))
        self.writer.flush(seconds)


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


class RecordingHead(msgspec.Struct, omit_defaults=True):
    """The server of a recording: how its clients reached it, the pipelines of its command line, and the options that another
    one needs to answer alike. None is a default.
    """

    faces: list[Literal["stdio", "unix", "ws"]] = []
    pipelines: list[str] = []
    isolation: Literal["process", "none"] = "none"
    trusts_clients: bool = False  # told, never obeyed: a recording may be a stranger's
    keeps_files: bool = False
    partial: bool = False
    tools: list[str] | None = None
    threads: int | None = None
    pipe_idle: float | None = None
    max_frame: int | None = None


class TraceHead(msgspec.Struct):
    """The first line of a run. `recording` stands in those of a recording."""

    rrext_trace: int
    version: str = ""
    time: float = 0.0
    content: bool = False
    recording: RecordingHead | UnsetType = UNSET


class TraceGap(msgspec.Struct):
    """Lines that are not there: dropped because the file took no more, or cut off where the writer ended."""

    count: int
    is_cut: bool = False


class RawTail(msgspec.Struct, frozen=True, omit_defaults=True):
    """The raw bytes of a message: as text if they are UTF-8, else in base64."""

    text: str | None = None
    base64: bytes | None = None

    @classmethod
    def of(cls, data: bytes) -> RawTail:
        """These bytes."""
        try:
            return cls(text=data.decode())
        except UnicodeDecodeError:
            return cls(base64=data)

    @property
    def data(self) -> bytes:
        """The bytes."""
        return (self.text or "").encode() if self.base64 is None else self.base64


class RecordedLine(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event"):
    """The fields of all lines about messages: when, and of which connection.

    What is larger than `max_event_data` is left out; `size` has its bytes in any case.
    """

    time: float
    connection_id: str


class RecordedRequest(RecordedLine, frozen=True, kw_only=True, tag="request"):
    """A request came. `secrets` are pointers into `arguments` of texts where names of variables stand for their values;
    `hidden` are those where a value is gone. A raw tail stands at `/data`. `about` has of arguments
    that are left out what names the pipe or file.
    """

    command: str
    id: int | str | None = None
    dialect: Literal["dap", "jsonrpc"] = "dap"
    arguments: dict[str, Any] | UnsetType = UNSET
    about: dict[str, Any] = {}
    tail: RawTail | None = None
    size: int = 0
    secrets: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class RecordedAnswer(RecordedLine, frozen=True, kw_only=True, tag="answer"):
    """A request was answered: with a body, or with the members of an error. Raw bytes are the tail of the message, or in
    base64 the `member` of its body.
    """

    command: str
    id: int | str | None = None
    body: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | None = None
    tail: RawTail | None = None
    member: str | None = None
    size: int = 0


class RecordedEvent(RecordedLine, frozen=True, kw_only=True, tag="event"):
    """An event was sent; raw bytes as in an answer. `request` is that of a body that is left out."""

    name: str
    request: int | str | None = None
    body: dict[str, Any] | UnsetType = UNSET
    tail: RawTail | None = None
    member: str | None = None
    size: int = 0


class RecordedRefusal(RecordedLine, frozen=True, kw_only=True, tag="unreadable"):
    """Something came that is no request, or none that can be read."""

    id: int | str | None = None
    code: str
    message: str


class RecordedEnd(RecordedLine, frozen=True, kw_only=True, tag="disconnected"):
    """A connection ends, and why."""

    why: str


AnyLine: TypeAlias = AnyEvent | RecordedRequest | RecordedAnswer | RecordedEvent | RecordedRefusal | RecordedEnd
"""The type to decode a line behind the first."""


def read_trace(path: str) -> Iterator[TraceHead | TraceGap | EngineEvent | RecordedLine]:
    """The lines of a trace file, in their order. Raises `OSError`, and `TraceInvalid` for another file."""
    decode = msgspec.json.Decoder(AnyLine).decode
    with open(path, "rb") as file:
        for number, line in enumerate(_lines_of(file), 1):
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
            except (ValueError, RecursionError):
                yield TraceGap(1, is_cut=True)


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines that a file has now: a replay to the server that records would else never end. Of long ones, the beginning."""
    status = os.fstat(file.fileno())
    while (not stat.S_ISREG(status.st_mode) or file.tell() < status.st_size) and (line := file.readline(MAX_LINE)):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(MAX_LINE)):
            pass
