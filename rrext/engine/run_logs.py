"""The run logs of an engine: of each user and source, in memory, of bounded size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.events.trace import LEVELS
from rrext.engine.interface import log_operations as operations
from rrext.engine.run_log import MAX_LOG_PAGE_BYTES, RunLog
from rrext.engine.tasks.limits import STATUS_INTERVAL
from rrext.errors import InternalError, InvalidArguments
from rrext.limits import MIB

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
