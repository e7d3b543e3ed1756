"""The context of a call for its tool: the caller, the deadline, cancellation, progress, the callbacks of observers, and the
messages that nodes publish to subscribers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from math import isfinite
from types import TracebackType
from typing import Any, Literal, Protocol

import msgspec

from rrext.errors import Cancelled, RrextError, ShuttingDown, ToolError, ToolTimeout, Unavailable
from rrext.limits import DEFAULTS, Limits
from rrext.tools.results import NotJson, encode_json

CancelReason = Literal["cancelled", "timeout", "disconnected", "shutting_down"]


class NestedCalls(Protocol):
    """Calls of other tools and messages to observers; the engine makes one for each call."""

    async def call(self, node: str, tool: str, input: Any) -> Any:
        """The result of another tool, from an async tool."""
        ...

    def call_blocking(self, node: str, tool: str, input: Any) -> Any:
        """The result of another tool, from a sync tool."""
        ...

    def stream(self, node: str, tool: str, input: Any) -> AsyncGenerator[Any, None]:
        """The chunks of another tool as they come, and a `StreamEnd`, see `ToolContext.stream`."""
        ...

    async def tools(self, kinds: Sequence[str]) -> BoundTools:
        """The tools that the node may call, see `ToolContext.tools`."""
        ...

    async def bound(self, kind: str) -> Any:
        """The shared state of a bound node, see `ToolContext.bound`."""
        ...

    async def run_pipeline(self, token: str, text: str, *, mime_type: str | None, name: str | None) -> dict[str, Any]:
        """The result of another pipeline for a text, see `ToolContext.run_pipeline`."""
        ...

    async def send_object(self, about: Mapping[str, Any], pieces: AsyncIterable[bytes], *, mime_type: str) -> dict[str, Any]:
        """The result of an object that enters at the node, see `ToolContext.send_object`."""
        ...

    def in_space(self, space_id: str | None) -> NestedCalls:
        """The calls of the same user in another space, see `ToolContext.in_space`."""
        ...

    def so_far(self, done: dict[str, Any]) -> None:
        """Note what the call has done so far, see `ToolContext.so_far`."""
        ...

    def publish(self, node_id: str, type: str, data: Any) -> None:
        """Publish a message of the call, see `ToolContext.publish`."""
        ...


class BoundTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a node may call by `ctx.call(tool.node_id, tool.tool, input)`.

    `name` is unique among the tools of this node, in the characters that vendors of models accept. The schemas are JSON
    Schemas; `output_schema` is None for a tool that declares none. With the permission `ask` each call asks the caller.
    """

    name: str
    node_id: str
    tool: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    permission: Literal["allow", "ask"] = "allow"


class BoundTools(Sequence[BoundTool]):
    """The tools that a node may call now. `failed` has the errors of nodes, and of tools `node.tool`, that are missing."""

    __slots__ = ("_tools", "failed")

    def __init__(self, tools: Iterable[BoundTool], failed: Mapping[str, RrextError]) -> None:
        """Made by the engine."""
        self._tools: tuple[BoundTool, ...] = tuple(tools)
        self.failed: Mapping[str, RrextError] = failed

    def __getitem__(self, index: Any) -> Any:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<BoundTools {[tool.name for tool in self._tools]}>"


class StreamEnd(msgspec.Struct, frozen=True):
    """The end of a streamed call, with the value that the tool returned."""

    value: Any


class ToolStream:
    """The chunks of a nested call, to iterate within its `async with`; leaving it cancels the call.

    `value` is what the tool returned, after the last chunk: of a generator its return value, of another tool its result.
    """

    __slots__ = ("_items", "value")

    def __init__(self, items: AsyncGenerator[Any, None]) -> None:
        """Made by the engine."""
        self._items = items
        self.value: Any = None

    async def __aenter__(self) -> ToolStream:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._items.aclose()

    def __aiter__(self) -> ToolStream:
        return self

    async def __anext__(self) -> Any:
        item = await anext(self._items)
        if type(item) is not StreamEnd:
            return item
        self.value = item.value
        raise StopAsyncIteration


