"""The logs of traced runs: files of events that clients list and read, and the one writer of each."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.trace import LEVELS
from rrext.engine.interface import rare_operations as operations
from rrext.engine.interface.rare_operations import ReadRunLog
from rrext.engine.views.task_views import STATUS_INTERVAL
from rrext.errors import InternalError, InvalidArguments
from rrext.limits import KIB, MIB

if TYPE_CHECKING:
    from rrext.engine.events.records import TaskEnded
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.task_identity import TaskIdentity


MAX_USER_LOG_BYTES: Final = 16 * MIB
"""Bytes of the run logs of one user; they are in memory."""

MAX_USER_LOGS: Final = 100
"""Sources of which a user has a run log; the oldest go first."""

OUTCOMES: Final = {"idle": "ok", "terminated": "cancelled", "closed": "cancelled", "restarted": "cancelled"}
"""The reason of a task's end → the outcome of its run."""

LEVEL_NAMES: Final = {level: name for name, level in LEVELS.items()}
Stream = tuple[str, str]
"""Project and source."""


class RunLogs:
    """The logs of traced runs, apart for each user. From any thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held from the numbering of an event until it is on its way to all monitors, so that they get them in order."""
        self._users: dict[str | None, OrderedDict[Stream, RunLog]] = {}
        self._runs: dict[tuple[str | None, str], RunLog] = {}
        self._statuses: dict[tuple[str | None, str], float] = {}

    @property
    def is_recording(self) -> bool:
        """Whether a traced pipeline runs."""
        return bool(self._runs)

    def begin_run(self, task: TaskIdentity) -> None:
        """Begin to record a traced task."""
        with self.lock:
            streams = self._users.setdefault(task.owner, OrderedDict())
            log = streams.setdefault((task.project_id, task.source), RunLog())
            log.begin_run(task.token, task.started, LEVEL_NAMES[task.options["trace"]])
            self._runs[task.owner, task.token] = log
            self._make_room(task.owner)

    def end_run(self, event: TaskEnded) -> None:
        """End the run of a task."""
        with self.lock:
            self._statuses.pop((event.user_id, event.token or ""), None)
            log = self._runs.pop((event.user_id, event.token or ""), None)
            if log is not None:
                log.end_run(event.token or "", event.time, OUTCOMES[event.reason])

    def wants_status(self, task: TaskIdentity, now: float) -> bool:
        """Whether the log of a traced task gets a status now: at most one a second."""
        key = (task.owner, task.token)
        is_due = key in self._runs and now - self._statuses.get(key, now - STATUS_INTERVAL) >= STATUS_INTERVAL
        if is_due:
            self._statuses[key] = now
        return is_due

    def add(self, owner: str | None, token: str, name: str, body: dict[str, Any]) -> None:
        """Record an event of a traced task; its body gets its number in the log. Nothing for others."""
        with self.lock:
            log = self._runs.get((owner, token))
            if log is not None and log.add(name, body):
                self._make_room(owner)

    def _make_room(self, owner: str | None) -> None:
        """Delete the oldest of what a user has too much of, of logs that nothing writes to first."""
        streams = self._users[owner]
        while len(streams) > MAX_USER_LOGS or sum(log.size for log in streams.values()) > MAX_USER_LOG_BYTES:
            stream, log = next(
                ((stream, log) for stream, log in streams.items() if not log.running), next(iter(streams.items()))
            )
            if len(log.segments) > 1:
                log.drop_oldest()
            elif log.running:
                return  # the segment that grows
            else:
                del streams[stream]

    # -- reading

    def body(self, caller: Caller, operation: operations.LogOperation) -> dict[str, Any]:
        """The body of the answer; a source that nobody has recorded for this user has an empty log."""
        if not operation.project_id or not operation.source:
            raise InvalidArguments.at("/projectId", "expected projectId and source")
        with self.lock:
            streams = self._users.get(caller.user_id, OrderedDict()) if self._may_read(caller, operation) else OrderedDict()
            log = streams.get((operation.project_id, operation.source))
            if isinstance(operation, operations.ListRunLogs):
                scope = {"teamId": "", "teamName": "", "runKind": "dev", "ownerKind": "user"}
                return {"streams": [] if log is None else [{**scope, **log.timeline}]}
            if isinstance(operation, operations.DeleteRunLog):
                return {"deletedSegments": self._delete(streams, operation)}
            return _read(log or RunLog(), operation)

    def _may_read(self, caller: Caller, operation: operations.LogOperation) -> bool:
        """Whether the caller has logs at all; there are none of teams and of deployments."""
        return (
            (caller.trusted or caller.user_id is not None) and not operation.team_id and operation.run_kind in (None, "", "dev")
        )

    def _delete(self, streams: OrderedDict[Stream, RunLog], asked: operations.DeleteRunLog) -> int:
        if not asked.all and asked.before_time is None:
            raise InvalidArguments.at("/all", "expected `all`, or a time in `beforeTime`")
        stream = (asked.project_id or "", asked.source or "")
        log = streams.get(stream)
        deleted = 0
        while log is not None and log.segments:
            times = log.segments[0].times
            is_old = asked.before_time is not None and times and times[-1] < asked.before_time
            if not (asked.all or is_old):
                break
            log.drop_oldest()
            deleted += 1
        if log is not None and asked.all and not log.running:
            del streams[stream]
        return deleted


