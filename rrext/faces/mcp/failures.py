"""Failures as errors of JSON-RPC, with the numbers that the protocol leaves to a server."""

from __future__ import annotations

from typing import Any, Final

from rrext.errors import InvalidRequest, RrextError, ShuttingDown, ToolNotFound, TooManyRequests
from rrext.faces.mcp.versions import HANDSHAKE_VERSIONS, VERSIONS
from rrext.wire.dialect import wire_error

NUMBERS: Final = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "unknown_command": -32601,
    "invalid_arguments": -32602,
    "tool_not_found": -32602,
    "internal_error": -32603,
    "unsupported_protocol_version": -32022,
}
NO_RESOURCE: Final = frozenset(("path_not_found", "not_a_file", "path_outside_root", "path_is_symlink", "path_invalid"))
"""Codes of a path at which no file can be read."""
OTHER_NUMBER: Final = -32010
"""Every other code. The protocol reserves −32020 to −32099, clients use −32000 and −32001 for themselves."""

NO_RESULTS: Final = (ToolNotFound, InvalidRequest, TooManyRequests, ShuttingDown)
"""Failures of a call before a tool was found; the protocol wants them as errors of JSON-RPC, those of a tool as results."""


class UnsupportedVersion(InvalidRequest, code="unsupported_protocol_version"):
    """A request of a version of the protocol that is not spoken here."""

    def __init__(self, version: object) -> None:
        super().__init__(
            f"version {str(version)[:40]} of the protocol is not spoken here",
            data={"supported": [*HANDSHAKE_VERSIONS, *VERSIONS], "requested": str(version)[:40]},
        )


def failure_of(error: RrextError, method: str = "", *, shakes_hands: bool = False) -> dict[str, Any]:
    """The error of JSON-RPC: `{code, message, data}`. A resource that is not there has the number of its era."""
    parts = wire_error(error)
    number = NUMBERS.get(parts.code, OTHER_NUMBER)
    if isinstance(own := parts.data.get("mcpCode"), int):  # of a server outside
        number = own
    if method == "resources/read" and parts.code in NO_RESOURCE:
        number = -32002 if shakes_hands else -32602
    data = {**parts.data, "code": parts.code} | ({} if parts.hint is None else {"hint": parts.hint})
    return {"code": number, "message": parts.message, "data": data}
