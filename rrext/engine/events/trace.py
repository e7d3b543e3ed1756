"""Traces: the ways of objects through the components of a pipeline, in the detail of its `pipelineTraceLevel`."""

from __future__ import annotations

import threading
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from rrext.engine.events.records import FlowStep
from rrext.errors import RrextError
from rrext.limits import KIB

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventHub, EventOrigin
    from rrext.engine.events.publishers import Visit
    from rrext.nodes.base.node import Entry

MAX_TRACE_TEXT: Final = 2000
"""Characters of a text in such an event, as in the reference server: enough to know it again."""

MAX_TRACE_NAME: Final = 200
"""Characters of the name of an object in such an event, as in the reference server."""

MAX_TRACE_DATA: Final = 64 * KIB
"""Encoded bytes of a JSON value in an event of a traced pipeline. Several wait for a slow reader, and every component that a
payload enters tells it again. Of a larger one the event has its size and its begin."""

LEVELS: Final = {"none": 0, "metadata": 1, "summary": 2, "full": 3}
"""RocketRide's levels: nothing; the ways and the sizes; also results of objects; also payloads, and calls of tools."""
SUMMARY: Final = LEVELS["summary"]
FULL: Final = LEVELS["full"]


class TaskTrace:
    """The trace of one task: its level, and the times of its components."""

    __slots__ = ("_lock", "_times", "level")

    def __init__(self, level: int) -> None:
        self.level = level
        self._times: dict[str, tuple[int, float, float]] = {}
        self._lock = threading.Lock()

    def pipe(self, origin: EventOrigin) -> PipeTrace:
        """Make the trace of a pipe."""
        return PipeTrace(origin, self)

    def note(self, component: str, seconds: float) -> None:
        """Count a visit of a component, from any thread."""
        with self._lock:
            calls, total, longest = self._times.get(component, (0, 0.0, 0.0))
            self._times[component] = (calls + 1, total + seconds, max(longest, seconds))

    def component_stats(self) -> dict[str, Any]:
        """The member `componentStats` of the status of a task."""
        with self._lock:
            times = dict(self._times)
        return {
            component: {"calls": calls, "totalSeconds": round(total, 6), "maxSeconds": round(longest, 6)}
            for component, (calls, total, longest) in times.items()
        }


class PipeTrace:
    """The trace of one object. Threads may enter and leave at once; the events are in the order of the stack."""

    __slots__ = ("_began", "_lock", "_name", "_origin", "_stack", "task")

    def __init__(self, origin: EventOrigin, task: TaskTrace) -> None:
        self.task = task
        self._origin = origin
        self._name = ""
        self._stack: list[str] = []
        self._began = False
        self._lock = threading.RLock()  # a sink may publish an event itself

    @property
    def components(self) -> list[str]:
        """The components that work on the object now, the innermost last."""
        return self._stack.copy()  # without the lock: who looks may hold one that a sink of an event waits for

    def begin(self, entry: Entry, lane: str) -> None:
        """Publish the begin of the object."""
        with self._lock:
            self._began = True
            self._name = self._origin.events.shown_text(entry.name, MAX_TRACE_NAME)
            if self._is_wanted:
                self._publish("begin", self._name, {"lane": lane, "data": {"mimeType": entry.mime_type, "size": entry.size}})

    def enter(self, component: str, lane: str, args: tuple[Any, ...], visit: Visit | None) -> TracedVisit:
        """Publish that a payload enters a component, or that its `open`, `closing` or `close` begins."""
        with self._lock:
            self._stack.append(component)
            if self._is_wanted:
                shown = payload_of(self._origin.events, lane, args[0], self.task.level) if args else {}
                self._publish("enter", component, {"lane": lane, "data": shown} if shown else {"lane": lane})
        return TracedVisit(self, component, lane, visit)

    def invoke(self, component: str, tool: str, value: Any) -> TracedCall:
        """Publish that a tool of a component is called, at the level `full`."""
        call = TracedCall(self, component, tool)
        with self._lock:
            self._stack.append(component)
            if self.task.level >= FULL and self._is_wanted:
                events = self._origin.events
                given = {} if value is None else {"input": json_of(events, value)}
                self._publish("enter", component, {"lane": "invoke", "data": call.param(given)})
        return call

    def leave(self, component: str, seconds: float, trace: dict[str, Any]) -> None:
        """Publish that a component has finished; `trace` is the event's, empty to publish nothing."""
        self.task.note(component, seconds)
        with self._lock:
            for place in range(len(self._stack) - 1, -1, -1):  # calls of several threads end in any order
                if self._stack[place] == component:
                    del self._stack[place]
                    break
            if trace and self._is_wanted:
                self._publish("leave", component, trace)

    def end(self, body: bytes | None, failure: RrextError | None) -> None:
        """Publish the end of the object: its result from `summary` on, its error on every level. No event follows."""
        with self._lock:
            self._stack.clear()
            if self._is_wanted:
                events = self._origin.events
                trace: dict[str, Any] = {}
                result: Any = msgspec.UNSET
                if body is not None and self.task.level >= SUMMARY:
                    trace = shown_json(events, body)
                    result = msgspec.UNSET if "truncated" in trace else trace
                if failure is not None or body is None:
                    message = "the object was cancelled" if failure is None else failure.message
                    trace = {**trace, "error": events.shown_text(message, MAX_TRACE_TEXT)}
                self._publish("end", self._name, trace, result)
            self._began = False

    @property
    def now(self) -> float:
        """The time of the engine's clock."""
        return self._origin.events.clock.now()

    def shown_text(self, text: str) -> str:
        """A text for an event."""
        return self._origin.events.shown_text(text, MAX_TRACE_TEXT)

    def shown_result(self, encoded: bytes, raw: bytes | None) -> Any:
        """The result of a tool for an event."""
        return {"size": len(raw)} if raw is not None else shown_json(self._origin.events, encoded)

    @property
    def _is_wanted(self) -> bool:
        return self._began and self._origin.events.wants(FlowStep)

    def _publish(self, op: Any, component: str, trace: dict[str, Any], result: Any = msgspec.UNSET) -> None:
        stack = () if op == "end" else (self._name, *self._stack)
        head = self._origin.head
        event = FlowStep(time=time(), **head, op=op, component=component, stack=stack, trace=trace, result=result)
        self._origin.events.publish(event)


