"""Monitors: subscriptions of clients to events, in the form of RocketRide's events.

`rrext_monitor` subscribes a client; who gets an event is decided here, and what its body says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from rrext.engine.events.records import (
    Filter,
    FlowStep,
    Message,
    ObjectBegun,
    ObjectEnded,
    Output,
    PipeEvent,
    TaskBegun,
    TaskEnded,
)
from rrext.engine.events.trace import MAX_TRACE_NAME, MAX_TRACE_TEXT
from rrext.engine.interface.call import Caller
from rrext.engine.tasks.registry import FinishedTask
from rrext.engine.views.task_views import STATUS_INTERVAL, display_name, id_of, is_whole, no_task, without_objects
from rrext.errors import InvalidArguments, TooManyRequests, near_matches
from rrext.limits import MAX_QUOTED_NAME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rrext.clock import Timer
    from rrext.engine.events.hub import Subscription
    from rrext.engine.host.host import Host
    from rrext.engine.interface.clients import ConnectedClient
    from rrext.engine.interface.operations import Monitor
    from rrext.engine.interface.task_identity import TaskIdentity
    from rrext.engine.tasks.registry import Tasks
    from rrext.engine.views.run_logs import RunLogs
    from rrext.engine.views.task_views import TaskViews


MAX_MONITORS: Final = 1000
"""Monitors of one connection; each costs memory, and a look for each status."""

TYPES: Final = {
    name: 1 << bit
    for bit, name in enumerate(
        ("DEBUGGER", "DETAIL", "SUMMARY", "OUTPUT", "FLOW", "TASK", "SSE", "DASHBOARD", "BILLING", "DEPLOY")
    )
}
"""RocketRide's event types and their bits. DEBUGGER, DASHBOARD, BILLING and DEPLOY are accepted and never sent."""

_DETAILS: Final = "completion counts download error info message metrics object pipeline processing state upload user warning"
EVENT_TYPES: Final = {
    **{f"apaevt_status_{name}": TYPES["DETAIL"] for name in _DETAILS.split()},
    "apaevt_status_update": TYPES["SUMMARY"],
    "apaevt_flow": TYPES["FLOW"],
    "apaevt_task": TYPES["TASK"],
    "apaevt_sse": TYPES["SSE"],
    "apaevt_dashboard": TYPES["DASHBOARD"],
}
"""RocketRide's events, whose names its documents give for types, and the bits of the types that send them. Events of an upload
are its client's own, and those of `completion`, `pipeline` and `processing` have other names now.
"""

MAX_IGNORED: Final = 20
"""How many unknown names of one request are answered; more are a mistake, and each is compared with all known ones."""

MAX_LOGGED_NAMES: Final = 100
"""How many unknown names of event types are logged, each once: a client may make up any number."""

ALL: Final = sum(TYPES.values())
_BITS: Final = {**TYPES, "ALL": ALL, "NONE": 0}
SUMMARY: Final = TYPES["SUMMARY"]
TASK: Final = TYPES["TASK"]
KINDS: Final = {
    TYPES["DETAIL"]: {"object_begun", "object_ended", "task_begun", "task_ended"},
    SUMMARY: {"task_begun", "task_ended"},
    TYPES["OUTPUT"]: {"output"},
    TYPES["FLOW"]: {"flow_step"},
    TASK: {"task_begun", "task_ended"},
    TYPES["SSE"]: {"message"},
}
"""The engine's events of each type."""

RECORDED: Final = TYPES["DETAIL"] | TYPES["OUTPUT"] | TYPES["FLOW"] | TASK | TYPES["SSE"]
"""The types whose events are in run logs; DETAIL, because a status follows the end of an object."""

TYPE_OF: Final = {
    FlowStep: TYPES["FLOW"],
    Message: TYPES["SSE"],
    ObjectBegun: TYPES["DETAIL"],
    ObjectEnded: TYPES["DETAIL"],
    Output: TYPES["OUTPUT"],
}
"""The type of each event of a pipe."""

log: Final = logging.getLogger("rrext.monitors")
Key = tuple[str | None, str | None, str | None, int | None]
"""Token (`*` for all), project, source and pipe of a monitor; None for those that are not given."""


