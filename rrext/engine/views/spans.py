"""`Spans`: the events of calls and agents as spans, each inside of another: agent → turn → request to the model, and tools.

Traces of other programs, and drawings of a trace file, are made of them alone, so that they cannot differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from rrext.engine.events.records import AgentStep, AgentTurn, CallEnded, CallEvent, CallStarted, kind_of

KINDS: Final = frozenset(map(kind_of, (CallStarted, CallEnded, AgentStep, AgentTurn)))
"""The events that make spans."""

MAX_PIPES: Final = 4096
"""Open pipes whose caller's trace is remembered; an older one than these is most likely gone."""

MAX_TEXT: Final = 1024 * 1024
"""Characters of an answer of a model that are kept, as many as an event may have."""

SpanKind = Literal["call", "tool", "agent", "turn", "chat"]


class TokenUsage(msgspec.Struct):
    """The sum of what turns of agents used. `is_estimated`: some of it is counted by rrext."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    is_estimated: bool = False

    def add(self, turn: AgentTurn) -> None:
        """Add the end of a turn."""
        told = turn.input_tokens or 0, turn.output_tokens or 0, turn.cost or 0.0
        self.join(TokenUsage(1, *told, is_estimated=bool(turn.estimated)))

    def join(self, other: TokenUsage) -> None:
        """Add what others used."""
        self.turns += other.turns
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cost += other.cost
        self.is_estimated |= other.is_estimated


class Span:
    """Something that takes time. `began` and `ended` are the events at its ends; `ended` is None while it goes on.

    `call` is a command that calls no tool. `usage` is that of a request to a model, and of an agent without those inside of it.
    `text` has the pieces of a model's answer, if the events have them. `made` belongs to who is told of spans.
    """

    __slots__ = ("began", "children", "ended", "kind", "made", "name", "parent", "text", "traceparent", "usage")

    def __init__(self, kind: SpanKind, name: str, began: CallEvent, parent: Span | None) -> None:
        self.kind: SpanKind = kind
        self.name = name
        self.began = began
        self.ended: CallEvent | None = None
        self.parent = parent
        self.children: list[Span] = []
        self.traceparent: str | None = None
        self.usage = TokenUsage()
        self.text: list[str] = []
        self.made: Any = None

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        if isinstance(self.ended, CallEnded) and self.kind in ("call", "tool"):
            return self.ended.seconds
        return None if self.ended is None else max(0.0, self.ended.time - self.began.time)

    @property
    def failure(self) -> tuple[str, str] | None:
        """The code and the message of its failure."""
        code = getattr(self.ended, "code", None)
        return None if code is None else (code, getattr(self.ended, "message", None) or "")

    def __repr__(self) -> str:
        return f"<Span {self.kind} {self.name}>"


class _Agent:
    """An agent at work: its span, its turn, and the calls of tools that it announced and that did not begin."""

    __slots__ = ("announced", "chat", "span", "turn")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.turn: Span | None = None
        self.chat: Span | None = None
        self.announced: list[AgentStep] = []


class _Call:
    """A call at work."""

    __slots__ = ("agents", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.agents: dict[str, _Agent] = {}

    @property
    def inner(self) -> Span:
        """Where a call within this one belongs."""
        for agent in reversed(self.agents.values()):
            return agent.turn or agent.span
        return self.span


class Spans:
    """Takes the events of calls in their order, from any thread, and tells of each span at its begin and its end."""

    def __init__(self, begun: Callable[[Span], object], ended: Callable[[Span], object], *, nested: bool = False) -> None:
        self._begun = begun
        self._ended = ended
        self._nested = nested
        """Whether spans know those inside of them, which keeps these."""
        self._calls: dict[int, _Call] = {}
        self._pipes: dict[int, str] = {}
        self._lock = threading.RLock()

    def take(self, event: Any) -> None:
        """Take an event; others than those of `KINDS` are nothing to it."""
        with self._lock:
            match event:
                case CallStarted():
                    self._start(event)
                case CallEnded():
                    self._end_call(event)
                case AgentStep() if (call := self._calls.get(event.call)) is not None:
                    self._step(call, event)
                case AgentTurn() if (call := self._calls.get(event.call)) is not None:
                    self._turn(call, event)
                case _:
                    pass

    def _begin(self, kind: SpanKind, name: str, event: CallEvent, parent: Span | None) -> Span:
        span = Span(kind, name, event, parent)
        if parent is not None:
            span.traceparent = parent.traceparent
            if self._nested:
                parent.children.append(span)
        return span

    def _end(self, span: Span | None, event: CallEvent) -> None:
        if span is not None and span.ended is None:
            span.ended = event
            self._ended(span)

    def _start(self, event: CallStarted) -> None:
        caller = None if event.caller is None else self._calls.get(event.caller)
        if caller is not None:
            for agent in reversed(caller.agents.values()):
                _take_announced(agent, event.tool)
                break
        name = event.tool or event.command
        span = self._begin("tool" if event.command == "tool" else "call", name, event, None if caller is None else caller.inner)
        if event.traceparent is not None:
            span.traceparent = event.traceparent
        elif span.parent is None and event.pipe_id is not None:
            span.traceparent = self._pipes.get(event.pipe_id)
        self._calls[event.call] = _Call(span)
        self._begun(span)

    def _end_call(self, event: CallEnded) -> None:
        call = self._calls.pop(event.call, None)
        if call is None:
            return
        for agent in call.agents.values():
            self._end_agent(agent, event)
        self._end(call.span, event)
        if event.pipe_id is not None and event.command in ("open", "close"):
            self._pipes.pop(event.pipe_id, None)
            if event.command == "open" and event.code is None and call.span.traceparent is not None:
                self._pipes[event.pipe_id] = call.span.traceparent
                if len(self._pipes) > MAX_PIPES:
                    del self._pipes[next(iter(self._pipes))]

    def _step(self, call: _Call, event: AgentStep) -> None:
        agent = call.agents.get(event.agent)
        if event.step == "start":
            if agent is not None:
                self._end_agent(agent, event)
                del call.agents[event.agent]
            span = self._begin("agent", event.agent, event, call.inner)
            call.agents[event.agent] = _Agent(span)
            self._begun(span)
        elif agent is None:
            return
        elif event.step == "chunk":
            chat = agent.chat
            if chat is not None and isinstance(event.data, str) and sum(map(len, chat.text)) < MAX_TEXT:
                chat.text.append(event.data)
        elif event.step == "tool_call":
            agent.announced.append(event)
        elif event.step == "tool_result":
            for announced in agent.announced:
                if announced.agent_tool == event.agent_tool:  # nothing was called: a refused name, or a tool of the agent's own
                    agent.announced.remove(announced)
                    span = self._begin("tool", event.agent_tool or "", announced, agent.turn or agent.span)
                    self._begun(span)
                    self._end(span, event)
                    break
        else:
            del call.agents[event.agent]
            self._end_agent(agent, event)

    def _turn(self, call: _Call, event: AgentTurn) -> None:
        agent = call.agents.get(event.agent)
        if agent is None:
            return
        if event.step == "start":
            self._end(agent.chat, event)
            self._end(agent.turn, event)
            agent.turn = self._begin("turn", f"turn {event.turn}", event, agent.span)
            self._begun(agent.turn)
            agent.chat = self._begin("chat", "chat", event, agent.turn)
            self._begun(agent.chat)
        elif agent.chat is not None:
            for span in (agent.chat, agent.span):
                span.usage.add(event)
            agent.chat.name = f"chat {event.model}" if event.model else "chat"
            self._end(agent.chat, event)

    def _end_agent(self, agent: _Agent, event: CallEvent) -> None:
        self._end(agent.chat, event)
        self._end(agent.turn, event)
        self._end(agent.span, event)


def _take_announced(agent: _Agent, tool: str | None) -> None:
    """Forget the announcement of a call that begins: the one with its name, or the first one, as names of tools may differ."""
    found = next((each for each in agent.announced if each.agent_tool == tool), None)
    if found is None and agent.announced:
        found = agent.announced[0]
    if found is not None:
        agent.announced.remove(found)


def usage_of(span: Span) -> TokenUsage:
    """What a span and those inside of it used. Raises nothing for spans that do not know these."""
    usage, waiting = TokenUsage(), [span]
    while waiting:
        each = waiting.pop()
        waiting += each.children
        if each.kind == "agent":
            usage.join(each.usage)
    return usage
