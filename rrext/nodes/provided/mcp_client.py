"""`tool_mcp_client`: the tools of an external MCP server."""

from __future__ import annotations

from typing import Annotated, Any

from rrext.nodes.base.setup import missing_packages
from rrext.nodes.provided.node import ProvidedToolsNode


class McpClientNode(ProvidedToolsNode):
    """Has the tools of an external server of the Model Context Protocol, a child process or one that is served by HTTP.

    The operator's connections file says where the server is. Its tools keep their names; `SERVER.TOOL` means the same. The
    server is started or connected when its tools are first needed, and again after it was lost; a call is never repeated.
    """

    provider = "tool_mcp_client"
    title = "MCP client"
    kind = "mcp"
    connections = {"server": "mcp"}

    class Config:
        server: Annotated[str, "The name of a connection whose provider is mcp, in the operator's connections file."]

    @classmethod
    def offers(cls, config: Any) -> dict[str, Any]:
        """The prompts and resources of the server."""
        return {"server": config.server}

    @classmethod
    def unavailable(cls) -> str | None:
        """The line that installs the SDK, if it is missing."""
        return missing_packages("mcp", "mcp")

    @classmethod
    def connection_of(cls, config: Any) -> str:
        """The name of the connection in the settings."""
        name: str = config.server
        return name