class Monitors:
    """The monitors of all connections of an engine. Requests come on the loop's thread, events on any."""

    def __init__(self, host: Host, tasks: Tasks[Any], views: TaskViews, clients: Mapping[str, ConnectedClient]) -> None:
        self._host = host
        self._tasks = tasks
        self._views = views
        self._clients = clients
        self._monitors: dict[str, dict[Key, int]] = {}
        self._told: dict[str, dict[int, dict[str, Any]]] = {}
        """Connection → the number of each task → the status that it was told last."""
        self._unknown: set[str] = set()
        self._subscription: Subscription | None = None
        self._logs: RunLogs | None = None
        self._timer: Timer | None = None

    def set(self, caller: Caller, operation: Monitor) -> dict[str, Any]:
        """Begin, change or end a monitor. The first events follow the answer."""
        mask, ignored = mask_of(operation.types)
        key = (operation.token, operation.project_id, operation.source, operation.pipe_id)
        if operation.token is None and (operation.project_id is None or operation.source is None):
            if operation.project_id is not None or operation.source is not None:
                raise InvalidArguments.at("/token", "expected a token, both of projectId and source, or none of these")
            key = ("*", None, None, operation.pipe_id)  # RocketRide's commands before 1.5 ask so ahead of `execute`
        elif operation.token is not None:
            key = (operation.token, None, None, operation.pipe_id)
        if mask and operation.token not in (None, "*"):
            self._views.find(operation.token, caller)
        connection = caller.connection_id
        monitors = dict(self._monitors.get(connection, {}))  # replaced, because other threads read it
        if mask:
            monitors[key] = mask
        else:
            monitors.pop(key, None)
        if len(monitors) > MAX_MONITORS:
            raise TooManyRequests(f"{MAX_MONITORS} monitors of this connection at most", hint="remove some, with types []")
        self._monitors = {**self._monitors, connection: monitors} if monitors else _without(self._monitors, connection)
        self._refresh()
        if mask & (SUMMARY | TASK):
            self._host.loop.call_soon(self._send_present, caller, key, mask)
        for each in ignored:
            if each["name"] not in self._unknown and len(self._unknown) < MAX_LOGGED_NAMES:
                self._unknown.add(each["name"])
                log.warning("client=%s asked for events of the type %a, which nobody knows", connection, each["name"])
        return {"ignored": ignored} if ignored else {}

    @property
    def logs(self) -> RunLogs:
        """The logs of traced runs."""
        if self._logs is None:
            from rrext.engine.views.run_logs import RunLogs

            self._logs = RunLogs()
        return self._logs

    def record(self, task: TaskIdentity) -> None:
        """Begin to record a traced task."""
        self.logs.begin_run(task)
        self._refresh()

    def disconnect(self, connection_id: str) -> None:
        """End the monitors of a connection."""
        if connection_id in self._monitors:
            self._monitors = _without(self._monitors, connection_id)
            self._told.pop(connection_id, None)
            self._refresh()

    def of(self, connection_id: str, names: TaskNames) -> dict[str, Any]:
        """The monitors of a connection, and which of these tasks they are about, as RocketRide's dashboard has them."""
        monitors = self._monitors.get(connection_id, {})
        shown: list[dict[str, Any]] = []
        for key, mask in monitors.items():
            token, project, source, pipe_id = key
            label = "*" if token == "*" else f"{project}.{source}" if token is None else names.of(key, "an ended task")[0]
            flags = [name.lower() for name, bit in TYPES.items() if mask & bit]
            shown.append({"key": label if pipe_id is None else f"{label} pipe {pipe_id}", "flags": flags})
        targets = {_target(key): key for key in monitors}.values()
        return {"monitors": shown, "attachedTasks": list(dict.fromkeys(name for key in targets for name in names.of(key)))}

    def _refresh(self) -> None:
        """Subscribe to the events that somebody wants, and to no others."""
        wanted = 0
        for monitors in self._monitors.values():
            for mask in monitors.values():
                wanted |= mask
        if self._logs is not None and self._logs.is_recording:
            wanted |= RECORDED
        kinds = {kind for type, named in KINDS.items() if wanted & type for kind in named}
        filter = Filter(kinds=frozenset(kinds))
        if self._subscription is None:
            self._subscription = self._host.events.subscribe(filter, self._on_event)
        elif self._subscription.filter != filter:
            self._subscription.change(filter)
        if wanted & SUMMARY and self._timer is None:
            self._timer = self._host.clock.call_later(STATUS_INTERVAL, self._tick)

    # -- snapshots and changes, on the loop

    def _send_present(self, caller: Caller, key: Key, mask: int) -> None:
        """Tell the present state to a new monitor."""
        connection, (token, project, source, _) = caller.connection_id, key
        running = [task for task in self._tasks.visible(caller) if _fits(key, task.token, task.project_id, task.source)]
        if mask & TASK:
            rows = [
                {"id": id_of(t.token, t.source), "name": t.name, "projectId": t.project_id, "source": t.source} for t in running
            ]
            self._send(connection, "apaevt_task", {"action": "running", "tasks": rows})
        if mask & SUMMARY:
            for task in running:
                self._send_status(caller, task, self._views.status(task), always=True)
            if not running and project is not None and source is not None:
                self._send(connection, "apaevt_status_update", {**no_task(project, source), "__id": f"{project}.{source}"})
            elif not running and token not in (None, "*"):
                found = self._views.find(token, caller)
                if isinstance(found, FinishedTask):
                    self._send_status(caller, found, found.status, always=True)

    def _tick(self) -> None:
        if self._views.refresh is None:
            self._send_changes()
        else:
            self._host.spawn(self._refresh_statuses(self._views.refresh), "status for monitors")

    async def _refresh_statuses(self, refresh: Callable[[list[TaskIdentity]], Awaitable[None]]) -> None:
        """Tell the changes of tasks that are elsewhere."""
        keys = {key for monitors in self._monitors.values() for key, mask in monitors.items() if mask & SUMMARY}
        await refresh(
            [task for task in self._tasks if any(_fits(key, task.token, task.project_id, task.source) for key in keys)]
        )
        self._send_changes()

    def _send_changes(self) -> None:
        """Tell the changes of the last second."""
        self._timer = None
        statuses: dict[int, dict[str, Any]] = {}
        for connection, monitors in self._monitors.items():
            client = self._clients.get(connection)
            keys = [key for key, mask in monitors.items() if mask & SUMMARY]
            if client is None or not keys:
                continue
            for task in self._tasks.visible(client.caller):
                if any(_fits(key, task.token, task.project_id, task.source) for key in keys):
                    status = statuses.get(task.number) or self._views.status(task)
                    statuses[task.number] = status
                    self._send_status(client.caller, task, status)
        if any(mask & SUMMARY for monitors in self._monitors.values() for mask in monitors.values()):
            self._timer = self._host.clock.call_later(STATUS_INTERVAL, self._tick)

    def _send_status(
        self, caller: Caller, task: TaskIdentity | FinishedTask, status: dict[str, Any], *, always: bool = False
    ) -> None:
        shown = status if is_whole(task.owner, caller) else without_objects(status)
        compared = {name: value for name, value in shown.items() if name != "metrics"}  # it changes all the time
        told = self._told.setdefault(caller.connection_id, {})
        if always or told.get(task.number) != compared:
            body = {**shown, "__id": id_of(task.token, status["source"])}
            if self._send(caller.connection_id, "apaevt_status_update", body):
                told[task.number] = compared
            else:  # the reader is slow: it is told when it reads again
                told.pop(task.number, None)

    # -- events, on their threads

    def _on_event(self, event: Any) -> None:
        told = notices_of(event, id_of(event.token or "", event.source))
        logs = self._logs
        if logs is None:
            self._send_all(event, told)
        else:
            with logs.lock:
                self._log(logs, event, told)
                self._send_all(event, told)
        if isinstance(event, ObjectEnded):
            self._count(event)

    def _log(self, logs: RunLogs, event: Any, told: list[Notice]) -> None:
        """Record an event of a traced run."""
        if isinstance(event, FlowStep | Message | Output):
            for name, body in told:
                logs.add(event.owner, event.token or "", name, body)
        elif isinstance(event, TaskBegun | TaskEnded):
            for name, body in told:
                logs.add(event.user_id, event.token or "", name, body)
            if isinstance(event, TaskEnded):
                self._log_last(logs, event.user_id, event.token)
                logs.end_run(event)
                self._refresh()

    def _log_last(self, logs: RunLogs, owner: str | None, token: str | None) -> None:
        """Record the present status of a traced task."""
        found, status = self._views.latest(token, Caller("", owner))
        if found is not None:
            body = {**status, "__id": id_of(found.token, status["source"]), "eventTime": time()}
            logs.add(owner, found.token, "apaevt_status_update", body)

    def _send_all(self, event: Any, told: list[Notice]) -> None:
        for connection, monitors in self._monitors.items():
            client = self._clients.get(connection)
            if client is None:
                continue
            try:
                if isinstance(event, PipeEvent):
                    self._on_pipe(client.caller, monitors, event, told)
                elif isinstance(event, TaskBegun | TaskEnded):
                    self._on_task(client.caller, monitors, event, told)
            except Exception:  # the other clients are told all the same
                log.exception("client=%s was not told of an event: a bug of rrext", connection)

    def _on_task(self, caller: Caller, monitors: dict[Key, int], event: TaskBegun | TaskEnded, told: list[Notice]) -> None:
        if not (caller.trusted or event.user_id is None or event.user_id == caller.user_id):
            return
        mask = _mask_for(monitors, event.token, event.project_id, event.source)
        if isinstance(event, TaskEnded) and event.reason == "restarted":
            return  # the begin of the new task tells it
        if mask & SUMMARY and event.token is not None:
            self._send_last(caller, event.token)
        if mask & TYPES["DETAIL"]:
            self._send(caller.connection_id, *state_of(event, told[0][1]["__id"]))
        if mask & TASK:
            self._send(caller.connection_id, *told[0])

    def _send_last(self, caller: Caller, token: str) -> None:
        """Tell the status of a task that began or ended."""
        found, status = self._views.latest(token, caller)
        if found is not None:  # so many may end at once that it is forgotten
            self._send_status(caller, found, status)
            if isinstance(found, FinishedTask):
                self._told.get(caller.connection_id, {}).pop(found.number, None)

    def _on_pipe(self, caller: Caller, monitors: dict[Key, int], event: PipeEvent, told: list[Notice]) -> None:
        if not (caller.trusted or (caller.user_id is not None and event.user_id == caller.user_id)):
            return
        if isinstance(event, FlowStep | Output) and not is_whole(event.owner, caller):
            return  # a pipeline of the server: its clients may use it, and not look into it
        token = event.token or ""
        if not _mask_for(monitors, token, event.project_id, event.source, event.pipe_id) & TYPE_OF[type(event)]:
            return
        for name, body in told:
            self._send(caller.connection_id, name, body)

    def _count(self, event: ObjectEnded) -> None:
        """Tell the numbers of the task of an object that ended."""
        for scope in {event.owner, None}:
            task = self._tasks.running(event.token or "", scope)
            if task is not None and task.owner == event.owner:
                self._send_counts(task)

    def _send_counts(self, task: TaskIdentity) -> None:
        status, now, logs = self._views.status(task), time(), self._logs
        number = id_of(task.token, task.source)
        if logs is not None and logs.wants_status(task, self._host.clock.now()):
            logs.add(task.owner, task.token, "apaevt_status_update", {**status, "__id": number, "eventTime": now})
        body = {**counts_of(status), "eventTime": now, "__id": number}
        for connection, monitors in self._monitors.items():
            client = self._clients.get(connection)
            wants = _mask_for(monitors, task.token, task.project_id, task.source) & TYPES["DETAIL"]
            if client is not None and wants and task.is_visible_to(client.caller):
                self._send(connection, "apaevt_status_counts", body)

    def _send(self, connection_id: str, name: str, body: dict[str, Any]) -> bool:
        """Send an event to a client; False if it was dropped."""
        client = self._clients.get(connection_id)
        return client is not None and client.notify is not None and client.notify(name, body)


