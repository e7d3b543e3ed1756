"""The events of tasks, pipes, objects and lanes."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.engine.events.records import (
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

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventHub, EventOrigin
    from rrext.nodes.base.node import Entry


class FlowEvents:
    """Publishes the events of tasks, pipes, objects and lanes. `task` holds the fields common to a task's events."""

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub

    def task_begun(self, task: dict[str, Any]) -> None:
        """Publish `TaskBegun`: a pipeline was loaded."""
        if self.hub.wants(TaskBegun):
            self.hub.tell(TaskBegun(time=time(), **task))

    def task_ended(self, task: dict[str, Any], reason: Any, seconds: float) -> None:
        """Publish `TaskEnded`: a pipeline was unloaded."""
        if self.hub.wants(TaskEnded):
            self.hub.tell(TaskEnded(time=time(), **task, reason=reason, seconds=seconds))

    def tools_changed(self, token: str, node_id: str) -> None:
        """Publish `ToolsChanged`: a node has learnt its tools, or has others now."""
        if self.hub.wants(ToolsChanged):
            self.hub.tell(ToolsChanged(time=time(), token=token, node_id=node_id))

    def pipe_opened(self, origin: EventOrigin, entry: Entry, lane: str, space_id: str | None) -> None:
        """Publish `PipeOpened` and `ObjectBegun`."""
        hub, head, text = self.hub, origin.head, self.hub.redactor.text
        if hub.wants(PipeOpened):
            hub.tell(PipeOpened(time=time(), **head, space_id=space_id))
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
            hub.tell(event)

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
            hub.tell(event)

    def pipe_closed(self, origin: EventOrigin, reason: Any, seconds: float) -> None:
        """Publish `PipeClosed`: the nodes of a pipe are closed."""
        if self.hub.wants(PipeClosed):
            self.hub.tell(PipeClosed(time=time(), **origin.head, reason=reason, seconds=seconds))

    def lane_in(self, origin: EventOrigin, node_id: str, lane: str, args: tuple[Any, ...]) -> Visit | None:
        """Publish `LaneIn`: a node begins to process a payload. None if nobody wants events of lanes."""
        hub = self.hub
        if not (hub.wants(LaneIn) or hub.wants(LaneOut)):
            return None
        head = {**origin.head, "node_id": node_id, "lane": lane}
        if hub.wants(LaneIn):
            hub.tell(LaneIn(time=time(), **head, data=hub.shown(LaneIn, args[0] if args else None)))
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
            hub.tell(event)
