"""pygls' own client, which we did not write, drives a spawned server in JSON-RPC."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException

HERE = Path(__file__).resolve().parent


class Peer(JsonRPCClient):
    """A pygls client that keeps what it could not understand, so that a test can see that there was nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.surprises: list[Exception] = []

    def report_server_error(self, error: Exception, source: Any) -> None:
        self.surprises.append(error)

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        assert server.stderr is not None
        print((await server.stderr.read()).decode())  # pytest shows it beside a failure

    async def ask(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(self.protocol.send_request_async(method, params), 30)

    async def tool(self, name: str, input: dict[str, Any] | None = None, **more: Any) -> Any:
        return await self.ask("rrext_process", subcommand="tool", nodeId="greeter_1", tool=name, input=input or {}, **more)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    client = Peer()
    await client.start_io(sys.executable, str(HERE / "serve_peer.py"))
    yield client
    if not client.stopped:
        await client.ask("shutdown")
    await client.stop()
    assert client.surprises == []


async def test_a_tool_is_called(peer: Peer) -> None:
    body = await peer.tool("greet", {"name": "Zoë"})
    assert body.result.text == "Hello Zoë"


async def test_tools_are_listed(peer: Peer) -> None:
    body = await peer.ask("tools")
    assert {tool.name for tool in body.tools} >= {"greet", "park", "count", "measured"}


async def test_an_error_has_number_code_and_near_names(peer: Peer) -> None:
    with pytest.raises(JsonRpcException) as caught:
        await peer.tool("great")
    assert caught.value.code == -32010
    assert caught.value.data["code"] == "tool_not_found"
    assert caught.value.data["near"] == ["greet"]


async def test_an_unknown_method_is_an_error(peer: Peer) -> None:
    with pytest.raises(JsonRpcException, match="Invalid command: textDocument/hover") as caught:
        await peer.ask("textDocument/hover")
    assert caught.value.code == -32601


async def test_progress_arrives_before_the_result(peer: Peer) -> None:
    seen: list[int] = []
    peer.feature("rrext_progress")(lambda event: seen.append(event.progress))
    body = await peer.tool("count", {"to": 20}, progress=True)
    assert body.result.counted == 20
    assert seen == sorted(seen)
    assert seen[-1] == 20


async def test_a_cancel_notification_ends_the_call(peer: Peer) -> None:
    def cancel(event: Any) -> None:
        peer.protocol.notify("$/cancelRequest", {"id": event.request})

    peer.feature("rrext_progress")(cancel)
    with pytest.raises(JsonRpcException) as caught:
        await peer.tool("park", progress=True)
    assert caught.value.code == -32800
    assert (await peer.tool("greet", {"name": "Ada"})).result.text == "Hello Ada"


async def test_the_server_ends_with_0_after_shutdown(peer: Peer) -> None:
    await peer.ask("shutdown")
    assert peer._server is not None
    assert await asyncio.wait_for(peer._server.wait(), 10) == 0
