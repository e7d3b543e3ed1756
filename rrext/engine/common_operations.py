"""Operations that engines of one process and of many answer alike: `execute`, `restart`, and others that take their time."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.calls.run import TaskWork
from rrext.engine.interface import operations
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.failures import internal_error
from rrext.engine.task_status import loaded_of
from rrext.engine.tasks.foreign import require_loading, require_owner
from rrext.engine.tasks.registry import FinishedTask
from rrext.errors import InvalidArguments, RrextError, ToolError, near_matches

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.local_engine import LocalEngine
    from rrext.engine.task_views import TaskViews
    from rrext.engine.tasks.task import Task
    from rrext.limits import Limits


REMOTE_TTL: Final = 900.0
"""Idle seconds until a pipeline of a network client ends, if the client names none: RocketRide's default."""


def load_options(call: Call, operation: operations.Execute, limits: Limits) -> dict[str, Any]:
    """The options of the `load` that an `execute` asks for. Raises `InvalidArguments`, and `Unavailable` for a caller who may
    load nothing.
    """
    if operation.threads is not None and operation.threads < 1:
        raise InvalidArguments.at("/threads", "expected a number of pipes above 0")
    if operation.ttl is not None and operation.ttl < 0:
        raise InvalidArguments.at("/ttl", "expected idle seconds, 0 for ever")
    if operation.token is not None and not operation.token.strip():
        raise InvalidArguments.at("/token", "expected a name that is not empty")
    require_loading(call.caller)
    if operation.folder is not None and not call.caller.trusted:
        raise InvalidArguments.at("/folder", "only who started the server may name a folder")
    return {
        "token": operation.token,
        "name": operation.name,
        "source": operation.source,
        "threads": None if operation.threads is None else min(operation.threads, limits.threads),
        "ttl": _ttl(call, operation),
        "owner": call.caller.user_id,
        "env": operation.env,
        "folder": None if operation.folder is None else os.path.abspath(operation.folder),
        "use_existing": bool(operation.use_existing),
        "partial": bool(operation.partial),
        "remote": not call.caller.trusted,
        "trace": _trace_level(operation.pipeline_trace_level),
    }


def execute(engine: LocalEngine, call: Call, operation: operations.Execute) -> dict[str, Any]:
    """Load a pipeline as the caller asks; the body of the answer. Raises what `LocalEngine.load` raises."""
    task = engine.load(operation.pipeline, **load_options(call, operation, engine.limits))
    body = loaded_of(task)
    return {**body, "unavailable": task.unavailable(engine.environment.redactor.text)} if operation.partial else body


def _ttl(call: Call, operation: operations.Execute) -> float | None:
    """The idle seconds until a pipeline ends. A network client that names none may be gone for ever."""
    if operation.ttl is None:
        return REMOTE_TTL if call.caller.is_keyed or not call.caller.trusted else None
    return operation.ttl or None


def _trace_level(name: str | None) -> int:
    if name is None:
        return 0
    from rrext.engine.events.trace import LEVELS

    if name not in LEVELS:
        near = near_matches(name, LEVELS)
        hint = f'Did you mean "{near[0]}"?' if near else "one of " + ", ".join(LEVELS)
        raise InvalidArguments.at("/pipelineTraceLevel", f"there is no such level of traces. {hint}", hint=hint)
    return LEVELS[name]


def task_to_restart(
    views: TaskViews, caller: Caller, operation: operations.Restart
) -> tuple[Any, dict[str, Any] | str, dict[str, Any]]:
    """The task that a request means, running or ended, the pipeline in its place, and the options of its `load`.

    Raises for a task that the caller may not end.
    """
    if operation.token is None and operation.project_id and operation.source:
        before: Any = views.of_project(operation.project_id, operation.source, caller)
    else:
        before = views.find(operation.token, caller)
    require_owner(before, caller)
    if operation.pipeline is not None:
        require_loading(caller)
    pipeline = before.pipeline if operation.pipeline is None else operation.pipeline
    return before, pipeline, {**before.options, "token": before.token, "source": operation.source}


async def restart(engine: LocalEngine, views: TaskViews, caller: Caller, operation: operations.Restart) -> dict[str, Any]:
    """End a task and load a pipeline under its token, with its threads, ttl and variables; the body of the answer.

    The pipeline is checked first: a wrong one leaves the task as it is. A task that has ended begins again.
    """
    before, pipeline, options = task_to_restart(views, caller, operation)
    task = engine.load(pipeline, replaces=before, **options)
    task.is_restarted = True
    if not isinstance(before, FinishedTask):
        # Shielded: a cancel ends the caller's wait, and the new task begins all the same.
        await asyncio.shield(engine.host.spawn(_replace(engine, before, task), f"restart {task.name}"))
    else:
        engine.begin(task)
    return loaded_of(task)


async def _replace(engine: LocalEngine, before: Task, task: Task) -> None:
    await engine.unload(before, reason="restarted")
    engine.begin(task)


log: Final = logging.getLogger("rrext.engine")


async def answer_slowly(host: Host, call: Call, work: Callable[[Call], Awaitable[tuple[bytes, bytes | None]]]) -> None:
    """Answer a call with the encoded body and the raw bytes that `work` returns, or with its error."""
    if call.settled:
        return  # cancelled before it began
    call.work = TaskWork(asyncio.current_task())
    host.limit(call)
    host.watch(call)
    try:
        if call.outlet is not None:
            await call.outlet.room()  # no answer needs to be made before there is room for it
        encoded, tail = await work(call)
    except asyncio.CancelledError:
        if call.fail(ToolError("the operation was cancelled from inside")):
            return
        raise
    except RrextError as error:
        call.fail(error)
    except BaseException:  # the import of a node's module may raise anything, and must not end the loop
        log.exception("%s a bug of rrext", call.name)
        call.fail(internal_error())
    else:
        call.succeed(encoded, tail)