class TracedVisit:
    """The processing of one payload by one component of a traced pipeline; `visit` has the events for other subscribers."""

    __slots__ = ("_began", "_component", "_lane", "_trace", "_visit")

    def __init__(self, trace: PipeTrace, component: str, lane: str, visit: Visit | None) -> None:
        self._trace = trace
        self._component = component
        self._lane = lane
        self._visit = visit
        self._began = trace.now

    def leave(self, failure: RrextError | None) -> None:
        """Publish that the component has finished with the payload."""
        trace = self._trace
        told: dict[str, Any] = {"lane": self._lane, "result": "continue"}
        if failure is not None:
            told |= {"result": "error", "error": trace.shown_text(failure.message)}
        trace.leave(self._component, trace.now - self._began, told)
        if self._visit is not None:
            self._visit.leave(failure)


class TracedCall:
    """Context manager around one call of a tool on a traced pipe."""

    __slots__ = ("_began", "_component", "_result", "_tool", "_trace")

    number: ClassVar[None] = None
    """Its number in the events of its caller, who does not get any."""

    def __init__(self, trace: PipeTrace, component: str, tool: str) -> None:
        self._trace = trace
        self._component = component
        self._tool = tool
        self._result: tuple[bytes, bytes | None] | None = None
        self._began = trace.now

    def returned(self, encoded: tuple[bytes, bytes | None]) -> tuple[bytes, bytes | None]:
        """Note the result for the event, and return it."""
        self._result = encoded
        return encoded

    def param(self, more: dict[str, Any]) -> dict[str, Any]:
        """The data of an event of this call."""
        return {"param": {"op": "tool.invoke", "tool_name": self._tool, **more}}

    def __enter__(self) -> TracedCall:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        told: dict[str, Any] = {}
        if self._trace.task.level >= FULL:
            given = {} if self._result is None else {"output": self._trace.shown_result(*self._result)}
            told = {"lane": "invoke", "result": "continue", "data": self.param(given)}
            if error is not None:
                text = error.message if isinstance(error, RrextError) else type(error).__name__
                told |= {"result": "error", "error": self._trace.shown_text(text)}
        self._trace.leave(self._component, self._trace.now - self._began, told)


def payload_of(events: EventHub, lane: str, value: Any, level: int) -> dict[str, Any]:
    """The data of a payload: its size, and at the level `full` its content, under the name of its lane. Never bytes."""
    if isinstance(value, str):
        shown: dict[str, Any] = {"length": len(value)}
        return {**shown, lane: events.shown_text(value, MAX_TRACE_TEXT)} if level >= FULL else shown
    if (data := getattr(value, "data", None)) is not None and isinstance(data, bytes):  # a `Tag` or a `Media`
        named = {"mimeType": value.mime_type} if hasattr(value, "mime_type") else {}
        return {"action": getattr(value, "action", None) or value.kind, **named, "bufferSize": len(data)}
    if isinstance(value, list | dict):
        shown = {"count": len(value)} if isinstance(value, list) else {}
        return {**shown, lane: json_of(events, value)} if level >= FULL else shown
    return {}  # the entry of `open`


def json_of(events: EventHub, value: Any) -> Any:
    """A JSON value without secrets and of bounded size; a mark in the place of one that is no JSON."""
    try:
        return shown_json(events, msgspec.json.encode(value))
    except Exception:  # payloads of lanes may be no JSON
        return {"unencodable": type(value).__name__}


def shown_json(events: EventHub, encoded: bytes) -> Any:
    """Encoded JSON as a value without secrets. In the place of a large one: its size, and the begin of its text."""
    if len(encoded) <= MAX_TRACE_DATA:
        try:
            return events.redactor.value(msgspec.json.decode(encoded))
        except RecursionError:
            pass
    preview = events.shown_text(encoded[: MAX_TRACE_TEXT + 1].decode("utf-8", "replace"), MAX_TRACE_TEXT)
    return {"truncated": True, "originalBytes": len(encoded), "preview": preview}
