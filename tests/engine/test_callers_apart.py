"""What one caller leaves on a node object is not there for the next, and methods of an object reach tools and bindings."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import AsyncPark, until, world

from rrext import Node, ToolContext, ToolError, tool_function
from rrext.engine.interface.call import Caller
from rrext.testing import open_pipeline


class Diary(Node):
    """Remembers what it should not."""

    provider = "diary"

    @tool_function
    def note(self, text: str) -> bool:
        """Keep a text."""
        self.text = text
        return True

    @tool_function
    async def note_async(self, text: str) -> bool:
        """Keep a text."""
        self.text = text
        return True

    @tool_function
    def read(self) -> str:
        """What is kept."""
        return getattr(self, "text", "nothing")


class Counter(Node):
    """Counts in what its `__init__` made."""

    provider = "counter"

    def __init__(self) -> None:
        self.count = 0

    @tool_function
    def up(self) -> int:
        """One more."""
        self.count += 1
        return self.count


class Agent(Node):
    """Asks the tools that are bound to it."""

    provider = "boss"
    lanes = {"questions": ("answers",)}
    class_types = ("agent",)
    invoke = {"tool": {"min": 1}}

    def write_questions(self, question: Any, ctx: ToolContext) -> None:
        (diary,) = self.bindings["tool"]
        remaining = ctx.remaining()
        answer = {"read": ctx.call_blocking(diary, "read"), "hurried": remaining is not None and remaining <= 5}
        self.emit("answers", {"answer": answer, "expectJson": True})


class AsyncAgent(Agent):
    """The same on the loop."""

    provider = "async_agent"

    async def write_questions(self, question: Any, ctx: ToolContext) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        (diary,) = self.bindings["tool"]
        answer = {"read": await ctx.call(diary, "read"), "hurried": ctx.remaining() is not None}
        sent = self.emit("answers", {"answer": answer, "expectJson": True})
        assert sent is not None
        await sent


def tools_of(provider: str) -> dict[str, Any]:
    return {
        "components": [
            {"id": "s", "provider": "tools", "config": {}},
            {"id": "n", "provider": provider, "config": {}, "control": [{"classType": "tool", "from": "s"}]},
        ],
        "source": "s",
        "project_id": "p",
    }


def asked(provider: str) -> dict[str, Any]:
    return {
        "components": [
            {"id": "s", "provider": "chat", "config": {}},
            {"id": "a", "provider": provider, "config": {}, "input": [{"lane": "questions", "from": "s"}]},
            {"id": "d", "provider": "diary", "config": {}, "control": [{"classType": "tool", "from": "a"}]},
            {"id": "r", "provider": "response_answers", "config": {}, "input": [{"lane": "answers", "from": "a"}]},
        ],
        "source": "s",
        "project_id": "p",
    }


@pytest.mark.anyio
@pytest.mark.parametrize("keep", ["note", "note_async"])
async def test_a_call_without_a_pipe_reads_nothing_of_the_one_before(keep: str) -> None:
    async with open_pipeline(tools_of("diary"), nodes=[Diary]) as client:
        for _ in range(5):
            assert await client.tool(tool=keep, input={"text": "secret"})
            assert await client.tool(tool="read") == "nothing"


@pytest.mark.anyio
async def test_what_an_init_made_is_made_again_for_each_call() -> None:
    async with open_pipeline(tools_of("counter"), nodes=[Counter]) as client:
        assert [await client.tool(tool="up") for _ in range(5)] == [1] * 5


@pytest.mark.anyio
async def test_calls_on_one_pipe_share_its_node_objects() -> None:
    async with open_pipeline(tools_of("diary"), nodes=[Diary]) as client, client.pipe() as pipe:
        await pipe.tool(tool="note", input={"text": "mine"})
        assert await pipe.tool(tool="read") == "mine"


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["boss", "async_agent"])
async def test_a_lane_method_calls_the_tools_that_are_bound_to_its_node(provider: str) -> None:
    async with open_pipeline(asked(provider), nodes=[Diary, Agent, AsyncAgent]) as client:
        result = await client.chat(question="what is kept?")
        assert result["answers"] == [{"read": "nothing", "hurried": False}]


@pytest.mark.anyio
async def test_a_lane_method_knows_the_deadline_of_its_write() -> None:
    async with open_pipeline(asked("boss"), nodes=[Diary, Agent, AsyncAgent]) as client:
        arguments = {"subcommand": "open", "mimeType": "application/rocketride-question", "object": {}}
        pipe_id = (await client.request("rrext_process", arguments))["pipe_id"]
        question = b'{"questions": [{"text": "?"}]}'
        await client.request("rrext_process", {"subcommand": "write", "pipe_id": pipe_id, "timeout": 5}, question)
        result = await client.request("rrext_process", {"subcommand": "close", "pipe_id": pipe_id})
        assert result["answers"][0]["hurried"] is True


class Misled(Agent):
    """Calls a tool that is not there."""

    provider = "misled"

    def write_questions(self, question: Any, ctx: ToolContext) -> None:
        ctx.call_blocking("d", "reed")


@pytest.mark.anyio
async def test_a_lane_method_that_calls_what_is_not_there_fails_the_object_by_name() -> None:
    async with open_pipeline(asked("misled"), nodes=[Diary, Misled]) as client:
        with pytest.raises(ToolError, match=r'"a" called a tool that is not there'):
            await client.chat(question="?")


@pytest.mark.promise("pool:limit:true")
async def test_a_user_has_one_turn_among_others_and_each_of_its_connections_one_among_its_own() -> None:
    lot = AsyncPark()
    order: list[str] = []

    class Held(Node):
        provider = "held"

        @tool_function
        async def hold(self, name: str) -> None:
            """Stay until it is let go."""
            order.append(name)
            await lot.stay()

    def caller(connection: str, user: str, *, is_keyed: bool = True) -> Caller:
        return Caller(connection, user_id=user, is_keyed=is_keyed)

    async with world(Held, threads=1) as w:
        w.tool("hold", name="first", caller=caller("a0", "ada"))
        await until(lambda: lot.inside)
        for name in ("ada 1", "ada 1 again", "ada 2", "ada 3"):
            w.tool("hold", name=name, caller=caller(name[:5], "ada"))
        w.tool("hold", name="bob", caller=caller("b", "bob"))
        for number in (1, 2):  # who names a user by itself is not known by it
            w.tool("hold", name=f"said {number}", caller=caller(f"s{number}", "ada", is_keyed=False))
        lot.let_go()
        await w.at_rest()
    assert order == ["first", "ada 1", "bob", "said 1", "said 2", "ada 2", "ada 3", "ada 1 again"]
