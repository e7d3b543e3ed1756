"""What a worker needs of the engine that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rrext.tasks.worker import Worker


class Home(Protocol):
    """The engine of a worker's calls, which hears what happens to its task."""

    def met(self, worker: Worker, connection_id: str) -> None:
        """The worker has something of a connection from now on."""
        ...

    def asked(self, worker: Worker, body: bytes, tail: bytes | None) -> None:
        """Do what a tool of the worker asks of other pipelines."""
        ...

    def ask_cancelled(self, worker: Worker, number: int) -> None:
        """Stop that."""
        ...

    def task_retired(self, worker: Worker, status: dict[str, Any], totals: dict[str, int]) -> None:
        """The task ends: it takes no more calls."""
        ...

    def task_ended(self, worker: Worker, reason: Any, status: dict[str, Any]) -> None:
        """The task has ended."""
        ...

    def tell(self, event: Any) -> None:
        """Publish an event."""
        ...

    def said(self, worker: Worker, text: bytes) -> None:
        """Write what the worker wrote to stderr."""
        ...

    def redacted(self, text: str) -> str:
        """A text of stderr without secrets."""
        ...

    def lost(self, worker: Worker) -> None:
        """The process has ended."""
        ...
