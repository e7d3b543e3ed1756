"""What callers see of tasks: their status, in the fields that RocketRide clients read and for a while after their end, in
pages, and the outlines of pipelines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.tasks.pipes import OpenPipe
from rrext.engine.tasks.registry import FinishedTask, FinishedTasks
from rrext.engine.tasks.task import Task
from rrext.errors import InternalError, InvalidArguments, TaskError, TaskNotRegistered, Unavailable

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.clients import ConnectedClient
    from rrext.engine.tasks.registry import Tasks
    from rrext.engine.views.monitors import Monitors
    from rrext.engine.views.profiler import Profiler


if TYPE_CHECKING:
    Observation = operations.Monitor | operations.ProfileOperation | operations.LogOperation


class TaskViews:
    """Answers operations that look at tasks, and keeps the last status of those that ended. `status` is the whole status of a
    running task; `refresh` brings those of some tasks up to date, if they are elsewhere.
    """

    def __init__(
        self,
        host: Host,
        tasks: Tasks[Any],
        status: Callable[[Any], dict[str, Any]],
        clients: Mapping[str, ConnectedClient],
        refresh: Callable[[list[Any]], Awaitable[None]] | None = None,
    ) -> None:
        self._began = time()
        self._clients = clients
        self._monitors: Monitors | None = None
        self._profiler: Profiler | None = None
        self._host = host
        self._tasks = tasks
        self.status = status
        self.refresh = refresh
        self._finished = FinishedTasks(host.clock)

    def body(self, caller: Caller, operation: operations.Operation) -> dict[str, Any]:
        """The body of the answer to an operation that changes no task."""
        match operation:
            case operations.Monitor() | operations.ProfileOperation() | operations.LogOperation():
                return self._observed(caller, operation)
            case operations.ListTasks():
                return {"tasks": [summary_of(task, caller) for task in self._tasks.visible(caller)]}
            case operations.ListOffers():
                return {"tasks": [{"token": task.token, "offers": task.offers} for task in self._tasks.visible(caller)]}
            case operations.GetToken():
                return {"token": self.of_project(operation.project_id, operation.source, caller).token}
            case operations.GetPipeline(outline=True):
                task = self._tasks.get(operation.token, caller)
                return {"outline": outline_of(task.pipeline, task.source)}
            case operations.GetPipeline():
                found = self.find(operation.token, caller)
                if not is_whole(found.owner, caller):
                    raise Unavailable("This pipeline is the server's: its clients may use it, and not read it")
                return {"pipeline": found.pipeline}
            case operations.ListTaskRows():
                return page_of(self._task_rows(caller, self._client_rows(caller)), operation, order="startTime")
            case operations.ListConnections():
                return page_of(self._client_rows(caller), operation, order="connectedAt")
            case operations.Dashboard():
                clients = self._client_rows(caller)
                tasks = self._task_rows(caller, clients)
                running = sum(not task["completed"] for task in tasks)
                overview = {"totalConnections": len(clients), "activeTasks": running, "serverUptime": time() - self._began}
                overview["heldBytes"] = sum(client["heldBytes"] for client in clients)
                return {"overview": overview, "connections": clients, "tasks": tasks}
            case operations.TaskStatus():
                found = self.find(operation.token, caller)
                status = found.status if isinstance(found, FinishedTask) else self.status(found)
                return status if is_whole(found.owner, caller) else without_objects(status)
            case _:
                raise InternalError(f"no engine runs a {type(operation).__name__}")

    def _observed(self, caller: Caller, operation: Observation) -> dict[str, Any]:
        """The body of the answer to an operation that observes what runs; few clients do."""
        if isinstance(operation, operations.Monitor):
            return self._made_monitors().set(caller, operation)
        if isinstance(operation, operations.LogOperation):
            return self._made_monitors().logs.body(caller, operation)
        if operation.target is not None:
            self._tasks.get(operation.target, caller)
        if self._profiler is None:
            from rrext.engine.views.profiler import Profiler

            self._profiler = Profiler(self._host.clock)
        return self._profiler.body(caller, operation)

    def _made_monitors(self) -> Monitors:
        if self._monitors is None:
            from rrext.engine.views.monitors import Monitors

            self._monitors = Monitors(self._host, self._tasks, self, self._clients)
        return self._monitors

    def latest(self, token: str | None, caller: Caller) -> tuple[TaskIdentity | FinishedTask | None, dict[str, Any]]:
        """The task of a token with its last status; None if it is not known any more."""
        try:
            found = self.find(token, caller)
        except TaskError:
            return None, {}
        return found, found.status if isinstance(found, FinishedTask) else self.status(found)

    def find(self, token: str | None, caller: Caller) -> TaskIdentity | FinishedTask:
        """The task of a token: a running one, else one that ended. Raises `TaskNotRegistered` and `TaskAmbiguous`."""
        try:
            return self._tasks.get(token, caller)
        except TaskNotRegistered:
            if (finished := self._finished.find(token, caller)) is None:
                raise
            return finished

    def of_project(self, project_id: str, source: str, caller: Caller) -> TaskIdentity:
        """The newest running task of a project and source that a caller may see. Raises `TaskNotRegistered`."""
        found = [task for task in self._tasks.visible(caller) if (task.project_id, task.source) == (project_id, source)]
        if not found:
            raise TaskNotRegistered(
                "Your pipeline is not running: none has this project and source", hint="execute it first", data={"near": []}
            )
        return found[-1]

    def _task_rows(self, caller: Caller, clients: list[dict[str, Any]]) -> list[dict[str, Any]]:
        now = self._host.clock.now()
        ended = [each for each in self._finished if each.is_visible_to(caller)]
        rows = [row_of(task, self.status(task), idle=now - task.last_used) for task in self._tasks.visible(caller)]
        names = Counter(name for client in clients for name in client["attachedTasks"])
        for row in rows:
            row["connections"] = names[row["name"]]
        return sorted([*rows, *(row_of(each, each.status) for each in ended)], key=lambda row: row["startTime"])

    def _client_rows(self, caller: Caller) -> list[dict[str, Any]]:
        clients = [(number, each) for number, each in list(self._clients.items()) if _is_of(each.caller, caller)]
        if self._monitors is None:
            return [client.row() for _, client in clients]
        from rrext.engine.views.monitors import TaskNames

        callers = {(client.caller.user_id, client.caller.trusted): client.caller for _, client in clients}
        names = {who: TaskNames(self._tasks.visible(each)) for who, each in callers.items()}
        return [
            client.row() | self._monitors.of(number, names[client.caller.user_id, client.caller.trusted])
            for number, client in clients
        ]

    def disconnect(self, connection_id: str) -> None:
        """End the monitors of a connection that ended."""
        if self._monitors is not None:
            self._monitors.disconnect(connection_id)
        if self._profiler is not None:
            self._profiler.disconnect(connection_id)

    # -- life of tasks

    def begins(self, task: TaskIdentity) -> None:
        """Note a task that begins: tasks that ran in its place are forgotten."""
        self._finished.replace(task)
        if task.options.get("trace"):
            self._made_monitors().record(task)

    def stops(self, task: TaskIdentity) -> None:
        """Keep the status of a task that begins to end."""
        self._finished.add(task, stopping(self.status(task)))

    def ends(self, task: TaskIdentity, reason: str, **more: Any) -> None:
        """Keep the last status of a task that has ended; `more` are fields of it."""
        self._finished.update(task, ended(self.status(task), reason) | more)


def _is_of(other: Caller, caller: Caller) -> bool:
    """Whether a caller may see a connection: a trusted one all, others those of their own user."""
    return caller.trusted or (other.user_id is not None and other.user_id == caller.user_id)


DEFAULT_PAGE: Final = 50
"""Rows of a page of a list, if the request does not say, as in the reference server."""

MAX_PAGE: Final = 100
"""Rows of a page at most, as in the reference server."""

_BOUNDS = ("__gte", "__lte")


def page_of(rows: list[dict[str, Any]], request: Any, *, order: str) -> dict[str, Any]:
    """Make the answer `{rows, total, page, pageSize}` to a list command. `order` is the key of the rows without `sort`.

    Raises `InvalidArguments` for a filter or an order that is none.
    """
    if request.search:
        wanted = request.search.casefold()
        rows = [row for row in rows if any(wanted in str(value).casefold() for value in row.values() if _is_plain(value))]
    for name, value in (request.filters or {}).items():
        rows = [row for row in rows if _fits(row, name, value)]
    rows = sorted(rows, key=lambda row: (_sortable(row.get(order)), str(row["id"])))
    for each in reversed(request.sort or []):
        if not isinstance(each.get("field"), str) or each.get("dir", "asc") not in ("asc", "desc"):
            raise InvalidArguments.at("/sort", "expected a list of {field, dir}, dir being asc or desc")
        rows.sort(key=lambda row, field=each["field"]: _sortable(row.get(field)), reverse=each.get("dir") == "desc")
    size = min(max(request.page_size or DEFAULT_PAGE, 1), MAX_PAGE)
    last = max(1, -(-len(rows) // size))
    page = min(max(request.page or 1, 1), last)
    return {"rows": rows[(page - 1) * size : page * size], "total": len(rows), "page": page, "pageSize": size}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _sortable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, both before what has no order."""
    if isinstance(value, int | float):
        return (0, value, "")
    return (1, 0, value.casefold()) if isinstance(value, str) else (2, 0, "")


