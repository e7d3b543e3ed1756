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
    """The error of an `execute` for what runs."""
    return TaskAlreadyRunning("Pipeline is already running.", hint="pass useExisting to join it, or terminate it first")


class Tasks:
    """Which pipelines run. A token names a task; no token means the only one."""

    __slots__ = ("_by_token",)

    def __init__(self) -> None:
        self._by_token: dict[str, Task] = {}

    def add(self, task: Task) -> None:
        """Register a task whose token is not taken."""
        self._by_token[task.token] = task

    def find_same(self, token: str | None, key: tuple[str | None, str, str]) -> Task | None:
        """The task of that token or, for a caller who chose none, of that user, project and source."""
        if token is not None:
            return self._by_token.get(token)
        return next((task for task in self._by_token.values() if task.key == key), None)

    def get(self, token: str | None) -> Task:
        """The task of a token, or the only task. Raises `TaskNotRegistered` and `TaskAmbiguous`."""
        if token is None:
            if len(self._by_token) == 1:
                return next(iter(self._by_token.values()))
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

    def _public(self) -> list[str]:
        """Tokens that may be shown: a file's stem and a caller's choice are names, a generated one is a secret."""
        return [token for token in self._by_token if not token.startswith("tk_")]

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._by_token.values()))

    def __len__(self) -> int:
        return len(self._by_token)