class TaskNames:
    """The names of tasks by what a monitor may name: there may be a thousand monitors of a connection."""

    def __init__(self, tasks: Sequence[TaskIdentity]) -> None:
        self._names: dict[tuple[str | None, ...], list[str]] = {}
        for task in tasks:
            project = (None, task.project_id)
            for target in (("*",), (task.token,), (*project, task.source), (*project, "*")):
                self._names.setdefault(target, []).append(display_name(task))

    def of(self, key: Key, *otherwise: str) -> Sequence[str]:
        """The names of the tasks that a monitor is about."""
        return self._names.get(_target(key), otherwise)


def mask_of(types: list[str] | int | str | None) -> tuple[int, list[dict[str, Any]]]:
    """The bits of event types, and the names that nobody knows, each with known ones that are like it. If no name is known,
    raises `InvalidArguments`.
    """
    if isinstance(types, str):
        types = int(types) if types.isascii() and types.isdigit() and len(types) < 10 else [types]
    if isinstance(types, int):
        if not 0 <= types <= ALL:
            raise InvalidArguments.at("/types", f"expected names of event types, or a mask of their bits from 0 to {ALL}")
        return types, []
    mask, unknown = 0, dict[int, str]()
    for n, name in enumerate(types or ()):
        word = name.strip()
        bits = _BITS.get(word.upper(), EVENT_TYPES.get(word.lower()))
        if bits is None:
            unknown[n] = word[:MAX_QUOTED_NAME]
        else:
            mask |= bits
    if unknown and (len(unknown) == len(types or ()) or len(unknown) > MAX_IGNORED):
        n, near = min(unknown), _near_types(unknown[min(unknown)])
        hint = f'Did you mean "{near[0]}"?' if near else "one of " + ", ".join(TYPES)
        raise InvalidArguments.at(f"/types/{n}", f"there is no such type of events. {hint}", hint=hint)
    return mask, [{"name": name, "near": _near_types(name)} for name in unknown.values()]


