"""The registry of pipelines: the running ones by token, and by user, project and source; and those that have ended."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from rrext.engine.interface.call import ANONYMOUS, Caller
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.interface.totals import Totals
from rrext.errors import TaskAlreadyRunning, TaskAmbiguous, TaskNotRegistered, TooManyRequests, near_matches

if TYPE_CHECKING:
    from rrext.clock import Clock


MAX_REMOTE_TASKS: Final = 200
"""Pipelines that a user on a network may have running: each costs memory until it ends."""

T = TypeVar("T", bound=TaskIdentity)


def already_running() -> TaskAlreadyRunning:
    """Make the error of an `execute` for a pipeline that already runs."""
    return TaskAlreadyRunning("Pipeline is already running.", hint="pass useExisting to join it, or terminate it first")


class Tasks(Generic[T]):
    """The registry of running pipelines. A token names a task; without a token the only task is meant.

    A caller who is not trusted finds tasks without an owner and those of its own user. The tokens that it chooses are names
    among its own tasks: no other user's token is taken, and none can be told from one that never was.
    """

    __slots__ = ("_by_token", "_ended", "_loading", "only")

    def __init__(self) -> None:
        self._by_token: dict[tuple[str | None, str], T] = {}
        self._loading: Counter[str | None] = Counter()
        """User → the tasks that are being loaded in a process of their own."""
        self.only: T | None = None
        """The only task, also if some callers do not see it."""
        self._ended = (0, 0, 0)
        """The calls, the completed and the failed objects of tasks that have ended."""

    def add(self, task: T) -> None:
        """Register a task, whose token must be unused."""
        self._by_token[task.scope, task.token] = task
        self._find_only()

    def require_room(self, user: str | None, more: int = 1) -> None:
        """Raise `TooManyRequests` if a network client's user may not have so many more tasks than run and are loaded."""
        running = sum(task.scope == user for task in self._by_token.values() if task.scope is not None)
        if running + self._loading[user] + more > MAX_REMOTE_TASKS:
            raise TooManyRequests(
                f"{MAX_REMOTE_TASKS} pipelines of this user run already", hint="terminate some, or let them end by a ttl"
            )

    @contextmanager
    def room(self, user: str | None, *, extra: bool) -> Iterator[None]:
        """Keep room for a task of a network client's user while it is loaded. One `extra` task beyond the limit may be loaded.
        Raises `TooManyRequests`.
        """
        self.require_room(user, 0 if extra else 1)
        self._loading[user] += 1
        try:
            yield
        finally:
            self._loading[user] -= 1
            if not self._loading[user]:
                del self._loading[user]

    def find_same(self, token: str | None, task: T) -> T | None:
        """Find the task that runs in place of a new one: of the same token or, if the caller chose none, with that user,
        project and source.
        """
        if token is not None:
            return self.running(token, task.scope)
        return next((other for other in self._by_token.values() if other.scope == task.scope and other.key == task.key), None)

    def running(self, token: str, scope: str | None) -> T | None:
        """The running task of a token among those of a user who is not trusted, or of all who are."""
        return self._by_token.get((scope, token))

    def get(self, token: str | None, caller: Caller = ANONYMOUS) -> T:
        """The task of a token, or the only task, as a caller sees it. Raises `TaskNotRegistered` and `TaskAmbiguous`."""
        if token is None:
            only = self.only
            return only if only is not None and (caller.trusted or only.is_visible_to(caller)) else self._only_visible(caller)
        task = self._named(token, caller)
        if task is None:
            near = near_matches(token, self._public(caller))
            hint = f'Did you mean "{near[0]}"?' if near else "execute it first"
            raise TaskNotRegistered(f"Your pipeline is not running. {hint}", hint=hint, data={"near": near})
        return task

    def _only_visible(self, caller: Caller) -> T:
        tasks = self.visible(caller)
        if len(tasks) == 1:
            return tasks[0]
        if not tasks:
            raise TaskNotRegistered("Your pipeline is not running: no pipeline is loaded", hint="execute one first")
        names = sorted(self._public(caller))
        raise TaskAmbiguous(
            "Task token is required: several pipelines run", hint=f"pass `token`, one of: {', '.join(names)}",
            data={"tokens": names},
        )  # fmt: skip

    def _named(self, token: str, caller: Caller) -> T | None:
        if not caller.trusted and (own := self._by_token.get((caller.user_id, token))) is not None:
            return own
        task = self._by_token.get((None, token))
        if task is None and caller.trusted:
            task = next((task for task in self._by_token.values() if task.token == token), None)
        return task if task is not None and task.is_visible_to(caller) else None

    def visible(self, caller: Caller) -> list[T]:
        """The tasks that a caller may see and use."""
        return [task for task in self._by_token.values() if task.is_visible_to(caller)]

    def with_key(self, public_token: str) -> T | None:
        """The task of a public token, which is a key for sending data to it. It takes the same time for every wrong one."""
        from hmac import compare_digest  # few servers need it, and its libraries cost two milliseconds of the start

        found = None
        for task in self._by_token.values():
            if compare_digest(task.public_token.encode(), public_token.encode()):
                found = task
        return found

    def remove(self, task: T) -> None:
        """Forget the task."""
        if self._by_token.pop((task.scope, task.token), None) is not None:
            calls, completed, failed = self._ended
            self._ended = calls + task.calls, completed + task.finished_count, failed + task.failed_count
        self._find_only()

    def _find_only(self) -> None:
        tasks = list(self._by_token.values())
        self.only = tasks[0] if len(tasks) == 1 else None

    def totals(self, pipes: int) -> Totals:
        """The numbers of all tasks, with that of the open pipes."""
        tasks, (calls, completed, failed) = self._by_token.values(), self._ended
        return Totals(
            tasks=len(tasks),
            pipes=pipes,
            running=sum(len(task.active) for task in tasks),
            calls=calls + sum(task.calls for task in tasks),
            completed=completed + sum(task.finished_count for task in tasks),
            failed=failed + sum(task.failed_count for task in tasks),
        )

    def _public(self, caller: Caller) -> list[str]:
        """The tokens that error messages may show: file stems and tokens chosen by callers. Generated tokens are secrets."""
        return [task.token for task in self.visible(caller) if not task.token.startswith("tk_")]

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_token.values()))

    def __len__(self) -> int:
        return len(self._by_token)


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
