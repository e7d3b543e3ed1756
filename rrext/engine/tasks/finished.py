"""Tasks that have ended: their last status stays for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from rrext.clock import Clock
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.task_identity import TaskIdentity

FINISHED_TASK_TIME: Final = 300.0
"""Seconds for which a task that ended answers for its status, as in the reference server."""

MAX_FINISHED_TASKS: Final = 1000
"""Ended tasks whose status is kept; a client that begins and ends tasks in a loop must not fill the memory."""


class FinishedTask(msgspec.Struct, eq=False):
    """The last status of a task that is ending or has ended. `options` are those of its `load`."""

    number: int
    token: str
    owner: str | None
    scope: str | None
    project_id: str
    provider: str
    source: str
    pipeline: dict[str, Any]
    options: dict[str, Any]
    status: dict[str, Any]
    until: float

    def is_visible_to(self, caller: Caller) -> bool:
        """Whether a caller may see the status, by the rules of running tasks."""
        return caller.trusted or self.owner is None or self.owner == caller.user_id


class FinishedTasks:
    """The ended tasks of the last `FINISHED_TASK_TIME` seconds, the newest `MAX_FINISHED_TASKS` of them."""

    __slots__ = ("_clock", "_tasks")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: OrderedDict[int, FinishedTask] = OrderedDict()

    def add(self, task: TaskIdentity, status: dict[str, Any]) -> None:
        """Keep the status of a task that ends now."""
        until = self._clock.now() + FINISHED_TASK_TIME
        self._tasks[task.number] = FinishedTask(
            task.number,
            task.token,
            task.owner,
            task.scope,
            task.project_id,
            task.provider,
            task.source,
            task.pipeline,
            task.options,
            status,
            until,
        )
        while len(self._tasks) > MAX_FINISHED_TASKS:
            self._tasks.popitem(last=False)

    def update(self, task: TaskIdentity, status: dict[str, Any]) -> None:
        """Replace the status that is kept of a task."""
        if (kept := self._tasks.get(task.number)) is not None:
            kept.status = status

    def find(self, token: str | None, caller: Caller) -> FinishedTask | None:
        """The newest ended task of a token that a caller may see, its own before others."""
        found = [each for each in self if each.token == token and each.is_visible_to(caller)]
        return max(found, key=lambda each: (each.owner == caller.user_id, each.number), default=None)

    def replace(self, task: TaskIdentity) -> None:
        """Forget the ended tasks in whose place a new one runs."""
        for each in self:
            if each.token == task.token and each.owner == task.owner:
                del self._tasks[each.number]

    def __iter__(self) -> Iterator[FinishedTask]:
        now = self._clock.now()
        while self._tasks and next(iter(self._tasks.values())).until <= now:
            self._tasks.popitem(last=False)
        return iter(list(self._tasks.values()))
