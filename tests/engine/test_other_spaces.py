"""Nested calls of a node in another space of the same user: what is listed, told and cancelled there."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import AsyncPark, pipeline_of, until, world

from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Caller
from rrext.errors import Cancelled, ToolError
from rrext.nodes.base.node import Node
from rrext.tools.context import CallInfo, ToolCallbacks, ToolContext
from rrext.tools.decorator import tool_function

ADA = Caller("c", user_id="ada", space_id="home")


def in_legal(ctx: ToolContext) -> bool:
    return ctx.space_id == "legal"


def inner(park: AsyncPark) -> type[Node]:
    class Inner(Node):
        provider = "inner"

        @tool_function(available=in_legal)
        def only_in_legal(self, ctx: ToolContext) -> list[Any]:
            return [ctx.user_id, ctx.space_id]

        @tool_function
        async def stay(self, ctx: ToolContext) -> None:
            await park.stay()

    return Inner


class Outer(Node):
    provider = "outer"

    @tool_function
    async def listed(self, space: str | None, ctx: ToolContext) -> list[str]:
        return [tool.name for tool in await ctx.in_space(space).tools()]

    @tool_function
    async def asked(self, space: str | None, tool: str, ctx: ToolContext) -> Any:
        return await ctx.in_space(space).call("inner", tool)

    @tool_function
    def asked_in_thread(self, space: str | None, tool: str, ctx: ToolContext) -> Any:
        return ctx.in_space(space).call_blocking("inner", tool)


def bound() -> dict[str, Any]:
    pipeline = pipeline_of(Outer, inner(AsyncPark()))
    pipeline["components"][-1]["control"] = [{"classType": "tool", "from": "outer"}]
    return pipeline


async def test_the_tools_of_another_space_are_listed_as_they_can_be_called_there() -> None:
    async with world(Outer, inner(AsyncPark()), pipeline=bound()) as w:
        for space, names in (("legal", ["only_in_legal", "stay"]), ("home", ["stay"]), (None, ["stay"])):
            assert await w.tool("listed", space=space, caller=ADA).result() == names
            for tool in ("asked", "asked_in_thread"):
                asked = w.tool(tool, {"space": space, "tool": "only_in_legal"}, caller=ADA)
                if space == "legal":
                    assert await asked.result() == ["ada", "legal"]
                else:
                    assert isinstance(await asked.error(), ToolError)


async def test_a_cancel_reaches_what_runs_in_another_space() -> None:
    park = AsyncPark()
    async with world(Outer, inner(park)) as w:
        for tool in ("asked", "asked_in_thread"):
            asked = w.tool(tool, {"space": "legal", "tool": "stay"}, caller=ADA)
            await until(lambda: park.inside)
            asked.cancel()
            assert isinstance(await asked.error(), Cancelled)
            await until(lambda: not park.inside)
        await w.at_rest()
    assert park.cancelled == 2


class Reader(Node):
    """Asks in another space while it reads a text."""

    provider = "reader"
    lanes = {"text": ()}
    told: list[Any] = []

    async def write_text(self, text: str, ctx: ToolContext) -> None:
        self.told.append(await ctx.in_space("legal").call("inner", "only_in_legal"))

    def closing(self, ctx: ToolContext) -> None:
        self.told.append(ctx.in_space("legal").call_blocking("inner", "only_in_legal"))


async def test_a_node_on_the_lanes_asks_as_the_user_who_opened_the_pipe() -> None:
    async with world(Reader, inner(AsyncPark())) as w:
        pipe = await w.open(caller=ADA)
        await w.write(pipe, "x", caller=Caller("c")).answer()
        assert "error" not in await w.close(pipe, caller=Caller("c")).answer()
        assert Reader.told == [["ada", "legal"]] * 2


class Infos(ToolCallbacks):
    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []

    def tool_start(self, info: CallInfo) -> None:
        self.seen.append((info.tool, info.space_id))


@pytest.mark.parametrize("tool", ["asked", "asked_in_thread"])
async def test_observers_are_told_the_space_in_which_a_nested_call_runs(tool: str) -> None:
    infos = Infos()
    async with world(Outer, inner(AsyncPark()), callbacks=infos) as w:
        events: list[Any] = []
        w.engine.subscribe(Filter(kinds=frozenset({"call_started"})), events.append)
        await w.tool(tool, {"space": "legal", "tool": "only_in_legal"}, caller=ADA).result()
        assert infos.seen == [(tool, "home"), ("only_in_legal", "legal")]
        assert [(event.tool, event.space_id) for event in events] == infos.seen
