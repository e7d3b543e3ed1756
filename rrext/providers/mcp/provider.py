"""`McpProvider`: the tools of an external MCP server, as a child process or over Streamable HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rrext.connections.connection import Connection, McpSettings
from rrext.errors import ToolNotFound
from rrext.providers.mcp.owner import LinkOwner
from rrext.providers.mcp.results import value_of
from rrext.providers.mcp.target import McpTarget
from rrext.providers.provider import ProvidedTool, ProviderServices, ToolProvider
from rrext.tools.context import ToolContext


class McpProvider(ToolProvider):
    """Connects at first use, and again after the server was lost. A call is sent once: what may have run is never repeated."""

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        super().__init__(connection, services)
        settings = connection.settings
        assert isinstance(settings, McpSettings)
        self._owner = LinkOwner(_target(connection, settings, services), self.tell_change)

    async def tools(self) -> Sequence[ProvidedTool]:
        """The tools as last read; the first time, or after a failure, the server is connected."""
        listing = self._owner.listing
        if listing is None:
            listing = (await self._owner.link()).listing
        return tuple(listing.tools.values())

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call a tool once; a link that was lost is made again before."""
        link = await self._owner.link()
        known = link.listing.tools
        found = known.get(tool)
        if found is None:
            raise ToolNotFound.near(f'The MCP server of connection "{self.connection.name}" has no tool "{tool}".', tool, known)
        authorization = ctx.authorization_for(self.connection)
        headers = {} if authorization is None else {"authorization": authorization}
        return value_of(self.connection.name, found, await link.call(found.name, arguments, ctx, headers))

    async def aclose(self) -> None:
        """End the connection and its server."""
        await self._owner.aclose()


def _target(connection: Connection, settings: McpSettings, services: ProviderServices) -> McpTarget:
    secrets = settings.env if settings.command else settings.headers
    return McpTarget(
        name=connection.name,
        command=settings.command,
        url=settings.url or "",
        timeout=connection.timeout,
        reveal=lambda: {name: secret.reveal() for name, secret in secrets.items()},
        services=services,
    )