def _read(log: RunLog, operation: operations.LogOperation) -> dict[str, Any]:
    match operation:
        case operations.ReadChapters():
            return log.timeline
        case operations.ReadRunLog():
            return log.page(operation)
        case operations.ReadSegment():
            return log.raw(operation.segment, max(0, operation.offset), operation.max_bytes or MAX_LOG_PAGE_BYTES)
        case _:
            raise InternalError(f"no log has a {type(operation).__name__}")


MAX_LOG_PAGE_BYTES: Final = MIB
"""Bytes of a page, and of a piece of a segment."""

SEGMENT_BYTES: Final = 256 * KIB
"""Bytes of a segment of a run log: the unit that a client reads at once, and that goes when there are too many."""

MAX_CHAPTERS: Final = 1000
"""Runs in the timeline of a source."""

CONSOLE_LINES: Final = 200
"""Lines of output with which a segment begins, so that a reader need not read those before it."""

MAX_LOG_PAGE: Final = 1000
"""Events of a page of a run log."""


class LogSegment:
    """A part of a log: a line with the state before it, and the lines of its events."""

    __slots__ = ("first_seq", "has_begin", "lines", "number", "seqs", "size", "times")

    def __init__(self, number: int, first_seq: int, keyframe: bytes) -> None:
        self.number = number
        self.first_seq = first_seq
        self.lines = [keyframe]
        self.seqs = [0]
        self.times: list[float] = []
        self.size = len(keyframe)
        self.has_begin = False

    def add(self, seq: int, time: float, line: bytes) -> None:
        """Append the line of an event."""
        self.lines.append(line)
        self.seqs.append(seq)
        self.times.append(time)
        self.size += len(line)

    @property
    def span(self) -> dict[str, Any]:
        """The segment as a timeline shows it."""
        times = {"startTime": self.times[0] if self.times else None, "endTime": self.times[-1] if self.times else None}
        return {"id": self.number, "seq": self.first_seq, **times, "chapterStart": self.has_begin}


