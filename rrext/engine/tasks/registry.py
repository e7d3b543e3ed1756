"""The registry of loaded pipelines: by token, and by user, project and source."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rrext.engine.tasks.task import Task
from rrext.errors import TaskAlreadyRunning, TaskAmbiguous, TaskNotRegistered, near_matches


def new_token(prefix: str) -> str:
    """A token that cannot be guessed: 128 random bits."""
    return f"{prefix}_{os.urandom(16).hex()}"


def already_running() -> TaskAlreadyRunning:
    """Make the error of an `execute` for a pipeline that already runs."""
    return TaskAlreadyRunning("Pipeline is already running.", hint="pass useExisting to join it, or terminate it first")


class Tasks:
    """The registry of running pipelines. A token names a task; without a token the only task is meant."""

    __slots__ = ("_by_token", "_only")

    def __init__(self) -> None:
        self._by_token: dict[str, Task] = {}
        self._only: Task | None = None

    def add(self, task: Task) -> None:
        """Register a task, whose token must be unused."""
        self._by_token[task.token] = task
        self._find_only()

    def find_same(self, token: str | None, key: tuple[str | None, str, str]) -> Task | None:
        """Find the task with that token or, if the caller chose no token, with that user, project and source."""
        if token is not None:
            return self._by_token.get(token)
        return next((task for task in self._by_token.values() if task.key == key), None)

    def get(self, token: str | None) -> Task:
        """The task of a token, or the only task. Raises `TaskNotRegistered` and `TaskAmbiguous`."""
        if token is None:
            only = self._only
            if only is not None:
                return only
            if not self._by_token:
                raise TaskNotRegistered("Your pipeline is not running: no pipeline is loaded", hint="execute one first")
            names = ", ".join(sorted(self._public()))
            raise TaskAmbiguous(
                "Task token is required: several pipelines run", hint=f"pass `token`, one of: {names}",
                data={"tokens": sorted(self._public())},
            )  # fmt: skip
        task = self._by_token.get(token)
        if task is None:
            near = near_matches(token, self._public())
            hint = f'Did you mean "{near[0]}"?' if near else "execute it first"
            raise TaskNotRegistered(f"Your pipeline is not running. {hint}", hint=hint, data={"near": near})
        return task

    def remove(self, task: Task) -> None:
        """Forget the task."""
        self._by_token.pop(task.token, None)
        self._find_only()

    def _find_only(self) -> None:
        tasks = list(self._by_token.values())
        self._only = tasks[0] if len(tasks) == 1 else None

    def _public(self) -> list[str]:
        """The tokens that error messages may show: file stems and tokens chosen by callers. Generated tokens are secrets."""
        return [token for token in self._by_token if not token.startswith("tk_")]

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._by_token.values()))

    def __len__(self) -> int:
        return len(self._by_token)
