"""Publishers of events while somebody wants them: `CallWatch` those of one call, `FlowEvents` those of tasks, pipes, objects
and lanes.

The events of a client's call begin when the engine gets it, those of a nested call when it runs.
"""

from __future__ import annotations

import re
import threading
from asyncio import CancelledError
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import (
    AgentStep,
    AgentTurn,
    CallChunk,
    CallEnded,
    CallProgress,
    CallStarted,
    LaneIn,
    LaneOut,
    ObjectBegun,
    ObjectEnded,
    PipeClosed,
    PipeOpened,
    TaskBegun,
    TaskEnded,
    ToolsChanged,
)
from rrext.errors import RrextError
from rrext.tools.context import CancelReason

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventHub, EventOrigin
    from rrext.nodes.base.node import Entry
    from rrext.tools.context import TurnUsage


RESULT: Final = len(b'{"result":}')
CODES: Final[dict[CancelReason, str]] = {"timeout": "tool_timeout", "shutting_down": "shutting_down"}
"""Cancel reason -> error code of the nested call's end event; other reasons have `cancelled`."""


class CallWatch:
    """Publishes the events of one call in order: none before `start`, none after `succeed` or `fail`."""

    __slots__ = ("_began", "_head", "_is_told", "hub", "lock", "number")

    def __init__(self, hub: EventHub, head: dict[str, Any], began: float | None = None) -> None:
        self.number = next(hub.numbers)
        self.hub = hub
        self._head = {**head, "call": self.number}
        self._began = hub.clock.now() if began is None else began
        self._is_told = False
        self.lock = threading.RLock()
        """Serializes threads that publish at once. Reentrant, because a sink may publish an event itself."""

    def start(self, arguments: Any, meta: Any) -> None:
        """Publish `CallStarted`."""
        hub = self.hub
        with self.lock:
            self._is_told = True
            if hub.wants(CallStarted):
                shown = msgspec.UNSET if arguments is msgspec.UNSET else hub.shown(CallStarted, arguments)
                told = msgspec.UNSET if meta is None else hub.shown(CallStarted, meta)
                parent = traceparent_of(meta)
                hub.publish(CallStarted(time=time(), **self._head, traceparent=parent, arguments=shown, meta=told))

    def runs_on(self, node_id: str) -> None:
        """Note the node that runs the tool, for the events that follow."""
        self._head["node_id"] = node_id

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Publish `CallProgress`."""
        hub = self.hub
        with self.lock:
            if self._is_told and hub.wants(CallProgress):
                text = None if message is None else hub.redactor.text(message)
                hub.publish(CallProgress(time=time(), **self._head, progress=value, total=total, message=text))

    def chunk(self, index: int, chunk: Any, encoded: bytes | None) -> None:
        """Publish `CallChunk`. `encoded` is the JSON of the chunk, None for bytes."""
        hub = self.hub
        with self.lock:
            if self._is_told and hub.wants(CallChunk):
                size = len(chunk) if encoded is None else len(encoded)
                shown = hub.shown(CallChunk, chunk) if encoded is None else hub.shown_json(CallChunk, encoded)
                hub.publish(CallChunk(time=time(), **self._head, index=index, size=size, chunk=shown))

    def step(
        self, step: Any, agent: str, tool: str | None = None, data: Any = msgspec.UNSET, error: BaseException | None = None
    ) -> None:
        """Publish `AgentStep`: an agent inside the call made a step."""
        hub, text = self.hub, self.hub.redactor.text
        with self.lock:
            if self._is_told and hub.wants(AgentStep):
                code, message = self._failure(error)
                shown = msgspec.UNSET if data is msgspec.UNSET else hub.shown(AgentStep, data)
                named = {"step": step, "agent": text(agent), "agent_tool": None if tool is None else text(tool)}
                hub.publish(AgentStep(time=time(), **self._head, **named, code=code, message=message, data=shown))

    def turn(
        self, step: Any, agent: str, turn: int, usage: TurnUsage | None = None, error: BaseException | None = None
    ) -> None:
        """Publish `AgentTurn`: an agent inside the call asks its model, or has its answer."""
        hub, text = self.hub, self.hub.redactor.text
        with self.lock:
            if self._is_told and hub.wants(AgentTurn):
                code, message = self._failure(error)
                used = {} if usage is None else msgspec.structs.asdict(usage)
                used |= {name: text(value) for name, value in used.items() if isinstance(value, str)}
                told = {"step": step, "agent": text(agent), "turn": turn, **used, "code": code, "message": message}
                hub.publish(AgentTurn(time=time(), **self._head, **told))

    def succeed(self, encoded: bytes, raw: bytes | None, *, wrapped: bool = False) -> None:
        """Publish `CallEnded` with a result; `wrapped` says that `encoded` is the body of a tool's answer."""
        hub = self.hub
        with self.lock:
            if self._ends():
                shown: Any = msgspec.UNSET
                size = len(raw) if raw is not None else len(encoded) - RESULT if wrapped else len(encoded)
                if CallEnded in hub.with_data:
                    result = encoded[RESULT - 1 : -1] if wrapped else encoded
                    shown = hub.shown_json(CallEnded, result) if raw is None else hub.shown(CallEnded, raw)
                self._publish_end(size=size, result=shown)

    def opened(self, body: bytes) -> None:
        """Publish `CallEnded` of an `open`, with the id of its pipe."""
        self._head["pipe_id"] = msgspec.json.decode(body)["pipe_id"]
        self.succeed(body, None)

    def fail(self, error: BaseException, reason: CancelReason | None = None) -> None:
        """Publish `CallEnded` with an error; `reason` is the reason of a cancelled call."""
        with self.lock:
            if self._ends():
                code, message = self._failure(error, reason)
                self._publish_end(code=code, message=message)

    def _ends(self) -> bool:
        told, self._is_told = self._is_told, False
        return told and self.hub.wants(CallEnded)

    def _publish_end(self, **outcome: Any) -> None:
        self.hub.publish(CallEnded(time=time(), **self._head, seconds=self.hub.clock.now() - self._began, **outcome))

    def _failure(self, error: BaseException | None, reason: CancelReason | None = None) -> tuple[str | None, str | None]:
        if error is None:
            return None, None
        if isinstance(error, RrextError):
            return error.code, self.hub.redactor.text(error.message)
        return code_of(error, reason), type(error).__name__


