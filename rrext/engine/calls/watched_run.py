"""Calls that callbacks, subscribers or their own callers watch: runs and answers that become events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final

import msgspec

from rrext.engine.calls.chunks import Chunks
from rrext.engine.calls.run import Encoded, Report, Run, ToolRun
from rrext.engine.events.hub import EventHub
from rrext.engine.events.publishers import CallWatch
from rrext.engine.events.records import (
    AgentStep,
    AgentTurn,
    CallEnded,
    CallEvent,
    CallStarted,
    EngineEvent,
    kind_of,
    snake_case,
)
from rrext.engine.events.trace import TracedCall
from rrext.engine.interface.call import AnswerSink, Call, Feed
from rrext.engine.interface.operations import Open, Tool
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.errors import RrextError
from rrext.nodes.base.node import Node
from rrext.tools.context import SILENT, CallInfo, ReportedCall, ToolCallbacks, ToolContext, TurnUsage


class Untraced:
    """Stands for the trace of a call whose pipe has none."""

    def __enter__(self) -> Untraced:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def returned(self, encoded: Encoded) -> Encoded:
        """Return the result."""
        return encoded


UNTRACED: Final = Untraced()
UNREPORTED: Final[AbstractContextManager[object]] = nullcontext()


class WatchedRun(ToolRun):
    """A tool run that reports to callbacks and subscribers. `watch` is None if the call began before the subscription."""

    _watch: CallWatch | None = None
    _reported: ReportedCall | None = None
    reports = True

    @property
    def watch(self) -> CallWatch | None:
        """The event source of this call; a nested call has its own."""
        return watch_of(self.call) if self.is_outermost else self._watch

    def begin_nested(self, caller: Run, value: Any) -> NestedWatch | TracedCall | None:
        traced = super().begin_nested(caller, value)
        call, lease = self.call, self.lease
        outer = caller.watch if isinstance(caller, WatchedRun) else watch_of(caller.call)
        hub = self.host.events if outer is None else outer.hub
        if not hub.watches_calls:
            return traced
        head = {
            "token": lease.task.token,
            "connection_id": call.caller.connection_id,
            "pipe_id": None if lease.pipe is None else lease.pipe.id,
            "command": "tool",
            "tool": self.spec.name,
            "node_id": self.route.node_id,
            "request_id": call.request_id,
            "user_id": (self.stands_for or call.caller).user_id,
            "space_id": (self.stands_for or call.caller).space_id,
            "address": call.caller.address,
            "caller": None if outer is None else outer.number,
            "callers": caller.trail,
        }
        self._watch = CallWatch(hub, head)
        self._watch.start(value, None)
        return NestedWatch(self, self._watch, traced)

    def _called(self, node: Node, kwargs: dict[str, Any]) -> Encoded:
        with self._report_run(), self._traced() as traced:
            return traced.returned(super()._called(node, kwargs))

    async def _awaited(self, node: Node, kwargs: dict[str, Any]) -> Encoded:
        with self._report_run(), self._traced() as traced:
            return traced.returned(await super()._awaited(node, kwargs))

    def _traced(self) -> TracedCall | Untraced:
        """The trace of an outermost call on a pipe; that of a nested call has begun already."""
        trace, operation = self.trace, self.call.operation
        if trace is None or not self.is_outermost or not isinstance(operation, Tool):
            return UNTRACED
        return trace.invoke(self.route.node_id, self.spec.name, operation.input)

    def encode(self, value: Any) -> Encoded:
        if self._reported is not None:
            self._reported.result = value
        return super().encode(value)

    def context(self) -> ToolContext:
        context = super().context()
        watch = self.watch
        if watch is not None:
            context.callbacks = AgentSteps(self.host.callbacks, watch)
        return context

    def _chunks(self) -> Chunks:
        chunks = super()._chunks()
        chunks.told = self._publish_chunk
        return chunks

    def _publish_chunk(self, index: int, chunk: Any, encoded: bytes | None) -> None:
        watch = self.watch
        if watch is not None:
            watch.chunk(index, chunk, encoded)
        if self._reported is not None:
            self._reported.chunk(chunk)

    def _report(self, feed: Feed | None) -> Report | None:
        report, watch = super()._report(feed), self.watch
        if watch is None or report is None:
            return report if watch is None else watch.progress

        def to_both(value: float, total: float | None, message: str | None) -> None:
            watch.progress(value, total, message)
            report(value, total, message)

        return to_both

    def _report_run(self) -> AbstractContextManager[object]:
        caller, pipe, watch = self.call.caller, self.lease.pipe, self.watch
        if watch is not None:
            watch.runs_on(self.route.node_id)
        if self.host.callbacks is SILENT:
            return UNREPORTED
        owner = self.caller
        info = CallInfo(
            tool=self.spec.name,
            node_id=self.route.component.id,
            request_id=self.call.request_id,
            connection_id=caller.connection_id,
            pipe_id=None if pipe is None else pipe.id,
            user_id=owner.user_id,
            space_id=owner.space_id,
        )
        self._reported = ReportedCall(self.host.callbacks, info)
        return self._reported


WatchedRun.nested_class = WatchedRun


class NestedWatch:
    """Context manager that publishes the end event of a nested call, with its result or error."""

    __slots__ = ("_encoded", "_run", "_traced", "_watch")

    def __init__(self, run: ToolRun, watch: CallWatch, traced: NestedWatch | TracedCall | None) -> None:
        self._run = run
        self._traced = traced
        self._watch = watch
        self._encoded: Encoded = (b"null", None)

    @property
    def number(self) -> int:
        """The number of the call in events."""
        return self._watch.number

    def __enter__(self) -> NestedWatch:
        return self

    def returned(self, encoded: Encoded) -> Encoded:
        """Note the result for the end event, and return it."""
        self._encoded = encoded
        return encoded if self._traced is None else self._traced.returned(encoded)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._traced is not None:
            self._traced.__exit__(kind, error, trace)
        if error is None:
            self._watch.succeed(*self._encoded)
        else:
            self._watch.fail(error, self._run.token.reason)


class AgentSteps(ToolCallbacks):
    """The callbacks of a tool's context: the steps of its agents become events, and go on to the engine's callbacks."""

    __slots__ = ("_callbacks", "_watch")

    def __init__(self, callbacks: ToolCallbacks, watch: CallWatch) -> None:
        self._callbacks = callbacks
        self._watch = watch

    def tool_start(self, info: CallInfo) -> None:
        self._callbacks.tool_start(info)

    def tool_chunk(self, info: CallInfo, chunk: Any) -> None:
        self._callbacks.tool_chunk(info, chunk)

    def tool_complete(self, info: CallInfo, result: Any, error: BaseException | None) -> None:
        self._callbacks.tool_complete(info, result, error)

    def agent_start(self, info: CallInfo, agent: str) -> None:
        self._watch.step("start", agent)
        self._callbacks.agent_start(info, agent)

    def agent_chunk(self, info: CallInfo, agent: str, text: str) -> None:
        self._watch.step("chunk", agent, data=text)
        self._callbacks.agent_chunk(info, agent, text)

    def agent_tool_call(self, info: CallInfo, agent: str, tool: str, input: Any) -> None:
        self._watch.step("tool_call", agent, tool, input)
        self._callbacks.agent_tool_call(info, agent, tool, input)

    def agent_tool_result(self, info: CallInfo, agent: str, tool: str, result: Any, error: BaseException | None) -> None:
        self._watch.step("tool_result", agent, tool, msgspec.UNSET if error is not None else result, error)
        self._callbacks.agent_tool_result(info, agent, tool, result, error)

    def agent_turn_start(self, info: CallInfo, agent: str, turn: int) -> None:
        self._watch.turn("start", agent, turn)
        self._callbacks.agent_turn_start(info, agent, turn)

    def agent_turn_end(
        self, info: CallInfo, agent: str, turn: int, usage: TurnUsage, error: BaseException | None = None
    ) -> None:
        self._watch.turn("end", agent, turn, usage, error)
        self._callbacks.agent_turn_end(info, agent, turn, usage, error)

    def agent_end(self, info: CallInfo, agent: str, error: BaseException | None) -> None:
        self._watch.step("end", agent, error=error)
        self._callbacks.agent_end(info, agent, error)


def watch_method(run: Run) -> ToolCallbacks:
    """Watch what a node's method calls for an object; the callbacks of its context, whose events are those of the request."""
    run.nested_class = WatchedRun
    watch = watch_of(run.call)
    return run.host.callbacks if watch is None else AgentSteps(run.host.callbacks, watch)


