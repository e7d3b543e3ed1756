"""The protocol's own values: its versions, the names of this server, failures as errors of JSON-RPC, and the result of a tool
or its failure as members of a result.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rrext.content import are_blocks
from rrext.errors import InvalidArguments, InvalidRequest, RrextError, ShuttingDown, ToolNotFound, TooManyRequests
from rrext.version import __version__
from rrext.wire.codec import encode_own, quote
from rrext.wire.dialect import wire_error

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


_BODY: Final = len(b'{"result":{')

ERROR_KEY: Final = "rrext/error"
"""The member of `_meta` with the code, the hint and the data of a tool's error."""


def content_of(body: bytes) -> bytes:
    """The members of a result, encoded; `body` is the encoded `{"result": {"content": …}}` of a call with `content: true`."""
    return body[_BODY:-2]


def content_of_error(error: RrextError) -> bytes:
    """The members of a result that tells a model about a failure, so that it can do better. Blocks in `data.content` are what
    the tool itself said.
    """
    parts = wire_error(error)
    data = dict(parts.data)
    blocks = data.pop("content", None)
    if are_blocks(blocks):
        said = {key: data.pop(key) for key in ("structuredContent", "_meta") if isinstance(data.get(key), dict)}
        about = {name: value for name, value in {**msgspec.structs.asdict(parts), "data": data}.items() if value}
        said["_meta"] = {**said.get("_meta", {}), ERROR_KEY: about}
        return encode_own({"content": blocks, **said, "isError": True})[1:-1]
    text = parts.message
    if isinstance(error, InvalidArguments) and len(problems := parts.data.get("errors", ())) > 1:
        text = "\n".join(f"{problem['path']}: {problem['message']}" for problem in problems)
    if parts.hint is not None and parts.hint not in text:
        text = f"{text} ({parts.hint})"
    meta = encode_own({ERROR_KEY: {name: value for name, value in msgspec.structs.asdict(parts).items() if value}})
    return b'"content":[{"type":"text","text":%b}],"isError":true,"_meta":%b' % (quote(text), meta)
