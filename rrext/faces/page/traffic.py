"""The traffic of one user as a page shows it: latencies, failures and lines of calls, counts of nodes and edges.

Events come from any thread, and of all users: those of others are left out.
"""

from __future__ import annotations

from collections import deque
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
from rrext.server.logs import Tail

MAX_PAGE_TEXT: Final = 500
"""Characters of a name, a description or a message on the page; a row is sent whole whenever a number of it changes."""

KEPT_LATENCIES: Final = 1000
"""Calls of each pipeline whose latencies are kept: ten are slower than the 99th percentile."""
MAX_COUNTED: Final = 2000
"""Nodes and edges of a pipeline that are counted; a call may name nodes that do not exist."""
KEPT_FAILURES: Final = 100
"""Recent errors of a user."""
KEPT_LINES: Final = 200
"""Lines about recent calls of a user."""

KINDS: Final = (TaskBegun, TaskEnded, PipeOpened, ObjectEnded, LaneIn, LaneOut, CallStarted, CallEnded)
FILTER: Final = Filter(kinds=frozenset(map(kind_of, KINDS)))
"""The events that the traffic is made of, without data."""
TIMED: Final = frozenset(("tool", "call_tool", "open", "write", "close"))
"""The commands whose latencies are shown."""
FAILING: Final = frozenset(("tool", "call_tool", "open", "execute", "restart", "terminate"))
"""The commands whose failures are shown; that of a write is shown as the failure of its object."""
LOGGED: Final = TIMED | FAILING
MISSING: Final = frozenset(("node_not_found", "tool_not_found"))
"""The codes of calls that reached no node."""


class RecentError(msgspec.Struct, frozen=True):
    """A call or an object that failed."""

    time: float
    token: str | None
    where: str
    code: str
    message: str


class TaskTraffic:
    """The traffic of one pipeline. `version` grows with each change."""

    __slots__ = ("calls", "edges", "nodes", "objects", "seconds", "version")

    def __init__(self) -> None:
        self.version = 0
        self.objects = 0
        self.calls = 0
        self.seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
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
        self._seconds: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.failures: Tail[RecentError] = Tail(KEPT_FAILURES)
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
                    if event.code is not None:
                        name = f"object {event.name[:MAX_PAGE_TEXT]}"
                        self._fail(event, name, event.code, event.message or "it was never closed")
                case TaskBegun() | TaskEnded():
                    self.is_list_old = True

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
        self.lines.add(event if event.result is msgspec.UNSET else msgspec.structs.replace(event, result=msgspec.UNSET))
        if event.callers:
            return  # a call within another one, which tells the failure if it is one
        if event.command in TIMED:
            traffic = self._task(event)
            traffic.calls += 1
            traffic.seconds.append(event.seconds)
            self._seconds.append(event.seconds)
        if event.code is not None and event.command in FAILING:
            where = event.command if event.tool is None else event.tool if node is None else f"{node}.{event.tool}"
            self._fail(event, where, event.code, event.message or "")

    def _fail(self, event: EngineEvent, where: str, code: str, message: str) -> None:
        where, message = where[: 2 * MAX_PAGE_TEXT], message[:MAX_PAGE_TEXT]
        self.failures.add(RecentError(event.time, event.token, where, code, message))

    # for the page

    def latencies(self) -> list[float]:
        """The seconds of the last calls of all pipelines."""
        with self._lock:
            return list(self._seconds)

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
        return {"objects": traffic.objects, "calls": traffic.calls, "nodes": nodes, "edges": edges, **percentiles(seconds)}

    def forget_all_but(self, tokens: frozenset[str]) -> None:
        """Forget the pipelines that are gone."""
        with self._lock:
            for token in self._tasks.keys() - tokens:
                del self._tasks[token]


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
