"""An MCP server of the official SDK, for stdio and Streamable HTTP: `python mcp_servers.py stdio` or `http PORT`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from pydantic import BaseModel, Field

server = MCPServer("tests")


class Sum(BaseModel):
    sum: int


@server.tool(structured_output=False)
def greet(name: Annotated[str, Field(description="Whom")]) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG....", format="png")


@server.tool(structured_output=False)
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Report progress."""
    for i in range(to):
        await ctx.report_progress(i + 1, to, f"step {i + 1}")
    return "counted"


@server.tool(structured_output=False)
async def hang(path: str) -> str:
    """Write a file, and another one when cancelled."""
    await anyio.Path(path).write_text("began")
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.Path(path).write_text("cancelled")


@server.tool(structured_output=False)
async def learn(name: str, ctx: Context[Any, Any]) -> str:
    """Have one more tool."""
    server.add_tool(greet, name=name, structured_output=False)
    await ctx.notify_tools_changed()
    return "learnt"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
