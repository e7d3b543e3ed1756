"""Providers over HTTP for tests, with the services of an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rrext.connections import Connection, Connections
from rrext.limits import DEFAULTS
from rrext.providers.provider import ToolProvider, provider_class
from rrext.secrets.redaction import Redactor
from rrext.threads import Workers, in_thread
from rrext.tools.context import ToolContext


class Watch:
    """A clock that a test sets."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def call_later(self, delay: float, action: Callable[[], None]) -> Any:
        raise NotImplementedError


class Services:
    """What an engine does for providers."""

    def __init__(self) -> None:
        self.limits = DEFAULTS
        self.clock = Watch()
        self.redactor = Redactor()
        self._workers = Workers()

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await in_thread(self._workers, function, *args)

    def spawn(self, work: Any, name: str) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def provider_of(
    kind: str, table: dict[str, Any], *, variables: dict[str, str] | None = None, name: str = "shop"
) -> AsyncIterator[Any]:
    """The provider of a connection, whose table is written as in a file."""
    connections = Connections.of({name: {"provider": kind, **table}}, variables or {})
    async with provider_over(connections.find(name, kind), connections) as provider:
        yield provider


@asynccontextmanager
async def provider_over(connection: Connection, connections: Connections | None = None) -> AsyncIterator[Any]:
    """The provider of a connection, with a redactor that knows the secrets of all."""
    services = Services()
    if connections is not None:
        connections.known_to(services.redactor)
    provider: ToolProvider = provider_class(connection.provider)(connection, services)
    try:
        yield provider
    finally:
        await provider.aclose()
        services._workers.stop()


async def answered(provider: ToolProvider, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
    """The result of a tool as a caller sees it."""
    value = await provider.call(tool, arguments, ctx)
    return await provider.without_secrets(value, ctx.authorization_for(provider.connection))
