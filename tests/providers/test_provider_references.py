"""References to tools behind connections: in a pipeline, in a request, by call ref, wrapped like every tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from test_provided_tools import WORD, Words

from rrext.connections import Connections
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import CallTool, ListTasks, ListTools, ResolveTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionUnknown, InvalidArguments, InvalidPipeline, RrextError, ToolNotFound, Unavailable
from rrext.nodes.basic.sources import ToolsNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.providers import provider
from rrext.providers.provider import ProvidedTool
from rrext.tools.names import joined_name

pytestmark = [pytest.mark.anyio, pytest.mark.promise("references:request:all-or-none")]

ECHO = {"type": "http", "server": "words", "tool": "echo"}
FIXED = {**ECHO, "name": "hello", "arguments": {"word": "hello"}}
ADA = Caller("ada's", user_id="ada")


@asynccontextmanager
async def engine(monkeypatch: pytest.MonkeyPatch, *references: Any) -> AsyncIterator[LocalEngine]:
    monkeypatch.setitem(provider.PROVIDERS, "http", (f"{Words.__module__}:Words", "http"))
    Words.made.clear()
    found = Connections.of({name: {"provider": "http", "url": "http://127.0.0.1:9/"} for name in ("words", "slow")})
    made = LocalEngine(catalog=Catalog([ToolsNode]), connections=found)
    try:
        if references:
            tools = {"id": "tools_1", "provider": "tools", "config": {"tools": list(references)}}
            made.load({"components": [tools], "source": "tools_1"}, token="t")
        yield made
    finally:
        await made.aclose()


async def body(engine: LocalEngine, operation: Any) -> Any:
    import msgspec

    return msgspec.json.decode((await engine.ask(operation, ADA))[0])


async def refused(engine: LocalEngine, operation: Any) -> RrextError:
    with pytest.raises(RrextError) as caught:
        await engine.ask(operation, ADA)
    return caught.value


async def test_a_pipeline_offers_only_the_tools_that_it_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch, FIXED) as made:
        listed = await body(made, ListTools())
        assert [(tool["nodeId"], tool["name"]) for tool in listed["tools"]] == [("tools_1", "hello")]
        assert (await body(made, Tool(tool="hello")))["result"] == "hello"
        assert isinstance(await refused(made, Tool(tool="hello", input={"word": "x"})), InvalidArguments)
        assert isinstance(await refused(made, Tool(tool="echo", input={"word": "x"})), ToolNotFound)
        assert len(Words.made) == 1


async def test_a_request_resolves_tools_behind_a_connection_without_any_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch) as made:
        answer = await body(made, ResolveTools(tools=[ECHO, FIXED]))
        plain, fixed = answer["custom"]
        assert (plain["name"], plain["call_ref"]) == ("words__echo", "tools.http.words.echo.default")
        assert (plain["description"], plain["input_schema"]["required"]) == ("Says it again.", ["word"])
        assert (await body(made, CallTool(call_ref=plain["call_ref"], arguments={"word": "a"})))["result"] == "a"
        assert (await body(made, CallTool(call_ref=fixed["call_ref"])))["result"] == "hello"
        assert await body(made, ListTasks()) == {"tasks": []}
        assert (await refused(made, ResolveTools(tools=[{**ECHO, "tool": "ecco"}]))).data["errors"][0][
            "path"
        ] == "/tools/0/tool"
        assert len(Words.made) == 1
    assert Words.made[0].closed == 1


WHOLE = {"type": "http", "server": "words"}


def have(*names: str) -> None:
    """Give the server of the connection these tools."""
    Words.made[0].listed = [ProvidedTool(name=name, input_schema=WORD) for name in names]
    Words.made[0].notify_watchers()


async def names(made: LocalEngine) -> list[str]:
    return [tool["name"] for tool in (await body(made, ListTools()))["tools"]]


@pytest.mark.promise("references:whole-server")
async def test_a_pipeline_offers_a_whole_server_and_follows_its_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {**WHOLE, "include": ["get*", "drop*", "echo"], "exclude": ["*_all"]}
    own = {**WHOLE, "tool": "drop", "name": "remove", "permission": "ask"}
    async with engine(monkeypatch, whole, own) as made:
        assert await names(made) == ["words__echo"]
        have("get", "get_all", "drop", "echo", "list")
        while await names(made) != ["words__get", "words__echo", "remove"]:
            await asyncio.sleep(0)
        assert (await body(made, Tool(tool="words__get", input={"word": "a"})))["result"] == "a"
        assert isinstance(await refused(made, Tool(tool="words__drop", input={"word": "a"})), ToolNotFound)
        assert isinstance(await refused(made, Tool(tool="words__get_all", input={"word": "a"})), ToolNotFound)


@pytest.mark.promise("references:whole-server")
async def test_a_name_that_a_reference_gives_is_not_given_by_that_of_a_whole_server(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {**WHOLE, "tool": "drop", "name": "words__get", "arguments": {"word": "mine"}}
    for listed in ([WHOLE, own], [own, WHOLE]):
        async with engine(monkeypatch, *listed) as made:
            await names(made)
            have("get", "set", "drop")
            while "words__set" not in await names(made):
                await asyncio.sleep(0)
            assert sorted(await names(made)) == ["words__get", "words__set"]
            assert (await body(made, Tool(tool="words__get")))["result"] == "mine"
            custom = (await body(made, ResolveTools(tools=listed)))["custom"]
            assert sorted(each["name"] for each in custom) == ["words__get", "words__set"]
            assert (await body(made, CallTool(name="words__get")))["result"] == "mine"


@pytest.mark.promise("references:whole-server")
async def test_a_reference_may_mean_any_tool_of_a_whole_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, tool in enumerate(("get", "get__all", "list.all", "get_" + "x" * 80)):
        offered = joined_name("words", tool)
        mine = {"type": "node", "node": "tools_1", "tool": offered, "name": "mine", "arguments": {"word": "a"}}
        async with engine(monkeypatch, {**WHOLE, "include": ["get*", "list.*"]}, mine) as made:
            await names(made)
            have("other", tool)
            while await names(made) != [offered, "mine"]:
                await asyncio.sleep(0)
            assert (await body(made, Tool(tool="mine")))["result"] == "a", number
    other = {"type": "node", "node": "tools_1", "tool": "words__set"}
    with pytest.raises(InvalidPipeline, match='has no tool "words__set"'):
        async with engine(monkeypatch, {**WHOLE, "include": ["get*"]}, other):
            pass


@pytest.mark.promise("references:whole-server")
async def test_a_request_resolves_a_whole_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch) as made:
        await body(made, ResolveTools(tools=[WHOLE]))
        have("get", "set", "drop")
        while not (await body(made, ResolveTools(tools=[{**WHOLE, "exclude": ["echo"]}])))["custom"]:
            await asyncio.sleep(0)
        asking = {**WHOLE, "tool": "drop", "name": "remove", "permission": "ask"}
        custom = (await body(made, ResolveTools(tools=[{**WHOLE, "exclude": ["x*"]}, asking])))["custom"]
        assert [each["name"] for each in custom] == ["words__get", "words__set", "remove"]
        assert custom[0]["call_ref"] == "tools.http.words.get.default"
        assert (await body(made, CallTool(name="words__set", arguments={"word": "b"})))["result"] == "b"
        error = await refused(made, ResolveTools(tools=[{**WHOLE, "include": ["get", "sett", "z*"]}]))
        assert isinstance(error, ToolNotFound)
        assert [(each["path"], each["message"]) for each in error.data["errors"]] == [
            ("/tools/0/include/1", 'No tool of "words" fits "sett". Did you mean "set"?'),
            ("/tools/0/include/2", 'No tool of "words" fits "z*".'),
        ]
        have(*(f"t{number}" for number in range(1001)))
        while "take 1,001 tools, more than 1,000" not in str(await resolved_or_refused(made, ResolveTools(tools=[WHOLE]))):
            await asyncio.sleep(0)


async def resolved_or_refused(made: LocalEngine, operation: Any) -> Any:
    try:
        return await body(made, operation)
    except RrextError as error:
        return error


async def test_of_a_whole_server_only_allowed_tools_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch) as made:
        await body(made, ResolveTools(tools=[WHOLE]))
        have("get", "set")
        some = Caller("bob's", tools=frozenset(["tools.http.words.set.default"]))
        other = Caller("eve's", tools=frozenset(["tools.http.word.set.default"]))
        answer = (await made.ask(ResolveTools(tools=[WHOLE]), some))[0]
        while b"words__set" not in answer:
            answer = (await made.ask(ResolveTools(tools=[WHOLE]), some))[0]
        assert b"words__get" not in answer
        with pytest.raises(ToolNotFound, match='No handler found for tool "words"'):
            await made.ask(ResolveTools(tools=[WHOLE]), other)


async def test_a_plain_call_ref_needs_no_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch) as made:
        assert (await body(made, CallTool(call_ref="tools.http.words.echo.default", arguments={"word": "b"})))["result"] == "b"
        assert isinstance(await refused(made, CallTool(call_ref="tools.http.wrds.echo.default")), ConnectionUnknown)
        assert isinstance(await refused(made, CallTool(call_ref="tools.http.words.ecco.default")), ToolNotFound)


@pytest.mark.parametrize("reference", [WHOLE, ECHO, {**WHOLE, "include": ["e*"]}])
async def test_a_server_that_cannot_be_reached_is_the_reason_that_a_call_gives(
    monkeypatch: pytest.MonkeyPatch, reference: Any
) -> None:
    async def down(self: Words) -> Any:
        raise Unavailable('Connection "words" cannot be reached', data={"connection": "words"})

    monkeypatch.setattr(Words, "tools", down)
    async with engine(monkeypatch, reference) as made:
        for asked in (Tool(tool="words__echo"), CallTool(name="words__echo"), Tool(tool="words__echo", node_id="tools_1")):
            error = await refused(made, asked)
            assert (error.message, error.data) == ('Connection "words" cannot be reached', {"connection": "words"})
        for node in (None, "tools_1"):
            error = await refused(made, Tool(tool="other", node_id=node))
            assert isinstance(error, ToolNotFound)
            assert 'The tools of "tools_1" are not known: Connection "words" cannot be reached' in error.message
        listed = await body(made, ListTools())
        assert [(each["nodeId"], each["name"]) for each in listed["undescribed"]] == [("tools_1", "*")]


async def test_a_call_waits_for_no_server_that_cannot_have_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(self: Words) -> Any:
        if self.connection.name == "slow":
            await asyncio.Event().wait()
        return await answered(self)

    answered = Words.tools
    monkeypatch.setattr(Words, "tools", slow)
    async with engine(monkeypatch, {"type": "http", "server": "slow"}, WHOLE) as made:
        assert (await body(made, Tool(tool="words__echo", input={"word": "a"})))["result"] == "a"
        assert (await body(made, Tool(tool="words__echo", node_id="tools_1", input={"word": "b"})))["result"] == "b"


async def test_an_exported_name_is_known_before_its_server_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for token, tool in (("a", joined_name("tools_2", "words__echo")), ("b", "words__echo"), ("c", "words__ecco")):
        async with engine(monkeypatch) as made:
            listed = [{"id": f"tools_{number}", "provider": "tools", "config": {"tools": [WHOLE]}} for number in (1, 2)]
            made.load({"components": listed, "source": "tools_1"}, token=token)
            call = Tool(tool=tool, input={"word": "a"})
            if tool == "words__ecco":
                assert "words__echo" in (await refused(made, call)).data["near"]
            else:
                assert (await body(made, call))["result"] == "a"