def traceparent_of(meta: Any) -> str | None:
    """The caller's place in its own trace, as its `_meta` names it in the form of W3C Trace Context; None without one."""
    given = meta.get("traceparent") if isinstance(meta, dict) else None
    return (
        given if isinstance(given, str) and re.fullmatch(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", given) else None
    )


def code_of(error: BaseException, reason: CancelReason | None) -> str:
    """The error code of an exception that is no `RrextError`: by `reason` for a cancelled coroutine, else `tool_failed`."""
    if not isinstance(error, CancelledError):
        return "tool_failed"
    return "cancelled" if reason is None else CODES.get(reason, "cancelled")


class FlowEvents:
    """Publishes the events of tasks, pipes, objects and lanes. `task` holds the fields common to a task's events."""

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub

    def task_begun(self, task: dict[str, Any]) -> None:
        """Publish `TaskBegun`: a pipeline was loaded."""
        if self.hub.wants(TaskBegun):
            self.hub.publish(TaskBegun(time=time(), **task))

    def task_ended(self, task: dict[str, Any], reason: Any, seconds: float) -> None:
        """Publish `TaskEnded`: a pipeline was unloaded."""
        if self.hub.wants(TaskEnded):
            self.hub.publish(TaskEnded(time=time(), **task, reason=reason, seconds=seconds))

    def tools_changed(self, token: str, node_id: str) -> None:
        """Publish `ToolsChanged`: a node has learnt its tools, or has others now."""
        if self.hub.wants(ToolsChanged):
            self.hub.publish(ToolsChanged(time=time(), token=token, node_id=node_id))

    def pipe_opened(self, origin: EventOrigin, entry: Entry, lane: str, space_id: str | None) -> None:
        """Publish `PipeOpened` and `ObjectBegun`."""
        hub, head, text = self.hub, origin.head, self.hub.redactor.text
        if hub.wants(PipeOpened):
            hub.publish(PipeOpened(time=time(), **head, space_id=space_id))
        if hub.wants(ObjectBegun):
            event = ObjectBegun(
                time=time(),
                **head,
                object_id=entry.object_id,
                name=text(entry.name),
                path=text(entry.path),
                mime_type=entry.mime_type,
                lane=lane,
                size=entry.size,
            )
            hub.publish(event)

    def object_ended(
        self, origin: EventOrigin, entry: Entry, seconds: float, failure: RrextError | None, body: bytes | None
    ) -> None:
        """Publish `ObjectEnded`; `body` is the object's result, None if the object was not closed."""
        hub = self.hub
        if hub.wants(ObjectEnded):
            event = ObjectEnded(
                time=time(),
                **origin.head,
                object_id=entry.object_id,
                name=hub.redactor.text(entry.name),
                seconds=seconds,
                code="cancelled" if failure is None and body is None else None if failure is None else failure.code,
                message=None if failure is None else hub.redactor.text(failure.message),
                size=0 if body is None else len(body),
                result=msgspec.UNSET if body is None else hub.shown_json(ObjectEnded, body),
            )
            hub.publish(event)

    def pipe_closed(self, origin: EventOrigin, reason: Any, seconds: float) -> None:
        """Publish `PipeClosed`: the nodes of a pipe are closed."""
        if self.hub.wants(PipeClosed):
            self.hub.publish(PipeClosed(time=time(), **origin.head, reason=reason, seconds=seconds))

    def lane_in(self, origin: EventOrigin, node_id: str, lane: str, args: tuple[Any, ...]) -> Visit | None:
        """Publish `LaneIn`: a node begins to process a payload. None if nobody wants events of lanes."""
        hub = self.hub
        if not (hub.wants(LaneIn) or hub.wants(LaneOut)):
            return None
        head = {**origin.head, "node_id": node_id, "lane": lane}
        if hub.wants(LaneIn):
            hub.publish(LaneIn(time=time(), **head, data=hub.shown(LaneIn, args[0] if args else None)))
        return Visit(hub, head)


class Visit:
    """The processing of one payload by one node."""

    __slots__ = ("_began", "_head", "_hub")

    def __init__(self, hub: EventHub, head: dict[str, Any]) -> None:
        self._hub = hub
        self._head = head
        self._began = hub.clock.now()

    def leave(self, failure: RrextError | None) -> None:
        """Publish `LaneOut`: the node has finished with the payload."""
        hub = self._hub
        if hub.wants(LaneOut):
            code, message = (None, None) if failure is None else (failure.code, hub.redactor.text(failure.message))
            event = LaneOut(time=time(), **self._head, seconds=hub.clock.now() - self._began, code=code, message=message)
            hub.publish(event)
