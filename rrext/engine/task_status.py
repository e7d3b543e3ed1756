"""The status of a task, in the fields that RocketRide clients read."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import Any, Final

from rrext.engine.interface.call import Caller
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.tasks.pipes import OpenPipe
from rrext.engine.tasks.registry import FinishedTask
from rrext.engine.tasks.task import Task

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
    """Whether a caller may see of a task what its users sent to it, and not only that it runs."""
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
        "errors": list(task.errors),
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
