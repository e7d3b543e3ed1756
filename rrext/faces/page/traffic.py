"""The traffic that one user of the status page sees: calls, objects, failures and latencies, counted from one moment on, and
the times of each tool over the last minutes. Events come from any thread, and of all users: those of others are left out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection
from threading import RLock
from typing import Any, Final

import msgspec

from rrext.columns import one_line
from rrext.engine.events.records import (
    CallEnded,
    CallEvent,
    CallStarted,
    EngineEvent,
    Filter,
    LaneIn,
    LaneOut,
    ObjectEnded,
    PipeOpened,
    TaskBegun,
    TaskEnded,
    TaskEvent,
    kind_of,
)
from rrext.engine.interface.call import Caller
from rrext.server.journal.logs import Tail

MAX_PAGE_TEXT: Final = 500
"""Characters of a name, a description or a message on the page; a row is sent whole whenever a number of it changes."""

KEPT_LATENCIES: Final = 1000
"""Calls of each pipeline whose latencies are kept: ten are slower than the 99th percentile."""

MAX_COUNTED: Final = 2000
"""Nodes and edges of a pipeline that are counted; a call may name nodes that do not exist."""

KEPT_FAILURES: Final = 100
"""Recent errors of a user that differ; equal ones are one, with their number."""

KEPT_LINES: Final = 200
"""Lines about recent calls of a user."""

KEPT_RESTARTS: Final = 1000
"""Pipelines of a user whose restarts are counted; those that began long ago are forgotten first."""

STEP: Final = 10.0
"""Seconds of one step of the times of a tool: short enough to see a failure begin, long enough to see a rate."""

STEPS: Final = 90
"""Steps that are kept, a quarter of an hour: what somebody asks for who has just been told of a failure."""

MAX_TOOLS: Final = 500
"""Tools of a user, over all pipelines, whose times are kept: each has up to `STEPS` steps."""

KEPT_TOOL_LATENCIES: Final = 200
"""Calls of each tool whose latencies are kept: two are slower than the 99th percentile."""

KINDS: Final = (TaskBegun, TaskEnded, PipeOpened, ObjectEnded, LaneIn, LaneOut, CallStarted, CallEnded)
FILTER: Final = Filter(kinds=frozenset(map(kind_of, KINDS)))
"""The events that the traffic is made of, without data."""

TOOLS: Final = frozenset(("tool", "call_tool"))
TIMED: Final = TOOLS | {"open", "write", "close"}
"""The commands whose latencies are shown."""

FAILING: Final = TOOLS | {"open", "execute", "restart", "terminate"}
"""The commands whose failures are shown; that of a write is shown as the failure of its object."""

LOGGED: Final = TIMED | FAILING
MISSING: Final = frozenset(("node_not_found", "tool_not_found"))
"""The codes of calls that reached no node."""


class RecentError(msgspec.Struct, frozen=True):
    """Calls or objects that failed alike: their `count`, the times of the `first` and the last. `id` stays while it grows."""

    id: int
    time: float
    first: float
    count: int
    token: str | None
    where: str
    code: str
    message: str


class RecentErrors:
    """The last errors that differ. The newest are the last."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._kept: OrderedDict[tuple[str | None, str, str, str], tuple[int, RecentError]] = OrderedDict()
        self._number = 0

    def add(self, time: float, token: str | None, where: str, code: str, message: str) -> None:
        """Count an error with those that are equal to it."""
        with self._lock:
            self._number += 1
            kind = token, where, code, message
            known = self._kept.pop(kind, None)
            first, count, number = (time, 0, self._number) if known is None else (known[1].first, known[1].count, known[1].id)
            self._kept[kind] = self._number, RecentError(number, time, first, count + 1, *kind)
            if len(self._kept) > KEPT_FAILURES:
                self._kept.popitem(last=False)

    def after(self, number: int) -> list[tuple[int, RecentError]]:
        """The errors that were counted after that of a number, each with its number."""
        with self._lock:
            return [entry for entry in self._kept.values() if entry[0] > number]