def _near_types(name: str) -> list[str]:
    return near_matches(name.upper(), TYPES) or near_matches(name.lower(), EVENT_TYPES)


def _target(key: Key) -> tuple[str | None, ...]:
    return key[:3] if key[0] is None else key[:1]


def _fits(key: Key, token: str | None, project: str, source: str) -> bool:
    if key[0] is not None:
        return key[0] in ("*", token)
    return key[1] == project and key[2] in (source, "*")


def _mask_for(monitors: dict[Key, int], token: str | None, project: str, source: str, pipe_id: int | None = None) -> int:
    mask = 0
    for pipe in (None,) if pipe_id is None else (None, pipe_id):
        keys: tuple[Key, ...] = (
            ("*", None, None, pipe), (token, None, None, pipe), (None, project, source, pipe), (None, project, "*", pipe)
        )  # fmt: skip
        for key in keys:
            mask |= monitors.get(key, 0)
    return mask


def _without(monitors: dict[str, dict[Key, int]], connection_id: str) -> dict[str, dict[Key, int]]:
    return {connection: keys for connection, keys in monitors.items() if connection != connection_id}


Notice = tuple[str, dict[str, Any]]
"""The name of an event and its body."""


def notices_of(event: PipeEvent | TaskBegun | TaskEnded, number: str) -> list[Notice]:
    """What monitors are told of an event; `number` is the id of the task."""
    bodies = [_task(event)] if isinstance(event, TaskBegun | TaskEnded) else _of_pipes(event)
    return [(name, {**body, "eventTime": event.time, "__id": number}) for name, body in bodies]


