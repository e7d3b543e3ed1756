"""Descriptions of tools in the formats in which vendors of models and MCP take them.

Strict function calling accepts a subset of JSON Schema, where every object is closed and requires all its properties. An
optional property becomes nullable; the JSON text of an object stands for an open object; `Any` becomes text, number,
boolean, null, or an array of these. `rrext.tools.validation` reads such input. Keywords outside the subset are left out,
so the call may still refuse a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments, near_matches
from rrext.limits import (
    LONG_ENUM,
    MAX_LONG_ENUM_TEXT,
    MAX_OPENAI_DESCRIPTION,
    MAX_SHOWN_DEFAULT,
    MAX_STRICT_DEPTH,
    MAX_STRICT_ENUM,
    MAX_STRICT_PROPERTIES,
    MAX_STRICT_TEXT,
)
from rrext.tools.forms import accepted_kinds, alternatives, is_open_object, mapped, type_names

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


NULL: Final[Schema] = {"type": "null"}
STRING_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_KEPT: Final = {
    "integer": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "number": ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
}
_SCALARS: Final = ("string", "integer", "number", "boolean")
_JSON_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class NotStrict(Exception):
    """The subset has no form for a schema."""


def strict_schema(root: Schema) -> dict[str, Any]:
    """The strict form of an input schema. Raises `NotStrict`."""
    found = _Conversion(root).whole()
    _check_size(found)
    return found


class _Conversion:
    """The conversion of one schema, with the definitions that its parts refer to."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._definitions: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        found = self._object(self._root)
        if self._definitions:
            found["$defs"] = self._definitions
        return found

    def _value(self, schema: Any) -> dict[str, Any]:
        """The strict form of any schema, with its description."""
        if not isinstance(schema, Mapping) or not schema:
            return self._anything()
        found = self._bare(schema)
        text = schema.get("description")
        if isinstance(text, str) and text:
            found = _described(found, text, found.get("description", ""))
        return found

    def _bare(self, schema: Schema) -> dict[str, Any]:
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "allOf" in schema:
            raise NotStrict("allOf")
        if "const" in schema or "enum" in schema:
            return _choice(schema)
        if ("anyOf" in schema or "oneOf" in schema) and "type" not in schema:
            return self._union(schema)
        names = type_names(schema) or [name for name, word in (("object", "properties"), ("array", "items")) if word in schema]
        if not names:
            return self._anything()
        return _one_of([self._typed(schema, name) for name in names])

    def _typed(self, schema: Schema, name: str) -> dict[str, Any]:
        if name == "object":
            return self._object(schema) if not is_open_object({**schema, "type": "object"}) else _text_of_object()
        found: dict[str, Any] = {"type": name, **{key: schema[key] for key in _KEPT.get(name, ()) if key in schema}}
        if name == "array":
            found["items"] = self._items(schema)
        if name == "string":
            return _string(schema)
        return found

    def _object(self, schema: Schema) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            "type": "object",
            "properties": {
                name: self._value(inner) if name in required else self._optional(inner)
                for name, inner in schema.get("properties", {}).items()
            },
            "required": list(schema.get("properties", {})),
            "additionalProperties": False,
        }

    def _optional(self, schema: Any) -> dict[str, Any]:
        found = self._value(schema)
        default = schema.get("default") if isinstance(schema, Mapping) else None
        if default is not None:
            shown = msgspec.json.encode(default).decode()
            note = f"Default: {shown}." if len(shown) <= MAX_SHOWN_DEFAULT else "Null means its default."
            found = _described(found, found.get("description", ""), note)
        return found if "null" in accepted_kinds(schema, self._root) else _nullable(found)

    def _items(self, schema: Schema) -> dict[str, Any]:
        places = schema.get("prefixItems")
        if not places:
            return self._value(schema.get("items"))
        rest = schema.get("items", True)
        return _one_of([self._value(inner) for inner in (*places, *([] if rest is False else [rest]))])

    def _union(self, schema: Schema) -> dict[str, Any]:
        members = list(schema.get("anyOf") or schema.get("oneOf") or ())
        closed = [member for member in members if not all(map(is_open_object, alternatives(member, self._root)))]
        if any("string" in accepted_kinds(member, self._root) for member in closed):
            members = closed  # a text would mean two things
        return _one_of([self._value(member) for member in members])

    def _reference(self, reference: str) -> dict[str, Any]:
        if reference == "#":
            return {"$ref": "#"}
        name = reference.rpartition("/")[2]
        definition = self._root.get("$defs", {}).get(name)
        if reference != f"#/$defs/{name}" or definition is None:
            raise NotStrict(reference)
        if name not in self._definitions:
            self._definitions[name] = {}
            self._definitions[name] = self._value(definition)
        return {"$ref": reference}

    def _anything(self) -> dict[str, Any]:
        name = "json"
        while name in self._root.get("$defs", ()):
            name += "_"
        if name not in self._definitions:
            self._definitions[name] = {}
            scalars: list[Any] = [{"type": kind} for kind in ("string", "number", "boolean", "null")]
            self._definitions[name] = {"anyOf": [*scalars, {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}]}
        return {"$ref": f"#/$defs/{name}"}