class RunLog:
    """The events of one source. `chapters` are its runs; `running` those that have not ended, by token."""

    def __init__(self) -> None:
        self.segments: deque[LogSegment] = deque()
        self.chapters: deque[dict[str, Any]] = deque(maxlen=MAX_CHAPTERS)
        self.running: dict[str, dict[str, Any]] = {}
        self.size = 0
        self._seq = 0
        self._numbers = 0
        self._status: dict[str, Any] = {}
        self._console: deque[str] = deque(maxlen=CONSOLE_LINES)
        self._open: dict[int, dict[str, Any]] = {}

    def begin_run(self, token: str, time: float, level: str) -> None:
        """Begin a chapter."""
        run = {"beginTime": time, "beginSeq": self._seq + 1, "endTime": None, "outcome": None, "traceLevel": level}
        self.chapters.append(run)
        self.running[token] = run
        self._segment().has_begin = True

    def end_run(self, token: str, time: float, outcome: str) -> None:
        """End the chapter of a token."""
        run = self.running.pop(token, None)
        if run is not None:
            run |= {"endTime": time, "outcome": outcome}
        if not self.running:
            self._open.clear()

    def add(self, name: str, body: dict[str, Any]) -> bool:
        """Append an event, whose body gets its number as `logSeq`. Returns whether a segment begins with it."""
        segment = self._segment()
        self._seq += 1
        body["logSeq"] = self._seq
        line = msgspec.json.encode({"type": "event", "event": name, "body": body}) + b"\n"
        segment.add(self._seq, body["eventTime"], line)
        self.size += len(line)
        self._keep_state(name, body)
        return segment.first_seq == self._seq

    def _segment(self) -> LogSegment:
        """The segment that grows."""
        if not self.segments or self.segments[-1].size >= SEGMENT_BYTES:
            keyframe: dict[str, Any] = {"type": "keyframe", "status": self._status, "console": {"lines": list(self._console)}}
            keyframe["openFrames"] = list(self._open.values())
            line = msgspec.json.encode(keyframe) + b"\n"
            self._numbers += 1
            self.segments.append(LogSegment(self._numbers, self._seq + 1, line))
            self.size += len(line)
        return self.segments[-1]

    def _keep_state(self, name: str, body: dict[str, Any]) -> None:
        """Keep what the next segment begins with."""
        if name == "apaevt_status_update":
            self._status = body
        elif name == "output":
            self._console.append(body["output"].rstrip("\n"))
        elif name == "apaevt_flow" and body["op"] == "begin":
            self._open[body["id"]] = {
                "id": body["id"], "doc": body["component"], "enterSeq": self._seq, "enterTime": body["eventTime"]
            }  # fmt: skip
        elif name == "apaevt_flow" and body["op"] == "end":
            self._open.pop(body["id"], None)

    def drop_oldest(self) -> int:
        """Delete the oldest segment, and the chapters that ended before the next; returns the bytes that are free."""
        segment = self.segments.popleft()
        self.size -= segment.size
        while self.chapters and self.chapters[0]["endTime"] is not None and self._is_gone(self.chapters[0]):
            self.chapters.popleft()
        return segment.size

    def _is_gone(self, chapter: dict[str, Any]) -> bool:
        start = self.segments[0].times[0] if self.segments and self.segments[0].times else None
        return start is None or chapter["endTime"] < start

    # -- reading

    @property
    def timeline(self) -> dict[str, Any]:
        """The runs and the segments."""
        spans = [segment.span for segment in self.segments]
        return {
            "chapters": list(self.chapters),
            "segments": spans,
            "startTime": spans[0]["startTime"] if spans else None,
            "endTime": spans[-1]["endTime"] if spans else None,
            "horizonSeq": spans[0]["seq"] if spans else 0,
            "completed": not self.running,
        }

    def raw(self, number: int, offset: int, most: int) -> dict[str, Any]:
        """Whole lines of a segment from a byte on, at least one line if there is one."""
        segment = next((each for each in self.segments if each.number == number), None)
        size, end, place, taken = 0 if segment is None else segment.size, offset, 0, list[bytes]()
        for line in () if segment is None else segment.lines:
            if place >= offset:
                if taken and place + len(line) - offset > most:
                    break
                taken.append(line)
                end = place + len(line)
            place += len(line)
        is_final = end >= size
        told = {"segment": number, "offset": offset, "data": b"".join(taken).decode(), "size": size}
        return {**told, "nextOffset": None if is_final else end, "final": is_final}

    def page(self, asked: ReadRunLog) -> dict[str, Any]:
        """The events in the bounds that are asked for; `nextSeq` says that there are more."""
        most = min(asked.max_events or MAX_LOG_PAGE, MAX_LOG_PAGE)
        most_bytes = min(asked.max_bytes or MAX_LOG_PAGE_BYTES, MAX_LOG_PAGE_BYTES)
        first = asked.from_seq or 0 if asked.cursor is None else asked.cursor
        horizon = self.segments[0].first_seq if self.segments else 1
        body: dict[str, Any] = {"events": (events := list[msgspec.Raw]())}
        if first < horizon > 1 and asked.from_time is None:
            body["truncatedAtSeq"] = horizon
        size = 0
        for segment in self.segments:
            if asked.to_segment is not None and segment.number > asked.to_segment:
                break
            for seq, time, line in zip(segment.seqs[1:], segment.times, segment.lines[1:], strict=True):
                if seq < first or not _is_asked(asked, seq, time, line):
                    continue
                if len(events) >= most or (events and size + len(line) > most_bytes):
                    return {**body, "nextSeq": seq}
                events.append(msgspec.Raw(line))
                size += len(line)
        return body


def _is_asked(asked: ReadRunLog, seq: int, time: float, line: bytes) -> bool:
    if asked.to_seq is not None and seq > asked.to_seq:
        return False
    if (asked.from_time is not None and time < asked.from_time) or (asked.to_time is not None and time > asked.to_time):
        return False
    return asked.types is None or msgspec.json.decode(line, type=_Named).event in asked.types


class _Named(msgspec.Struct):
    event: str
