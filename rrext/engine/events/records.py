"""The events of an engine, and the filter of a subscription: plain data, which JSON can hold.

In JSON the member `event` has the name of the event (`kind_of`): `call_ended` for `CallEnded`. Times are seconds; `time` is
that of the system's clock since 1970. Sizes are bytes of encoded JSON, or of raw data. `token`, `connection_id` and
`pipe_id` name the task, connection and pipe of an event, or are None. JSON has no members that are as by default, such as
None, nor those that are `UNSET`: no subscriber asked for the data (`Filter.data`), or it is larger than `max_event_data`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET


@cache
def snake_case(name: str) -> str:
    """`CallEnded` → `call_ended`."""
    return re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower()


class EngineEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag=snake_case):
    """The fields of all events."""

    time: float
    token: str | None = None
    connection_id: str | None = None
    pipe_id: int | None = None


class TaskEvent(EngineEvent, frozen=True, kw_only=True):
    """The fields of both events of a task. `user_id` is the user who loaded it."""

    name: str
    project_id: str
    source: str
    user_id: str | None = None


class TaskBegun(TaskEvent, frozen=True, kw_only=True):
    """A pipeline was loaded; `is_restart` says that it took the place of another."""

    is_restart: bool = False


class TaskEnded(TaskEvent, frozen=True, kw_only=True):
    """A pipeline was unloaded: its calls and pipes have ended, or were left behind because they are stuck."""

    reason: Literal["terminated", "idle", "closed", "restarted", "lost"]
    seconds: float


class ToolsChanged(EngineEvent, frozen=True, kw_only=True):
    """The tools of a node are others now: it was set up and learnt them, or the server behind it has changed them."""

    node_id: str


class PipeEvent(EngineEvent, frozen=True, kw_only=True):
    """The fields of events of pipes, and of messages and output of nodes. `user_id` opened the pipe, or called; `owner` loaded
    the task.
    """

    user_id: str | None = None
    owner: str | None = None
    project_id: str = ""
    source: str = ""


class PipeOpened(PipeEvent, frozen=True, kw_only=True):
    """A pipe has its place, and its nodes are about to be opened. Every other event of the pipe follows."""

    space_id: str | None = None


class PipeClosed(PipeEvent, frozen=True, kw_only=True):
    """A pipe ended: its nodes are closed and no thread works on them. It follows all events of its lanes and its object."""

    reason: Literal["closed", "failed", "cancelled", "idle", "disconnected", "terminated"]
    seconds: float


class ObjectBegun(PipeEvent, frozen=True, kw_only=True):
    """An object begins on a pipe; `size` is the size that the client announced."""

    object_id: str
    name: str
    path: str
    mime_type: str
    lane: str
    size: int | None = None


class ObjectEnded(PipeEvent, frozen=True, kw_only=True):
    """An object ended. `code` and `message` are those of its error, else None; `size` is the size of its result body.

    An object that is never closed has no result, and the code `cancelled`.
    """

    object_id: str
    name: str
    seconds: float
    code: str | None = None
    message: str | None = None
    size: int = 0
    result: Any = UNSET


class LaneIn(PipeEvent, frozen=True, kw_only=True):
    """A node begins to process a payload: its `write_<lane>` is called."""

    node_id: str
    lane: str
    data: Any = UNSET


class LaneOut(PipeEvent, frozen=True, kw_only=True):
    """A node has finished with a payload: `write_<lane>` and all receivers behind it have returned, or failed."""

    node_id: str
    lane: str
    seconds: float
    code: str | None = None
    message: str | None = None


class FlowStep(PipeEvent, frozen=True, kw_only=True):
    """A step of an object through a traced pipeline: it begins, enters or leaves a component, or ends.

    `component` is the name of the object in `begin` and `end`. `stack` is the way to it: the name of the object, then the
    components inside of which it is; `leave` and `end` are not in it any more. `trace` is what the level of the trace tells.
    """

    op: Literal["begin", "enter", "leave", "end"]
    component: str
    stack: tuple[str, ...]
    trace: dict[str, Any]
    result: Any = UNSET


class Output(PipeEvent, frozen=True, kw_only=True):
    """A line that the code of a node printed or logged."""

    text: str


class CallEvent(EngineEvent, frozen=True, kw_only=True):
    """The fields of all events of a call.

    `call` is the number of the call in its engine. `command` is the operation: `tool`, `open`, `write`, `close`,
    `execute`, `list_tools` and so on. Of a nested call, `caller` is the number of the calling call, None if that was not
    watched, and `callers` are the names of its callers, from the outermost on: `node.tool`, or the node of a lane method.
    `node_id` is the tool's node, None while it is not known. `address` is that of a client on a network.
    """

    call: int
    command: str
    tool: str | None = None
    node_id: str | None = None
    request_id: int | str | None = None
    user_id: str | None = None
    space_id: str | None = None
    caller: int | None = None
    callers: tuple[str, ...] = ()
    address: str | None = None


class CallStarted(CallEvent, frozen=True, kw_only=True):
    """The engine begins with a call, which may have to wait for its turn. `meta` is the request's `_meta`, and `traceparent`
    what it says of the caller's own trace (W3C Trace Context).
    """

    traceparent: str | None = None
    arguments: Any = UNSET
    meta: Any = UNSET


class CallProgress(CallEvent, frozen=True, kw_only=True):
    """The progress of a call; `progress` never decreases."""

    progress: float
    total: float | None = None
    message: str | None = None


class CallChunk(CallEvent, frozen=True, kw_only=True):
    """A generator tool gave a chunk; `index` counts them from 0."""

    index: int
    size: int
    chunk: Any = UNSET


class CallEnded(CallEvent, frozen=True, kw_only=True):
    """A call was answered; `code` is None after success. `size` is that of a tool's result or of another operation's body.

    Events of nested calls may follow, from a thread that goes on after its call was cancelled.
    """

    seconds: float
    code: str | None = None
    message: str | None = None
    size: int = 0
    result: Any = UNSET


class AgentStep(CallEvent, frozen=True, kw_only=True):
    """A step of an agent inside a call. `data` is the text of a chunk, the input or the result of `agent_tool`."""

    step: Literal["start", "chunk", "tool_call", "tool_result", "end"]
    agent: str
    agent_tool: str | None = None
    code: str | None = None
    message: str | None = None
    data: Any = UNSET


class AgentTurn(CallEvent, frozen=True, kw_only=True):
    """An agent inside a call asks its model (`start`), or has its whole answer or failure (`end`).

    A turn is that and all that the agent does with the answer: the calls of tools until the next `start` belong to it. `turn`
    counts from 1. `estimated` says that the model told no tokens, and these are counted by rrext; `cost` is in US dollars;
    `finish` is the model's reason to stop.
    """

    step: Literal["start", "end"]
    agent: str
    turn: int
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    estimated: bool | None = None
    cost: float | None = None
    finish: str | None = None
    code: str | None = None
    message: str | None = None


class Message(PipeEvent, frozen=True, kw_only=True):
    """A message that a node published. Messages of `ctx.publish` belong to a call, those of `self.publish` do not."""

    node_id: str
    type: str
    data: Any
    request_id: int | str | None = None


AnyEvent: TypeAlias = (
    TaskBegun
    | TaskEnded
    | ToolsChanged
    | PipeOpened
    | PipeClosed
    | ObjectBegun
    | ObjectEnded
    | LaneIn
    | LaneOut
    | FlowStep
    | Output
    | CallStarted
    | CallProgress
    | CallChunk
    | CallEnded
    | AgentStep
    | AgentTurn
    | Message
)
"""The type to decode an event from JSON."""


def kind_of(event: type[EngineEvent]) -> str:
    """The name of an event in JSON and in filters."""
    return str(event.__struct_config__.tag)


KINDS: Final[dict[str, type[EngineEvent]]] = {kind_of(kind): kind for kind in AnyEvent.__args__}
"""The event types by name."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the events of a subscription: by kind, task, connection and pipe. No `kinds` means all kinds.

    `data` asks for arguments, results, chunks and payloads; a subscriber that does not ask may get them all the same.
    """

    kinds: frozenset[str] = frozenset(KINDS)
    token: str | None = None
    connection_id: str | None = None
    pipe_id: int | None = None
    data: bool = False

    def fits(self, event: EngineEvent) -> bool:
        """Whether the event belongs to the task, connection and pipe of this filter."""
        return (
            (self.token is None or self.token == event.token)
            and (self.connection_id is None or self.connection_id == event.connection_id)
            and (self.pipe_id is None or self.pipe_id == event.pipe_id)
        )