class CallerQuestions(Protocol):
    """The way to the user of the caller, for calls whose caller offers to ask that user; the engine makes one for each."""

    modes: Sequence[str]
    """What the user can be shown: `form`, `url`."""

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the user, see `ToolContext.ask`."""
        ...


class ServerOutside(Protocol):
    """A connection to a server outside, as far as it concerns a call."""

    @property
    def forward_authorization(self) -> bool:
        """Whether the server gets the authorization of the caller."""
        ...


class CancelToken:
    """A thread-safe flag that a call is cancelled; it is set once. That of a nested call is `within` another one."""

    __slots__ = ("_listeners", "_lock", "_reason", "_within")

    def __init__(self, within: CancelToken | None = None) -> None:
        self._within = within and within.outermost  # None for itself: a circle would be left to the collector
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] | None = None  # few calls have any
        self._reason: CancelReason | None = None

    @property
    def outermost(self) -> CancelToken:
        """The token of the client's call, which all calls within it share."""
        return self if self._within is None else self._within

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._reason is not None

    @property
    def reason(self) -> CancelReason | None:
        """The reason of the cancel; None while the call is wanted."""
        return self._reason

    def cancel(self, reason: CancelReason = "cancelled") -> bool:
        """Cancel, and run the listeners in this thread. The first reason stays; True if this call set it."""
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            listeners, self._listeners = self._listeners, None
        for listener in listeners or ():
            _run(listener)
        return True

    def on_cancel(self, listener: Callable[[], object]) -> None:
        """Call `listener` on cancel, in the thread that cancels; at once if the token is cancelled already."""
        with self._lock:
            if self._reason is None:
                self._listeners = [*(self._listeners or ()), listener]
                return
        _run(listener)

    def forget(self, listener: Callable[[], object]) -> None:
        """Remove `listener`, because the action that it would stop is over."""
        with self._lock:
            if self._listeners is not None:
                self._listeners = [kept for kept in self._listeners if kept != listener] or None

    def check(self) -> None:
        """Return while the call is wanted; else raise `Cancelled`, `ToolTimeout` or `ShuttingDown`."""
        if self._reason is not None:
            raise _error(self._reason)

    def __repr__(self) -> str:
        return f"<CancelToken {self._reason or 'live'}>"


def _run(listener: Callable[[], object]) -> None:
    try:
        listener()
    except Exception:
        # One listener's failure must neither keep the others from running nor reach whoever cancels.
        logging.getLogger(__name__).exception("on_cancel: %r failed", listener)


class CallInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The call that an event belongs to."""

    tool: str
    node_id: str = ""
    request_id: int | str | None = None
    connection_id: int | str | None = None
    pipe_id: int | None = None
    user_id: str | None = None
    space_id: str | None = None


class TurnUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn of an agent used: the fields of `AgentTurn`; None for what nobody told."""

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    estimated: bool | None = None
    cost: float | None = None
    finish: str | None = None


class ToolCallbacks:
    """An observer of calls with empty methods to override. They run in the tool's thread and must not block."""

    __slots__ = ()

    def tool_start(self, info: CallInfo) -> None:
        """The tool accepted its input and starts."""

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        """A generator tool yielded a chunk."""

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        """The tool ended with a result or an error, the same that the caller gets. Once per start."""

    def agent_start(self, info: CallInfo, agent: str) -> None:
        """The tool started a sub-agent."""

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        """A sub-agent produced a piece of its answer."""

    def agent_tool_call(self, info: CallInfo, agent: str, tool: str, input: Any) -> None:
        """A sub-agent calls a tool."""

    def agent_tool_result(self, info: CallInfo, agent: str, tool: str, result: Any, error: BaseException | None) -> None:
        """A tool that a sub-agent called ended."""

    def agent_turn_start(self, info: CallInfo, agent: str, turn: int) -> None:
        """A sub-agent asks its model; `turn` counts from 1."""

    def agent_turn_end(
        self, info: CallInfo, agent: str, turn: int, usage: TurnUsage, error: BaseException | None = None
    ) -> None:
        """The model of a sub-agent has answered, or failed; the tools that the answer calls follow."""

    def agent_end(self, info: CallInfo, agent: str, error: BaseException | None) -> None:
        """A sub-agent ended."""


