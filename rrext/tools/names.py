"""Names of tools in a whole pipeline: unique, in the characters and the length that every vendor of models accepts.

A name has segments that `__` joins, such as the node and the tool. A segment in the form `[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*`
stands as it is, so that the segments can be read from the name. Other segments, and names over 64 characters, are cut to
this form and end in a hash; such a name is understood through the table that made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from rrext.limits import MAX_EXPORTED_NAME, NAME_HASH_DIGITS

SEPARATOR: Final = "__"
_SEGMENT: Final = re.compile(r"[a-zA-Z0-9-]+(?:_[a-zA-Z0-9-]+)*")
_ACCEPTED: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_EXPORTED_NAME}}}")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9-]+")

NodeTool = tuple[str, str]
"""The id of a node, and the name of one of its tools."""


def joined_name(*segments: str) -> str:
    """One name for several segments: `db_1__query` for `db_1` and `query`."""
    name = SEPARATOR.join(segments)
    return name if len(name) <= MAX_EXPORTED_NAME and all(map(is_plain, segments)) else hashed_name(segments, 0)


def is_plain(segment: str) -> bool:
    """Whether a segment stands in a name as it is."""
    return _SEGMENT.fullmatch(segment) is not None


def exported_names(tools: Iterable[NodeTool]) -> dict[NodeTool, str]:
    """A name for each tool of a pipeline, different from all others: its own, or `node__tool` if several nodes have the tool
    or vendors do not accept its name, as tools of outside servers may have any.

    No exported name is the own name of another tool, which calls without a node mean.
    """
    listed = list(tools)
    owners: dict[str, int] = {}
    for _, tool in listed:
        owners[tool] = owners.get(tool, 0) + 1
    taken = set(owners)
    names: dict[NodeTool, str] = {}
    for node, tool in listed:
        name = tool
        if owners[tool] > 1 or _ACCEPTED.fullmatch(tool) is None:
            name, attempt = joined_name(node, tool), 0
            while name in taken:
                name, attempt = hashed_name((node, tool), attempt), attempt + 1
        taken.add(name)
        names[node, tool] = name
    return names


def hashed_name(segments: Iterable[str], attempt: int) -> str:
    """The beginning of a name with a hash of its segments; `attempt` makes another one."""
    from hashlib import sha256

    written = [_FOREIGN.sub("_", segment).strip("_") for segment in segments]
    digest = sha256(repr((attempt, *segments)).encode("utf-8", "surrogatepass")).hexdigest()[:NAME_HASH_DIGITS]
    head = SEPARATOR.join(filter(None, written))[: MAX_EXPORTED_NAME - NAME_HASH_DIGITS - len(SEPARATOR)].rstrip("_-")
    return SEPARATOR.join(filter(None, (head, digest)))


HOST_REQUEST: Final = "rrext/request"
"""The tool by which hosts ask a server outside for what it offers beside tools: a name
which no list has, and no server gives to one of its own."""

HOST_OFFER: Final = {"rrext/offer": True}
"""The `_meta` of a call of the face that offers prompts and resources to hosts. To others that tool is not there: no model
is to see it among the tools of the server.
"""


def is_host_offer(node: Any, ctx: Any) -> bool:
    """Whether that face calls."""
    return bool(ctx.meta == HOST_OFFER)
