"""A caller with a list of tools: others are as if they were not there, whatever way a request names them."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import World, world
from outside_tools import Outside
from test_references import Agent, Store, node_reference, pipeline

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import CallTool, Execute, ListTools, ResolveTools, Restart, Tool
from rrext.errors import RrextError, ToolNotFound, Unavailable
from rrext.nodes.basic.sources import ToolsNode

pytestmark = [pytest.mark.anyio, pytest.mark.promise("tools:allow-list:hides")]


class Twin(Store):
    provider = "twin"


def caller(*tools: str) -> Caller:
    return Caller("few", tools=frozenset(tools))


def loaded(*references: Any, more: tuple[Any, ...] = ()) -> Any:
    made = pipeline(*references)
    for node in more:
        edge = [{"classType": "tool", "from": "tools_1"}]
        made["components"].append({"id": node.provider, "provider": node.provider, "config": {}, "control": edge})
    return world(Store, Agent, more=(ToolsNode, *more), pipeline=made)


async def refused(w: World, tool: str, who: Caller, /, **more: Any) -> RrextError:
    return await w.tool(tool, {}, caller=who, **more).error()


async def test_the_same_tool_of_two_nodes_is_told_apart_by_node_and_by_exported_name() -> None:
    for name in ("store_1.query", "store_1__query"):
        async with loaded(more=(Twin,)) as w:
            who = caller(name)
            listed = (await w.ask(ListTools(format="openai"), caller=who).answer())["tools"]
            assert [tool["function"]["name"] for tool in listed] == ["store_1__query"]
            assert (await w.tool("query", sql="x", caller=who).result())["sql"] == "x"
            assert (await w.tool("store_1__query", sql="y", caller=who).result())["sql"] == "y"
            for other in (
                refused(w, "query", who, node="twin"),
                refused(w, "twin__query", who),
                refused(w, "query", who, node="agent"),
            ):
                assert isinstance(await other, ToolNotFound)


async def test_the_tools_of_one_name_are_those_that_a_call_of_it_reaches() -> None:
    async with loaded(node_reference(), more=(Twin,)) as w:

        async def listed(tool: str, node_id: str | None = None) -> list[tuple[str, str]]:
            body = await w.ask(ListTools(tool=tool, node_id=node_id)).answer()
            return [(each["nodeId"], each["name"]) for each in body["tools"]]

        assert await listed("query") == [("store_1", "query"), ("twin", "query")]
        assert await listed(" query ", node_id="twin") == await listed("twin__query") == [("twin", "query")]
        misspelt = await w.ask(ListTools(tool="quer", node_id="twin")).error()
        assert isinstance(misspelt, ToolNotFound)
        assert "query" in misspelt.data["near"]
        for who, tool in ((caller("sales"), "query"), (caller("twin.query"), "store_1__query")):
            hidden = await w.ask(ListTools(tool=tool), caller=who).error()
            assert isinstance(hidden, ToolNotFound)
            assert "query" not in hidden.data["near"]


async def test_near_names_and_hints_show_no_hidden_tool() -> None:
    async with loaded(node_reference(), more=(Twin,)) as w:
        who = caller("sales")
        for tool, node in (("quer", None), ("query", None), ("slow", "twin"), ("quer", "store_1"), ("ask", "agent")):
            error = await refused(w, tool, who, node=node)
            assert isinstance(error, ToolNotFound)
            assert error.data == {"near": []}
            assert error.hint is None
        errors = (await w.ask(ResolveTools(tools=["quer", {**node_reference(), "tool": "quer"}]), caller=who).error()).data
        assert not any("Did you mean" in each["message"] for each in errors["errors"])


async def test_what_an_allowed_tool_calls_itself_is_its_own_business() -> None:
    for tool in ("ask", "ask_blocking"):
        async with loaded(node_reference()) as w:
            who = caller(tool)
            assert await w.tools(caller=who) == [tool]
            assert (await w.tool(tool, tool="sales", caller=who).result())["sql"] == "SELECT 1"
            assert isinstance(await refused(w, "sales", who), ToolNotFound)


async def test_a_dynamic_tool_is_allowed_by_its_names_and_takes_no_name_of_another_node() -> None:
    outside = Outside("find", "store_1.query", "query", "hide")
    async with loaded(more=(outside.node,)) as w:
        who = caller("find", "store_1.query")
        assert await w.tool("find", input="x", caller=who).result() == {"input": "x"}
        assert {(tool["nodeId"], tool["name"]) for tool in (await w.ask(ListTools(), caller=who).answer())["tools"]} == {
            ("store_1", "query"),
            ("outside", "find"),
        }
        assert (await w.tool("query", sql="x", caller=who).result())["sql"] == "x"
        for tool, node in (("store_1.query", "outside"), ("query", "outside"), ("hide", None), ("hide", "outside")):
            assert isinstance(await refused(w, tool, who, node=node), ToolNotFound)
        outside.source.become("hide", "late")
        assert isinstance(await refused(w, "find", who), ToolNotFound)
        assert isinstance(await refused(w, "late", who), ToolNotFound)
        assert await w.tool("late", input="x", caller=caller("outside.late")).result() == {"input": "x"}


async def test_a_name_of_spaces_or_a_function_name_does_not_lead_around_the_list() -> None:
    async with loaded(node_reference(), more=(Twin,)) as w:
        who = caller("sales")
        for tool, node in ((" query ", None), ("query", " twin "), ("query", "")):
            assert isinstance(await refused(w, tool, who, node=node), ToolNotFound)
        for named in (
            {"name": "twin__query"},
            {"name": "tools__node__twin__query__self"},
            {"call_ref": "tools__node__twin__query__self"},
            {"call_ref": "tools.pipeline.t.run.self"},
            {"call_ref": "tools.http.nobody.query.default"},
        ):
            assert isinstance(await w.ask(CallTool(arguments={"sql": "x"}, **named), caller=who).error(), ToolNotFound)


async def test_a_quick_tool_that_is_allowed_stays_on_the_thread_that_read_the_request() -> None:
    async with loaded() as w:
        assert (await w.tool("query", sql="x").result())["sql"] == "x"
        for who, here in ((caller("query"), True), (caller("ask"), False)):
            asked = w.asked_for(Tool(tool="query", input={"sql": "y"}), caller=who)
            assert w.engine.start_here(asked.call, alone=True) is here
            assert len(asked.answers) == here


async def test_who_is_not_trusted_gives_no_tool_an_allowed_name_by_a_pipeline_of_his_own() -> None:
    renamed = pipeline({"type": "node", "node": "store_1", "tool": "slow", "name": "query"})
    async with loaded() as w:
        for trusted in (True, False):
            who = Caller("few", tools=frozenset({"query"}), trusted=trusted)
            asked = w.ask(Execute(pipeline={**renamed, "project_id": "own"}), caller=who)
            if trusted:
                assert "token" in await asked.answer()
            else:
                assert isinstance(await asked.error(), Unavailable)
                asked = w.ask(Restart(token="t", pipeline=renamed), caller=who)
                assert isinstance(await asked.error(), Unavailable)
                assert "token" in await w.ask(Restart(token="t"), caller=who).answer()
