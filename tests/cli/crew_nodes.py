"""An agent, its sub-agent and a tool that fails: they play their parts, for traces."""

from __future__ import annotations

from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo, TurnUsage


class Boss(Node):
    """An agent that plays its part."""

    provider = "boss"

    class Config:
        key: str = ""

    @tool_function
    async def run_agent(self, query: str, bearer_token: str = "", *, ctx: ToolContext) -> dict[str, Any]:
        """Ask the agent."""
        tell, info = ctx.callbacks, CallInfo(tool="run_agent")
        tell.agent_start(info, "boss")
        tell.agent_turn_start(info, "boss", 1)
        tell.agent_chunk(info, "boss", f"I look with {self.config.key}.")
        usage = TurnUsage(model="large", input_tokens=1200, output_tokens=40, cost=0.0042, finish="tool_calls")
        tell.agent_turn_end(info, "boss", 1, usage)
        for name in ("no_such_tool", "find"):
            tell.agent_tool_call(info, "boss", name, {"what": "x"})
        try:
            await ctx.call("hand_1", "find", {"what": query})
        except ToolError as error:
            tell.agent_tool_result(info, "boss", "find", None, error)
        tell.agent_tool_result(info, "boss", "no_such_tool", None, ToolError("there is no such tool", code="unknown"))
        tell.agent_tool_call(info, "boss", "ask_helper", {})
        said = await ctx.call("help_1", "ask_helper", {})
        tell.agent_tool_result(info, "boss", "ask_helper", said, None)
        tell.agent_turn_start(info, "boss", 2)
        usage = TurnUsage(model="large", input_tokens=1300, output_tokens=9, cost=0.004, finish="stop")
        tell.agent_turn_end(info, "boss", 2, usage)
        tell.agent_end(info, "boss", None)
        return {"content": said}


class Helper(Node):
    """A sub-agent."""

    provider = "helper"

    @tool_function
    async def ask_helper(self, *, ctx: ToolContext) -> str:
        """Ask the helper."""
        tell, info = ctx.callbacks, CallInfo(tool="ask_helper")
        tell.agent_start(info, "helper")
        tell.agent_turn_start(info, "helper", 1)
        tell.agent_turn_end(info, "helper", 1, TurnUsage(input_tokens=10, output_tokens=2, estimated=True))
        tell.agent_end(info, "helper", None)
        return "found"


class Hand(Node):
    """A tool that fails."""

    provider = "hand"

    @tool_function
    def find(self, what: str) -> str:
        """Find it."""
        raise ToolError(f"nothing is {what!r}", code="nothing")
