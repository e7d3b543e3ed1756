"""Schemas of inputs in the subset of JSON Schema that strict function calling accepts.

There every object is closed and requires all its properties. An optional property becomes nullable; the JSON text of an object
stands for an open object; `Any` becomes text, number, boolean, null, or an array of these. `rrext.tools.strict_input` reads
such input. Keywords outside the subset are left out, so the call may still refuse a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from rrext.limits import (
    LONG_ENUM,
    MAX_LONG_ENUM_TEXT,
    MAX_SHOWN_DEFAULT,
    MAX_STRICT_DEPTH,
    MAX_STRICT_ENUM,
    MAX_STRICT_PROPERTIES,
    MAX_STRICT_TEXT,
)
from rrext.tools.schema_view import accepted_kinds, alternatives, is_open_object, type_names

Schema = Mapping[str, Any]

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
