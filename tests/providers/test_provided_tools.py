"""Tools of a provider as tools of a node: one provider for each connection, made at first use, closed with the engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from rrext.connections import Connections
from rrext.engine.events.records import Filter
from rrext.engine.interface.operations import ListTools, Tool
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionInvalid, ConnectionUnknown, InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.basic.mcp_client import ProvidedToolsNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.providers import provider as provider_pool
from rrext.providers.provider import ProvidedTool, ToolProvider
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio

WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"], "additionalProperties": False}
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


class Words(ToolProvider):
    """A provider whose tools a test changes."""

    made: ClassVar[list[Words]] = []

    def __init__(self, connection: Any, services: Any) -> None:
        super().__init__(connection, services)
        self.listed = [ProvidedTool(name="echo", description="Says it again.", input_schema=WORD)]
        self.calls: list[tuple[str, Any]] = []
        self.closed = 0
        Words.made.append(self)

    async def tools(self) -> Sequence[ProvidedTool]:
        await asyncio.sleep(0)
        return list(self.listed)

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        self.calls.append((tool, arguments))
        if tool == "count":
            return {"count": arguments["word"]}
        if arguments["word"] == "bytes":
            return b"\x00\xff"
        return arguments["word"]

    async def aclose(self) -> None:
        self.closed += 1


class Source(Node):
    provider = "source"
    class_types = ("source",)
    lanes: ClassVar[Any] = {"_source": ("text",)}


class WordsNode(ProvidedToolsNode):
    provider = "words"
    kind = "http"

    class Config:
        connection: str


def pipeline(*names: str) -> dict[str, Any]:
    nodes = [
        {
            "id": f"words_{number}",
            "provider": "words",
            "config": {"connection": name},
            "control": [{"classType": "tool", "from": "s"}],
        }
        for number, name in enumerate(names)
    ]
    return {"components": [{"id": "s", "provider": "source", "config": {}}, *nodes], "source": "s", "project_id": "p"}


@asynccontextmanager
async def engine_with(monkeypatch: pytest.MonkeyPatch, *names: str) -> AsyncIterator[LocalEngine]:
    monkeypatch.setitem(provider_pool.PROVIDERS, "http", (f"{__name__}:Words", "http"))
    monkeypatch.setattr(Words, "made", [])
    connections = Connections.of({"one": {"provider": "http", "url": "http://127.0.0.1:1/", "timeout": 7}})
    engine = LocalEngine(catalog=Catalog([Source, WordsNode]), connections=connections)
    try:
        engine.load(pipeline(*names), token="t")
        yield engine
    finally:
        await engine.aclose()


async def test_nodes_of_one_connection_share_its_provider_which_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with(monkeypatch, "one", "one") as engine:
        assert not Words.made
        answers = await asyncio.gather(
            *(engine.ask(Tool(tool="echo", node_id=f"words_{n}", input={"word": "a"})) for n in (0, 1))
        )
        assert answers == [(b'{"result":"a"}', None)] * 2
        (provider,) = Words.made
        assert provider.calls == [("echo", {"word": "a"})] * 2
        assert provider.closed == 0
    assert provider.closed == 1


async def test_a_pipeline_that_has_ended_hears_of_no_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with(monkeypatch, "one") as engine:
        for number in range(3):
            task = engine.load(pipeline("one", "one"), token=f"t{number}")
            await engine.ask(Tool(token=f"t{number}", tool="echo", node_id="words_1", input={"word": "a"}))
            await engine.ask(ListTools(token=f"t{number}"))
            (provider,) = Words.made
            assert len(provider._watchers) == 2
            await engine.unload(task)
        assert not provider._watchers


async def test_input_and_result_are_checked_against_the_schemas_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with(monkeypatch, "one") as engine:
        with pytest.raises(InvalidArguments) as caught:
            await engine.ask(Tool(tool="echo", input={"word": 1, "other": 2}))
        assert {error["path"] for error in caught.value.data["errors"]} == {"/input/other", "/input/word"}
        (provider,) = Words.made
        assert not provider.calls
        assert await engine.ask(Tool(tool="echo", input={"word": "bytes"})) == (b"{}", b"\x00\xff")
        provider.listed.append(ProvidedTool(name="count", input_schema=WORD, output_schema=COUNT))
        changed = asyncio.Event()
        engine.subscribe(Filter(kinds=frozenset({"tools_changed"})), lambda event: changed.set())
        provider.notify_watchers()
        await changed.wait()
        with pytest.raises(ToolError, match="output_schema"):
            await engine.ask(Tool(tool="count", input={"word": "many"}))


async def test_the_timeout_of_the_connection_is_that_of_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with(monkeypatch, "one") as engine:
        await engine.ask(ListTools())
        (task,) = list(engine.tasks)
        route = task.routes.only("words_0", "echo")
        assert route is not None
        assert route.spec.timeout == 7


async def test_a_connection_that_is_not_there_fails_the_calls_with_its_near_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_with(monkeypatch, "onee") as engine:
        with pytest.raises(ConnectionUnknown) as caught:
            await engine.ask(Tool(tool="echo", node_id="words_0", input={"word": "a"}))
        assert caught.value.data["near"] == ["one"]
        assert not Words.made


async def test_a_caller_that_leaves_takes_the_provider_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "made", [])
    imports: list[asyncio.Future[Any]] = []

    class Slow:
        async def in_thread(self, function: Any, *args: Any) -> Any:
            imports.append(asyncio.get_running_loop().create_future())
            return await imports[-1]

    services: Any = Slow()
    pool = provider_pool.ProviderPool(services)
    connections = Connections.of({"one": {"provider": "http", "url": "http://127.0.0.1:1/"}})
    first, second = (asyncio.ensure_future(pool.get(connections.find("one", "http"))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    for imported in imports:
        if not imported.done():
            imported.set_result(Words)
    assert isinstance(await second, Words)
    late = asyncio.ensure_future(pool.get(connections.find("one", "http")))
    assert await late is await second
    await pool.aclose()


async def test_a_provider_that_is_imported_when_the_engine_ends_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "made", [])
    importing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    class Slow:
        async def in_thread(self, function: Any, *args: Any) -> Any:
            return await importing

    services: Any = Slow()
    pool = provider_pool.ProviderPool(services)
    connections = Connections.of({"one": {"provider": "http", "url": "http://127.0.0.1:1/"}})
    asked = asyncio.ensure_future(pool.get(connections.find("one", "http")))
    await asyncio.sleep(0)
    await pool.aclose()
    importing.set_result(Words)
    with pytest.raises(Unavailable, match="is closed"):
        await asked
    assert not Words.made


@pytest.mark.parametrize(("kind", "package", "extra"), [("mcp", "mcp.client.session", "mcp"), ("http", "httpx2", "http")])
def test_a_missing_package_is_named_with_its_command(
    kind: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("rrext.providers.") and name != provider_pool.__name__]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConnectionInvalid, match="need a package") as caught:
        provider_pool.provider_class(kind)
    assert caught.value.hint == f'Install it with: pip install "rrext[{extra}]"'


def test_the_packages_of_providers_are_imported_at_the_first_use_of_a_connection() -> None:
    code = "import sys, rrext.providers.provider; print({'mcp', 'httpx2', 'pydantic'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"set()\n"
