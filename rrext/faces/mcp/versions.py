"""Versions of the protocol, and the names of this server in it."""

from __future__ import annotations

from typing import Any, Final

from rrext.version import __version__

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
WITH_BATCHES: Final = HANDSHAKE_VERSIONS[1]
"""The only version in which messages may come in one array."""
VERSIONS: Final = ("2026-07-28",)
"""The versions without a handshake."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

SERVER: Final = {"name": "rrext", "version": __version__}
CAPABILITIES: Final[dict[str, Any]] = {"tools": {"listChanged": True}}

PATH: Final = "/mcp"
"""The path of the protocol over HTTP."""
