"""What happens while a pipeline answers a question, as typed events; and their reader, for the events of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """The fields of all events of a chat.

    `call` is the number of the call in which it happened, for the event of a tool that of its call; `caller` is the number of
    the calling one. `depth` counts the tools around it: 0 for what the nodes of the pipeline do, 1 for what a sub-agent does.
    `missed` counts the events just before it that were dropped, as the reader was slow.
    """

    time: float
    call: int
    caller: int | None = None
    depth: int = 0
    missed: int = 0


class ChatText(ChatEvent, frozen=True, kw_only=True, tag="text"):
    """A piece of the text that an agent writes. Pieces are joined for a slow reader."""

    agent: str
    text: str


class AgentBegun(ChatEvent, frozen=True, kw_only=True, tag="agent_begun"):
    """An agent begins to work: the agent of the question, or a sub-agent that another agent calls as a tool."""

    agent: str


class AgentEnded(ChatEvent, frozen=True, kw_only=True, tag="agent_ended"):
    """An agent has ended; with `code` and `message` if it failed."""

    agent: str
    code: str | None = None
    message: str | None = None


class ModelAsked(ChatEvent, frozen=True, kw_only=True, tag="model_asked"):
    """An agent asks its model, for the `turn`-th time."""

    agent: str
    turn: int


class ModelAnswered(ChatEvent, frozen=True, kw_only=True, tag="model_answered"):
    """The model of an agent has answered, or failed with `code` and `message`.

    Tokens that the model did not tell are `estimated`; `cost` is in US dollars, if prices are known.
    """

    agent: str
    turn: int
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    estimated: bool = False
    cost: float | None = None
    finish: str | None = None
    code: str | None = None
    message: str | None = None


class ToolBegun(ChatEvent, frozen=True, kw_only=True, tag="tool_begun"):
    """A tool is called. `node_id` is empty for a name that the agent itself answers, or that no tool has."""

    tool: str
    node_id: str = ""
    arguments: Any = None


class ToolEnded(ChatEvent, frozen=True, kw_only=True, tag="tool_ended"):
    """A tool has ended: with its result, or with `code` and `message`. A large result is left out."""

    tool: str
    node_id: str = ""
    seconds: float = 0.0
    result: Any = None
    code: str | None = None
    message: str | None = None


class PermitAsked(ChatEvent, frozen=True, kw_only=True, tag="permit_asked"):
    """A tool needed a permit, and `on_permission` said whether the call is allowed."""

    tool: str
    node_id: str
    arguments: Any
    allowed: bool


class UserAsked(ChatEvent, frozen=True, kw_only=True, tag="user_asked"):
    """The user was asked `params`, and `on_question` gave `answer`; None if the user declined."""

    node_id: str
    params: Any
    answer: Any


Meant: TypeAlias = tuple[str, ChatEvent, Any]
"""A call that an agent announced: the name as its model knows it, the fields of events, the arguments."""


class ChatReader:
    """Reads the `rrext_call` events of the requests of one chat."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}
        """Call → the tools around what it does."""
        self._meant: dict[int, list[Meant]] = {}
        """Call → what agents within it announced, and the engine has not begun."""

    def read(self, body: Mapping[str, Any]) -> list[ChatEvent]:
        """The events of a body; none of a call of the pipeline itself."""
        event, call, caller = body["event"], body["call"], body.get("caller")
        around = self._depths.get(caller, 0) if caller is not None else 0
        fields: dict[str, Any] = {"time": body["time"], "call": call, "caller": caller, "missed": body.get("dropped", 0)}
        if event in ("call_started", "call_ended"):
            if caller is None:
                return []
            named = {**fields, "depth": around, "tool": body.get("tool", ""), "node_id": body.get("nodeId", "")}
            if event == "call_started":
                self._depths[call] = around + 1
                self._begin(caller, named["tool"])
                return [ToolBegun(**named, arguments=body.get("arguments"))]
            self._depths.pop(call, None)
            self._meant.pop(call, None)
            outcome = {name: body[name] for name in ("seconds", "result", "code", "message") if name in body}
            return [ToolEnded(**named, **outcome)]
        about = ChatEvent(**fields, depth=self._depths.get(call, 0))
        return self._turn(body, about) if event == "agent_turn" else self._step(body, about)

    def _begin(self, caller: int, tool: str) -> None:
        """The engine has begun what an agent announced, perhaps under the longer name that its model knows."""
        meant = self._meant.get(caller, [])
        fitting = [each for each in meant if each[0].endswith(tool)] or (meant if len(meant) == 1 else [])
        if fitting:
            meant.remove(fitting[0])

    def _step(self, body: Mapping[str, Any], about: ChatEvent) -> list[ChatEvent]:
        fields = msgspec.structs.asdict(about)
        failure = {name: body[name] for name in ("code", "message") if name in body}
        agent = body["agent"]
        match body["step"]:
            case "start":
                return [AgentBegun(**fields, agent=agent)]
            case "end":
                return [AgentEnded(**fields, agent=agent, **failure)]
            case "chunk":
                if not isinstance(text := body.get("data"), str):  # over `max_event_data`
                    fields["missed"] += 1
                    text = ""
                return [ChatText(**fields, agent=agent, text=text)]
            case "tool_call":
                self._meant.setdefault(about.call, []).append((body["agentTool"], about, body.get("data")))
            case "tool_result":
                meant = self._meant.get(about.call, [])
                for each in meant:
                    if each[0] == body["agentTool"]:  # the agent answered it itself
                        meant.remove(each)
                        begun = ToolBegun(**msgspec.structs.asdict(each[1]), tool=each[0], arguments=each[2])
                        return [begun, ToolEnded(**fields, tool=each[0], result=body.get("data"), **failure)]
        return []

    def _turn(self, body: Mapping[str, Any], about: ChatEvent) -> list[ChatEvent]:
        fields = {**msgspec.structs.asdict(about), "agent": body["agent"], "turn": body["turn"]}
        if body["step"] == "start":
            return [ModelAsked(**fields)]
        used = {"inputTokens": "input_tokens", "outputTokens": "output_tokens"}
        names = ("model", *used, "estimated", "cost", "finish", "code", "message")
        return [ModelAnswered(**fields, **{used.get(name, name): body[name] for name in names if name in body})]
