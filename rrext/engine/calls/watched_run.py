"""Tool runs while callbacks or subscribers watch calls: progress, chunks and results become events."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final

import msgspec

from rrext.engine.calls.chunks import Chunks
from rrext.engine.calls.run import Encoded, Report, Run, ToolRun
from rrext.engine.calls.watched_answer import watch_of
from rrext.engine.events.call_publisher import CallWatch
from rrext.engine.events.trace import TracedCall
from rrext.engine.interface.call import Feed
from rrext.engine.interface.operations import Tool
from rrext.nodes.base.node import Node
from rrext.tools.context import SILENT, CallInfo, ReportedCall, ToolCallbacks, ToolContext


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
            "user_id": call.caller.user_id,
            "space_id": call.caller.space_id,
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
        chunks.told = self._tell_chunk
        return chunks

    def _tell_chunk(self, index: int, chunk: Any, encoded: bytes | None) -> None:
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
        owner = caller if pipe is None else pipe.caller
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

    def agent_end(self, info: CallInfo, agent: str, error: BaseException | None) -> None:
        self._watch.step("end", agent, error=error)
        self._callbacks.agent_end(info, agent, error)