SILENT = ToolCallbacks()
"""Callbacks that do nothing."""


class ToolContext:
    """The context of one call. The engine makes one per call; never keep it.

    `user_id` and `space_id` name the user of the call; `request_id`, `connection_id`, `node_id` and `pipe_id` its origin and
    its target (None or "" if there is none). `meta` is the caller's `_meta`, unchanged. `deadline` is a time of the engine's
    clock; ask `remaining()` instead.
    """

    __slots__ = (
        "_authorization", "_clock", "_lock", "_nested", "_progress", "_questions", "_report", "callbacks", "connection_id",
        "deadline", "meta", "node_id", "pipe_id", "request_id", "space_id", "token", "user_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        node_id: str = "",
        token: CancelToken | None = None,
        user_id: str | None = None,
        space_id: str | None = None,
        request_id: int | str | None = None,
        connection_id: int | str | None = None,
        pipe_id: int | None = None,
        meta: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        clock: Callable[[], float] | None = None,
        report: Callable[[float, float | None, str | None], None] | None = None,
        nested: NestedCalls | None = None,
        callbacks: ToolCallbacks = SILENT,
        authorization: str | None = None,
        questions: CallerQuestions | None = None,
    ) -> None:
        """Made by the engine."""
        self.node_id: str = node_id
        self.token: CancelToken = token if token is not None else CancelToken()
        self.user_id: str | None = user_id
        self.space_id: str | None = space_id
        self.request_id: int | str | None = request_id
        self.connection_id: int | str | None = connection_id
        self.pipe_id: int | None = pipe_id
        self.meta: Mapping[str, Any] | None = meta
        self.deadline: float | None = deadline
        self.callbacks: ToolCallbacks = callbacks
        self._authorization = authorization
        self._clock = clock
        self._report = report
        self._nested = nested
        self._questions = questions
        self._progress = 0.0
        self._lock: threading.Lock | None = threading.Lock() if report is not None else None

    @property
    def cancelled(self) -> bool:
        """Whether the call is cancelled."""
        return self.token.cancelled

    @property
    def wants_progress(self) -> bool:
        """Whether anybody reads the progress of the call."""
        return self._report is not None

    def remaining(self) -> float | None:
        """Seconds until the deadline, 0.0 after it; None without one."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - (self._clock or time.monotonic)())

    def check(self) -> None:
        """Return if the call is wanted; else raise `Cancelled`, `ToolTimeout` or `ShuttingDown`."""
        self.token.check()
        if self.deadline is not None and self.remaining() == 0.0:
            raise _error("timeout")

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress: `value` of `total`, in any unit. Thread-safe.

        Values only rise: a value lower than the last is dropped. Long messages are cut. Raises `ValueError` for a number that
        is NaN, infinite or below 0.
        """
        _check_amount("value", value)
        if total is not None:
            _check_amount("total", total)
        if self._report is None or self._lock is None:
            return
        if message is not None:
            message = str(message)[: DEFAULTS.progress_text]
        with self._lock:  # held while reporting, so that reports leave in the order of their values
            if value >= self._progress:
                self._progress = value
                self._report(value, total, message)

    def publish(self, type: str, data: Any = None) -> None:
        """Publish a message to subscribers of this pipeline: `type` is a word of the tool, `data` a JSON value. Thread-safe.

        Raises `ToolError` for data that JSON cannot hold, with its path, or over `max_event_data`.
        """
        if self._nested is None:
            checked_message(type, data, DEFAULTS)
        else:
            self._nested.publish(self.node_id, type, data)

    def so_far(self, done: dict[str, Any]) -> None:
        """Note what this call has done so far, a small JSON object, in place of what was noted before. Thread-safe.

        If the call is cancelled or misses its deadline, `data.done` of its error is that object.
        """
        if self._nested is not None:
            self._nested.so_far(done)

    @property
    def question_modes(self) -> Sequence[str]:
        """The kinds of questions for the user of the caller: forms (`form`), pages (`url`); none if nobody can be asked."""
        return () if self._questions is None else self._questions.modes

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the caller's user: `{action: "accept" | "decline" | "cancel", content?}`. For async tools.

        `params` are those of `elicitation/create` of the Model Context Protocol: `message`, with `requestedSchema` for a form,
        or with `mode: "url"` and `url`. A user who does not answer in time cancels. Raises `Unavailable` if the caller cannot
        ask its user in this way.
        """
        mode = params.get("mode", "form")
        if self._questions is None or mode not in self._questions.modes:
            raise Unavailable(f"The caller of this tool did not offer to ask its user (`questions`: {mode})")
        return await self._questions.ask(params)

    def authorization_for(self, server: ServerOutside) -> str | None:
        """The caller's own authorization, as a header says it, for a server whose connection forwards it; else None."""
        return self._authorization if server.forward_authorization else None

    def on_cancel(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the call is cancelled for any reason, in the thread that cancels it."""
        self.token.on_cancel(listener)

    def on_disconnect(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the call is cancelled because its caller disconnected."""
        token = self.token

        def disconnected() -> None:
            if token.reason == "disconnected":
                listener()

        token.on_cancel(disconnected)

    async def call(self, node: str, tool: str, input: Any = None) -> Any:
        """The result of another tool of this pipeline, for async tools.

        Raises the `RrextError` that a client would get for that call. A cancel of this coroutine cancels the tool.
        """
        return await self._nested_calls().call(node, tool, input)

    def stream(self, node: str, tool: str, input: Any = None) -> ToolStream:
        """The chunks of another tool of this pipeline as they come, for async tools.

        `async with ctx.stream("model", "ask_stream", {"question": "Why?"}) as chunks: async for chunk in chunks: …`. The call
        begins with the first read, and raises what `call` raises.
        """
        return ToolStream(self._nested_calls().stream(node, tool, input))

    async def tools(self, kinds: Sequence[str] = ("tool",)) -> BoundTools:
        """The tools that this node may use now: those of the nodes bound to it by control, and of its own references.

        `kinds` are the class types of the control edges. A tool whose predicate refuses this call is left out; a node that
        cannot be set up is in `failed`.
        """
        return await self._nested_calls().tools(kinds)

    async def bound(self, kind: str) -> Any:
        """The shared state of the one node that is bound to this node as `kind`, such as `llm`, ready for use.

        Raises `ToolError` unless exactly one is bound, and what its `setup` raises.
        """
        return await self._nested_calls().bound(kind)

    def call_blocking(self, node: str, tool: str, input: Any = None) -> Any:
        """The result of another tool of this pipeline, for sync tools. Raises the `RrextError` of that call."""
        return self._nested_calls().call_blocking(node, tool, input)

    async def run_pipeline(
        self, token: str, text: str, *, mime_type: str | None = None, name: str | None = None
    ) -> dict[str, Any]:
        """The result body of another running pipeline for one text, as the same caller. For async tools.

        The type is that of a question for a pipeline that chats alone, else `text/plain`, unless one is given. Raises what
        `open`, `write` and `close` raise, and `ToolError` if the pipelines would call each other in a circle.
        """
        return await self._nested_calls().run_pipeline(token, text, mime_type=mime_type, name=name)

    async def send_object(
        self, about: Mapping[str, Any], pieces: AsyncIterable[bytes], *, mime_type: str = "application/octet-stream"
    ) -> dict[str, Any]:
        """The result body of an object that enters the pipeline at this node, a source, as the same caller. For async tools.

        `about` describes it as `object` of an `open` does: `name`, `path`, `url`, `size`, `metadata`. `pieces` are its bytes.
        Several may run at once; the call gives its own place up for them. Raises what `open`, `write` and `close` raise, what
        the pieces raise, and `Unavailable` for a call on a pipe: objects would make objects without end.
        """
        return await self._nested_calls().send_object(about, pieces, mime_type=mime_type)

    def in_space(self, space_id: str | None) -> ToolContext:
        """The context of the same call and the same user in another space, or in none.

        Tools that are called or listed by it, and those that these call, see that space; deadline, cancel, progress and
        callbacks are those of this call. `run_pipeline` stays in the space of the caller. It checks nothing: a node that calls
        it has found that the user is in the space.
        """
        return ToolContext(
            node_id=self.node_id,
            token=self.token,
            user_id=self.user_id,
            space_id=space_id,
            request_id=self.request_id,
            connection_id=self.connection_id,
            pipe_id=self.pipe_id,
            meta=self.meta,
            deadline=self.deadline,
            clock=self._clock,
            report=None if self._report is None else self.progress,  # values rise over both
            nested=None if self._nested is None else self._nested.in_space(space_id),
            callbacks=self.callbacks,
            authorization=self._authorization,
            questions=self._questions,
        )

    def _nested_calls(self) -> NestedCalls:
        if self._nested is None:
            raise Unavailable("This call is in no pipeline: there are no other tools to call")
        return self._nested

    def __repr__(self) -> str:
        return f"<ToolContext node={self.node_id!r} request={self.request_id!r} {self.token.reason or 'live'}>"


def _error(reason: CancelReason) -> RrextError:
    match reason:
        case "timeout":
            return ToolTimeout("The deadline of this call has passed")
        case "shutting_down":
            return ShuttingDown("The server ends")
        case "disconnected":
            return Cancelled("cancelled: the caller is gone")
        case "cancelled":
            return Cancelled("cancelled")


def _check_amount(what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"progress: {what} is a number, not {type(value).__name__}")
    if not isfinite(value) or value < 0:
        raise ValueError(f"progress: {what} is finite and not below 0, not {value}")


class ReportedCall:
    """A context manager around one run of a tool: start on entry, complete on exit, failures re-raised.

    Set `result` inside the block; `tool_complete` receives it. An exception of a callback is logged and does not affect the
    call.
    """

    __slots__ = ("_callbacks", "_info", "result")

    def __init__(self, callbacks: ToolCallbacks, info: CallInfo) -> None:
        self._callbacks = callbacks
        self._info = info
        self.result: Any = None

    def __enter__(self) -> ReportedCall:
        try:
            self._callbacks.tool_start(self._info)
        except Exception:
            self._log("tool_start")
        return self

    def chunk(self, chunk: Any) -> None:
        """Report a chunk of a generator tool."""
        try:
            self._callbacks.tool_chunk(self._info, chunk)
        except Exception:
            self._log("tool_chunk")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._callbacks.tool_complete(self._info, None if error is not None else self.result, error)
        except Exception:
            self._log("tool_complete")

    def _log(self, event: str) -> None:
        logging.getLogger(__name__).exception("%s callback of tool %s failed", event, self._info.tool)

    def __repr__(self) -> str:
        return f"<ReportedCall {self._info.tool}>"


class Publisher(Protocol):
    """The receiver of a node's messages; the engine gives one to each node object."""

    def publish(self, node_id: str, type: str, data: Any) -> None:
        """Publish a message. Raises `ToolError`, see `checked_message`."""
        ...


class NullPublisher:
    """The publisher of a node outside of pipelines: it checks messages and drops them."""

    __slots__ = ()

    def publish(self, node_id: str, type: str, data: Any) -> None:
        checked_message(type, data, DEFAULTS)


def checked_message(type: str, data: Any, limits: Limits) -> bytes:
    """The data of a message as JSON. Raises `ToolError` with the path of an invalid value, or if the data is too large."""
    if not isinstance(type, str) or not 0 < len(type) <= limits.max_name:
        raise ToolError(f"publish: the type of a message is a text of 1 to {limits.max_name} characters (max_name)")
    try:
        encoded = encode_json(data)
    except NotJson as error:
        raise ToolError(
            f'publish("{type}"): the data is no JSON: {error.reason} at {error.path or "its root"}', data={"path": error.path}
        ) from None
    if len(encoded) > limits.max_event_data:
        raise ToolError(
            f'publish("{type}"): the data has {len(encoded)} bytes, more than max_event_data, {limits.max_event_data}',
            hint="publish where it can be read instead",
            data={"limit": "max_event_data", "maximum": limits.max_event_data},
        )
    return encoded


NULL_PUBLISHER = NullPublisher()
