"""Tools that a configuration wraps: other names, fixed arguments, other callers, permissions, other pipelines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import AsyncPark, Source, World, until, world
from outside_tools import Outside

from rrext.engine.interface.call import Caller, Feed
from rrext.engine.interface.operations import ListTools, ResolveTools, Services, Tool
from rrext.errors import InvalidArguments, InvalidPipeline, ToolError, ToolNotFound, ToolTimeout, Unavailable
from rrext.nodes.base.node import Entry, Node, Switch
from rrext.nodes.basic.sources import ToolsNode
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = [pytest.mark.anyio, pytest.mark.promise("references:pipeline:wrapped")]


PARK: list[AsyncPark] = []


class Store(Node):
    provider = "store"

    @tool_function
    def query(self, sql: str, rows: int = 10) -> dict[str, Any]:
        """Ask the store."""
        return {"sql": sql, "rows": rows}

    @tool_function
    async def slow(self) -> None:
        PARK.append(AsyncPark())
        await PARK[-1].stay()


class Agent(Node):
    provider = "boss"

    @tool_function
    async def ask(self, tool: str, ctx: ToolContext) -> Any:
        return await ctx.call("tools_1", tool, {"rows": 2})

    @tool_function
    def ask_blocking(self, tool: str, ctx: ToolContext) -> Any:
        return ctx.call_blocking("tools_1", tool, {"rows": 2})


class Shout(Node):
    """Answers a text in capital letters."""

    provider = "shout"
    lanes = {"text": ()}

    def open(self, entry: Entry) -> None:
        self.entry = entry

    async def write_text(self, text: str, ctx: ToolContext) -> None:
        if text == "again":
            await ctx.call("tools_1", "loud", {"text": "again"})
        if text == "fail":
            raise ToolError("nothing to shout", code="mute")
        self.entry.respond("text", "text", f"{text.upper()} {ctx.user_id}")


SALES = {"tool": "query", "name": "sales", "description": "Sales.", "arguments": {"sql": "SELECT 1"}}


def pipeline(*references: Any, edge: list[Any] | None = None, data: bool = False) -> dict[str, Any]:
    bound = [{"classType": "tool", "from": "tools_1"}]
    store = {"classType": "tool", "from": "tools_1", **({} if edge is None else {"tools": edge})}
    components: list[dict[str, Any]] = [
        {"id": "tools_1", "provider": "tools", "config": {"tools": list(references)}},
        {"id": "store_1", "provider": "store", "config": {}, "control": [store]},
        {"id": "agent", "provider": "boss", "config": {}, "control": bound},
    ]
    if data:
        components.append({"id": "source", "provider": "source", "config": {}})
        components.append({"id": "shout", "provider": "shout", "input": [{"lane": "text", "from": "source"}]})
    return {"components": components, "source": "source" if data else "tools_1"}


def loaded(*references: Any, edge: list[Any] | None = None) -> Any:
    return world(Store, Agent, more=(ToolsNode,), pipeline=pipeline(*references, edge=edge))


def node_reference(**more: Any) -> dict[str, Any]:
    return {"type": "node", "node": "store_1", **SALES, **more}


async def described(w: World, caller: Caller | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    answer = await w.ask(ListTools(), caller=caller or Caller()).answer()
    return {(tool["nodeId"], tool["name"]): tool for tool in answer["tools"]}


@pytest.mark.parametrize("on_edge", [False, True])
async def test_a_reference_is_a_tool_of_its_own_and_the_tool_stays_as_it_is(on_edge: bool) -> None:
    async with loaded(edge=[SALES]) if on_edge else loaded(node_reference()) as w:
        tools = await described(w)
        assert tools["tools_1", "sales"]["description"] == "Sales."
        assert list(tools["tools_1", "sales"]["inputSchema"]["properties"]) == ["rows"]
        assert list(tools["store_1", "query"]["inputSchema"]["properties"]) == ["sql", "rows"]
        assert await w.tool("sales", rows=3).result() == {"sql": "SELECT 1", "rows": 3}
        assert await w.tool("sales", node="tools_1").result() == {"sql": "SELECT 1", "rows": 10}
        assert await w.tool("query", sql="x").result() == {"sql": "x", "rows": 10}
        refused = await w.tool("sales", sql="DROP").error()
        assert isinstance(refused, InvalidArguments)
        assert refused.data["errors"][0]["path"] == "/input/sql"
        assert isinstance(await w.tool("sales", node="store_1").error(), ToolNotFound)


@pytest.mark.parametrize("relay", ["ask", "ask_blocking"])
async def test_other_tools_call_a_reference_by_its_node(relay: str) -> None:
    async with loaded(node_reference()) as w:
        assert await w.tool(relay, tool="sales").result() == {"sql": "SELECT 1", "rows": 2}


async def test_a_source_that_offers_tools_is_a_node_also_where_objects_begin_elsewhere() -> None:
    document = pipeline(node_reference(), data=True)
    document["components"][1]["control"] = [{"classType": "tool", "from": "source"}]
    async with world(Store, Agent, Shout, Source, more=(ToolsNode,), pipeline=document) as w:
        listed = await w.ask(ListTools(node_id="tools_1")).answer()
        assert [tool["name"] for tool in listed["tools"]] == ["sales"]
        error = await w.tool("sale", node="tools_1").error()
        assert isinstance(error, ToolNotFound)
        assert error.data["near"] == ["sales"]


async def test_a_reference_without_name_has_the_name_of_node_and_tool() -> None:
    async with loaded({"type": "node", "node": "store_1", "tool": "query"}) as w:
        assert await w.tool("store_1__query", sql="x").result() == {"sql": "x", "rows": 10}
        assert ("tools_1", "store_1__query") in await described(w)


async def test_a_reference_is_for_the_callers_that_it_names() -> None:
    async with loaded(node_reference(available={"users": ["ada"], "space": "required"})) as w:
        ada, bob = Caller(user_id="ada", space_id="s"), Caller(user_id="bob", space_id="s")
        assert ("tools_1", "sales") in await described(w, ada)
        assert ("tools_1", "sales") not in await described(w, bob)
        assert (await w.tool("sales", rows=1, caller=ada).result())["rows"] == 1
        refused = await w.tool("sales", rows=1, caller=bob).error()
        assert isinstance(refused, Unavailable)
        assert refused.message.startswith('Tool "sales" is not available')
        assert "ada" not in refused.message


async def test_a_reference_that_is_off_or_denied_is_hidden_and_refused() -> None:
    async with loaded(node_reference(available={"when": "off"}), node_reference(name="no", permission="deny")) as w:
        assert not {("tools_1", "sales"), ("tools_1", "no")} & set(await described(w))
        assert "off by configuration" in (await w.tool("sales").error()).message
        assert "denied by configuration" in (await w.tool("no").error()).message


class Permits(Feed):
    """The feed of a caller who answers questions for permits, or does not."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def ask(self, event: str, body: dict[str, Any]) -> bool:
        assert event == "rrext_permission"
        self.asked.append(body)
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer is True

    def end(self) -> None: ...


