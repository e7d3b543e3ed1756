"""The run of an operation that is one asyncio task, such as `execute` or a list of tools."""

from __future__ import annotations

import asyncio
from typing import Any

from rrext.tools.context import CancelReason

__all__ = ["TaskWork"]


class TaskWork:
    """Stops the task of a call. It holds nothing that has to be given back."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def stop(self, reason: CancelReason) -> None:
        if self._task is not None:
            self._task.cancel()

    def overstay(self) -> None: ...
