"""Nodes whose tools are known only after their setup: lists and calls wait for it, and follow each change."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import World, until, world
from outside_tools import Outside

from rrext.engine.events.records import EngineEvent, Filter, ToolsChanged
from rrext.engine.interface.operations import ListTools
from rrext.errors import Cancelled, ToolNotFound, ToolTimeout, Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = [pytest.mark.anyio, pytest.mark.promise("tools:dynamic:followed")]


class Inside(Node):
    provider = "inside"

    @tool_function
    def search(self) -> str:
        return "inside"

    @tool_function
    async def relay(self, tool: str, ctx: ToolContext) -> Any:
        return await ctx.call("", tool, {"input": "relayed"})

    @tool_function
    def relay_blocking(self, tool: str, ctx: ToolContext) -> Any:
        return ctx.call_blocking("outside", tool, {"input": "relayed"})


async def listed(w: World) -> list[tuple[str, str]]:
    answer = await w.ask(ListTools()).answer()
    return [(tool["nodeId"], tool["name"]) for tool in answer["tools"]]


@pytest.mark.parametrize("node", [None, "outside", " outside "])
async def test_the_first_call_of_a_dynamic_tool_sets_its_node_up(node: str | None) -> None:
    outside = Outside("search", "find")
    async with world(Inside, outside.node) as w:
        assert outside.setups == 0
        assert await w.tool("find", node=node, input="x").result() == {"input": "x"}
        assert outside.setups == 1
        await w.at_rest()


async def test_dynamic_tools_are_called_by_other_tools_too() -> None:
    for relay in ("relay", "relay_blocking"):
        outside = Outside("find")
        async with world(Inside, outside.node) as w:
            assert await w.tool(relay, tool="find").result() == {"input": "relayed"}


async def test_a_list_has_the_dynamic_tools_and_a_tool_of_the_pipeline_wins_over_one_from_outside() -> None:
    outside = Outside("search", "find")
    async with world(outside.node, Inside) as w:
        assert await listed(w) == [
            ("inside", "search"),
            ("inside", "relay"),
            ("inside", "relay_blocking"),
            ("outside", "search"),
            ("outside", "find"),
        ]
        assert await w.tool("search").result() == "inside"
        assert await w.tool("search", node="outside").result() == {}
        assert await w.tool("outside__search").result() == {}


async def test_a_tool_of_the_pipeline_does_not_wait_for_a_server_outside() -> None:
    outside = Outside("search")
    outside.gate.clear()
    async with world(Inside, outside.node) as w:
        assert await w.tool("search").result() == "inside"
        assert outside.setups == 0


async def test_a_change_of_the_tools_is_followed_and_told() -> None:
    outside = Outside("find", "drop")
    events: list[EngineEvent] = []
    async with world(Inside, outside.node) as w:
        w.engine.subscribe(Filter(kinds=frozenset({"tools_changed"})), events.append)
        assert await w.tool("find").result() == {}
        kept = w.task.routes.only("outside", "find")
        outside.source.become("find", "add")
        assert w.task.routes.only("outside", "find") is kept
        assert await w.tool("add", node="outside").result() == {}
        with pytest.raises(ToolNotFound) as caught:
            await w.tool("drop", node="outside").result()
        assert "drop" in caught.value.message
        assert [(type(event), event.token) for event in events] == [(ToolsChanged, "t")] * 2


async def test_a_name_that_no_vendor_accepts_is_exported_under_another_one() -> None:
    outside = Outside("files/read.text")
    async with world(outside.node) as w:
        answer = await w.ask(ListTools(format="openai")).answer()
        (tool,) = answer["tools"]
        exported = tool["function"]["name"]
        assert exported.startswith("outside__files_read_text")
        assert await w.tool(exported, input="x").result() == {"input": "x"}
        assert await w.tool("files/read.text", input="x").result() == {"input": "x"}


async def test_a_server_that_cannot_be_reached_fails_the_calls_that_need_it_and_hides_nothing_else() -> None:
    outside = Outside("find")
    async with world(Inside, outside.node) as w:
        for node in ("outside", None):
            outside.failures.append(Unavailable("the server is down", hint="start it"))
            with pytest.raises(Unavailable) as caught:
                await w.tool("find", node=node).result()
            assert "the server is down" in caught.value.message
            assert caught.value.hint == "start it"
        outside.failures.append(Unavailable("the server is down"))
        answer = await w.ask(ListTools()).answer()
        assert [tool["name"] for tool in answer["tools"]] == ["search", "relay", "relay_blocking"]
        assert answer["undescribed"] == [
            {"nodeId": "outside", "name": "*", "code": "unavailable", "message": "the server is down"}
        ]
        assert await w.tool("find").result() == {}  # it is up again
        await w.at_rest()


async def test_a_name_that_no_node_has_is_not_found_once_all_tools_are_known() -> None:
    outside = Outside("find")
    async with world(Inside, outside.node) as w:
        with pytest.raises(ToolNotFound) as caught:
            await w.tool("fnid").result()
        assert caught.value.data["near"] == ["find"]


async def test_a_call_that_waits_for_the_tools_can_be_cancelled_and_is_late_at_its_deadline() -> None:
    outside = Outside("find")
    outside.gate.clear()
    async with world(outside.node) as w:
        cancelled, late = w.tool("find"), w.tool("find", timeout=5.0)
        await until(lambda: outside.setups)
        assert cancelled.cancel()
        w.clock.advance(5.0)
        assert isinstance(await late.error(), ToolTimeout)
        assert isinstance(await cancelled.error(), Cancelled)
        outside.gate.set()
        assert await w.tool("find").result() == {}
        await w.at_rest()


async def test_a_call_that_waits_for_the_tools_is_answered_when_the_pipeline_is_terminated() -> None:
    outside = Outside("find")
    outside.gate.clear()
    async with world(outside.node) as w:
        waiting = w.tool("find")
        await until(lambda: outside.setups)
        await w.terminate()
        assert isinstance(await waiting.error(), Cancelled)
        assert len(waiting.answers) == 1
