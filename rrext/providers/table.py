"""The kinds of providers. Their classes are imported at the first use of a connection of the kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rrext.providers.provider import ToolProvider

PROVIDERS: Final[dict[str, str]] = {
    "mcp": "rrext.providers.mcp.provider:McpProvider",
    "http": "rrext.providers.http.provider:HttpProvider",
    "composio": "rrext.providers.composio.provider:ComposioProvider",
}
"""`provider` of a connection → its class, as `module:Class`."""


def provider_class(kind: str) -> type[ToolProvider]:
    """Import the class of a kind. Raises `KeyError` for an unknown kind; may take long, for packages of the provider."""
    module, _, name = PROVIDERS[kind].partition(":")
    found: type[ToolProvider] = getattr(import_module(module), name)
    return found
