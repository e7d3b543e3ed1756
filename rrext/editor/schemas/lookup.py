"""Lookup of the subschemas of a JSON Schema by the path of a value."""

from __future__ import annotations

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