class WatchedAnswer:
    """An answer sink that publishes the end event of a call before it passes the answer on."""

    __slots__ = ("_answer", "watch")

    def __init__(self, answer: AnswerSink, watch: CallWatch) -> None:
        self._answer = answer
        self.watch = watch

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        try:
            if isinstance(call.operation, Open):
                self.watch.opened(body)
            else:
                self.watch.succeed(body, tail, wrapped=isinstance(call.operation, Tool))
        finally:
            self._answer.succeed(call, body, tail)

    def fail(self, call: Call, error: RrextError) -> None:
        try:
            self.watch.fail(error)
        finally:
            self._answer.fail(call, error)


def watch_call(hub: EventHub, call: Call, task_of: Callable[[Call], TaskIdentity | None]) -> None:
    """Begin the events of a call that is about to start, and route its answer through a `WatchedAnswer`. Idempotent.

    `task_of` is the task of the call, as far as it is known.
    """
    if type(call.answer) is WatchedAnswer:
        return
    operation, caller = call.operation, call.caller
    if call.feed is not None and call.tells_calls:
        hub = CallerEvents(hub, call.feed)
    elif not hub.watches_calls:
        return
    task = task_of(call)
    tool = node_id = None
    if isinstance(operation, Tool):
        route = call.route or (None if task is None else task.only_route(operation.node_id, operation.tool))
        if route is not None:
            tool, node_id = operation.tool, route.node_id
        else:  # text of the caller, which may contain a secret
            tool = hub.redactor.text(operation.tool)
            node_id = None if operation.node_id is None else hub.redactor.text(operation.node_id)
    head = {
        "token": None if task is None else task.token,
        "connection_id": caller.connection_id,
        "pipe_id": getattr(operation, "pipe_id", None),
        "command": snake_case(type(operation).__name__),
        "tool": tool,
        "node_id": node_id,
        "request_id": call.request_id,
        "user_id": caller.user_id,
        "space_id": caller.space_id,
        "address": caller.address,
    }
    watch = CallWatch(hub, head, call.received)
    call.answer = WatchedAnswer(call.answer, watch)
    with watch.lock:  # an answer from another thread waits here, so that the start event comes first
        if not call.settled:
            watch.start(operation.input if isinstance(operation, Tool) else msgspec.UNSET, operation.meta)


