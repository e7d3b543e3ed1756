"""`tool_mcp_client`: the tools of an external MCP server."""

from __future__ import annotations

from typing import Annotated, Any, Final

from rrext.nodes.base.extras import missing_packages
from rrext.nodes.provided.node import ProvidedToolsNode
from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.spec import ToolSpec

REQUEST: Final = "rrext/request"
"""The name of a tool that no list has, and no server gives to one of its own."""
OFFER: Final = {"rrext/offer": True}
"""The `_meta` of a call of the face that offers prompts and resources to hosts. To others that tool is not there: no model
is to see it among the tools of the server.
"""


def _is_offer(node: Any, ctx: ToolContext) -> bool:
    return bool(ctx.meta == OFFER)


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
    def more(cls, provider: Any) -> dict[str, ToolSpec]:
        """The tool by which hosts ask the server for what it offers beside tools."""

        async def request(input: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
            found: dict[str, Any] = await provider.ask(input["method"], input["params"], ctx)
            return found

        options = ToolOptions(
            name=REQUEST,
            input_schema={"properties": {"method": {"type": "string"}, "params": {"type": "object"}}},
            available=_is_offer,
            timeout=provider.connection.timeout,
            takes_input=True,
        )
        return {REQUEST: ToolSpec(request, options, owner=None, bound=False)}

    @classmethod
    def unavailable(cls) -> str | None:
        """The line that installs the SDK, if it is missing."""
        return missing_packages("mcp", "mcp")

    @classmethod
    def connection_of(cls, config: Any) -> str:
        """The name of the connection in the settings."""
        name: str = config.server
        return name
