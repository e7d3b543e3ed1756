"""JSON Schemas for an editor: the subschemas at the path of a value, a schema in words, and example values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

MAX_REFERENCES: Final = 20
"""The number of references that are followed; a schema may contain itself."""

Schema: TypeAlias = Mapping[str, Any]

_OWN_WORDS: Final = ("description", "default", "examples")


class Field(msgspec.Struct, frozen=True):
    """A key of an object. `schema` is its subschema as written, `schemas` are the alternatives for its value."""

    name: str
    schema: Schema
    schemas: tuple[Schema, ...]
    required: bool

    @property
    def default(self) -> Any:
        """The default value; None if there is none."""
        return next((schema["default"] for schema in self.schemas if "default" in schema), None)


def schemas_at(root: Schema, parts: Sequence[str]) -> tuple[Schema, ...]:
    """The schemas for the value at a path, with references and choices resolved; none if the schema does not describe it."""
    return tuple(schema for said in _subschemas_at(root, parts) for schema in _alternatives(said, root) if schema)


def schema_at(root: Schema, parts: Sequence[str]) -> Schema | None:
    """The schema of the value at a path, with its choices; None for an unknown path."""
    for said in _subschemas_at(root, parts):
        for _ in range(MAX_REFERENCES):
            if "$ref" not in said:
                return said
            said = _referred(said, root)
    return None


def fields_of(root: Schema, schemas: Sequence[Schema]) -> list[Field]:
    """The keys of an object: required ones first, else in the order of the schema."""
    fields: dict[str, Field] = {}
    for schema in schemas:
        required = list_of(schema, "required")
        for name, inner in members_of(schema).items():
            if name not in fields and isinstance(inner, Mapping):
                # Keywords beside a reference or a choice apply to all its alternatives.
                own = {word: inner[word] for word in _OWN_WORDS if word in inner}
                found = tuple({**each, **own} for each in _alternatives(inner, root))
                fields[name] = Field(name, inner, found, name in required)
    return sorted(fields.values(), key=lambda field: not field.required)


def field_at(root: Schema, parts: Sequence[str]) -> Field | None:
    """The key at a path; None for an element of a list, and for an unknown key."""
    fields = fields_of(root, schemas_at(root, parts[:-1])) if parts else []
    return next((field for field in fields if field.name == parts[-1]), None)


def kinds_of(schemas: Sequence[Schema]) -> tuple[str, ...]:
    """The JSON types that schemas name, each once."""
    named: dict[str, None] = {}
    for schema in schemas:
        kind = schema.get("type", "object" if "properties" in schema else None)
        for each in [kind] if isinstance(kind, str) else list_of(schema, "type"):
            named[str(each)] = None
    return tuple(named)


# one schema
def members_of(schema: Schema) -> Mapping[str, Any]:
    """The schemas of an object's keys."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def alternatives_in(schema: Schema) -> Sequence[Any]:
    """The alternatives of a schema."""
    return list_of(schema, "anyOf") or list_of(schema, "oneOf")


def list_of(schema: Schema, key: str) -> Sequence[Any]:
    """A list in a schema; empty if there is none."""
    found = schema.get(key)
    return found if isinstance(found, list | tuple) else ()


def _subschemas_at(root: Schema, parts: Sequence[str]) -> list[Schema]:
    """The subschemas of a value as written; references and choices are resolved only on the path to it."""
    said = [root]
    for part in parts:
        said = [step for each in said for schema in _alternatives(each, root) for step in _step(schema, part)]
    return said


def _step(schema: Schema, part: str) -> Iterator[Schema]:
    kinds, members = kinds_of([schema]), members_of(schema)
    if part in members:
        inner = members[part]
    elif part.isdecimal() and ("items" in schema or "array" in kinds):
        inner = schema.get("items", True)
    elif not kinds or "object" in kinds:
        inner = schema.get("additionalProperties", True)
    else:
        return
    if isinstance(inner, Mapping):
        yield inner
    elif inner is True:
        yield {}


def _alternatives(schema: Schema, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """A schema, or all schemas that it refers to and chooses from."""
    if depth > MAX_REFERENCES:
        return
    if "$ref" in schema:
        inner = _referred(schema, root)
        if inner:
            yield from _alternatives(inner, root, depth + 1)
        return
    choices = alternatives_in(schema)
    if not choices:
        yield schema
    for choice in choices:
        if isinstance(choice, Mapping):
            yield from _alternatives(choice, root, depth + 1)


def _referred(schema: Schema, root: Schema) -> Schema:
    definitions = root.get("$defs")
    found = definitions.get(str(schema["$ref"]).rpartition("/")[2]) if isinstance(definitions, Mapping) else None
    return found if isinstance(found, Mapping) else {}


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


MAX_EXAMPLE_DEPTH: Final = 4
"""The depth to which objects are filled in."""

_EMPTY: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def example_of(root: Schema, schemas: Sequence[Schema], depth: int = MAX_EXAMPLE_DEPTH) -> Any:
    """The default, the first choice or example, or an empty value with its required members; None if the type is unknown.

    `schemas` apply to the value, without references; `root` has the definitions.
    """
    for schema in schemas:
        if "default" in schema:
            return schema["default"]
    for schema in schemas:
        for value in (*choices_of(schema), *list_of(schema, "examples")):
            return value
    kind = next((kind for kind in kinds_of(schemas) if kind != "null"), "null")
    if kind in ("integer", "number"):
        return next((schema["minimum"] for schema in schemas if isinstance(schema.get("minimum"), int | float)), 0)
    if kind == "object" and depth:
        needed = [field for field in fields_of(root, schemas) if field.required]
        return {field.name: example_of(root, field.schemas, depth - 1) for field in needed}
    return _EMPTY.get(kind)


def choices_of(schema: Schema) -> Sequence[Any]:
    """The only values that a schema allows; empty if it names none."""
    return [schema["const"]] if "const" in schema else list_of(schema, "enum")
