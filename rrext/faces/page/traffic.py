"""The states of the status page for one user: rows of pipelines with latencies, failures, lines of calls, and counts of nodes
and edges.

A state is made anew each second while a page is open. Events come from any thread, and of all users: those of others are left
out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from threading import RLock
from time import time
from typing import Any, Final

import msgspec

from rrext.columns import one_line
from rrext.engine.events.hub import Subscription
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
from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.tasks.registry import FINISHED_TASK_TIME
from rrext.errors import RrextError, TaskError
from rrext.server.logs import Tail
from rrext.version import __version__

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


PAGE_INTERVAL: Final = 1.0
"""Seconds between two states of a status page: as fast as numbers can be read."""

MAX_PAGE_INTERVAL: Final = 8.0
"""Seconds between two states at most; pages take a server that says nothing for longer for lost."""

PAGE_SHARE: Final = 0.05
"""The share of its time that the server spends on the states of one user; with many pipelines they come more rarely."""

STATUS_TIMEOUT: Final = 2.0
"""Seconds for the status of one pipeline; the page shows the one before if it takes longer."""

SHOWN_ERRORS: Final = 10
"""Errors and warnings of a pipeline itself on the page; its status has all that are kept."""

MAX_ENDED: Final = 50
"""Pipelines on the page that have ended."""

ENDS: Final = {5: "Completed", 6: "Cancelled"}
"""The states of pipelines that have ended."""

log: Final = logging.getLogger("rrext.server")


class Watch:
    """The latest state of the page of one user. It looks at nothing while `pages` is 0.

    `rows` has the encoded row of each pipeline by its key, `head` the sums. `on_end` is called when the last page has left.
    """

    def __init__(self, engine: Engine, caller: Caller, loop: asyncio.AbstractEventLoop, on_end: Callable[[], object]) -> None:
        self._engine = engine
        self._loop = loop
        self._on_end = on_end
        self._subscription: Subscription | None = None
        self._looking: asyncio.Task[None] | None = None
        self._listed: dict[str, dict[str, Any]] = {}
        self._latest: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._measured: dict[str, tuple[int, dict[str, Any]]] = {}
        self._calls: dict[str, tuple[float, int]] = {}
        self._server_began = 0.0
        self._began = time()
        self._changed = asyncio.Event()
        self.caller = caller
        self.traffic = Traffic(caller)
        self.pages = 0
        self.number = 0
        self.is_ended = False
        self.head: dict[str, Any] = {}
        self.rows: dict[str, bytes] = {}

    def enter(self) -> None:
        """Begin to look, for a page more."""
        self.pages += 1
        if self._looking is None:
            self._subscription = self._engine.subscribe(FILTER, self.traffic.take)
            self._looking = self._loop.create_task(self._poll(), name="status page")

    def leave(self) -> None:
        """End, if this was the last page."""
        self.pages -= 1
        if not self.pages:
            self.end()

    def end(self) -> None:
        """Look no more; the pages get no further state."""
        if self.is_ended:
            return
        self.is_ended = True
        if self._subscription is not None:
            self._subscription.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._changed.set()
        self._on_end()

    async def after(self, number: int) -> None:
        """Wait for a state after that of a number, or for the end."""
        while self.number <= number and not self.is_ended:
            await self._changed.wait()

    async def _poll(self) -> None:
        while True:
            began = self._loop.time()
            try:
                await self._take_state(began)
            except RrextError as error:
                self.traffic.is_list_old = True
                log.info("the status page shows an old state: %s", error.message)
            except Exception:
                log.exception("a bug of rrext, in the status page")
            self.number += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            pause = (self._loop.time() - began) / PAGE_SHARE
            await asyncio.sleep(min(max(PAGE_INTERVAL, pause), MAX_PAGE_INTERVAL))

    async def _take_state(self, now: float) -> None:
        if self.traffic.is_list_old:
            self.traffic.is_list_old = False
            await self._list()
        rows: dict[str, dict[str, Any]] = {}
        for token, listed in list(self._listed.items()):
            try:
                status = await self._ask(operations.TaskStatus(token=token, timeout=STATUS_TIMEOUT))
            except TaskError:
                del self._listed[token]  # it ended, and an event will say so
            except RrextError as error:
                log.info("the status page shows an old status of a pipeline: %s", error.message)
                if token in self._latest:
                    rows[token] = self._latest[token]
            else:
                rows[token] = self._row(token, listed, status, now)
        self._latest = rows.copy()
        self._measured = {token: kept for token, kept in self._measured.items() if token in rows}
        self._calls = {token: kept for token, kept in self._calls.items() if token in rows}
        self.traffic.forget_all_but(frozenset(self._listed))
        self.head = self._head(list(rows.values()))
        until = time() - FINISHED_TASK_TIME
        rows |= {key: row for key, row in self._ended.items() if row["ended"] > until}
        self.rows = {key: msgspec.json.encode(row) for key, row in rows.items()}

    async def _list(self) -> None:
        """Learn which pipelines run, and which ended a short while ago."""
        listed: dict[str, dict[str, Any]] = {}
        for task in (await self._ask(operations.ListTasks()))["tasks"]:
            is_own = bool(task["pipeline"])  # others are the server's, and not this user's to end
            if is_own or task["token"] not in listed:  # a user's own name hides that of the server's
                listed[task["token"]] = {name: task[name][:MAX_PAGE_TEXT] for name in ("name", "description")} | {"own": is_own}
        board = await self._ask(operations.Dashboard())
        ended = [row for row in board["tasks"] if row["completed"]]
        self._listed = listed
        self._server_began = time() - board["overview"]["serverUptime"]
        self._ended = {f"{row['id']} {row['startTime']}": ended_row(row) for row in ended[-MAX_ENDED:]}

    async def _ask(self, operation: operations.Operation) -> Any:
        body, _ = await self._engine.ask(operation, self.caller)
        return msgspec.json.decode(body)

    def _row(self, token: str, listed: dict[str, Any], status: dict[str, Any], now: float) -> dict[str, Any]:
        version = self.traffic.version(token)
        known = self._measured.get(token)
        if known is None or known[0] != version:
            known = self._measured[token] = version, self.traffic.measures(token)
        measures = known[1]
        before, calls = self._calls.get(token, (now, 0))
        self._calls[token] = now, measures["calls"]
        return {
            **listed,
            "token": token,
            "project": status["project_id"],
            "source": status["source"],
            "state": status["status"],
            "began": status["startTime"],
            "pipes": status["pipeflow"]["totalPipes"],
            "toolCalls": status["calls"],
            "rate": (measures["calls"] - calls) / (now - before) if now > before else 0.0,
            "completed": status["completedCount"],
            "failed": status["failedCount"],
            "threads": status["threads"],
            "leftBehind": sum(status["leftBehind"].values()),
            "loopBlocks": status["loopBlocks"]["count"],
            "unavailable": [{**node, "reason": node["reason"][:MAX_PAGE_TEXT]} for node in status["unavailable"]],
            "warnings": [text[:MAX_PAGE_TEXT] for text in status["warnings"][-SHOWN_ERRORS:]],
            "errors": [text[:MAX_PAGE_TEXT] for text in status["errors"][-SHOWN_ERRORS:]],
            **measures,
        }

    def _head(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The sums, and what is known of the server."""
        caller = self.caller
        clients = [client.caller for client in list(self._engine.clients.values())]
        return {
            "version": __version__,
            "user": caller.user_id or "",
            "isTrusted": caller.trusted,
            "serverBegan": self._server_began,
            "began": self._began,
            "clients": len([each for each in clients if caller.trusted or each.user_id == caller.user_id]),
            "tasks": len(rows),
            **{name: sum(row[name] for row in rows) for name in ("pipes", "rate", "completed", "failed")},
            **percentiles(self.traffic.latencies()),
        }


def ended_row(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a pipeline that has ended, by that of the dashboard."""
    return {
        "name": row["name"].removesuffix(f".{row['source']}")[:MAX_PAGE_TEXT],
        "state": "Failed" if row["exitCode"] else ENDS.get(row["state"], "Ended"),
        "began": row["startTime"],
        "ended": row["endTime"] or 0,
        "exitCode": row["exitCode"] or 0,
        "source": row["source"],
        "project": row["projectId"],
        "completed": row["completedCount"],
        "failed": row["totalCount"] - row["completedCount"],
    }