def watch_of(call: Call) -> CallWatch | None:
    """The event source of a client's call; None if the call is not watched."""
    answer = call.answer
    return answer.watch if type(answer) is WatchedAnswer else None


TOLD: Final = frozenset((CallStarted, CallEnded, AgentStep, AgentTurn))
"""Progress and chunks have events of their own, for those who ask for them."""

LEFT_OUT: Final = frozenset(
    ("token", "connection_id", "pipe_id", "request_id", "user_id", "space_id", "command", "address", "traceparent")
)
"""Fields that the caller knows."""


class CallerEvents(EventHub):
    """The hub of one call: its events go to the feed of the call, and to the subscribers of the engine."""

    __slots__ = ("_engine", "_feed")

    def __init__(self, engine: EventHub, feed: Feed) -> None:
        super().__init__(engine.clock, engine.redactor, engine.limits, watches_calls=True)
        self.numbers = engine.numbers
        self.with_data = TOLD | engine.with_data
        self._engine = engine
        self._feed = feed

    def wants(self, kind: type[EngineEvent]) -> bool:
        return kind in TOLD or self._engine.wants(kind)

    def publish(self, event: EngineEvent) -> None:
        if type(event) in TOLD and isinstance(event, CallEvent):
            self._feed.call_event(body_of(event))
        self._engine.publish(event)


def body_of(event: CallEvent) -> dict[str, Any]:
    """An event as its caller gets it: `{event, time, call, caller?, tool?, nodeId?, …}`, without members that are not known."""
    body: dict[str, Any] = {"event": kind_of(type(event))}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name not in LEFT_OUT and value is not None and value is not msgspec.UNSET and value != ():
            head, *rest = name.split("_")
            body[head + "".join(map(str.capitalize, rest))] = list(value) if type(value) is tuple else value
    return body
