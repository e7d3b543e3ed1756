"""`Steps`: what a run of an agent does, told to those who watch it, and kept for its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import RrextError, ToolError
from rrext.tools.context import CallInfo, TurnUsage

if TYPE_CHECKING:
    from rrext.nodes.agent.budget import Budget
    from rrext.tools.context import ToolContext

JOINED: Final = 0.03
"""Seconds for which pieces of text are joined into one event: faster than a person reads, and a tenth of the events."""

MAX_STACK: Final = 200
"""Calls of tools that the answer lists; of more the last ones."""

MAX_NAME: Final = 200
"""Characters of the name of a tool in events: those of ours have at most 64, a model may invent any."""

MAX_DONE_TEXT: Final = 4000
"""Characters of the text of a stopped run that its failure repeats."""


class Steps:
    """Tells the steps of a run. On the loop of the models."""

    def __init__(
        self,
        ctx: ToolContext,
        agent: str,
        budget: Budget,
        shown: Callable[[str], tuple[str, str]],
        on_text: Callable[[str], object] | None,
        *,
        tool: str,
    ) -> None:
        """`shown` is `SetupContext.shown_piece`; `on_text` gets the text as it is, for the answer; `tool` asks the agent."""
        self._ctx = ctx
        self._agent = agent
        self._budget = budget
        self._shown = shown
        self._rest = ""
        self._on_text = on_text
        self._info = CallInfo(
            tool=tool,
            node_id=agent,
            request_id=ctx.request_id,
            connection_id=ctx.connection_id,
            pipe_id=ctx.pipe_id,
            user_id=ctx.user_id,
            space_id=ctx.space_id,
        )
        self._turn = 0
        self._pieces: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[str, tuple[str, float]] = {}
        self._text = ""
        self.stack: list[dict[str, Any]] = []
        """The calls that have ended, as the answer has them."""

    def start(self) -> None:
        """The run begins."""
        self._ctx.callbacks.agent_start(self._info, self._agent)

    def end(self, error: BaseException | None) -> None:
        """The run ends."""
        self.flush(is_end=True)
        failure = ToolError("cancelled", code="run_cancelled") if isinstance(error, asyncio.CancelledError) else error
        self._ctx.callbacks.agent_end(self._info, self._agent, failure)

    def turn_start(self) -> None:
        """The model is asked."""
        self._turn += 1
        self._text = ""
        self._ctx.callbacks.agent_turn_start(self._info, self._agent, self._turn)
        self._think("asks its model", turn=self._turn)

    def turn_end(self, usage: TurnUsage, error: BaseException | None) -> None:
        """The model has answered, or failed."""
        self.flush(is_end=True)
        failure = ToolError("cancelled", code="run_cancelled") if isinstance(error, asyncio.CancelledError) else error
        self._ctx.callbacks.agent_turn_end(self._info, self._agent, self._turn, usage, failure)
        self._ctx.so_far(self.done())

    def text(self, piece: str) -> None:
        """The model wrote a piece of its answer: pieces are joined for `JOINED` seconds."""
        self._pieces.append(piece)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(JOINED, self.flush)

    def flush(self, *, is_end: bool = False) -> None:
        """Tell the text that waits; what may begin a value of a variable waits until more of it came, or the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            if self._on_text is not None:
                self._on_text(text)
            shown, self._rest = self._shown(self._rest + text)
            self._tell(shown)
        if is_end and self._rest:
            shown, self._rest = self._rest, ""
            self._tell(shown)

    def _tell(self, text: str) -> None:
        if text:
            self._text = (self._text + text)[-MAX_DONE_TEXT:]
            self._ctx.callbacks.agent_chunk(self._info, self._agent, text)

    def tool_call(self, number: str, tool: str, given: Any) -> None:
        """The model calls a tool."""
        tool = _named(tool)
        self._running[number] = (tool, time.monotonic())
        self._ctx.callbacks.agent_tool_call(self._info, self._agent, tool, given)
        self._think(f"calls {tool}", tool=tool)
        self._ctx.so_far(self.done())

    def tool_result(self, number: str, tool: str, result: Any, error: RrextError | None) -> None:
        """A tool has ended, or its call was refused."""
        tool = _named(tool)
        _, began = self._running.pop(number, (tool, time.monotonic()))
        payload: dict[str, Any] = {"turn": self._turn, "seconds": round(time.monotonic() - began, 3)}
        if error is not None:
            payload["error"] = {"code": error.code, "message": error.message[:MAX_DONE_TEXT]}
        self.stack.append({"kind": "rrext.call.v1", "name": tool, "payload": payload})
        del self.stack[:-MAX_STACK]
        self._ctx.callbacks.agent_tool_result(self._info, self._agent, tool, result, error)
        self._think(f"{tool} failed: {error.code}" if error else f"has the result of {tool}", tool=tool)
        self._ctx.so_far(self.done())

    def done(self) -> dict[str, Any]:
        """What was done until now, for the failure of a run that is stopped."""
        calls: list[dict[str, Any]] = []
        for each in self.stack:
            error = each["payload"].get("error")
            calls.append({"tool": each["name"], "ended": True, **({"code": error["code"]} if error else {})})
        calls += [{"tool": tool, "ended": False} for tool, _ in self._running.values()]
        return {"agent": self._agent, "turns": self._turn, "tokens": self._budget.tokens, "calls": calls, "text": self._text}

    def _think(self, message: str, **more: Any) -> None:
        """A message for clients of RocketRide, which show what agents do."""
        self._ctx.publish("thinking", {"message": message, "agent": self._agent, **more})


def _named(tool: str) -> str:
    """The name of a tool as a model wrote it, which may be any text, so that it stands in events."""
    return tool[:MAX_NAME].encode("utf-8", "replace").decode()
