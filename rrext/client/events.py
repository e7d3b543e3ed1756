"""The stream of events that a server sends without a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import anyio
import msgspec

from rrext.errors import NotConnected, RrextError
from rrext.limits import CLIENT_DEFAULTS

TraceLevel = Literal["none", "metadata", "summary", "full"]
"""How much monitors are told of the objects of a pipeline (`pipelineTraceLevel` of `execute`)."""


class MonitorTarget(TypedDict, total=False):
    """The tasks of a monitor: those of a token, or of a project and its source; without any, all."""

    token: str
    project_id: str
    source: str
    pipe_id: int


def monitor_arguments(types: Sequence[str], target: MonitorTarget) -> dict[str, Any]:
    """The arguments of `rrext_monitor`."""
    names = {"project_id": "projectId", "pipe_id": "pipeId"}
    return {"types": list(types), **{names.get(name, name): value for name, value in (target or {"token": "*"}).items()}}


class ServerEvent(msgspec.Struct, frozen=True):
    """One event of the server. `missed` counts the events just before it that were dropped, as the reader was slow."""

    name: str
    body: dict[str, Any]
    missed: int = 0


class EventStream:
    """Server events from the moment this was made, oldest first: `async for event in client.events()`.

    It ends when the client is closed and raises `ServerExited` when the server is gone. When more than `size` events
    wait, the oldest are dropped; `dropped` counts them all.
    """

    __slots__ = ("__weakref__", "_end", "_error", "_missed", "_queue", "_size", "_wake", "dropped")

    def __init__(self, size: int = CLIENT_DEFAULTS.events) -> None:
        self._size = size
        self._queue: deque[ServerEvent] = deque()
        self._wake = anyio.Event()
        self._end = False
        self._error: RrextError | None = None
        self._missed = 0
        self.dropped = 0

    def put(self, name: str, body: dict[str, Any]) -> None:
        """Add an event; never waits."""
        if len(self._queue) >= self._size:
            lost = self._queue.popleft()
            self.dropped += 1
            self._missed += 1 + lost.missed
        self._queue.append(ServerEvent(name, body))
        self._wake.set()

    def end(self, error: RrextError | None = None) -> None:
        """No more events come."""
        self._end = True
        self._error = None if isinstance(error, NotConnected) else error
        self._wake.set()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ServerEvent:
        while not self._queue:
            if self._end:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._wake = anyio.Event()
            await self._wake.wait()
        event = self._queue.popleft()
        if self._missed:
            event = ServerEvent(event.name, event.body, self._missed)
            self._missed = 0
        return event

    def __repr__(self) -> str:
        return f"<EventStream {len(self._queue)} wait, {self.dropped} dropped>"
