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
)
from rrext.errors import RrextError

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventHub, EventOrigin
    from rrext.engine.tasks.pipes import Pipe
    from rrext.engine.tasks.task import Task

__all__ = ["FlowEvents", "Visit"]


class FlowEvents:
    """Makes the events of an engine's tasks, pipes, objects and lanes."""

    __slots__ = ("hub",)

    def __init__(self, hub: EventHub) -> None:
        self.hub = hub

    def task_begun(self, task: Task) -> None:
        """A pipeline was loaded."""
        if self.hub.wants(TaskBegun):
            self.hub.tell(TaskBegun(time=time(), **_of_task(task)))

    def task_ended(self, task: Task, reason: Any) -> None:
        """A pipeline was unloaded."""
        if self.hub.wants(TaskEnded):
            self.hub.tell(TaskEnded(time=time(), **_of_task(task), reason=reason, seconds=task.now() - task.began))

    def pipe_opened(self, pipe: Pipe) -> None:
        """A pipe has its place, and its object begins."""
        hub, head, entry, text = self.hub, _of_pipe(pipe), pipe.entry, self.hub.redactor.text
        if hub.wants(PipeOpened):
            hub.tell(PipeOpened(time=time(), **head, user_id=pipe.caller.user_id, space_id=pipe.caller.space_id))
        if hub.wants(ObjectBegun):
            event = ObjectBegun(
                time=time(),
                **head,
                object_id=entry.object_id,
                name=text(entry.name),
                path=text(entry.path),
                mime_type=entry.mime_type,
                lane=pipe.intake.lane,
                size=entry.size,
            )
            hub.tell(event)

    def object_ended(self, pipe: Pipe, body: bytes | None) -> None:
        """A pipe's object is over; `body` is its result, None if nobody closed it."""
        hub, failure = self.hub, pipe.failed or pipe.objects.failure
        if hub.wants(ObjectEnded):
            event = ObjectEnded(
                time=time(),
                **_of_pipe(pipe),
                object_id=pipe.entry.object_id,
                name=hub.redactor.text(pipe.entry.name),
                seconds=pipe.task.now() - pipe.began,
                code="cancelled" if failure is None and body is None else None if failure is None else failure.code,
                message=None if failure is None else hub.redactor.text(failure.message),
                size=0 if body is None else len(body),
                result=msgspec.UNSET if body is None else hub.shown_json(ObjectEnded, body),
            )
            hub.tell(event)

    def pipe_closed(self, pipe: Pipe, reason: Any) -> None:
        """A pipe's nodes are closed."""
        if self.hub.wants(PipeClosed):
            event = PipeClosed(time=time(), **_of_pipe(pipe), reason=reason, seconds=pipe.task.now() - pipe.began)
            self.hub.tell(event)

    def lane_in(self, origin: EventOrigin, node_id: str, lane: str, args: tuple[Any, ...]) -> Visit:
        """A payload goes into a node."""
        hub = self.hub
        head = {
            "token": origin.token,
            "connection_id": origin.connection_id,
            "pipe_id": origin.pipe_id,
            "node_id": node_id,
            "lane": lane,
        }
        if hub.wants(LaneIn):
            hub.tell(LaneIn(time=time(), **head, data=hub.shown(LaneIn, _payload(args))))
        return Visit(hub, head)


class Visit:
    """A payload in a node."""

    __slots__ = ("_began", "_head", "_hub")

    def __init__(self, hub: EventHub, head: dict[str, Any]) -> None:
        self._hub = hub
        self._head = head
        self._began = hub.clock.now()

    def leave(self, failure: RrextError | None) -> None:
        """It comes out again."""
        hub = self._hub
        if hub.wants(LaneOut):
            code, message = (None, None) if failure is None else (failure.code, hub.redactor.text(failure.message))
            event = LaneOut(time=time(), **self._head, seconds=hub.clock.now() - self._began, code=code, message=message)
            hub.tell(event)

    def __repr__(self) -> str:
        return f"<Visit {self._head['node_id']} {self._head['lane']}>"


def _payload(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


def _of_task(task: Task) -> dict[str, Any]:
    return {
        "token": task.token,
        "name": task.name,
        "project_id": task.spec.project_id,
        "source": task.spec.source,
        "user_id": task.owner,
    }


def _of_pipe(pipe: Pipe) -> dict[str, Any]:
    return {"token": pipe.task.token, "connection_id": pipe.caller.connection_id, "pipe_id": pipe.id}