def _task(event: TaskBegun | TaskEnded) -> Notice:
    action = "end" if isinstance(event, TaskEnded) else "restart" if event.is_restart else "begin"
    number = id_of(event.token or "", event.source)
    body = {"action": action, "name": event.name, "projectId": event.project_id, "source": event.source, "id": number}
    if isinstance(event, TaskEnded):
        body["reason"] = "ttl" if event.reason == "idle" else event.reason
    return "apaevt_task", body


def _of_pipes(event: PipeEvent) -> Iterator[Notice]:
    if event.pipe_id is None and not isinstance(event, Output):
        return  # RocketRide's clients tell such events apart by the pipe alone
    match event:
        case FlowStep():
            yield "apaevt_flow", _step(event)
        case Message():
            yield "apaevt_sse", {"pipe_id": event.pipe_id, "type": event.type, "data": event.data}
        case Output():
            named = {"project_id": event.project_id, "source": event.source, "pipe_id": event.pipe_id}
            yield "output", {"category": "console", "output": event.text, **named}
        case ObjectBegun():
            yield "apaevt_status_object", {"object": event.name[:MAX_TRACE_NAME], "size": event.size or 0, **_of_pipe(event)}
        case ObjectEnded():
            if event.code is not None:
                message = (event.message or event.code)[:MAX_TRACE_TEXT]
                yield "apaevt_status_error", {"message": message, "code": event.code, **_of_pipe(event)}
        case _:
            return


def state_of(event: TaskBegun | TaskEnded, number: str) -> Notice:
    """What monitors of details are told of the begin and the end of a task."""
    named = {"project_id": event.project_id, "source": event.source, "eventTime": event.time, "__id": number}
    return "apaevt_status_state", {"service": isinstance(event, TaskBegun), **named}


def counts_of(status: dict[str, Any]) -> dict[str, Any]:
    """The body of `apaevt_status_counts`: RocketRide's ten numbers."""
    units = [f"{what}{unit}" for what in ("total", "completed", "failed", "words", "rate") for unit in ("Size", "Count")]
    return {**{name: status[name] for name in units}, "project_id": status["project_id"], "source": status["source"]}


def _step(event: FlowStep) -> dict[str, Any]:
    body = {"id": event.pipe_id, "op": event.op, "pipes": event.stack, "component": event.component, "trace": event.trace}
    if event.result is not UNSET:
        body["result"] = event.result
    return {**body, "project_id": event.project_id, "source": event.source}


def _of_pipe(event: PipeEvent) -> dict[str, Any]:
    return {"pipe_id": event.pipe_id, "project_id": event.project_id, "source": event.source}
