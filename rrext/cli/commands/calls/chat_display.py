"""What a person sees of a chat: the text as it comes, the tools while they run, and the tree of a turn."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager, redirect_stderr
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from rrext.cli.commands.servers.trace import shown_time, span_lines
from rrext.cli.console.lines import MIN_WRAPPED_WIDTH, painted, terminal_width
from rrext.cli.console.live_area import AboveArea, LiveArea, LiveText, Render, markdown, plain
from rrext.cli.console.output import Results
from rrext.client.chat_events import (
    AgentBegun,
    AgentEnded,
    ChatEvent,
    ChatText,
    ModelAnswered,
    ModelAsked,
    PermitAsked,
    ToolBegun,
    ToolEnded,
    UserAsked,
)
from rrext.columns import columns, cut, one_line, wrapped
from rrext.engine.events.records import AgentStep, AgentTurn, CallEnded, CallEvent, CallStarted
from rrext.engine.views.spans import Span, Spans
from rrext.limits import CLIENT_DEFAULTS

MAX_TRACE: Final = 10_000
"""Events of a turn that `/trace` draws; the first ones of a longer turn."""

DIM: Final = "2"
RED: Final = "31"


class ChatDisplay:
    """Shows the events of a chat on a terminal. On the loop's thread."""

    def __init__(self, results: Results, *, as_markdown: bool) -> None:
        self.area = LiveArea(results)
        """The end of the screen."""
        self._colours = not os.environ.get("NO_COLOR")
        self._render: Render = plain
        self._as_markdown = as_markdown and find_spec("rich") is not None
        self._text = LiveText(self._shown)
        self._running: dict[tuple[int, str], str] = {}
        self._held: list[ChatEvent] | None = None
        """Events that come while the user is asked."""
        self._timer: asyncio.TimerHandle | None = None
        self.said = ""
        """The text since the last tool: what the user has seen of the answer."""
        self.turn: list[ChatEvent] = []
        """What `/trace` draws."""

    def messages_above(self) -> AbstractContextManager[object]:
        """What is printed on stderr in this block stands above what is drawn anew."""
        return redirect_stderr(AboveArea(sys.stderr, self.area))

    async def prepare(self) -> None:
        """Load what Markdown needs, which takes a sixth of a second."""
        if self._as_markdown and self._render is plain:
            self._render = await asyncio.to_thread(markdown)

    def begin(self) -> None:
        """A question is asked."""
        self.said = ""
        self.turn = []

    def show(self, event: ChatEvent) -> None:
        """Show an event."""
        if self._held is not None:
            self._held.append(event)
            return
        if not isinstance(event, ChatText | PermitAsked | UserAsked) and len(self.turn) < MAX_TRACE:
            self.turn.append(event)
        match event:
            case ChatText(depth=0):
                self.said += event.text
                self._put(self._text.add(event.text))
            case ModelAsked(depth=0):  # what it answers is a text of its own
                self.said = ""
                self._put(self._text.end())
            case ToolBegun():
                self.said = ""
                self._running[event.call, event.tool] = call_text(event)
                self._put(self._text.end())
            case ToolEnded():
                line = self._running.pop((event.call, event.tool), one_line(event.tool))
                self._put(self._ended(line, event))
            case _:
                pass

    def answer(self, texts: list[str]) -> None:
        """Show the answers of the pipeline, unless they were shown as they came."""
        self.end()
        text = "\n\n".join(texts)
        if text.strip() != self.said.strip():
            self._put([*self._text.add(text), *self._text.end()])

    def end(self) -> None:
        """No more events come: leave nothing that looks as if it ran."""
        self._running.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.area.put(self._text.end())

    def hold(self) -> None:
        """Show nothing more, until `go_on`: the user is asked something."""
        self.area.put(self._text.end())
        self._held = []

    def go_on(self) -> None:
        """Show what came meanwhile."""
        held, self._held = self._held or [], None
        for event in held:
            self.show(event)

    def lines(self, lines: list[str]) -> None:
        """Write lines of messages."""
        self.area.put(lines)

    def _shown(self, text: str, width: int) -> list[str]:
        return self._render(text, width)

    def _put(self, lines: list[str]) -> None:
        """Write finished lines, and draw what may still change, a moment later if there is nothing finished."""
        if lines:
            self.area.put(lines)
            self._draw()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CLIENT_DEFAULTS.progress_redraw, self._draw)

    def _draw(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is None:
            width = terminal_width() - 1
            running = [self._painted(cut(f"… {line}", width), DIM) for line in self._running.values()]
            self.area.draw([*self._text.last, *running])

    def _ended(self, line: str, event: ToolEnded) -> list[str]:
        width, took = terminal_width() - 1, f" · {shown_time(event.seconds)}" if event.node_id else ""
        lead = "  " * event.depth
        if event.code is None:
            return [self._painted(cut(f"{lead}✓ {line}", width - len(took)) + took, DIM)]
        reason = one_line(event.message or event.code)
        lines = [f"{lead}✗ {line}{took} · {reason}"]
        if columns(lines[0]) > width:
            head = cut(f"{lead}✗ {line}", width - len(took)) + took
            lines = [head, *(f"{lead}  {part}" for part in wrapped(reason, max(width - 2 - len(lead), MIN_WRAPPED_WIDTH)))]
        return [self._painted(each, RED) for each in lines]

    def _painted(self, text: str, colour: str) -> str:
        return painted(text, colour) if self._colours else text


def call_text(event: ToolBegun) -> str:
    """A call as a line: `read_file(path="notes.txt")`."""
    given: Any = event.arguments
    if not isinstance(given, dict):
        return one_line(event.tool) + ("()" if given is None else f"({one_line(_json(given))})")
    return one_line(f"{event.tool}({', '.join(f'{name}={_json(value)}' for name, value in given.items())})")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def trace_lines(events: list[ChatEvent]) -> list[str]:
    """The tree of a turn, as `rrext trace` draws it."""
    drawn: list[Span] = []

    def begun(span: Span) -> None:
        if span.parent is None:
            drawn.append(span)

    spans = Spans(begun, lambda span: None, nested=True)
    agents: dict[int, str] = {}
    known: set[int] = set()
    for event in events:
        outer = event.caller if isinstance(event, ToolBegun | ToolEnded) and event.node_id else event.call
        if event.depth == 0 and outer is not None and outer not in known:
            known.add(outer)
            spans.take(CallStarted(time=event.time, call=outer, command="question"))
        if isinstance(event, AgentBegun):
            agents[event.call] = event.agent
        if (record := record_of(event, agents.get(event.call, ""))) is not None:
            spans.take(record)
    for number in known:
        spans.take(CallEnded(time=events[-1].time, call=number, command="question", seconds=events[-1].time - events[0].time))
    return [line for span in drawn for line in span_lines(span)]


def record_of(event: ChatEvent, agent: str) -> CallEvent | None:
    """The event of the engine from which an event was read; `agent` is the one that works in its call."""
    fields = msgspec.structs.asdict(event)
    about: dict[str, Any] = {name: fields[name] for name in ("time", "call", "caller")}
    failure: dict[str, Any] = {name: fields.get(name) for name in ("code", "message")}
    match event:
        case AgentBegun():
            return AgentStep(**about, command="", step="start", agent=event.agent)
        case AgentEnded():
            return AgentStep(**about, command="", step="end", agent=event.agent, **failure)
        case ModelAsked():
            return AgentTurn(**about, command="", step="start", agent=event.agent, turn=event.turn)
        case ModelAnswered():
            used = {name: fields[name] for name in AgentTurn.__struct_fields__ if name in fields}
            return AgentTurn(**used, command="", step="end")
        case ToolBegun(node_id=""):
            return AgentStep(**about, command="", step="tool_call", agent=agent, agent_tool=event.tool)
        case ToolEnded(node_id=""):
            return AgentStep(**about, command="", step="tool_result", agent=agent, agent_tool=event.tool, **failure)
        case ToolBegun():
            return CallStarted(**about, command="tool", tool=event.tool, node_id=event.node_id)
        case ToolEnded():
            named: dict[str, Any] = {"tool": event.tool, "node_id": event.node_id, "seconds": event.seconds}
            return CallEnded(**about, command="tool", **named, **failure)
        case _:
            return None