@pytest.mark.parametrize("relay", [None, "ask", "ask_blocking"])
async def test_a_reference_that_asks_is_called_only_with_a_permit(relay: str | None) -> None:
    async with loaded(node_reference(permission="ask")) as w:
        assert ("tools_1", "sales") in await described(w)
        tool, input = ("sales", {"rows": 2}) if relay is None else (relay, {"tool": "sales"})
        given = {} if relay else {"rows": 2}

        def call(feed: Permits | None, *, permits: bool = True) -> Any:
            return w.ask(Tool(tool=tool, input=input, permits=permits), feed=feed)

        for feed, permits in ((None, True), (Permits(True), False)):
            assert "did not offer" in (await call(feed, permits=permits).error()).message
        denied = await call(Permits(False)).error()
        assert "it was denied" in denied.message
        assert denied.code == "unavailable"
        allowing = Permits(True)
        assert (await call(allowing).result())["sql"] == "SELECT 1"
        (question,) = allowing.asked
        assert (question["tool"], question["nodeId"]) == ("sales", "tools_1")
        assert question["arguments"].items() >= given.items()
        silent = Permits(None)
        waiting = call(silent)
        await until(lambda: silent.asked)
        w.clock.advance(w.engine.limits.permission_timeout)
        assert "there was no answer within 60 s" in (await waiting.error()).message
        cancelled = call(Permits(None))
        await until(lambda: cancelled.call.work is not None)
        assert cancelled.cancel()
        await w.at_rest()


