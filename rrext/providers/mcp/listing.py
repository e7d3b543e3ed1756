"""The list of a server's tools, read one by one: a malformed tool never hides the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

from rrext.providers.provider import HINTS, ProvidedTool
from rrext.tools.validation import InvalidSchema, SchemaValidator

MAX_TOOLS: Final = 5000
"""Tools of one server; more are of no use to any caller."""

MAX_TOOL_NAME: Final = 256
"""Characters of the name of a tool."""

HeaderMap = Mapping[tuple[str, ...], str]

log = logging.getLogger(__name__)


class ToolListing(msgspec.Struct, frozen=True):
    """The tools of a server by name, and the HTTP headers that repeat arguments of calls."""

    tools: dict[str, ProvidedTool] = {}
    headers: dict[str, HeaderMap] = {}


def read_listing(connection: str, entries: Sequence[Any], earlier: ToolListing) -> ToolListing:
    """The tools of the entries of `tools/list`, in a thread. A tool that did not change keeps its record."""
    tools: dict[str, ProvidedTool] = {}
    headers: dict[str, HeaderMap] = {}
    for position, entry in enumerate(entries):
        if len(tools) == MAX_TOOLS:
            log.warning("connection %s: the tools after the first %d are left out", connection, MAX_TOOLS)
            break
        try:
            tool = _tool(entry)
            if tool.name in tools:
                raise _Malformed("an earlier tool has its name")
        except (_Malformed, InvalidSchema, RecursionError) as error:
            named = entry.get("name") if isinstance(entry, dict) else None
            log.warning("connection %s: tool %d (%.100r) is left out: %.500s", connection, position + 1, named, error)
            continue
        known = earlier.tools.get(tool.name)
        tools[tool.name] = known if known is not None and known == tool else tool
        repeated = x_mcp_header_map(tool.input_schema)
        if repeated:
            headers[tool.name] = repeated
    return ToolListing(tools, headers)


class _Malformed(Exception):
    """A tool that cannot be offered."""


def _tool(entry: Any) -> ProvidedTool:
    if not isinstance(entry, dict):
        raise _Malformed("it is no object")
    name = entry.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TOOL_NAME:
        raise _Malformed(f"its name is no text of 1 to {MAX_TOOL_NAME} characters")
    schema = _schema(entry, "inputSchema") or {"type": "object"}
    if schema.get("type", "object") != "object":
        raise _Malformed("its inputSchema describes no object")
    if (reason := find_invalid_x_mcp_header(schema)) is not None:
        raise _Malformed(f"its inputSchema has an invalid x-mcp-header: {reason}")
    annotations = entry.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    hints: dict[str, Any] = {hint: annotations[hint] for hint in HINTS if isinstance(annotations.get(hint), bool)}
    title = entry.get("title") or annotations.get("title")
    if isinstance(title, str):
        hints["title"] = title
    description = entry.get("description")
    return ProvidedTool(
        name=name,
        description=description if isinstance(description, str) else "",
        input_schema=schema,
        output_schema=_schema(entry, "outputSchema"),
        annotations=hints or None,
    )


def _schema(entry: dict[str, Any], key: str) -> dict[str, Any] | None:
    schema = entry.get(key)
    if schema is None:
        return None
    if not isinstance(schema, dict):
        raise _Malformed(f"its {key} is no object")
    SchemaValidator(schema).compile()
    return schema
