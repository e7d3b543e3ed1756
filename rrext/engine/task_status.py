"""The status of a task, in the fields that RocketRide clients read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rrext.engine.tasks.pipes import OpenPipe
from rrext.engine.tasks.task import Task

RUNNING: Final = 3  # NONE 0, STARTING 1, INITIALIZING 2, RUNNING 3, STOPPING 4, COMPLETED 5, CANCELLED 6


def loaded_of(task: Task) -> dict[str, Any]:
    """Make the answer of `execute`."""
    source = task.spec.source
    return {
        "id": f"{task.token.removeprefix('tk_')[:8]}.{source}",
        "token": task.token,
        "publicToken": task.public_token,
        "projectId": task.spec.project_id,
        "source": source,
        "provider": task.spec.component(source).provider if source else "",
    }


def summary_of(task: Task) -> dict[str, Any]:
    """Make one row of `rrext_get_tasks`; its pipeline is the unresolved one, without secrets."""
    return {
        "name": task.name,
        "description": task.spec.description or "",
        "source": task.spec.source,
        "token": task.token,
        "status": "Running",
        "pipeline": task.pipeline,
    }


def status_of(task: Task, pipes: list[OpenPipe], redact: Callable[[str], str]) -> dict[str, Any]:
    """Make the whole status object; every field is there from the start, with its type. `redact` hides values of variables."""
    counters = {f"{what}{unit}": 0 for what in ("total", "completed", "failed", "words", "rate") for unit in ("Size", "Count")}
    counters["completedCount"] = task.finished_count
    counters["failedCount"] = task.failed_count
    counters["totalCount"] = task.finished_count + task.failed_count + len(pipes)
    return {
        "name": f"{task.name}.{task.spec.source}" if task.spec.source else task.name,
        "project_id": task.spec.project_id,
        "source": task.spec.source,
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
        **counters,
        "pipeflow": {"totalPipes": len(pipes), "byPipe": {str(pipe.id): [] for pipe in pipes}},
        "metrics": {},
        "tokens": {},
        "calls": task.calls,
        "leftBehind": task.left_behind,
        "loopBlocks": {"count": task.blocks.total(), "tools": dict(task.blocks)},
        "threads": {"limit": task.places.limit, "used": task.places.used, "waiting": task.places.waiting},
        "syncCalls": {"limit": task.sync_places.limit, "used": task.sync_places.used, "waiting": task.sync_places.waiting},
    }