async def test_the_value_of_a_variable_is_in_fixed_arguments_and_in_nothing_that_callers_see() -> None:
    secret = "a-secret-of-twenty-letters"
    reference = node_reference(description="${ROCKETRIDE_S}", arguments={"sql": "${ROCKETRIDE_S}"}, permission="ask")
    async with loaded(node_reference(name="other")) as w:
        w.engine.load(pipeline(reference), token="u", env={"ROCKETRIDE_S": secret})
        listed = await w.ask(ListTools(token="u")).answer()
        assert secret not in str(listed)
        [sales] = [tool for tool in listed["tools"] if tool["name"] == "sales"]
        assert sales["description"] == "${ROCKETRIDE_S}"
        caller = Permits(True)
        result = await w.ask(Tool(token="u", tool="sales", input={}, permits=True), feed=caller).result()
        assert result["sql"] == secret
        assert secret not in str(caller.asked)


async def test_the_timeout_of_a_reference_holds() -> None:
    PARK[:] = [AsyncPark()]
    async with loaded({"type": "node", "node": "store_1", "tool": "slow", "name": "brief", "timeout": 2}) as w:
        asked = w.tool("brief")
        await until(lambda: PARK[-1].inside)
        w.clock.advance(2)
        assert isinstance(await asked.error(), ToolTimeout)


async def test_a_reference_to_a_dynamic_tool_waits_for_its_node_and_follows_its_changes() -> None:
    outside = Outside("find")
    reference = {"type": "node", "node": "outside", "tool": "find", "name": "look", "arguments": {"input": "fixed"}}
    components = [
        {"id": "tools_1", "provider": "tools", "config": {"tools": [reference]}},
        {"id": "outside", "provider": "outside", "config": {}},
    ]
    async with world(outside.node, more=(ToolsNode,), pipeline={"components": components, "source": "tools_1"}) as w:
        assert await w.tool("look", node="tools_1").result() == {"input": "fixed"}
        assert ("tools_1", "look") in await described(w)
        outside.source.become("other")
        assert isinstance(await w.tool("look", node="tools_1").error(), ToolNotFound)
        outside.source.become("find")
        assert await w.tool("look").result() == {"input": "fixed"}


def test_all_problems_of_references_are_told_at_load() -> None:
    async def load() -> InvalidPipeline:
        with pytest.raises(InvalidPipeline) as caught:
            async with loaded(
                {"type": "node", "node": "store_1", "tool": "qery"},
                node_reference(node="stor_1", name="a"),
                node_reference(arguments={"sqll": 1}),
                node_reference(name="b", arguments={"rows": "many"}),
                node_reference(name="c", arguments={}, parameters={"rows": {"type": "int"}}),
                "quer",
                "query",
                {"type": "mcp", "server": "x", "tool": ""},
                edge=[{**SALES, "tool": "qury"}, {"tool": "query", "timeout": 0}],
            ):
                pass
        return caught.value

    error = asyncio.run(load())
    config, edge = "/components/0/config/tools", "/components/1/control/0/tools"
    assert {(problem["path"], problem["code"]) for problem in error.data["problems"]} == {
        (f"{config}/0/tool", "reference_not_found"),
        (f"{config}/1/node", "reference_not_found"),
        (f"{config}/2/arguments/sqll", "invalid_reference"),
        (f"{config}/3/arguments/rows", "invalid_reference"),
        (f"{config}/4/parameters/rows", "invalid_reference"),
        (f"{config}/5", "reference_not_found"),
        (f"{config}/7/tool", "invalid_reference"),
        (f"{edge}/0/name", "duplicate_reference"),
        (f"{edge}/0/tool", "reference_not_found"),
        (f"{edge}/1/timeout", "invalid_reference"),
    }


async def test_a_pipeline_is_a_tool_of_another_one_as_the_same_caller() -> None:
    loud = {"type": "pipeline", "pipeline": "t", "name": "loud"}
    data = pipeline(data=True)
    async with world(Store, Agent, Shout, more=(ToolsNode, Source), pipeline=data) as w:
        w.engine.load(pipeline(loud), token="other")
        ada = Caller("a connection", user_id="ada")
        asked = w.ask(Tool(token="other", tool="loud", input={"text": "hello", "name": "h.txt"}), caller=ada)
        body = await asked.result()
        assert (body["text"], body["name"]) == (["HELLO ada"], "h.txt")
        failed = await w.ask(Tool(token="other", tool="loud", input={"text": "fail"}), caller=ada).error()
        assert (failed.code, failed.message) == ("mute", "nothing to shout")
        assert not w.engine._pipes.of_task(w.task)
        gone = await w.ask(Tool(token="other", tool="loud", input={"text": "x"}, timeout=None)).result()
        assert gone["text"] == ["X None"]


