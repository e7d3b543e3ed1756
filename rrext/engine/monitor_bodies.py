"""The bodies of RocketRide's events that tell of pipes: `apaevt_flow`, `apaevt_sse`, `output` and `apaevt_status_…`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from rrext.engine.events.records import FlowStep, Message, ObjectBegun, ObjectEnded, Output, PipeEvent, TaskBegun, TaskEnded
from rrext.engine.events.trace import MAX_TRACE_NAME, MAX_TRACE_TEXT
from rrext.engine.task_status import id_of

Told = tuple[str, dict[str, Any]]
"""The name of an event and its body."""


def told_of(event: PipeEvent | TaskBegun | TaskEnded, number: str) -> list[Told]:
    """What monitors are told of an event; `number` is the id of the task."""
    bodies = [_task(event)] if isinstance(event, TaskBegun | TaskEnded) else _of_pipes(event)
    return [(name, {**body, "eventTime": event.time, "__id": number}) for name, body in bodies]


def _task(event: TaskBegun | TaskEnded) -> Told:
    action = "end" if isinstance(event, TaskEnded) else "restart" if event.is_restart else "begin"
    number = id_of(event.token or "", event.source)
    body = {"action": action, "name": event.name, "projectId": event.project_id, "source": event.source, "id": number}
    if isinstance(event, TaskEnded):
        body["reason"] = "ttl" if event.reason == "idle" else event.reason
    return "apaevt_task", body


def _of_pipes(event: PipeEvent) -> Iterator[Told]:
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


def state_of(event: TaskBegun | TaskEnded, number: str) -> Told:
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
