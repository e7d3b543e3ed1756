"""The events of a watched client's call: they begin when the engine gets the call, and end with its answer."""

from __future__ import annotations

import msgspec

from rrext.engine.calls.caller_events import CallerEvents
from rrext.engine.events.call_publisher import CallWatch
from rrext.engine.events.hub import EventHub
from rrext.engine.events.records import snake_case
from rrext.engine.interface.call import AnswerSink, Call, Caller
from rrext.engine.interface.operations import Open, Tool
from rrext.engine.tasks.pipes import Pipes
from rrext.engine.tasks.registry import Tasks
from rrext.engine.tasks.task import Task
from rrext.errors import RrextError, TaskError


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


def watch_call(hub: EventHub, call: Call, tasks: Tasks[Task], pipes: Pipes) -> None:
    """Begin the events of a call that is about to start, and route its answer through a `WatchedAnswer`. Idempotent."""
    if type(call.answer) is WatchedAnswer:
        return
    operation, caller = call.operation, call.caller
    if call.feed is not None and isinstance(operation, Tool) and operation.events:
        hub = CallerEvents(hub, call.feed)
    elif not hub.watches_calls:
        return
    asked: int | None = getattr(operation, "pipe_id", None)
    pipe = None if asked is None else pipes.get(asked, caller.connection_id)
    task = call.task
    if task is None:
        task = _task_of(tasks, operation.token, call.caller) if asked is None else None if pipe is None else pipe.task
    tool = node_id = None
    if isinstance(operation, Tool):
        route = call.route or (None if task is None else task.routes.only(operation.node_id, operation.tool))
        if route is not None:
            tool, node_id = operation.tool, route.node_id
        else:  # text of the caller, which may contain a secret
            tool = hub.redactor.text(operation.tool)
            node_id = None if operation.node_id is None else hub.redactor.text(operation.node_id)
    head = {
        "token": None if task is None else task.token,
        "connection_id": caller.connection_id,
        "pipe_id": asked,
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


def _task_of(tasks: Tasks[Task], token: str | None, caller: Caller) -> Task | None:
    try:
        return tasks.get(token, caller)
    except TaskError:
        return None
