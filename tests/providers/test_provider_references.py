"""References to tools behind connections: in a pipeline, in a request, by call ref, wrapped like every tool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from test_provided_tools import Words

from rrext.connections.connections import Connections
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import CallTool, ListTasks, ListTools, ResolveTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionUnknown, InvalidArguments, RrextError, ToolNotFound
from rrext.nodes.basic.sources import ToolsNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.providers import provider_pool

pytestmark = [pytest.mark.anyio, pytest.mark.promise("references:request:all-or-none")]

ECHO = {"type": "http", "server": "words", "tool": "echo"}
FIXED = {**ECHO, "name": "hello", "arguments": {"word": "hello"}}
ADA = Caller("ada's", user_id="ada")


@asynccontextmanager
async def engine(monkeypatch: pytest.MonkeyPatch, *references: Any) -> AsyncIterator[LocalEngine]:
    monkeypatch.setitem(provider_pool.PROVIDERS, "http", (f"{Words.__module__}:Words", "http"))
    Words.made.clear()
    found = Connections.of({"words": {"provider": "http", "url": "http://127.0.0.1:9/"}})
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


async def test_a_plain_call_ref_needs_no_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(monkeypatch) as made:
        assert (await body(made, CallTool(call_ref="tools.http.words.echo.default", arguments={"word": "b"})))["result"] == "b"
        assert isinstance(await refused(made, CallTool(call_ref="tools.http.wrds.echo.default")), ConnectionUnknown)
        assert isinstance(await refused(made, CallTool(call_ref="tools.http.words.ecco.default")), ToolNotFound)