class ToolTimes:
    """The calls of one tool: their number, how many failed, and both with their seconds in each step."""

    __slots__ = ("calls", "failed", "seconds", "steps")

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.seconds: deque[float] = deque(maxlen=KEPT_TOOL_LATENCIES)
        self.steps: deque[list[float]] = deque(maxlen=STEPS)
        """Number of the step since 1970, calls, failed ones, the sum of their seconds, those of the slowest."""

    def add(self, time: float, seconds: float, *, is_failure: bool) -> None:
        """Count a call that ended at a time."""
        self.calls += 1
        self.failed += is_failure
        self.seconds.append(seconds)
        number = time // STEP
        if not self.steps or self.steps[-1][0] < number:
            self.steps.append([number, 0, 0, 0.0, 0.0])
        step = self.steps[-1]  # of a clock that was set back, too
        step[1] += 1
        step[2] += is_failure
        step[3] += seconds
        step[4] = max(step[4], seconds)

    def told(self, now: float) -> dict[str, Any]:
        """The members of a tool on the page: each step of the last ones is its age in steps, calls, failed ones, their mean and
        their longest seconds.
        """
        last = now // STEP
        steps = [
            [int(last - number), int(calls), int(failed), seconds / calls, slowest]
            for number, calls, failed, seconds, slowest in self.steps
            if 0 <= last - number < STEPS
        ]
        return {"calls": self.calls, "failed": self.failed, "steps": steps, **percentiles(list(self.seconds))}


class TaskTraffic:
    """The traffic of one pipeline. `version` grows with each change."""

    __slots__ = ("calls", "completed", "edges", "failed", "failed_calls", "nodes", "objects", "seconds", "tools", "version")

    def __init__(self) -> None:
        self.version = 0
        self.objects = 0
        self.completed = 0
        self.failed = 0
        self.calls = 0
        self.failed_calls = 0
        self.seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.tools: dict[tuple[str, str], ToolTimes] = {}
        """Node and tool → the times of its calls, nested ones too."""
        self.nodes: dict[str, list[int]] = {}
        """Node → calls, those at work now, those that failed."""
        self.edges: dict[tuple[str, str, str], int] = {}
        """Kind, lane or calling tool (empty for a client), node at the end → payloads, or calls."""

    def enter(self, node: str, edge: tuple[str, str, str]) -> None:
        """Count a call of a node, which came along an edge."""
        counts = self._of(node)
        if counts is not None:
            counts[0] += 1
            counts[1] += 1
        if edge in self.edges or len(self.edges) < MAX_COUNTED:
            self.edges[edge] = self.edges.get(edge, 0) + 1

    def leave(self, node: str, *, is_failure: bool) -> None:
        """Note the end of a call of a node; of one that began before the first page nothing is known."""
        counts = self._of(node)
        if counts is not None and counts[1]:
            counts[1] -= 1
            counts[2] += is_failure

    def withdraw(self, node: str, edge: tuple[str, str, str]) -> None:
        """Take back a call of a node that does not exist; its caller misspelt it."""
        counts = self.nodes.get(node)
        if counts is not None:
            counts[0] -= 1
            counts[1] = max(0, counts[1] - 1)
            if not counts[0]:
                del self.nodes[node]
        if edge in self.edges:
            self.edges[edge] -= 1
            if not self.edges[edge]:
                del self.edges[edge]

    def _of(self, node: str) -> list[int] | None:
        if node not in self.nodes and len(self.nodes) >= MAX_COUNTED:
            return None
        return self.nodes.setdefault(node, [0, 0, 0])


