"""A pipeline with an agent, tools for it, and a scripted model server, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from engine_world import Asked, AsyncPark, Events, World, world
from model_server import Call, ModelServer, Say, Step

from rrext.engine.interface.call import ANONYMOUS, Caller
from rrext.engine.interface.operations import Tool
from rrext.errors import ToolError, Unavailable
from rrext.nodes.agent.node import AgentNode, CrewManagerNode, CrewSubagentNode
from rrext.nodes.base.node import Node
from rrext.nodes.basic.memory import MemoryNode
from rrext.nodes.basic.response import ResponseAnswersNode
from rrext.nodes.llm.openai import OpenAIApiNode
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

__all__ = ["Call", "Events", "Say", "Tools", "agent_world", "component", "pipeline"]


SECRET = "hunter2-Zx81-secret99"
"""The value of a variable that the redactor of the engine knows, if a test says so."""


class Tools(Node):
    """Tools as agents meet them."""

    provider = "toys"
    lot: AsyncPark
    seen: list[Any] = []

    @tool_function
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool_function
    def fail(self) -> None:
        """Fail."""
        raise RuntimeError("the disk is full")

    @tool_function
    def long(self, size: int) -> str:
        """Answer at length."""
        return "".join(str(number % 10) for number in range(size))

    @tool_function
    async def stay(self) -> None:
        """Stay until the test lets it go."""
        await self.lot.stay()

    @tool_function
    def leak(self) -> None:
        """Fail with a secret."""
        raise ToolError(f"cannot connect to postgres://me:{SECRET}@db/x", hint=f"ask {SECRET}")

    @tool_function
    def ask_other(self, ctx: ToolContext) -> str:
        """Ask another agent from a thread."""
        return ctx.call_blocking("agent_2", "run_agent", {"query": "half?"})["content"]

    @tool_function
    def not_a_number(self) -> float:
        """A result that JSON does not have."""
        return float("nan")

    @tool_function
    def whoami(self, ctx: ToolContext) -> str | None:
        """The name of the user."""
        return ctx.user_id


class Down(Node):
    """Cannot be set up."""

    provider = "down"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[None]:
        raise Unavailable(f"no server at root:{SECRET}@db")
        yield

    @tool_function
    def never(self) -> None: ...


BOUND = ({"classType": "tool", "from": "agent_1"},)


def component(node_id: str, provider: str, control: Sequence[Any] = BOUND, **config: Any) -> dict[str, Any]:
    return {"id": node_id, "provider": provider, "config": config, "control": list(control)}


def pipeline(server: ModelServer, *more: dict[str, Any], model: Any = None, **config: Any) -> dict[str, Any]:
    """`agent_1` with a model, toys, and an answer on its lane."""
    agent = component("agent_1", "agent", [{"classType": "tool", "from": "source"}], **config)
    agent["input"] = [{"lane": "questions", "from": "source"}]
    answers = component("answers_1", "response_answers", ())
    answers["input"] = [{"lane": "answers", "from": "agent_1"}]
    settings = {"base_url": server.address, "model": "test", "apikey": "sk-4711", "retryDelay": 0.001, **(model or {})}
    return {
        "components": [
            {"id": "source", "provider": "source", "config": {}},
            agent,
            component("model_1", "llm_openai_api", [{"classType": "llm", "from": "agent_1"}], **settings),
            component("toys_1", "toys"),
            answers,
            *more,
        ],
        "source": "source",
        "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a11",
    }


NODES = (AgentNode, CrewManagerNode, CrewSubagentNode, OpenAIApiNode, Tools, Down, MemoryNode, ResponseAnswersNode)


class AgentWorld:
    """An engine with an agent, and its model server."""

    def __init__(self, inner: World, server: ModelServer) -> None:
        self.inner = inner
        self.server = server

    def plays(self, *steps: Step) -> None:
        self.server.next(*steps)

    def ask(
        self, query: str = "?", feed: Any = None, *, caller: Caller = ANONYMOUS, tool: str = "run_agent", **more: Any
    ) -> Asked:
        """Ask the agent as a client that wants events."""
        given = {"events": feed is not None, "permits": feed is not None, "stream": feed is not None, **more}
        operation = Tool(tool=tool, node_id="agent_1", input={"query": query}, **given)
        return self.inner.ask(operation, feed=feed, caller=caller)


@asynccontextmanager
async def agent_world(
    server: ModelServer, *more: dict[str, Any], model: Any = None, nodes: Sequence[type[Node]] = (), **config: Any
) -> AsyncIterator[AgentWorld]:
    """A world of `pipeline`, with these nodes too."""
    async with world(more=(*NODES, *nodes), pipeline=pipeline(server, *more, model=model, **config)) as inner:
        yield AgentWorld(inner, server)
