"""`tool_mcp_client`: the tools of an external MCP server, over `ProvidedToolsNode`, the base of nodes whose tools come from
a provider.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.providers.provided_tools import ProvidedTools


class ProvidedToolsNode(Node):
    """Has the tools of one connection, which the operator's connections file describes."""

    has_dynamic_tools = True
    kind: ClassVar[str]
    """The provider of the connection, as `rrext.providers.provider` names it."""

    @classmethod
    def connection_of(cls, config: Any) -> str:
        """The name of the connection in the settings."""
        name: str = config.connection
        return name

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[ProvidedTools]:
        """Connect, and learn the tools."""
        provider = await ctx.provider(cls.connection_of(config), cls.kind)
        async with ProvidedTools.of(provider) as found:
            yield found


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