async def test_pipelines_that_call_each_other_in_a_circle_are_refused() -> None:
    data = pipeline({"type": "pipeline", "pipeline": "t", "name": "loud"}, data=True)
    async with world(Store, Agent, Shout, more=(ToolsNode, Source), pipeline=data, threads=1) as w:
        error = await w.tool("loud", text="again").error()
        assert error.message == "Pipelines would call each other in a circle: t → t"


async def test_a_reference_may_mean_the_tool_of_another_and_both_hold() -> None:
    inner = {**node_reference(name="ten"), "arguments": {"rows": 10}, "permission": "ask"}
    outer = {"type": "node", "node": "tools_1", "tool": "ten", "name": "all", "arguments": {"sql": "SELECT 1"}}
    third = {"type": "node", "node": "tools_1", "tool": "all", "name": "last"}
    async with loaded(third, outer, inner) as w:
        assert {name for _, name in await described(w)} >= {"ten", "all", "last"}
        error = await w.tool("last", node="tools_1").error()
        assert isinstance(error, Unavailable), "each call needs a permit, as the inner reference says"
        assert isinstance(await w.tool("last", {"sql": "x"}, node="tools_1").error(), InvalidArguments)
    async with loaded(outer, {**inner, "permission": "allow"}) as w:
        assert await w.tool("all").result() == {"sql": "SELECT 1", "rows": 10}


def problems_of(*references: Any) -> list[tuple[str, str]]:
    async def load() -> InvalidPipeline:
        with pytest.raises(InvalidPipeline) as caught:
            async with loaded(*references):
                pass
        return caught.value

    return [(each["path"].partition("/tools/")[2], each["message"]) for each in asyncio.run(load()).data["problems"]]


def test_references_to_references_are_checked_as_their_tools_are() -> None:
    inner = {**node_reference(name="ten"), "arguments": {"rows": 10}}
    outer = {"type": "node", "node": "tools_1", "tool": "ten"}
    assert problems_of(inner, {**outer, "arguments": {"rows": 1}}) == [
        ("1/arguments/rows", 'The tool has no parameter "rows".')
    ]
    assert problems_of(inner, {**outer, "tool": "tenn"}) == [
        ("1/tool", '"tools_1" (tools) has no tool "tenn". Did you mean "ten"?')
    ]
    one = {"type": "node", "node": "tools_1", "tool": "b", "name": "a"}
    found = problems_of(one, {**one, "tool": "a", "name": "b"})
    assert [path for path, _ in found] == ["0/tool", "1/tool"]
    assert "form a circle" in found[0][1]
    assert problems_of("query", {**outer, "tool": "query"}) == [
        ("1/tool", '"tools_1" (tools) has no tool "query". There is tools_1__query.')
    ], "a name alone is offered by the node that has the tool"
    assert problems_of(inner, "tenn") == [("1", 'No node of this pipeline has a tool "tenn". Did you mean "ten"?')]


def chain_of(length: int) -> list[Any]:
    """References, each to the tool of the next one, and the last to a tool; each checks one more thing."""
    listed = [node_reference(name="w1", arguments={}, parameters={"sql": {"maxLength": 9}})]
    for number in range(1, length):
        narrower = {"rows": {"minimum": 1 - number}}
        listed.append(
            {"type": "node", "node": "tools_1", "tool": f"w{number}", "name": f"w{number + 1}", "parameters": narrower}
        )
    return listed[::-1]


async def test_twenty_references_may_follow_each_other() -> None:
    async with loaded(*chain_of(20)) as w:
        assert await w.tool("w20", sql="x", rows=0).result() == {"sql": "x", "rows": 0}
        assert isinstance(await w.tool("w20", sql="x", rows=-1).error(), InvalidArguments)
        assert isinstance(await w.tool("w20", sql="x" * 10).error(), InvalidArguments)


