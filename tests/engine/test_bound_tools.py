"""What a node may do with the nodes that are bound to it: list their tools, call them, read their chunks, use their state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engine_world import AsyncPark, Park, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import ListTools
from rrext.errors import ToolError, ToolNotFound, Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.anyio


class Model(Node):
    """A node with shared state."""

    provider = "model"
    class_types = ("llm",)

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[list[str]]:
        yield ["ready"]

    @tool_function
    def ask(self, question: str) -> str:
        return question


class Store(Node):
    provider = "store"

    @tool_function
    def query(self, sql: str) -> str:
        """Ask the store.

        Args:
            sql: The query.
        """
        return f"{self.node_id}: {sql}"

    @tool_function(available=lambda node, ctx: ctx.user_id == "ada")
    def secret(self) -> str:
        return "s"

    @tool_function(for_models=False)
    def fill(self) -> str:
        return "filled"


class Broken(Node):
    provider = "broken"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[None]:
        raise Unavailable("its server is down")
        yield

    @tool_function
    def never(self) -> None: ...


class Free(Node):
    """Bound to nobody but the source."""

    provider = "free"

    @tool_function
    def roam(self) -> str:
        return "roams"


class Agent(Node):
    provider = "boss"
    takes_references = True
    keeps_references = True
    lanes = {"text": ()}
    seen: list[Any] = []

    async def write_text(self, text: str, ctx: ToolContext) -> None:
        self.seen.append([tool.name for tool in await ctx.tools()])

    @tool_function
    async def look(self, ctx: ToolContext) -> dict[str, Any]:
        tools = await ctx.tools()
        listed = {tool.name: [tool.node_id, tool.tool, tool.permission, tool.description] for tool in tools}
        return {"tools": listed, "failed": {label: error.message for label, error in tools.failed.items()}}

    @tool_function
    async def use(self, name: str, input: dict[str, Any], ctx: ToolContext) -> Any:
        tool = {tool.name: tool for tool in await ctx.tools()}[name]
        return await ctx.call(tool.node_id, tool.tool, input)

    @tool_function
    async def try_call(self, at: str, name: str, ctx: ToolContext) -> list[Any]:
        try:
            await ctx.call(at, name)
        except ToolError as error:
            return [error.code, error.hint, error.data.get("near")]
        return []

    @tool_function
    async def model(self, kind: str, ctx: ToolContext) -> Any:
        return await ctx.bound(kind)


def pipeline(*references: Any) -> dict[str, Any]:
    bound = [{"classType": "tool", "from": "agent_1"}]
    return {
        "components": [
            {"id": "source", "provider": "source", "config": {}},
            {"id": "agent_1", "provider": "boss", "config": {"tools": list(references)},
             "input": [{"lane": "text", "from": "source"}], "control": [{"classType": "tool", "from": "source"}]},
            {"id": "model_1", "provider": "model", "config": {}, "control": [{"classType": "llm", "from": "agent_1"}]},
            {"id": "red", "provider": "store", "config": {}, "control": bound},
            {"id": "blue", "provider": "store", "config": {}, "control": bound},
            {"id": "broken_1", "provider": "broken", "config": {}, "control": bound},
            {"id": "free_1", "provider": "free", "config": {}, "control": [{"classType": "tool", "from": "source"}]},
        ],
        "source": "source",
        "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a11",
    }  # fmt: skip


NODES = (Model, Store, Broken, Free, Agent)
ROAM = {"type": "node", "node": "free_1", "tool": "roam", "name": "walk", "description": "Walk.", "permission": "ask"}


async def test_a_node_sees_the_tools_of_bound_nodes_and_of_its_references_and_no_others() -> None:
    async with world(more=NODES, pipeline=pipeline(ROAM)) as w:
        seen = await w.tool("look").result()
        assert seen == {
            "tools": {
                "red__query": ["red", "query", "allow", "Ask the store."],
                "blue__query": ["blue", "query", "allow", "Ask the store."],
                "walk": ["agent_1", "walk", "ask", "Walk."],
            },
            "failed": {"broken_1": "its server is down"},
        }
        seen = await w.tool("look", caller=Caller("c", user_id="ada")).result()
        assert list(seen["tools"]) == ["red__query", "red__secret", "blue__query", "blue__secret", "walk"]
        assert await w.tool("use", name="blue__query", input={"sql": "x"}).result() == "blue: x"
        pipe = await w.open()
        await w.write(pipe, "hello").answer()
        await w.close(pipe).answer()
        assert Agent.seen.pop() == ["red__query", "blue__query", "walk"]


async def test_a_tool_for_programs_is_offered_to_models_only_where_a_reference_names_it() -> None:
    fill = {"type": "node", "node": "red", "tool": "fill", "name": "pour", "description": "Fill."}
    async with world(more=NODES, pipeline=pipeline(fill)) as w:
        assert list((await w.tool("look").result())["tools"]) == ["red__query", "blue__query", "pour"]
        assert await w.tool("use", name="pour", input={}).result() == "filled"
        assert await w.tool("fill", node="red").result() == "filled"
        assert "fill" in await w.tools()
        for format in ("openai", "openai-strict", "anthropic", "mcp"):
            body = await w.ask(ListTools(node_id="red", format=format)).answer()
            assert "query" in str(body)
            assert "fill" not in str(body)


async def test_a_reference_that_a_node_keeps_is_there_for_nobody_else() -> None:
    async with world(more=NODES, pipeline=pipeline({**ROAM, "permission": "allow"})) as w:
        assert "walk" not in await w.tools()
        for node in ("agent_1", None):
            assert isinstance(await w.tool("walk", node=node).error(), ToolNotFound)
        assert await w.tool("use", name="walk", input={}).result() == "roams"
        assert await w.tool("try_call", at="agent_1", name="wolk").result() == [
            "tool_failed",
            'Did you mean "walk"?',
            ["walk"],
        ]
        code, hint, near = await w.tool("try_call", at="rad", name="query").result()
        assert (code, hint, near[0]) == ("tool_failed", 'Did you mean "red"?', "red")


async def test_the_shared_state_of_a_bound_node_is_ready_and_a_missing_one_is_named() -> None:
    async with world(more=NODES, pipeline=pipeline()) as w:
        assert await w.tool("model", kind="llm").result() == ["ready"]
        error = await w.tool("model", kind="memory").error()
        assert (error.message, error.data["nodes"]) == ('Node "agent_1" needs one node bound as "memory", and has none', [])
        assert "red, blue, broken_1" in (await w.tool("model", kind="tool").error()).message


class Streams(Node):
    """Tools that yield chunks, and readers of these."""

    provider = "streams"
    park = Park()
    lot: AsyncPark
    ends: list[str] = []

    @tool_function
    def count(self, to: int) -> Iterator[int]:
        yield from range(to)
        return "counted"

    @tool_function
    async def count_async(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    @tool_function
    async def plain(self) -> str:
        return "whole"

    @tool_function
    async def breaks(self) -> AsyncIterator[int]:
        yield 1
        raise LookupError("gone")

    @tool_function
    def endless(self, ctx: ToolContext) -> Iterator[int]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            self.ends.append(f"endless at most {number < 40}, {ctx.token.reason}")

    @tool_function
    async def endless_async(self) -> AsyncIterator[int]:
        yield 0
        await self.lot.stay()

    @tool_function
    async def read(self, tool: str, ctx: ToolContext, to: int = 0, most: int = -1) -> list[Any]:
        found: list[Any] = []
        async with ctx.stream("streams", tool, {"to": to} if to else {}) as chunks:
            async for chunk in chunks:
                found.append(chunk)
                if len(found) == most:
                    break
        return [len(found), found[-1:], chunks.value]


async def test_chunks_of_a_nested_call_come_as_they_are_made_and_its_value_after_them() -> None:
    async with world(Streams) as w:
        assert await w.tool("read", tool="count", to=100).result() == [100, [99], "counted"]
        assert await w.tool("read", tool="count_async", to=100).result() == [100, [99], None]
        assert await w.tool("read", tool="plain").result() == [0, [], "whole"]
        error = await w.tool("read", tool="breaks").error()
        assert error.message == 'Tool "breaks" on node "streams" failed: LookupError: gone'
        await w.at_rest()


async def test_a_stream_that_is_left_stops_its_tool_and_a_slow_reader_holds_it_up() -> None:
    Streams.lot = AsyncPark()
    async with world(Streams) as w:
        assert await w.tool("read", tool="endless", most=3).result() == [3, [2], None]
        await w.at_rest()
        assert Streams.ends.pop() == "endless at most True, cancelled"
        assert await w.tool("read", tool="endless_async", most=1).result() == [1, [0], None]
        assert Streams.lot.inside == 0
        asked = w.tool("read", tool="endless_async", most=2)
        await until(lambda: Streams.lot.inside)
        asked.cancel()
        await w.at_rest()
        assert Streams.lot.inside == 0


async def test_a_nested_call_that_its_caller_gives_up_is_cancelled_also_in_a_thread() -> None:
    park, seen = Park(), []

    class Impatient(Node):
        provider = "impatient"

        @tool_function
        def stay(self, ctx: ToolContext) -> None:
            park.stay()
            seen.append(ctx.token.reason)

        @tool_function
        async def give_up(self, ctx: ToolContext) -> str:
            task = asyncio.ensure_future(ctx.call("impatient", "stay"))
            await until(lambda: park.inside)
            task.cancel()
            await asyncio.wait([task])
            return f"gave up, {ctx.token.reason}"

    async with world(Impatient) as w:
        assert await w.tool("give_up").result() == "gave up, None"
        park.let_go()
        await until(lambda: seen)
        assert seen == ["cancelled"]
        await w.at_rest()
