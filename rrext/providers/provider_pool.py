"""The providers of an engine: one for each connection that is in use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rrext.errors import ConnectionInvalid, Unavailable
from rrext.limits import PROVIDER_CLOSE_TIMEOUT
from rrext.providers.provider import ProviderServices, ToolProvider, log
from rrext.threads import imported

if TYPE_CHECKING:
    from rrext.connections import Connection

PROVIDERS: Final[dict[str, tuple[str, str]]] = {
    "mcp": ("rrext.providers.mcp.provider:McpProvider", "mcp"),
    "http": ("rrext.providers.http.provider:HttpProvider", "http"),
    "composio": ("rrext.providers.http.composio:ComposioProvider", "http"),
}
"""`provider` of a connection → its class, as `module:Class`, and the extra with its packages."""


def provider_class(kind: str) -> type[ToolProvider]:
    """Import the class of a kind, in a thread. Raises `ConnectionInvalid` if a package of its is missing."""
    place, extra = PROVIDERS[kind]
    module, _, name = place.partition(":")
    try:
        found: type[ToolProvider] = getattr(imported(module), name)
    except ImportError as error:
        hint = f'Install it with: pip install "rrext[{extra}]"'
        message = f'connections with provider = "{kind}" need a package that is not installed ({error}); {hint}'
        raise ConnectionInvalid(message, hint=hint) from None
    return found


class ProviderPool:
    """Makes the provider of a connection at its first use, and closes all of them at the end of the engine."""

    def __init__(self, services: ProviderServices) -> None:
        self._services = services
        self._made: dict[str, ToolProvider] = {}
        self._is_closed = False

    async def get(self, connection: Connection) -> ToolProvider:
        """The provider of a connection, which is made at the first use of it. Raises `Unavailable` after the end."""
        name = connection.name
        if name not in self._made:
            kind = await self._services.in_thread(provider_class, connection.provider)
            if self._is_closed:
                raise Unavailable(f'The connection "{name}" is closed')
            if name not in self._made:  # another caller may have been faster
                self._made[name] = kind(connection, self._services)
        return self._made[name]

    async def aclose(self) -> None:
        """Close the providers; one that does not end in its time is left behind."""
        self._is_closed = True
        if not self._made:
            return
        closing = {asyncio.ensure_future(provider.aclose()): provider for provider in self._made.values()}
        done, stuck = await asyncio.wait(closing, timeout=PROVIDER_CLOSE_TIMEOUT)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("connection %s did not close well", closing[task].connection.name, exc_info=error)
        for task in stuck:
            log.warning("connection %s does not close", closing[task].connection.name)
            task.cancel()
