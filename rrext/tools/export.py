"""Descriptions of tools in the formats in which vendors of models and MCP take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments, near_matches
from rrext.limits import MAX_OPENAI_DESCRIPTION
from rrext.tools.schema_view import mapped
from rrext.tools.strict_schema import NotStrict, strict_schema

Schema = Mapping[str, Any]

_AT_ROOT: Final = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
"""Keywords that OpenAI and Anthropic refuse at the root of a schema; our own validation asserts them at the call."""
WRAPS_KEY: Final = "rrext/wrapsResult"
"""The member of `_meta` that marks a tool of MCP whose structured content is `{result: value}`."""
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class ExportedTool(msgspec.Struct, frozen=True):
    """A tool of a pipeline under its unique name. `described` is its native description (`ToolSpec.describe`)."""

    name: str
    node_id: str
    described: Mapping[str, Any]
    chunks_described: bool = False
    """Whether its `outputSchema` describes the chunks of a generator."""


Exporter = Callable[[ExportedTool], dict[str, Any]]


def exporter(format: str) -> Exporter:
    """The function that describes a tool in a format. Raises `InvalidArguments` for a format of another name."""
    found = _EXPORTERS.get(format)
    if found is None:
        near = near_matches(format, _EXPORTERS)
        meant = f'; did you mean "{near[0]}"?' if near else ""
        raise InvalidArguments.at("/format", f'unknown format "{format}"{meant}', hint=f"one of {', '.join(_EXPORTERS)}")
    return found


def _openai(tool: ExportedTool) -> dict[str, Any]:
    return _function(tool, _with_items(_closed_root(tool.described["inputSchema"])))


def _openai_strict(tool: ExportedTool) -> dict[str, Any]:
    """The strict form; of a tool whose schema has none, the other form, marked as not strict."""
    try:
        found = _function(tool, strict_schema(_closed_root(tool.described["inputSchema"])))
        found["function"]["strict"] = True
    except NotStrict:
        found = _openai(tool)
        found["function"]["strict"] = False
    return found


def _function(tool: ExportedTool, parameters: Schema) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.described["description"]:
        function["description"] = shortened(tool.described["description"], MAX_OPENAI_DESCRIPTION)
    return {"type": "function", "function": {**function, "parameters": parameters}}


def _anthropic(tool: ExportedTool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": tool.name}
    if tool.described["description"]:
        found["description"] = tool.described["description"]
    return {**found, "input_schema": _closed_root(tool.described["inputSchema"])}


def _mcp(tool: ExportedTool) -> dict[str, Any]:
    described, hints = tool.described, tool.described.get("annotations", {})
    given = hints.get("title")
    found: dict[str, Any] = {"name": tool.name, "title": given if isinstance(given, str) and given else _title(tool)}
    if described["description"]:
        found["description"] = described["description"]
    found["inputSchema"] = described["inputSchema"]
    output = described.get("outputSchema")
    if output is not None and not tool.chunks_described:
        if output.get("type") == "object":
            found["outputSchema"] = output
        else:
            found |= {"outputSchema": _as_result(output), "_meta": {WRAPS_KEY: True}}
    known = {name: hints[name] for name in _HINTS if isinstance(hints.get(name), bool)}
    return {**found, "annotations": known} if known else found


_EXPORTERS: Final[Mapping[str, Exporter]] = {
    "openai": _openai,
    "openai-strict": _openai_strict,
    "anthropic": _anthropic,
    "mcp": _mcp,
}


def shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters: a longer one ends at a word, with an ellipsis."""
    if len(text) <= limit:
        return text
    words = text[: limit - 1].rsplit(maxsplit=1)  # leaves out the word that the cut may have hit
    head = words[0] if len(words) > 1 else text[: limit - 2]
    return f"{head.rstrip()} …"


def _title(tool: ExportedTool) -> str:
    """A title for people: `read_file` is `Read file`; a tool that several nodes have names its node."""
    own = str(tool.described["name"])
    words = " ".join(own.replace("-", "_").split("_")).strip() or own
    title = words[:1].upper() + words[1:]
    return title if tool.name == own else f"{title} ({tool.node_id})"


def _as_result(schema: Schema) -> dict[str, Any]:
    """The schema of `{result: value}`: structured content of MCP is an object."""
    inner = mapped(schema, _under_result)
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], "additionalProperties": False}


def _under_result(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return schema
    return {**schema, "$ref": f"#/properties/result{reference[1:]}"}


def _closed_root(schema: Schema) -> dict[str, Any]:
    found = {key: value for key, value in schema.items() if key not in _AT_ROOT}
    return found if "properties" in found else {**found, "properties": {}}


def _with_items(schema: Schema) -> Any:
    """The schema with `items` for every array: OpenAI refuses arrays without, and does not know `prefixItems`."""
    return mapped(schema, _with_own_items)


def _with_own_items(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if kinds != "array" and not (isinstance(kinds, list | tuple) and "array" in kinds):
        return schema
    places = list(schema.get("prefixItems", ()))
    rest = schema.get("items", {})
    if not places:
        return {**schema, "items": rest if isinstance(rest, Mapping) else {}}
    members = [place for place in (*places, *([rest] if isinstance(rest, Mapping) else [])) if isinstance(place, Mapping)]
    distinct = [member for at, member in enumerate(members) if member not in members[:at]]
    others = {key: value for key, value in schema.items() if key != "prefixItems"}
    return {**others, "items": distinct[0] if len(distinct) == 1 else {"anyOf": distinct}}
