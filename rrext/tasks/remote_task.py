"""A task in a worker, as the server knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rrext.engine.interface.task_identity import TaskIdentity, ToolNames

if TYPE_CHECKING:
    from rrext.tasks.worker import Worker


class RemoteTask(TaskIdentity):
    """The names of a task, its worker, and its last known status."""

    __slots__ = ("_text_type", "_tool_names", "is_finished", "latest", "offers", "open_pipes", "unavailable", "worker")

    def __init__(self, described: dict[str, Any], options: dict[str, Any], worker: Worker, now: float) -> None:
        super().__init__(
            token=described["token"],
            public_token=described["publicToken"],
            name=described["name"],
            project_id=described["projectId"],
            source=described["source"],
            provider=described["provider"],
            description=described["description"],
            pipeline=described["pipeline"],
            options=options,
            active=worker.calls,
            now=now,
        )
        self.worker = worker
        self.latest: dict[str, Any] = described["status"]
        """The status as the worker told it last."""
        self.is_finished = False
        self.open_pipes = 0
        self._tool_names = ToolNames(*described["toolNames"])
        self.offers: list[dict[str, Any]] = described["offers"]
        self._text_type: str = described["textType"]
        self.unavailable: list[dict[str, Any]] = described["unavailable"]

    @property
    def tool_names(self) -> ToolNames:
        return self._tool_names

    @property
    def text_type(self) -> str:
        return self._text_type

    def take_statuses(self, told: dict[str, Any]) -> None:
        """Take the answer of the worker to a question for its status. After the end of the task the answer has no status."""
        if told["statuses"]:
            self.take_status(told["statuses"][0], told["totals"])

    def take_status(self, status: dict[str, Any], totals: dict[str, int]) -> None:
        """Take what the worker tells of the task."""
        self.latest = status
        self.open_pipes, self.calls = totals["pipes"], totals["calls"]
        self.finished_count, self.failed_count = totals["completed"], totals["failed"]
