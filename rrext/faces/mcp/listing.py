"""The answer to `tools/list`: a page of the tools that a session lists, as the protocol describes tools."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments
from rrext.faces.mcp.limits import PAGE_SIZE, TTL
from rrext.wire.codec import encode_own

_PLAIN_TYPES: Final = frozenset(("array", "string", "number", "integer", "boolean", "null"))


class ToolPage(msgspec.Struct, frozen=True):
    """The part of the list that begins with the tool number `start`."""

    start: int = 0

    def encode(self, body: bytes, *, wraps: bool) -> bytes:
        """The members of the result, encoded; `body` is the encoded `{"tools": […]}` of the session's command.

        `wraps` says that structured content must be an object, so that schemas of other output describe `{"result": …}`.
        """
        tools: list[dict[str, Any]] = msgspec.json.decode(body)["tools"]
        end = self.start + PAGE_SIZE
        page: dict[str, Any] = {"tools": [described(tool, wraps=wraps) for tool in tools[self.start : end]]}
        if len(tools) > end:
            page["nextCursor"] = str(end)
        if not wraps:
            page |= {"ttlMs": int(TTL * 1000), "cacheScope": "private"}
        return encode_own(page)[1:-1]


def page_of(cursor: object) -> ToolPage:
    """The page that a cursor of ours names; the first one without a cursor. Raises `InvalidArguments`."""
    if cursor is None:
        return ToolPage()
    if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 10 and int(cursor) % PAGE_SIZE == 0:
        return ToolPage(int(cursor))
    raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")


def described(tool: dict[str, Any], *, wraps: bool) -> dict[str, Any]:
    """One tool in the members that the protocol knows."""
    found: dict[str, Any] = {"name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"]}
    annotations = tool.get("annotations")
    if annotations:
        found["annotations"] = annotations
        if isinstance(title := annotations.get("title"), str):
            found["title"] = title
    output = tool.get("outputSchema")
    kind = None if output is None else output.get("type")
    if kind == "object" or (output is not None and not wraps):
        found["outputSchema"] = output
    elif kind in _PLAIN_TYPES:
        found["outputSchema"] = {"type": "object", "properties": {"result": output}, "required": ["result"]}
    return found
