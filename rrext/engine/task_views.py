"""What callers see of tasks: their status, also for a while after their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rrext.engine.interface import operations
from rrext.engine.task_status import ended, is_whole, status_of, stopping, summary_of, without_objects
from rrext.engine.tasks.finished import FinishedTask, FinishedTasks
from rrext.errors import InternalError, TaskNotRegistered

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Caller
    from rrext.engine.tasks.pipes import Pipes
    from rrext.engine.tasks.registry import Tasks
    from rrext.engine.tasks.task import Task


class TaskViews:
    """Answers operations that look at tasks, and keeps the last status of those that ended."""

    def __init__(self, host: Host, tasks: Tasks, pipes: Pipes) -> None:
        self._host = host
        self._tasks = tasks
        self._pipes = pipes
        self._finished = FinishedTasks(host.clock)

    def body(self, caller: Caller, operation: operations.Operation) -> dict[str, Any]:
        """The body of the answer to an operation that changes nothing."""
        match operation:
            case operations.ListTasks():
                return {"tasks": [summary_of(task, caller) for task in self._tasks.visible(caller)]}
            case operations.TaskStatus():
                found = self.find(operation.token, caller)
                status = found.status if isinstance(found, FinishedTask) else self.status(found)
                return status if is_whole(found.owner, caller) else without_objects(status)
            case _:
                raise InternalError(f"no engine runs a {type(operation).__name__}")

    def find(self, token: str | None, caller: Caller) -> Task | FinishedTask:
        """The task of a token: a running one, else one that ended. Raises `TaskNotRegistered` and `TaskAmbiguous`."""
        try:
            return self._tasks.get(token, caller)
        except TaskNotRegistered:
            if (finished := self._finished.find(token, caller)) is None:
                raise
            return finished

    def status(self, task: Task) -> dict[str, Any]:
        """The whole status of a running task."""
        return status_of(task, self._pipes.of_task(task), self._host.redactor.text)

    # -- life of tasks

    def begins(self, task: Task) -> None:
        """Note a task that begins: tasks that ran in its place are forgotten."""
        self._finished.replace(task)

    def stops(self, task: Task) -> None:
        """Keep the status of a task that begins to end."""
        self._finished.add(task, stopping(self.status(task)))

    def ends(self, task: Task, reason: str) -> None:
        """Keep the last status of a task that has ended."""
        self._finished.update(task, ended(self.status(task), reason))
