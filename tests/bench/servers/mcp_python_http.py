"""The same tool on the MCP Python SDK's low-level server, over HTTP under uvicorn."""

import asyncio
import sys

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server

SCHEMA = {"type": "object", "properties": {name: {"type": "integer"} for name in "ab"}, "required": ["a", "b"]}


async def list_tools(context, params):
    return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name="add", input_schema=SCHEMA)])


async def call_tool(context, params):
    given = params.arguments
    return mcp_types.CallToolResult(content=[], structured_content={"sum": given["a"] + given["b"]})


async def main() -> None:
    app = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", http="h11"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(f"listening at http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    await serving


asyncio.run(main())
