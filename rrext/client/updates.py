"""Progress, chunks and events of a running call, which its callbacks get in the caller's own task, and the stream of events
that a server sends without a request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypedDict

import anyio
import msgspec

from rrext.errors import NotConnected, RrextError
from rrext.limits import CLIENT_DEFAULTS
from rrext.wire.messages import number_of

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
        """Made by the client."""
        self._size = size
        self._queue: deque[ServerEvent] = deque()
        self._wake = anyio.Event()
        self._end = False
        self._error: RrextError | None = None
        self._missed = 0
        self.dropped: int = 0

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


NO_QUESTIONS: Final[Mapping[str, Any]] = MappingProxyType({})

ProgressCallback: TypeAlias = Callable[[float, float | None, str | None], Awaitable[object] | object]
"""Called with progress, total and message; may be `async`."""

ChunkCallback: TypeAlias = Callable[[Any], Awaitable[object] | object]
"""Called with each chunk, in order; may be `async`."""

PermissionCallback: TypeAlias = Callable[[dict[str, Any]], Awaitable[bool] | bool]
"""Called with the tool, its node and its arguments; returns whether the call is allowed; may be `async`."""

QuestionCallback: TypeAlias = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]
"""Called with the tool, its node and `params`: the message, with the schema of a form, or a URL. Returns what the user put into
the form, for a URL an empty mapping; None if the user declines. May be `async`.
"""

CallEventCallback: TypeAlias = Callable[[dict[str, Any]], Awaitable[object] | object]
"""Called with each event of a call and of the calls within it, in order; may be `async`."""

EventCallback: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[object] | object]
"""Called with the name and the body of each event of a request; may be `async`."""


class Updates:
    """Progress, chunks and events of one call that its callbacks have not seen. Of progress only the latest is kept.

    Callbacks run in the task or thread of the caller, so their exceptions end that call and no other. One thread adds, and
    one delivers.
    """

    __slots__ = (
        "_added",
        "_answer",
        "_asked",
        "_delivered",
        "_is_settled",
        "_on_chunk",
        "_on_drained",
        "_on_event",
        "_on_progress",
        "_on_question",
        "_ordered",
        "_progress",
        "_question",
        "_questions",
        "_scope",
        "_withdrawn",
    )

    def __init__(
        self,
        on_progress: ProgressCallback | None,
        on_chunk: ChunkCallback | None,
        on_drained: Callable[[], None],
        on_event: CallEventCallback | None = None,
        questions: Mapping[str, PermissionCallback | QuestionCallback] = NO_QUESTIONS,
        answer: Callable[[str, Any, Any], None] | None = None,
    ) -> None:
        self._on_progress: Callable[..., Awaitable[object] | object] | None = on_progress
        self._on_chunk: Callable[..., Awaitable[object] | object] | None = on_chunk
        self._on_event: Callable[..., Awaitable[object] | object] | None = on_event
        self._questions = questions
        self._answer = answer
        self._on_question: Callable[..., Awaitable[object] | object] = self._ask
        self._on_drained = on_drained
        self._progress: deque[tuple[Any, ...]] = deque(maxlen=1)
        self._ordered: deque[tuple[Callable[..., Awaitable[object] | object], tuple[Any, ...], int]] = deque()
        """Chunks and events in their order: the callback, its arguments, the bytes."""
        self._added = self._delivered = 0
        """Bytes of chunks and events received and delivered; the difference is the backlog."""
        self._scope: anyio.CancelScope | None = None
        """Around the `async` callback that runs."""
        self._question: anyio.CancelScope | None = None
        """Around the `async` callback that is asked."""
        self._asked: Any = None
        """The number of its question."""
        self._withdrawn: set[Any] = set()
        """Numbers of questions that need no answer any more."""
        self._is_settled = False

    @property
    def pending(self) -> bool:
        """Whether something waits for a callback."""
        return bool(self._progress or self._ordered)

    @property
    def behind(self) -> bool:
        """Whether the backlog is large enough to stop reading, if no other call waits."""
        return self._added - self._delivered > CLIENT_DEFAULTS.chunk_backlog

    @property
    def hopeless(self) -> bool:
        """Whether the backlog is too large to keep: the call fails."""
        return self._added - self._delivered > CLIENT_DEFAULTS.max_chunk_backlog

    def add_progress(self, body: dict[str, Any]) -> None:
        """Take in the body of an `rrext_progress` event."""
        if self._on_progress is not None:
            self._progress.append((body.get("progress", 0), body.get("total"), body.get("message")))

    def add_chunk(self, body: dict[str, Any], cost: int) -> None:
        """Take in the body of an `rrext_chunk` event that took `cost` bytes."""
        self._keep(self._on_chunk, body["chunk"] if "chunk" in body else body.get("data"), cost)

    def add_event(self, body: dict[str, Any], cost: int) -> None:
        """Take in the body of an `rrext_call` event that took `cost` bytes."""
        self._keep(self._on_event, body, cost)

    def add_question(self, event: str, body: dict[str, Any], cost: int) -> None:
        """Take in the body of an `rrext_permission` or `rrext_question` event that took `cost` bytes."""
        if "withdrawn" not in body:
            self._keep(partial(self._on_question, event), body, cost)
        elif self._question is not None and self._asked == body["question"]:
            self._question.cancel()
        else:
            self._withdrawn.add(body["question"])

    def _keep(self, callback: Callable[..., Awaitable[object] | object] | None, value: Any, cost: int) -> None:
        if callback is not None:
            self._ordered.append((callback, (value,), cost))
            self._added += cost

    def discard(self) -> None:
        """Drop all of them: the caller waits no longer."""
        self._progress.clear()
        self._ordered.clear()
        self._delivered = self._added
        self._on_drained()

    async def deliver(self) -> None:
        """Call back with all that waits."""
        while True:
            if self._ordered:
                callback, values, cost = self._ordered.popleft()
                self._delivered += cost
                if cost and not self.behind:
                    self._on_drained()
                await self._call(callback, *values)
            elif self._progress:
                await self._call(self._on_progress, *self._progress.popleft())
            else:
                return

    def settle(self) -> None:
        """The call is answered: nobody waits for an answer any more, and so not for the callback that is asked for one."""
        self._is_settled = True
        if self._question is not None:
            self._question.cancel()

    def interrupt(self) -> None:
        """Cancel the `async` callback that runs, and deliver no more."""
        self.discard()
        if self._scope is not None:
            self._scope.cancel()

    async def _call(self, callback: Callable[..., Awaitable[object] | object] | None, *values: Any) -> None:
        if callback is None:
            return
        answer = callback(*values)
        if isawaitable(answer):
            with anyio.CancelScope() as self._scope:
                await answer
            self._scope = None

    def _ask(self, event: str, body: dict[str, Any]) -> Awaitable[object] | None:
        """Ask, and send the answer."""
        number, callback = number_of(event, body), self._questions.get(event)
        if self._is_settled or callback is None or self._answer is None or number in self._withdrawn:
            return None
        given = callback(body)
        if isawaitable(given):
            return self._ask_later(event, given, number)
        self._answer(event, number, given)
        return None

    async def _ask_later(self, event: str, given: Awaitable[Any], number: Any) -> None:
        with anyio.CancelScope() as self._question:
            self._asked = number
            answer = await given
            if self._answer is not None:
                self._answer(event, number, answer)
        self._question = self._asked = None


class EventUpdates(Updates):
    """Updates whose callback gets each event unchanged, to relay it."""

    __slots__ = ()

    def __init__(self, on_event: EventCallback, on_drained: Callable[[], None]) -> None:
        super().__init__(None, None, on_drained)
        self._on_progress = partial(on_event, "rrext_progress")
        self._on_chunk = partial(on_event, "rrext_chunk")
        self._on_event = partial(on_event, "rrext_call")
        self._on_question = on_event

    def add_progress(self, body: dict[str, Any]) -> None:
        self._progress.append((body,))

    def add_chunk(self, body: dict[str, Any], cost: int) -> None:
        self._keep(self._on_chunk, body, cost)