def _fits(row: dict[str, Any], name: str, wanted: Any) -> bool:
    for bound in _BOUNDS:
        if name.endswith(bound):
            value, limit = row.get(name.removesuffix(bound)), _number(wanted)
            return isinstance(value, int | float) and (value >= limit if bound == "__gte" else value <= limit)
    value = row.get(name)
    if isinstance(wanted, list):
        return str(value).casefold() in {str(each).casefold() for each in wanted}
    if isinstance(value, str):
        return str(wanted).casefold() in value.casefold()
    return str(value).casefold() == str(wanted).casefold()


def _number(wanted: Any) -> float:
    try:
        return float(wanted)
    except (TypeError, ValueError):
        raise InvalidArguments.at("/filters", "the bound of a range must be a number") from None


def outline_of(pipeline: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Make the outline `{sources, components}` of a pipeline as it was written. `source` is empty if there are several.

    What a pipeline that runs in part has in place of names and edges is left out.
    """
    components = [_component(part) for part in _objects(pipeline.get("components")) if isinstance(part.get("id"), str)]
    senders = {edge["from"] for part in components for edge in (*part["input"], *part["control"])}
    begins = [part["id"] for part in components if not part["input"] and not part["control"] and part["id"] in senders]
    return {"sources": [source] if source else begins, "components": components}


def _component(part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: part[name] if isinstance(part.get(name), str) else "" for name in ("id", "provider", "name")},
        "input": _edges(part.get("input"), "lane"),
        "control": _edges(part.get("control"), "classType"),
    }


def _edges(edges: Any, name: str) -> list[dict[str, str]]:
    return [
        {name: edge[name], "from": edge["from"]}
        for edge in _objects(edges)
        if isinstance(edge.get(name), str) and isinstance(edge.get("from"), str)
    ]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


RUNNING: Final = 3  # NONE 0, STARTING 1, INITIALIZING 2, RUNNING 3, STOPPING 4, COMPLETED 5, CANCELLED 6
STOPPING: Final = 4
ENDS: Final[dict[str, tuple[int, str, str]]] = {
    "idle": (5, "Completed", "the pipeline was idle for its ttl"),
    "terminated": (6, "Cancelled", "the pipeline was terminated"),
    "restarted": (6, "Cancelled", "the pipeline was restarted"),
    "closed": (6, "Cancelled", "the server ended"),
    "lost": (5, "Failed", "the process of the pipeline ended"),
}
"""The reason of a task's end → state, status and exit message."""

NO_TOKENS: Final = {
    "cpu_utilization": 0.0,
    "cpu_memory": 0.0,
    "gpu_memory": 0.0,
    "gpu_inference": 0.0,
    "custom": {},
    "total": 0.0,
}
"""The price of a task, in RocketRide's tokens: rrext charges for nothing."""


def id_of(token: str, source: str) -> str:
    """The id of a task, which does not tell a generated token."""
    return f"{token.removeprefix('tk_')[:8]}.{source}"


def display_name(task: TaskIdentity) -> str:
    """The name of a task with that of its source."""
    return f"{task.name}.{task.source}" if task.source else task.name


def no_task(project_id: str, source: str) -> dict[str, Any]:
    """The status of a project that has no task."""
    named = {"name": "", "project_id": project_id, "source": source, "state": 0, "status": "Not running"}
    falses = dict.fromkeys(("completed", "serviceUp", "debuggerAttached"), False)
    texts = dict.fromkeys(("exitMessage", "currentObject"), "")
    sizes = {f"{what}{unit}": 0 for what in ("total", "completed", "failed", "words", "rate") for unit in ("Size", "Count")}
    zeros = dict.fromkeys(("startTime", "endTime", "exitCode", "currentSize"), 0)
    spans = dict.fromkeys(("completionSeconds", "idleSeconds", "idleLongestSeconds", "idleLongestAt"), 0.0)
    lists: dict[str, Any] = {name: [] for name in ("warnings", "errors", "notes", "slowestDocs")}
    flow = {"tokens": NO_TOKENS, "pipeflow": {"totalPipes": 0, "byPipe": {}}, "componentStats": {}, "metrics": {}}
    return {**named, **falses, **texts, **sizes, **zeros, **spans, **lists, **flow}


def row_of(task: TaskIdentity | FinishedTask, status: dict[str, Any], idle: float = 0.0) -> dict[str, Any]:
    """The row of a task in the lists of RocketRide's dashboard."""
    done = status["completed"]
    return {
        "id": id_of(task.token, status["source"]),
        "name": status["name"],
        "projectId": status["project_id"],
        "source": status["source"],
        "provider": task.provider,
        "launchType": "execute",
        "startTime": status["startTime"],
        "elapsedTime": (status["endTime"] if done else time()) - status["startTime"],
        "completed": done,
        "status": None if done else status["status"],
        "exitCode": status["exitCode"] if done else None,
        "endTime": status["endTime"] if done else None,
        "connections": 0,
        "state": status["state"],
        "idleTime": int(idle),
        "ttl": int(task.options.get("ttl") or 0),
        **{name: status[name] for name in ("metrics", "totalCount", "completedCount", "rateCount", "rateSize")},
    }


def stopping(status: dict[str, Any]) -> dict[str, Any]:
    """The status of a task that begins to end."""
    return {**status, "state": STOPPING, "status": "Stopping", "serviceUp": False}


def ended(status: dict[str, Any], reason: str) -> dict[str, Any]:
    """The status of a task that has ended."""
    state, text, message = ENDS[reason]
    over = {"state": state, "status": text, "completed": True, "endTime": time(), "exitMessage": message, "serviceUp": False}
    return {**status, **over}


def loaded_of(task: TaskIdentity) -> dict[str, Any]:
    """Make the answer of `execute`."""
    source = task.source
    return {
        "id": id_of(task.token, source),
        "token": task.token,
        "publicToken": task.public_token,
        "projectId": task.project_id,
        "source": source,
        "provider": task.provider,
    }


def summary_of(task: TaskIdentity, caller: Caller) -> dict[str, Any]:
    """Make one row of `rrext_get_tasks`; its pipeline is the unresolved one, without secrets.

    A caller who is not trusted sees the pipelines that it sent, and not those of the server.
    """
    return {
        "name": task.name,
        "description": task.description,
        "source": task.source,
        "token": task.token,
        "publicToken": task.public_token,
        "status": "Running",
        "pipeline": task.pipeline if is_whole(task.owner, caller) else {},
    }


def is_whole(owner: str | None, caller: Caller) -> bool:
    """Whether a caller may see the content that users sent to a task; other callers see only that the task runs."""
    return caller.trusted or (owner is not None and owner == caller.user_id)


def without_objects(status: dict[str, Any]) -> dict[str, Any]:
    """The status for a caller who may not see the objects of others: without their names and their errors."""
    hidden = {"errors": [], "currentObject": "", "currentSize": 0, "slowestDocs": [], "componentStats": {}}
    return {**status, **hidden, "pipeflow": {**status["pipeflow"], "byPipe": {}}}


def status_of(task: Task, pipes: list[OpenPipe], redact: Callable[[str], str]) -> dict[str, Any]:
    """Make the whole status object; every field is there from the start, with its type. `redact` hides values of variables."""
    return {
        "name": display_name(task),
        "project_id": task.project_id,
        "source": task.source,
        "state": RUNNING,
        "completed": False,
        "startTime": task.started,
        "endTime": 0,
        "serviceUp": True,
        "debuggerAttached": False,
        "exitCode": 0,
        "exitMessage": "",
        "status": "Running",
        "warnings": list(task.warnings),
        "errors": task.errors,
        "unavailable": task.unavailable(redact),
        "notes": [],
        "currentObject": pipes[-1].entry.name if pipes else "",
        "currentSize": pipes[-1].entry.size or 0 if pipes else 0,
        "totalCount": task.finished_count + task.failed_count + len(pipes),
        "completedCount": task.finished_count,
        "failedCount": task.failed_count,
        **task.throughput.counters(pipes, task.now()),
        "componentStats": {} if task.trace is None else task.trace.component_stats(),
        "pipeflow": {"totalPipes": len(pipes), "byPipe": {str(pipe.id): _stack_of(pipe) for pipe in pipes}},
        "metrics": task.metrics.measured(),
        "tokens": NO_TOKENS,
        "calls": task.calls,
        "failedCalls": task.failed_calls,
        "leftBehind": task.left_behind,
        "loopBlocks": {"count": task.blocks.total(), "tools": dict(task.blocks)},
        "threads": {"limit": task.places.limit, "used": task.places.used, "waiting": task.places.waiting},
        "syncCalls": {"limit": task.sync_places.limit, "used": task.sync_places.used, "waiting": task.sync_places.waiting},
    }


def _stack_of(pipe: OpenPipe) -> list[str]:
    """The components that work on the object of a pipe, as far as it is traced."""
    return [] if pipe.origin.trace is None else pipe.origin.trace.components


STATUS_INTERVAL: Final = 1.0
"""Seconds between two statuses of a task that a monitor is told, as in the reference server."""
