"""JSON Schemas in words: types, bounds, and the parameters of a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rrext.editor.schemas.lookup import Schema, alternatives_in, list_of, members_of

MAX_CHOICES: Final = 12
"""The number of values of a choice that are listed."""
MAX_DEFAULT: Final = 40
"""Characters of a default in a signature."""
MAX_TYPE_DEPTH: Final = 6
"""Levels of a schema that the text of its type names."""

_WORDS: Final = {"string": "text", "boolean": "true or false"}
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("pattern", "matching {}"),
    ("minItems", "at least {} elements"),
    ("maxItems", "at most {} elements"),
)


class SchemaParameter(msgspec.Struct, frozen=True):
    """One member of an object's schema. `default` is JSON, or None without one."""

    name: str
    type: str
    required: bool
    default: str | None
    bounds: str
    text: str


def parameters_of(schema: Schema) -> list[SchemaParameter]:
    """The members of an object, in order."""
    required = list_of(schema, "required")
    return [_parameter(name, inner, schema, name in required) for name, inner in members_of(schema).items()]


def _parameter(name: str, schema: Any, root: Schema, required: bool) -> SchemaParameter:
    shown: Schema = schema if isinstance(schema, Mapping) else {}
    default = _json(shown["default"]) if "default" in shown else None
    text = str(shown.get("description", ""))
    return SchemaParameter(name, type_text(schema, root), required, default, bounds_text(shown), text)


def signature_of(tool: str, schema: Schema) -> str:
    """`read_file(path, offset=null, encoding?)`: an optional parameter without default has a question mark."""
    return f"{tool}({', '.join(_in_signature(parameter) for parameter in parameters_of(schema))})"


def _in_signature(parameter: SchemaParameter) -> str:
    if parameter.required:
        return parameter.name
    default = parameter.default
    return f"{parameter.name}={default}" if default is not None and len(default) <= MAX_DEFAULT else f"{parameter.name}?"


def type_text(schema: Any, root: Schema, depth: int = MAX_TYPE_DEPTH) -> str:
    """A type: `integer`, `list of text`, `"metric" or "imperial"`. `root` has the definitions."""
    if not isinstance(schema, Mapping) or depth == 0:
        return "any JSON"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2] or "any JSON"
    if "const" in schema:
        return _json(schema["const"])
    values = list_of(schema, "enum")
    if values:
        more = f" or {len(values) - MAX_CHOICES} more" if len(values) > MAX_CHOICES else ""
        return " or ".join(_json(value) for value in values[:MAX_CHOICES]) + more
    members = alternatives_in(schema)
    if members:
        return " or ".join(dict.fromkeys(type_text(member, root, depth - 1) for member in members))
    return _kind_text(schema, root, depth)


def _kind_text(schema: Schema, root: Schema, depth: int) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind)) or "any JSON"
    if kind == "array":
        items = schema.get("items")
        return f"list of {type_text(items, root, depth - 1)}" if isinstance(items, Mapping) and items else "list"
    if kind == "object" and not schema.get("properties"):
        rest = schema.get("additionalProperties")
        return f"object of {type_text(rest, root, depth - 1)}" if isinstance(rest, Mapping) and rest else "object"
    found = _WORDS.get(kind, kind) if isinstance(kind, str) and kind else "any JSON"
    return f"{found} ({schema['format']})" if "format" in schema else found


def bounds_text(schema: Schema) -> str:
    """`at least 1, at most 10`; empty without bounds."""
    return ", ".join(text.format(schema[key]) for key, text in _BOUNDS if key in schema)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
