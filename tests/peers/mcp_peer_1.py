"""The first line of the official Python client of the Model Context Protocol: `python mcp_peer_1.py COMMAND WORD…`, or a URL"""

from __future__ import annotations

import asyncio
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main(command: str, *words: str) -> None:
    server = (
        streamable_http_client(command)
        if command.startswith("http")
        else stdio_client(StdioServerParameters(command=command, args=list(words)))
    )
    async with server as streams, ClientSession(streams[0], streams[1]) as session:
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
        await session.send_ping()
    print("done")


asyncio.run(main(*sys.argv[1:]))
