"""The official Python client of the Model Context Protocol, in each era, drives a server on stdio and over HTTP."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import pytest
from mcp_server import COMMAND, served_by_http

if TYPE_CHECKING:
    from mcp import Client  # most of a second, which each process that collects tests would spend
    from mcp_types import ElicitRequestParams, ElicitResult

MODES = ("auto", "legacy", "2026-07-28")
EACH = [("stdio", "legacy"), ("stdio", "2026-07-28"), ("http", "auto"), ("http", "legacy")]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server."""
    with served_by_http() as url:
        yield url


async def answered(context: object, params: ElicitRequestParams) -> ElicitResult:
    """Allow each call, unless it says no."""
    from mcp_types import ElicitResult

    return ElicitResult(action="accept", content={"allow": "no!" not in params.message})


@pytest.fixture(params=EACH, ids="-".join)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A connected client that begins in this way."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    transport, mode = request.param
    stdio = stdio_client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))
    server = stdio if transport == "stdio" else request.getfixturevalue("url")
    async with Client(server, mode=mode, elicitation_callback=answered) as connected:
        assert connected.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        yield connected


async def test_tools_are_listed_and_called(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["add"].description == "Add."
    result = await client.call_tool("add", {"a": 2})
    assert not result.is_error
    assert result.structured_content == {"sum": 3}


async def test_results_of_every_kind_are_read(client: Client) -> None:
    for value in (None, True, 7, 1.5, "text", [1, "b"], {"a": {"b": []}}):
        result = await client.call_tool("echo", {"value": value})
        wrapped = not isinstance(value, dict)
        assert result.structured_content == ({"result": value} if wrapped else value)
    image = await client.call_tool("blob", {"data": b64encode(b"\x89PNG\r\n\x1a\n").decode()})
    assert [block.type for block in image.content] == ["image"]
    other = await client.call_tool("blob", {"data": b64encode(b"\x00").decode()})
    assert [block.type for block in other.content] == ["resource"]


async def test_failures_are_told_apart(client: Client) -> None:
    from mcp import MCPError

    failed = await client.call_tool("add", {"b": "x"})
    assert failed.is_error
    with pytest.raises(MCPError) as caught:
        await client.call_tool("nobody", {})
    assert caught.value.code == -32602


async def test_progress_is_told(client: Client) -> None:
    seen: list[tuple[float, str | None]] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append((value, message))
        await client.call_tool("open_gate", {"key": key})
        opened.set()

    opened = anyio.Event()
    key = uuid4().hex
    result = await client.call_tool("wait", {"key": key}, progress_callback=progress)
    await opened.wait()
    assert result.content[0].type == "text"
    assert seen == [(1, "parked")]


async def test_a_call_that_its_caller_gives_up_is_cancelled(client: Client) -> None:
    async def begun(value: float, total: float | None, message: str | None) -> None:
        scope.cancel()

    key = uuid4().hex
    with anyio.CancelScope() as scope:
        await client.call_tool("wait", {"key": key}, progress_callback=begun)
    assert scope.cancelled_caught
    while (await client.call_tool("journal", {"key": key})).content[0].text != '["unwound"]':  # type: ignore[union-attr]
        pass


async def test_the_user_is_asked_for_permits(client: Client) -> None:
    key = uuid4().hex
    assert not (await client.call_tool("write_down", {"key": key})).is_error
    assert (await client.call_tool("write_down", {"key": key, "text": "no!"})).is_error
    assert (await client.call_tool("journal", {"key": key})).structured_content == {"result": ["ran"]}


async def test_prompts_and_resources_are_listed_and_read(client: Client) -> None:
    from mcp import MCPError

    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greeting"]
    (message,) = (await client.get_prompt("greeting", {"question": "Who is Ada?"})).messages
    assert "Greet the person." in message.content.text  # type: ignore[union-attr]
    files = {file.name: file.uri for file in (await client.list_resources()).resources}
    (content,) = (await client.read_resource(files["judge.pipe"])).contents
    assert "What official clients drive" in content.text  # type: ignore[union-attr]
    assert [each.name for each in (await client.list_resource_templates()).resource_templates] == ["files_1"]
    with pytest.raises(MCPError):
        await client.read_resource(f"{files['judge.pipe']}x")


async def test_a_pipeline_is_a_tool(client: Client) -> None:
    result = await client.call_tool("shout", {"text": "hello"})
    assert result.structured_content is not None
    assert result.structured_content["reply"] == ["HELLO\n\n"]


async def test_many_calls_at_once_get_their_own_results(client: Client) -> None:
    sums: dict[int, object] = {}

    async def call(number: int) -> None:
        sums[number] = (await client.call_tool("add_async", {"a": number})).structured_content

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(call, number)
    assert sums == {number: {"sum": number + 1} for number in range(100)}


@pytest.mark.parametrize("mode", MODES)
async def test_sixteen_clients_at_once_get_their_own_results(mode: str, url: str) -> None:
    from mcp import Client

    async def drive(number: int) -> None:
        async with Client(url, mode=mode) as client:
            for step in range(10):
                value = {"client": number, "step": step}
                assert (await client.call_tool("echo", {"value": value})).structured_content == value

    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(drive, number)
