"""`ProvidedToolsNode`: the base of nodes whose tools come from a provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext
from rrext.providers.provided_tools import ProvidedTools


class ProvidedToolsNode(Node):
    """Has the tools of one connection, which the operator's connections file describes."""

    has_dynamic_tools = True
    kind: ClassVar[str]
    """The provider of the connection, as `rrext.providers.provider_pool` names it."""

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
