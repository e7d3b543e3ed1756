"""An MCP server of the official SDK, for Streamable HTTP: `python outside_server.py http PORT`."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from pydantic import BaseModel

server = MCPServer("outside")


class Sum(BaseModel):
    sum: int


@server.tool(structured_output=False)
def greet(name: str, loud: bool = False) -> str:
    """Greet somebody."""
    return f"Hello {name}{'!' if loud else ''}"


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n....", format="png")


@server.tool(structured_output=False)
def refuse(reason: str) -> str:
    """Fail."""
    raise ValueError(f"refused: {reason}")


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