class Traffic:
    """The traffic that a caller may see, since this was made."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lock = RLock()  # a finalizer that runs inside of it may end a pipe
        self._running: dict[int, tuple[str, str]] = {}
        """Call → token and node, of calls at work."""
        self._tasks: dict[str, TaskTraffic] = {}
        self._restarts: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """Token → how often a pipeline began again, when, and why the one before had ended."""
        self._ends: OrderedDict[str, str] = OrderedDict()
        """Token → why its pipeline ended, of those that begin again by themselves and have not yet: their counts go on."""
        self._seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self._sums = {"calls": 0, "failedCalls": 0, "completed": 0, "failed": 0, "restarts": 0}
        self._tools = 0
        self.failures = RecentErrors()
        self.lines: Tail[CallEnded] = Tail(KEPT_LINES)
        self.is_list_old = True
        """Whether pipelines began or ended since the last list."""

    def take(self, event: EngineEvent) -> None:
        """Count an event."""
        if not self._is_seen(event):
            return
        with self._lock:
            match event:
                case CallEnded():
                    self._call_ended(event)
                case CallStarted():
                    self._call_started(event)
                case LaneIn():
                    self._task(event).enter(event.node_id, ("data", event.lane, event.node_id))
                case LaneOut():
                    self._task(event).leave(event.node_id, is_failure=event.code is not None)
                case PipeOpened():
                    self._task(event).objects += 1
                case ObjectEnded():
                    self._object_ended(event)
                case TaskBegun() | TaskEnded():
                    self.is_list_old = True
                    self._note_life(event, event.token or "")

    def _is_seen(self, event: Any) -> bool:
        caller, user = self._caller, event.user_id
        if caller.trusted or (user is None and isinstance(event, TaskEvent)):
            return True
        return user is not None and user == caller.user_id

    def _task(self, event: EngineEvent) -> TaskTraffic:
        return self._touched(event.token or "")

    def _touched(self, token: str) -> TaskTraffic:
        """The traffic of a pipeline, which changes now."""
        if token not in self._tasks:
            self._tasks[token] = TaskTraffic()
        self._tasks[token].version += 1
        return self._tasks[token]

    def _note_life(self, event: TaskBegun | TaskEnded, token: str) -> None:
        """Count the restarts of a pipeline: by a command, by a change of its file, or after its process was lost."""
        if isinstance(event, TaskEnded):
            if event.reason == "restarted" or (event.reason == "lost" and event.user_id is None):  # one of the server's own
                _put(self._ends, token, event.reason)
            else:
                self._restarts.pop(token, None)
            return
        reason = self._ends.pop(token, None)
        if event.is_restart or reason is not None:
            count = self._restarts.get(token, {}).get("count", 0) + 1
            _put(self._restarts, token, {"count": count, "time": event.time, "reason": reason or "restarted"})
            self._sums["restarts"] += 1
            self._touched(token)

    def _object_ended(self, event: ObjectEnded) -> None:
        traffic = self._task(event)
        if event.code is None:
            traffic.completed += 1
            self._sums["completed"] += 1
            return
        traffic.failed += 1
        self._sums["failed"] += 1
        self._fail(event, f"object {event.name[:MAX_PAGE_TEXT]}", event.code, event.message or "it was never closed")

    def _call_started(self, event: CallStarted) -> None:
        if event.node_id is not None:
            self._task(event).enter(event.node_id, _edge_of(event, event.node_id))
            self._running[event.call] = event.token or "", event.node_id

    def _call_ended(self, event: CallEnded) -> None:
        begun = self._running.pop(event.call, None)
        if event.command not in LOGGED:
            return
        node = event.node_id
        if begun is not None:
            traffic = self._touched(begun[0])
            if event.code in MISSING:
                traffic.withdraw(begun[1], _edge_of(event, begun[1]))
            else:
                traffic.leave(begun[1], is_failure=event.code is not None)
        elif node is not None and event.code not in MISSING:
            traffic = self._task(event)
            traffic.enter(node, _edge_of(event, node))
            traffic.leave(node, is_failure=event.code is not None)
        self._time_tool(event)
        self.lines.add(event if event.result is msgspec.UNSET else msgspec.structs.replace(event, result=msgspec.UNSET))
        if event.callers:
            return  # a nested call: a failure counts once, with the outer call, if that fails too
        if event.command in TIMED:
            traffic = self._task(event)
            traffic.calls += 1
            traffic.seconds.append(event.seconds)
            self._seconds.append(event.seconds)
            self._sums["calls"] += 1
        if event.code is not None and event.command in FAILING:
            self._task(event).failed_calls += 1
            self._sums["failedCalls"] += 1
            where = event.command if event.tool is None else event.tool if node is None else f"{node}.{event.tool}"
            self._fail(event, where, event.code, event.message or "")

    def _time_tool(self, event: CallEnded) -> None:
        """Count a call of a tool for its times, also a nested one: it costs as much, whoever calls."""
        if event.tool is None or event.node_id is None or event.command not in TOOLS or event.code in MISSING:
            return
        tools, name = self._task(event).tools, (event.node_id, event.tool)
        if name not in tools:
            if self._tools >= MAX_TOOLS:
                return
            self._tools += 1
            tools[name] = ToolTimes()
        tools[name].add(event.time, event.seconds, is_failure=event.code is not None)

    def _fail(self, event: EngineEvent, where: str, code: str, message: str) -> None:
        self.failures.add(event.time, event.token, where[: 2 * MAX_PAGE_TEXT], code, message[:MAX_PAGE_TEXT])

    # for the page

    def sums(self) -> dict[str, Any]:
        """The members of the headline: counts of all pipelines, also of those that have ended, and latencies."""
        with self._lock:
            return {**self._sums, **percentiles(list(self._seconds))}

    def version(self, token: str) -> int:
        """A number that differs after each change of a pipeline's measures."""
        traffic = self._tasks.get(token)
        return 0 if traffic is None else traffic.version

    def measures(self, token: str) -> dict[str, Any]:
        """The members of a pipeline's row on the page."""
        with self._lock:
            traffic = self._tasks.get(token) or TaskTraffic()
            seconds = list(traffic.seconds)
            nodes = {one_line(node): list(counts) for node, counts in traffic.nodes.items()}
            edges = [[kind, one_line(name), one_line(node), number] for (kind, name, node), number in traffic.edges.items()]
            restarts = self._restarts.get(token)
        counts = {"calls": traffic.calls, "failedCalls": traffic.failed_calls}
        objects = {"objects": traffic.objects, "completed": traffic.completed, "failed": traffic.failed}
        return {**counts, **objects, "restarts": restarts, "nodes": nodes, "edges": edges, **percentiles(seconds)}

    def tools(self, token: str, now: float) -> list[dict[str, Any]]:
        """The tools of a pipeline that were called, with their times, by name."""
        with self._lock:
            traffic = self._tasks.get(token) or TaskTraffic()
            return [
                {"node": one_line(node), "tool": one_line(tool), **traffic.tools[node, tool].told(now)}
                for node, tool in sorted(traffic.tools)
            ]

    def forget_all_but(self, tokens: Collection[str]) -> None:
        """Forget the pipelines that are gone for good."""
        with self._lock:
            for token in self._tasks.keys() - tokens - self._ends.keys():
                self._tools -= len(self._tasks.pop(token).tools)


def _put(kept: OrderedDict[str, Any], token: str, value: Any) -> None:
    """Keep a value of a pipeline as the newest, in place of the oldest if there are many."""
    kept[token] = value
    kept.move_to_end(token)
    if len(kept) > KEPT_RESTARTS:
        kept.popitem(last=False)


def percentiles(seconds: list[float]) -> dict[str, float | None]:
    """The 50th and the 99th percentile by nearest rank, in seconds; None without calls."""
    ranked = sorted(seconds)
    return {
        name: ranked[max(0, -(-len(ranked) * share // 100) - 1)] if ranked else None
        for name, share in (("p50", 50), ("p99", 99))
    }


def _edge_of(event: CallEvent, node: str) -> tuple[str, str, str]:
    """The control edge of a call."""
    return ("control", event.callers[-1] if event.callers else "", node)