def _string(schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    if schema.get("format") in STRING_FORMATS:
        found["format"] = schema["format"]
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and "(?" not in pattern:
        found["pattern"] = pattern
    return _described(found, "In base64.") if schema.get("contentEncoding") == "base64" else found


def _text_of_object() -> dict[str, Any]:
    return {"type": "string", "description": "A JSON object, as text."}


def _choice(schema: Schema) -> dict[str, Any]:
    values = [schema["const"]] if "const" in schema else list(schema["enum"])
    if not all(type(value) in _JSON_TYPES for value in values):
        raise NotStrict("enum")
    names = list(dict.fromkeys(_JSON_TYPES[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def _one_of(members: list[dict[str, Any]]) -> dict[str, Any]:
    """A union of strict schemas, without repetitions."""
    flat: list[dict[str, Any]] = []
    for member in members:
        flat += [inner for inner in (member["anyOf"] if member.keys() == {"anyOf"} else [member]) if inner not in flat]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" not in schema and schema.get("type") in _SCALARS:
        return {**schema, "type": [schema["type"], "null"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], NULL]}
    inner = {key: value for key, value in schema.items() if key != "description"}
    outer = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [inner, NULL], **outer}


def _described(schema: dict[str, Any], *texts: str) -> dict[str, Any]:
    """The schema with texts as its description, one sentence after the other. A reference has no members beside it."""
    *before, last = filter(None, texts)
    text = " ".join([*(part if part[-1] in ".:!?)" else f"{part}." for part in before), last])
    return {"anyOf": [schema], "description": text} if "$ref" in schema else {**schema, "description": text}


def _check_size(schema: Schema) -> None:
    """Raise `NotStrict` for a schema beyond the documented limits of strict function calling."""
    parts = list(_parts(schema, 1))
    names = [name for part, _ in parts for key in ("properties", "$defs") for name in part.get(key, ())]
    values = [value for part, _ in parts for value in part.get("enum", ())]
    text = sum(map(len, names)) + sum(len(value) for value in values if isinstance(value, str))
    count = sum(len(part.get("properties", ())) for part, _ in parts)
    depth = max(depth for _, depth in parts)
    if depth > MAX_STRICT_DEPTH or count > MAX_STRICT_PROPERTIES or len(values) > MAX_STRICT_ENUM or text > MAX_STRICT_TEXT:
        raise NotStrict("too large")
    for part, _ in parts:
        texts = [value for value in part.get("enum", ()) if isinstance(value, str)]
        if len(texts) > LONG_ENUM and sum(map(len, texts)) > MAX_LONG_ENUM_TEXT:
            raise NotStrict("too large")


def _parts(schema: Schema, depth: int) -> Iterator[tuple[Schema, int]]:
    """A strict schema and all schemas inside it, with the number of objects and arrays around each, itself included."""
    yield schema, depth
    for inner in schema.get("properties", {}).values():
        yield from _parts(inner, depth + 1)
    if "items" in schema:
        yield from _parts(schema["items"], depth + 1)
    for inner in schema.get("anyOf", ()):
        yield from _parts(inner, depth)
    for inner in schema.get("$defs", {}).values():
        yield from _parts(inner, depth)
