"""References of requests: resolved all or none, kept for their connection alone, called like every tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import World, until, world
from test_references import Agent, Store, node_reference, pipeline

from rrext.connections import Connections
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import CallTool, ListTasks, ResolveTools
from rrext.errors import ConnectionUnknown, InvalidArguments, RrextError, ToolNotFound, Unavailable
from rrext.limits import MAX_KEPT_REFERENCES
from rrext.nodes.base.node import Node
from rrext.nodes.basic.sources import ToolsNode
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = [pytest.mark.anyio, pytest.mark.promise("references:request:all-or-none")]

ADA, BOB = Caller("ada's", user_id="ada"), Caller("bob's", user_id="bob")


def loaded(*references: Any) -> Any:
    return world(Store, Agent, more=(ToolsNode, Who), pipeline=with_who(pipeline(*references)))


class Who(Node):
    provider = "who"

    @tool_function
    async def who(self, mark: int, ctx: ToolContext) -> list[Any]:
        before = (ctx.user_id, ctx.space_id, ctx.request_id, ctx.meta)
        await asyncio.sleep(0)
        ctx.check()
        return [mark, *before, (ctx.user_id, ctx.space_id, ctx.request_id, ctx.meta) == before]

    @tool_function
    def who_blocking(self, mark: int, ctx: ToolContext) -> list[Any]:
        return [mark, ctx.user_id, ctx.space_id, ctx.request_id, ctx.meta, True]


def with_who(given: dict[str, Any]) -> dict[str, Any]:
    edge = [{"classType": "tool", "from": "tools_1"}]
    return {**given, "components": [*given["components"], {"id": "who_1", "provider": "who", "config": {}, "control": edge}]}


async def resolve(w: World, *tools: Any, caller: Caller = ADA, token: str | None = None) -> dict[str, Any]:
    return await w.ask(ResolveTools(tools=list(tools), token=token), caller=caller).answer()


async def refusal(w: World, *tools: Any, caller: Caller = ADA) -> RrextError:
    return await w.ask(ResolveTools(tools=list(tools)), caller=caller).error()


async def call(w: World, call_ref: str | None = None, *, caller: Caller = ADA, **more: Any) -> Any:
    return await w.ask(CallTool(call_ref=call_ref, **more), caller=caller).result()


async def test_what_is_resolved_can_be_called_by_call_ref_function_name_and_name() -> None:
    async with loaded() as w:
        plain = {"type": "node", "node": "store_1", "tool": "query"}
        answer = await resolve(w, "query", plain, node_reference(timeout=5))
        assert answer["builtins"] == ["query"]
        first, second = answer["custom"]
        assert (first["name"], first["call_ref"]) == ("store_1__query", "tools.node.store_1.query.self")
        assert second["name"] == "sales"
        assert second["description"] == "Sales."
        assert list(second["input_schema"]["properties"]) == ["rows"]
        assert second["call_ref"].startswith("tools.node.store_1.query.self_")
        assert await call(w, first["call_ref"], arguments={"sql": "x"}) == {"sql": "x", "rows": 10}
        for named in ({"call_ref": second["call_ref"]}, {"name": second["call_ref"].replace(".", "__")}, {"name": "sales"}):
            assert await call(w, arguments='{"rows": 3}', **named) == {"sql": "SELECT 1", "rows": 3}
        assert await call(w, name="query", arguments={"sql": "y"}) == {"sql": "y", "rows": 10}
        again = await resolve(w, node_reference(timeout=5))
        assert again["custom"] == [second], "the same reference has the same name"


async def test_a_wrapper_belongs_to_its_connection_and_ends_with_it() -> None:
    async with loaded() as w:
        [sales] = (await resolve(w, node_reference()))["custom"]
        assert isinstance(await w.ask(CallTool(call_ref=sales["call_ref"]), caller=BOB).error(), ToolNotFound)
        assert isinstance(await w.ask(CallTool(name="sales"), caller=BOB).error(), ToolNotFound)
        w.engine.disconnect(ADA.connection_id)
        assert isinstance(await w.ask(CallTool(call_ref=sales["call_ref"]), caller=ADA).error(), ToolNotFound)


async def test_the_kept_references_are_bounded() -> None:
    async with loaded() as w:
        first = (await resolve(w, node_reference(name="n0")))["custom"][0]["call_ref"]
        for start in range(1, MAX_KEPT_REFERENCES + 1, 1000):
            await resolve(w, *(node_reference(name=f"n{number}") for number in range(start, start + 1000)))
        assert isinstance(await w.ask(CallTool(call_ref=first), caller=ADA).error(), ToolNotFound)
        assert await call(w, name=f"n{MAX_KEPT_REFERENCES}") == {"sql": "SELECT 1", "rows": 10}


async def test_nothing_is_resolved_if_anything_is_wrong_and_everything_is_told() -> None:
    async with loaded() as w:
        error = await refusal(
            w,
            node_reference(),
            "qery",
            {"type": "node", "node": "stor_1", "tool": "query"},
            {"type": "node", "node": "store_1", "tool": "qery"},
            {"type": "mcp", "server": "nobody", "tool": "x"},
            {"type": "pipeline", "pipeline": "nobody"},
            node_reference(name="b", arguments={"sqll": 1}),
            {"type": "nod"},
        )
        assert isinstance(error, InvalidArguments)
        assert [(each["path"], each["code"]) for each in error.data["errors"]] == [
            ("/tools/1", "tool_not_found"),
            ("/tools/2/node", "node_not_found"),
            ("/tools/3/tool", "tool_not_found"),
            ("/tools/4/server", "connection_unknown"),
            ("/tools/5/pipeline", "TASK_NOT_REGISTERED"),
            ("/tools/6/arguments/sqll", "invalid_arguments"),
            ("/tools/7/type", "invalid_arguments"),
        ]
        assert 'Did you mean "query"?' in error.data["errors"][0]["message"]
        assert 'Did you mean "sql"?' in error.data["errors"][5]["message"]
        assert isinstance(await w.ask(CallTool(name="sales"), caller=ADA).error(), ToolNotFound)


async def test_every_problem_of_an_entry_is_told_those_of_its_form_and_of_its_name_too() -> None:
    async with loaded() as w:
        nobody = {"type": "mcp", "server": "nobody", "tool": "x"}
        error = await refusal(
            w, nobody, {**nobody, "timeout": 0}, node_reference(), node_reference(tool="qery", permission="alow")
        )
        assert sorted((each["path"], each["code"]) for each in error.data["errors"]) == [
            ("/tools/0/server", "connection_unknown"),
            ("/tools/1", "invalid_arguments"),
            ("/tools/1/server", "connection_unknown"),
            ("/tools/1/timeout", "invalid_arguments"),
            ("/tools/3/name", "invalid_arguments"),
            ("/tools/3/permission", "invalid_arguments"),
            ("/tools/3/tool", "tool_not_found"),
        ]


async def test_problems_of_one_code_have_that_code() -> None:
    async with loaded() as w:
        error = await refusal(w, {"type": "mcp", "server": "a", "tool": "x"}, {"type": "http", "server": "b", "tool": "x"})
        assert isinstance(error, ConnectionUnknown)
        assert len(error.data["errors"]) == 2


async def test_an_empty_list_needs_no_pipeline() -> None:
    async with loaded() as w:
        await w.terminate()
        assert await resolve(w) == {"builtins": [], "custom": []}


async def test_what_a_caller_may_not_call_is_hidden_and_what_asks_says_so() -> None:
    async with loaded() as w:
        denied = node_reference(name="no", permission="deny")
        asking = node_reference(name="ask", permission="ask")
        others = node_reference(name="bobs", available={"users": ["bob"]})
        answer = await resolve(w, denied, asking, others)
        assert [(each["name"], each["permission"]) for each in answer["custom"]] == [("ask", "ask")]
        assert isinstance(await w.ask(CallTool(name="ask"), caller=ADA).error(), Unavailable)
        assert isinstance(await w.ask(CallTool(name="bobs"), caller=ADA).error(), ToolNotFound)


async def test_a_reference_of_the_pipeline_can_be_wrapped_again() -> None:
    async with loaded(node_reference(permission="ask")) as w:
        again = {"type": "node", "node": "tools_1", "tool": "sales", "name": "two", "arguments": {"rows": 2}}
        [two] = (await resolve(w, again))["custom"]
        assert two["input_schema"]["properties"] == {}
        assert isinstance(await w.ask(CallTool(name="two"), caller=ADA).error(), Unavailable), "it asks as before"


async def test_arguments_that_do_not_fit_are_told_by_their_names() -> None:
    async with loaded() as w:
        for arguments, path in (({"sql": 1}, "/arguments/sql"), ("[1]", "/arguments"), ("{", "/arguments")):
            error = await w.ask(CallTool(name="query", arguments=arguments), caller=ADA).error()
            assert [each["path"] for each in error.data["errors"]] == [path]
            assert error.message.startswith(path)


async def test_a_pipeline_is_called_by_its_call_ref_and_no_list_of_tasks_has_more() -> None:
    async with loaded() as w:
        w.engine.load(pipeline(data=False), token="other")
        [run] = (await resolve(w, {"type": "pipeline", "pipeline": "other", "name": "run_it"}))["custom"]
        assert run["call_ref"] == "tools.pipeline.other.run.self"
        assert (await call(w, run["call_ref"], arguments={"text": "x", "name": "x.txt"}))["name"] == "x.txt"
        assert (await call(w, name="run_it", arguments={"text": "x", "name": "y.txt"}))["name"] == "y.txt"
        tasks = await w.ask(ListTasks()).answer()
        assert {task["token"] for task in tasks["tasks"]} == {"t", "other"}
        gone = await w.ask(CallTool(call_ref="tools.pipeline.othr.run.self"), caller=ADA).error()
        assert gone.code == "TASK_NOT_REGISTERED"


async def test_pipelines_that_have_ended_leave_nothing_behind() -> None:
    async with loaded() as w:
        counts = set()
        for number in range(20):
            task = w.engine.load(pipeline(data=False), token=f"p{number}")
            await resolve(w, {"type": "pipeline", "pipeline": f"p{number}"})
            await call(w, f"tools.pipeline.p{number}.run.self", arguments={"text": "x", "name": "x.txt"})
            await w.engine.unload(task)
            known: Any = w.engine._known_references
            counts.add(sum(len(outside.components) for outside in known._outside.values()))
        assert counts == {0}


async def test_a_pipeline_that_ends_while_a_tool_calls_it_fails_that_call() -> None:
    async with loaded() as w:
        task = w.engine.load(pipeline(data=False), token="other")
        running = w.ask(CallTool(call_ref="tools.pipeline.other.run.self", arguments={"text": "x"}), caller=ADA)
        await w.engine.unload(task)
        assert "Your pipeline is not running" in (await running.error()).message
        await w.at_rest()


@pytest.mark.parametrize("size", [1025, 1_000_000])
async def test_a_name_that_is_too_long_is_not_searched_for(size: int) -> None:
    long = "x" * size
    async with loaded() as w:
        for reference in (long, {"type": "node", "node": long, "tool": "query"}, {"type": "pipeline", "pipeline": long}):
            error = await refusal(w, reference)
            assert error.code == "invalid_arguments"
            assert "one that is too long" in error.message
            assert len(error.message) < 200


async def test_arguments_without_end_are_refused_and_not_a_bug() -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    async with loaded() as w:
        error = await refusal(w, node_reference(arguments={"sql": deep}))
        assert error.message == "/tools/0/arguments: is nested too deeply."
        for text in ('{"a":' * 100_000, "[" * 100_000):
            refused = await w.ask(CallTool(name="query", arguments=text), caller=ADA).error()
            assert refused.message == "/arguments: expected object, got string"


async def test_the_references_to_a_pipeline_end_with_it() -> None:
    async with loaded() as w:
        await resolve(w, node_reference())
        await w.terminate()
        assert (await w.ask(CallTool(name="sales"), caller=ADA).error()).code == "TASK_NOT_REGISTERED"


@pytest.mark.promise("tools:allow-list:hides")
async def test_a_caller_with_a_list_of_tools_sees_and_calls_no_others() -> None:
    async with loaded(node_reference()) as w:
        few = Caller("few", tools=frozenset({"sales", "store_1.query"}))
        assert await w.tools(caller=few) == ["query", "sales"]
        assert (await w.tool("query", sql="x", caller=few).result())["sql"] == "x"
        assert (await w.tool("sales", node="tools_1", caller=few).result())["rows"] == 10
        assert (await call(w, "tools.node.store_1.query.self", arguments={"sql": "y"}, caller=few))["sql"] == "y"
        hidden, missing = w.tool("ask", tool="x", caller=few), w.tool("zzzz", caller=few)
        assert (await hidden.error()).message.replace("ask", "zzzz") == (await missing.error()).message
        for named in ({"name": "ask"}, {"call_ref": "tools.node.agent.ask.self"}, {"call_ref": "tools.pipeline.t.run.self"}):
            assert isinstance(await w.ask(CallTool(**named), caller=few).error(), ToolNotFound)
        wrapped = {"type": "node", "node": "agent", "tool": "ask"}
        assert [each["path"] for each in (await refusal(w, "ask", wrapped, caller=few)).data["errors"]] == [
            "/tools/0",
            "/tools/1/tool",
        ]
        assert [each["name"] for each in (await resolve(w, node_reference(name="mine"), caller=few))["custom"]] == ["mine"]
        assert (await call(w, name="mine", caller=few))["sql"] == "SELECT 1"


@pytest.mark.promise("tool:context:per-call")
@pytest.mark.parametrize("tool", ["who", "who_blocking"])
async def test_fifty_calls_of_one_reference_see_their_own_context(tool: str) -> None:
    async with loaded() as w:
        wrapped = {"type": "node", "node": "who_1", "tool": tool, "name": "mine", "timeout": 50}
        callers = [Caller(f"c{n}", user_id=f"u{n}", space_id=f"s{n}") for n in range(50)]
        for caller in callers:
            await resolve(w, wrapped, caller=caller)
        asked = [
            w.ask(CallTool(name="mine", arguments={"mark": n}, meta={"n": n}), caller=caller)
            for n, caller in enumerate(callers)
        ]
        await until(lambda: all(each.is_answered for each in asked))
        for n, each in enumerate(asked):
            assert await each.result() == [n, f"u{n}", f"s{n}", each.call.request_id, {"n": n}, True]


async def test_connections_that_are_not_there_are_three_errors() -> None:
    tables = {
        "off": {"provider": "http", "url": "http://127.0.0.1:9/", "active": False},
        "bad": {"provider": "http", "urll": 1},
    }
    async with loaded() as w:
        host = w.engine.host
        host.connections = host.shared_connections = Connections.of(tables)
        codes = [(await refusal(w, {"type": "http", "server": name, "tool": "x"})).code for name in ("of", "off", "bad")]
        assert codes == ["connection_unknown", "connection_inactive", "connection_invalid"]
