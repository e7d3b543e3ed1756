"""The first line of the official Python client of the Model Context Protocol: `python mcp_peer_1.py COMMAND WORD…`, or a URL"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult

asked: list[str] = []


async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
    asked.append(params.message)
    return ElicitResult(action="accept", content={"allow": "no!" not in params.message})


async def main(command: str, *words: str) -> None:
    server = (
        streamable_http_client(command)
        if command.startswith("http")
        else stdio_client(StdioServerParameters(command=command, args=list(words)))
    )
    async with server as streams, ClientSession(streams[0], streams[1], elicitation_callback=answer) as session:
        hello = await session.initialize()
        assert (hello.serverInfo.name, hello.protocolVersion) == ("rrext", "2025-11-25")
        assert {"add", "echo"} <= {tool.name for tool in (await session.list_tools()).tools}
        assert (await session.call_tool("add", {"a": 2})).structuredContent == {"sum": 3}
        assert (await session.call_tool("echo", {"value": [1]})).structuredContent == {"result": [1]}
        assert (await session.call_tool("add", {"b": "x"})).isError
        code = 0
        try:
            await session.call_tool("nobody", {})
        except McpError as error:
            code = error.error.code
        assert code == -32602
        sums = await asyncio.gather(*(session.call_tool("add_async", {"a": a}) for a in range(100)))
        assert [result.structuredContent for result in sums] == [{"sum": a + 1} for a in range(100)]
        seen: list[str | None] = []
        told = asyncio.Event()

        async def progress(value: float, total: float | None, message: str | None) -> None:
            seen.append(message)
            told.set()  # no request here: this client reads no answers meanwhile

        waiting = asyncio.create_task(session.call_tool("wait", {"key": "gate"}, progress_callback=progress))
        await told.wait()
        await session.call_tool("open_gate", {"key": "gate"})
        await waiting
        assert seen == ["parked"]
        assert not (await session.call_tool("write_down", {"key": "asked"})).isError
        assert (await session.call_tool("write_down", {"key": "asked", "text": "no!"})).isError
        assert (await session.call_tool("journal", {"key": "asked"})).structuredContent == {"result": ["ran"]}
        assert len(asked) == 2
        assert [prompt.name for prompt in (await session.list_prompts()).prompts] == ["greeting"]
        message = (await session.get_prompt("greeting", {"question": "Who is Ada?"})).messages[0]
        assert "Greet the person." in message.content.text
        files = {file.name: file.uri for file in (await session.list_resources()).resources}
        (content,) = (await session.read_resource(files["judge.pipe"])).contents
        assert "What official clients drive" in content.text
        assert [each.name for each in (await session.list_resource_templates()).resourceTemplates] == ["files_1"]
        assert (await session.call_tool("shout", {"text": "hello"})).structuredContent["reply"] == ["HELLO\n\n"]
        await session.send_ping()
        late = False
        try:  # it closes while the call runs, and breaks if an answer comes then
            await session.call_tool("wait", {"key": "never"}, read_timeout_seconds=timedelta(seconds=0.1))
        except McpError:
            late = True
        assert late
    print("done")


asyncio.run(main(*sys.argv[1:]))
