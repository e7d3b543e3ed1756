"""`Connection`: the name, the provider and the settings of a server outside."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from rrext.connections.secret import Secret
from rrext.limits import CONNECTION_TIMEOUT


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: a command that speaks on its stdin and stdout, or the URL of one that is served by HTTP."""

    command: tuple[str, ...] = ()
    env: dict[str, Secret] = {}
    url: str | None = None
    headers: dict[str, Secret] = {}


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP API: an OpenAPI document (`openapi`, a path or a URL), or the template of one URL."""

    openapi: str | None = None
    url: str | None = None
    headers: dict[str, Secret] = {}


class ComposioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An account of composio. `url` is the address of its API, if it is not the public one."""

    integration: str
    key: Secret
    account: str | None = None
    url: str | None = None


Settings: TypeAlias = McpSettings | HttpSettings | ComposioSettings
SETTINGS: Final[dict[str, type[Settings]]] = {"mcp": McpSettings, "http": HttpSettings, "composio": ComposioSettings}
"""Provider → its settings."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A server outside that tools may be called on, by the name that its operator gave it.

    `timeout` is in seconds, for one call. With `forward_authorization` the server gets the authorization of the caller.
    """

    name: str
    provider: str
    settings: Settings
    active: bool = True
    timeout: float = CONNECTION_TIMEOUT
    forward_authorization: bool = False