def test_of_more_references_that_follow_each_other_those_behind_are_told() -> None:
    assert problems_of(*chain_of(22)) == [
        ("0/tool", 'No tool is behind "w21" of "tools_1" within 20 references.'),
        ("1/tool", 'No tool is behind "w20" of "tools_1" within 20 references.'),
    ]


async def test_a_name_alone_may_be_that_of_a_reference_in_a_file_and_in_a_request() -> None:
    made = pipeline(edge=[SALES])
    made["components"].append({"id": "tools_2", "provider": "tools", "config": {"tools": ["sales"]}})
    async with world(Store, Agent, more=(ToolsNode,), pipeline=made) as w:
        assert await w.ask(ResolveTools(tools=["sales"])).answer() == {"builtins": ["sales"], "custom": []}


@pytest.mark.parametrize(
    ("narrower", "pointer"),
    [
        ({"rows": {"enum": []}}, "rows/enum"),
        ({"rows": {"minimum": 5, "maximum": 3}}, "rows/minimum"),
        ({"rows": {"type": "string"}}, "rows/type"),
        ({"rows": {"const": "many"}}, "rows/const"),
        ({"rows": {"allOf": [False]}}, "rows/allOf/0"),
        ({"rows": {"required": ["x"], "additionalProperties": False}}, "rows/required/0"),
    ],
)
def test_parameters_that_plainly_admit_nothing_are_refused_at_load(narrower: Any, pointer: str) -> None:
    assert problems_of(node_reference(parameters=narrower))[0][0] == f"0/parameters/{pointer}"


@pytest.mark.parametrize("more", [{"permission": "deny"}, {"available": {"when": False}}, {"available": {"users": ["ada"]}}])
async def test_a_tool_that_its_caller_may_not_call_is_refused_alike_by_a_call_and_by_its_resolution(more: Any) -> None:
    async with loaded({**node_reference(), **more}) as w:
        called = await w.tool("sales").error()
        for reference, path in (("sales", "/tools/0"), ({"type": "node", "node": "tools_1", "tool": "sales"}, "/tools/0/tool")):
            resolved = await w.ask(ResolveTools(tools=[reference])).error()
            assert (resolved.code, resolved.message) == (called.code, f"{path}: {called.message}")


async def test_only_tools_that_may_be_called_are_among_the_services() -> None:
    async def listed(*names: str) -> dict[str, list[str]]:
        answer = await w.ask(Services(), caller=Caller(tools=frozenset(names))).answer()
        return {name: [tool["name"] for tool in each["tools"]] for name, each in answer["services"].items() if each["tools"]}

    async with loaded(node_reference()) as w:
        assert await listed("sales") == {}, "a reference does not show the tool that it means"
        assert await listed("query") == {"store": ["query"]}
        assert await listed("store_1.query", "agent.query", "agent__ask") == {"store": ["query"], "boss": ["ask"]}
        one = await w.ask(Services(service="boss"), caller=Caller(tools=frozenset(["ask"]))).answer()
        assert [tool["name"] for tool in one["tools"]] == ["ask"]


class Switched(Node):
    provider = "switched"

    class Config:
        on: bool = False

    @tool_function(available=Switch("on"))
    def write(self) -> None:
        """Write."""

    @tool_function
    def read(self) -> None:
        """Read."""


@pytest.mark.parametrize(("settings", "shown"), [([False, False], ["read"]), ([False, True], ["write", "read"])])
async def test_a_tool_that_its_settings_deny_everywhere_is_not_among_the_services(
    settings: list[bool], shown: list[str]
) -> None:
    bound = [{"classType": "tool", "from": "tools_1"}]
    made = [{"id": f"s_{n}", "provider": "switched", "config": {"on": on}, "control": bound} for n, on in enumerate(settings)]
    file = {"components": [{"id": "tools_1", "provider": "tools", "config": {}}, *made], "source": "tools_1"}
    async with world(Switched, more=(ToolsNode,), pipeline=file) as w:
        caller = Caller(tools=frozenset(["write", "read"]))
        one = await w.ask(Services(service="switched"), caller=caller).answer()
        assert [tool["name"] for tool in one["tools"]] == shown
        names = frozenset(["s_0.write"])  # of a node that may not
        one = await w.ask(Services(service="switched"), caller=Caller(tools=names)).answer()
        assert one["tools"] == []
