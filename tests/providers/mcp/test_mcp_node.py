"""`tool_mcp_client`: the tools of an external MCP server in a pipeline, as a client sees them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp_connections import HERE, PATIENCE, hand_written, is_gone, wait_for_text

from rrext.client.client import Client
from rrext.connections import Connections
from rrext.engine.events.records import Filter
from rrext.engine.local_engine import LocalEngine
from rrext.errors import ConnectionUnknown, InvalidArguments, ToolError, ToolNotFound, ToolTimeout, Unavailable
from rrext.pipefile.catalog.catalog import Catalog
from rrext.testing.sessions import pair

SDK_SERVER = [sys.executable, str(HERE / "mcp_servers.py"), "stdio"]
NODE = {"provider": "tool_mcp_client", "config": {"server": "outside"}, "control": [{"classType": "tool", "from": "tools_1"}]}


def pipeline(**node: Any) -> dict[str, Any]:
    source = {"id": "tools_1", "provider": "tools", "config": {}}
    return {"components": [source, {"id": "mcp_1", **NODE, **node}], "source": "tools_1", "project_id": "p"}


@asynccontextmanager
async def serving(loaded: dict[str, Any] | None = None, **table: Any) -> AsyncIterator[Client]:
    engine = LocalEngine(catalog=Catalog(), connections=Connections.of({"outside": {"provider": "mcp", **table}}))
    try:
        engine.load(loaded or pipeline(), token="t")
        async with pair(engine) as client:
            yield client
    finally:
        await engine.aclose()


async def test_the_tools_of_a_server_are_tools_of_the_pipeline() -> None:
    async with serving(command=SDK_SERVER) as client:
        tools = {tool["name"]: tool for tool in await client.tools()}
        assert tools["add"]["description"] == "Add two numbers."
        assert tools["add"]["nodeId"] == "mcp_1"
        assert await client.tool(tool="add", input={"a": 1, "b": 2}) == {"sum": 3}
        assert await client.tool(node_id="mcp_1", tool="add", input={"a": 1, "b": 2}) == {"sum": 3}
        assert await client.tool(node_id="mcp_1", tool="outside.add", input={"a": 1, "b": 2}) == {"sum": 3}
        assert await client.tool(tool="picture", input={}) == b"\x89PNG...."
        with pytest.raises(InvalidArguments) as caught:
            await client.tool(tool="add", input={"a": "x", "b": 2})
        assert caught.value.data["errors"][0]["path"] == "/input/a"
        with pytest.raises(ToolNotFound):
            await client.tool(node_id="mcp_1", tool="outside.ad", input={})


async def test_progress_reaches_the_client(tmp_path: Path) -> None:
    code = """
        def act(request):
            for i in (1, 2):
                token = request["params"]["_meta"]["progressToken"]
                say({"method": "notifications/progress", "params": {"progressToken": token, "progress": i, "total": 2}})
            answer(request, {"content": []})
        serve(act)
    """
    reports: list[Any] = []
    async with serving(command=hand_written(code, tmp_path)) as client:
        await client.tool(tool="act", input={}, progress=lambda *report: reports.append(report))
    assert reports == [(1, 2, None), (2, 2, None)]


async def test_a_deadline_cancels_the_call_at_the_server(tmp_path: Path) -> None:
    file = tmp_path / "state"
    code = f"""
        def note(message):
            with open({str(file)!r}, "a") as file:
                file.write(message["method"] + " ")
        serve(note)
    """
    async with serving(command=hand_written(code, tmp_path)) as client:
        await client.tools()
        with pytest.raises(ToolTimeout):
            await client.tool(tool="act", input={}, timeout=2.0)
        await wait_for_text(file, "tools/call notifications/cancelled ")


async def test_a_result_that_breaks_the_schema_of_its_tool_is_a_tool_error(tmp_path: Path) -> None:
    tool = {"name": "act", "outputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    code = f"serve(lambda request: answer(request, {{'structuredContent': {{'a': 'x'}}}}), tools=[{tool!r}])"
    async with serving(command=hand_written(code, tmp_path)) as client:
        with pytest.raises(ToolError, match="breaks its output_schema: /a"):
            await client.tool(tool="act", input={})


async def test_the_alias_of_rocketride_means_the_node(tmp_path: Path) -> None:
    code = "serve(lambda request: answer(request, {'content': [{'type': 'text', 'text': 'fine'}]}))"
    async with serving(pipeline(provider="mcp_client"), command=hand_written(code, tmp_path)) as client:
        assert await client.tool(tool="act", input={}) == "fine"


async def test_a_server_that_is_not_known_or_not_there_fails_the_calls_with_the_reason() -> None:
    async with serving(pipeline(config={"server": "outsid"}), command=SDK_SERVER) as client:
        with pytest.raises(ConnectionUnknown) as caught:
            await client.tool(node_id="mcp_1", tool="add", input={})
        assert caught.value.data["near"] == ["outside"]
    async with serving(command=["no-such-program"]) as client:
        with pytest.raises(Unavailable, match="no-such-program cannot be started"):
            await client.tool(node_id="mcp_1", tool="add", input={})


def test_a_command_calls_a_tool_and_leaves_no_server_behind(tmp_path: Path) -> None:
    deaf = "import atexit\natexit.register(time.sleep, 1000)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code = deaf + "serve(lambda request: answer(request, {'structuredContent': {'pid': os.getpid()}}))"
    connections = tmp_path / "connections.toml"
    connections.touch(0o600)
    connections.write_text(f"[outside]\nprovider = 'mcp'\ncommand = {hand_written(code, tmp_path)!r}\n")
    file = tmp_path / "a.pipe"
    file.write_bytes(msgspec.json.encode(pipeline()))
    command = [sys.executable, "-m", "rrext", "tool", "--connections", str(connections), str(file), "act"]
    found = msgspec.json.decode(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert is_gone(found["pid"])


async def test_a_change_of_the_tools_is_an_event_of_the_engine_and_the_new_ones_are_called(tmp_path: Path) -> None:
    code = """
        known = [{"name": "learn"}]
        def act(request):
            known.append({"name": "newcomer"})
            say({"method": "notifications/tools/list_changed"})
            answer(request, {"content": [{"type": "text", "text": request["params"]["name"]}]})
        serve(act, tools=lambda request: {"tools": known}, announces=True)
    """
    table = {"provider": "mcp", "command": hand_written(code, tmp_path)}
    engine = LocalEngine(catalog=Catalog(), connections=Connections.of({"outside": table}))
    try:
        engine.load(pipeline(), token="t")
        async with pair(engine) as client:
            await client.tools()
            changed = asyncio.Event()
            engine.subscribe(Filter(kinds=frozenset({"tools_changed"})), lambda event: changed.set())
            await client.tool(tool="learn", input={})
            async with asyncio.timeout(PATIENCE):
                await changed.wait()
            assert await client.tool(tool="newcomer", input={}) == "newcomer"
    finally:
        await engine.aclose()
