"""The operation `restart`: another pipeline, or the same anew, in the place of a task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rrext.engine.interface import operations
from rrext.engine.interface.call import Caller
from rrext.engine.task_status import loaded_of
from rrext.engine.tasks.finished import FinishedTask
from rrext.engine.tasks.foreign import require_loading, require_owner

if TYPE_CHECKING:
    from rrext.engine.local_engine import LocalEngine
    from rrext.engine.task_views import TaskViews
    from rrext.engine.tasks.task import Task


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
