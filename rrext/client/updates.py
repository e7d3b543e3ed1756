"""What a call reports while it runs: its latest progress, and chunks. Delivered in the caller's own task."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias

from rrext.limits import CLIENT_DEFAULTS

__all__ = ["ChunkCallback", "EventCallback", "EventUpdates", "ProgressCallback", "Updates"]

ProgressCallback: TypeAlias = Callable[[float, float | None, str | None], Awaitable[object] | object]
"""Called with progress, total and message; may be `async`."""
ChunkCallback: TypeAlias = Callable[[Any], Awaitable[object] | object]
"""Called with each chunk, in order; may be `async`."""

EventCallback: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[object] | object]
"""Called with the name and the body of each event of a request; may be `async`."""


class Updates:
    """Progress and chunks of one call that its callbacks have not seen. Of progress only the latest is kept.

    Callbacks run in the task of the caller, so what they raise ends that call and no other.
    """

    __slots__ = ("_backlog", "_chunks", "_on_chunk", "_on_drained", "_on_progress", "_progress")

    def __init__(
        self, on_progress: ProgressCallback | None, on_chunk: ChunkCallback | None, on_drained: Callable[[], None]
    ) -> None:
        self._on_progress: Callable[..., Awaitable[object] | object] | None = on_progress
        self._on_chunk: Callable[..., Awaitable[object] | object] | None = on_chunk
        self._on_drained = on_drained
        self._progress: tuple[Any, ...] | None = None
        self._chunks: deque[tuple[Any, int]] = deque()
        self._backlog = 0

    @property
    def pending(self) -> bool:
        """Whether something waits for a callback."""
        return self._progress is not None or bool(self._chunks)

    @property
    def behind(self) -> bool:
        """Whether so much waits that it is better to read no more, if that delays nobody else."""
        return self._backlog > CLIENT_DEFAULTS.chunk_backlog

    @property
    def hopeless(self) -> bool:
        """Whether so much waits that the call has to be given up."""
        return self._backlog > CLIENT_DEFAULTS.max_chunk_backlog

    def add_progress(self, body: dict[str, Any]) -> None:
        """Take in the body of an `rrext_progress` event."""
        if self._on_progress is not None:
            self._progress = (body.get("progress", 0), body.get("total"), body.get("message"))

    def add_chunk(self, body: dict[str, Any], cost: int) -> None:
        """Take in the body of an `rrext_chunk` event that took `cost` bytes."""
        if self._on_chunk is not None:
            self._chunks.append((body["chunk"] if "chunk" in body else body.get("data"), cost))
            self._backlog += cost

    def discard(self) -> None:
        """Nobody wants them any more."""
        self._progress = None
        self._chunks.clear()
        self._backlog = 0
        self._on_drained()

    async def deliver(self) -> None:
        """Call back with all that waits."""
        while self.pending:
            if self._chunks:
                chunk, cost = self._chunks.popleft()
                was_behind = self.behind
                self._backlog -= cost
                if was_behind and not self.behind:
                    self._on_drained()
                await _call(self._on_chunk, chunk)
            elif self._progress is not None:
                progress, self._progress = self._progress, None
                await _call(self._on_progress, *progress)


class EventUpdates(Updates):
    """The same for who wants the events as they are, to hand them on."""

    __slots__ = ()

    def __init__(self, on_event: EventCallback, on_drained: Callable[[], None]) -> None:
        super().__init__(None, None, on_drained)
        self._on_progress = partial(on_event, "rrext_progress")
        self._on_chunk = partial(on_event, "rrext_chunk")

    def add_progress(self, body: dict[str, Any]) -> None:
        self._progress = (body,)

    def add_chunk(self, body: dict[str, Any], cost: int) -> None:
        self._chunks.append((body, cost))
        self._backlog += cost


async def _call(callback: Callable[..., Awaitable[object] | object] | None, *values: Any) -> None:
    if callback is not None:
        answer = callback(*values)
        if isawaitable(answer):
            await answer
