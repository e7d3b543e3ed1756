"""The answer to `tools/list`: a page of the tools that the session lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rrext.errors import InvalidArguments
from rrext.faces.mcp.limits import PAGE_SIZE
from rrext.tools.export import WRAPS_KEY
from rrext.wire.codec import encode_own


class ListedPage(NamedTuple):
    """The members of a page, encoded, and the names of all tools whose structured content is `{result: value}`."""

    members: bytes
    wrapping: frozenset[str]


def listing(body: bytes, start: int) -> ListedPage:
    """The page that begins with the tool number `start`; `body` is the encoded `{"tools": […]}` of the session's command."""
    tools: list[dict[str, Any]] = msgspec.json.decode(body)["tools"]
    end = start + PAGE_SIZE
    page: dict[str, Any] = {"tools": tools[start:end]}
    if len(tools) > end:
        page["nextCursor"] = str(end)
    wrapping = frozenset(tool["name"] for tool in tools if tool.get("_meta", {}).get(WRAPS_KEY))
    return ListedPage(encode_own(page)[1:-1], wrapping)


def start_of(cursor: object) -> int:
    """The number of the first tool of a page; `cursor` is the `nextCursor` of the page before it. Raises `InvalidArguments`."""
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 10 and int(cursor) % PAGE_SIZE == 0:
        return int(cursor)
    raise InvalidArguments.at("/cursor", "expected the nextCursor of an earlier page")
