"""Looking into a JSON Schema: what may stand at a place of a config, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from rrext.editor.completions.template import Stop, Template, inside_quotes, joined, literal
from rrext.editor.schemas import Schema

__all__ = ["Field", "fields_of", "kinds_of", "schemas_at", "template_of", "values_of"]

DEEPEST: Final = 20
"""A schema may contain itself; so many steps are followed."""

DEEPEST_TEMPLATE: Final = 3
"""So many objects are begun one inside the other."""

_MISSING: Final = object()
_OWN_WORDS: Final = ("description", "default", "examples")


class Field(msgspec.Struct, frozen=True):
    """A key of an object. `schema` is what is said of it, `schemas` all that its value may follow."""

    name: str
    schema: Schema
    schemas: tuple[Schema, ...]
    required: bool

    @property
    def default(self) -> Any:
        """What holds if the key is not there; None if nothing does."""
        return next((schema["default"] for schema in self.schemas if "default" in schema), None)


def schemas_at(root: Schema, parts: Sequence[str]) -> tuple[Schema, ...]:
    """The schemas for the value that a path leads to; none if the schema says nothing of it."""
    found = tuple(_alternatives(root, root, 0))
    for part in parts:
        inner = [step for schema in found for step in _step(schema, part)]
        found = tuple(schema for step in inner for schema in _alternatives(step, root, 0))
    return found


def fields_of(root: Schema, schemas: Sequence[Schema]) -> list[Field]:
    """The keys of an object: required ones first, else in the order of the schema."""
    fields: dict[str, Field] = {}
    for schema in schemas:
        required = schema.get("required", ())
        for name, inner in schema.get("properties", {}).items():
            if name not in fields and isinstance(inner, Mapping):
                # What a field says beside a reference or a choice holds for all that they mean.
                own = {word: inner[word] for word in _OWN_WORDS if word in inner}
                found = tuple({**each, **own} for each in _alternatives(inner, root, 0))
                fields[name] = Field(name, inner, found, name in required)
    return sorted(fields.values(), key=lambda field: not field.required)


def _step(schema: Schema, part: str) -> Iterator[Schema]:
    properties = schema.get("properties", {})
    inner: Any = properties.get(part, _MISSING)
    if inner is _MISSING and part.isdecimal():
        inner = schema.get("items", _MISSING)
    if inner is _MISSING:
        inner = schema.get("additionalProperties")
    if isinstance(inner, Mapping):
        yield inner


def _alternatives(schema: Schema, root: Schema, depth: int) -> Iterator[Schema]:
    """A schema, or all that it refers to and chooses from."""
    if depth > DEEPEST:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        inner = root.get("$defs", {}).get(reference.rpartition("/")[2])
        if isinstance(inner, Mapping):
            yield from _alternatives(inner, root, depth + 1)
        return
    choices = schema.get("anyOf") or schema.get("oneOf")
    if not choices:
        yield schema
        return
    for choice in choices:
        if isinstance(choice, Mapping):
            yield from _alternatives(choice, root, depth + 1)


# values


def kinds_of(schemas: Sequence[Schema]) -> tuple[str, ...]:
    """The JSON types that schemas name, each once."""
    named: dict[str, None] = {}
    for schema in schemas:
        kind = schema.get("type", "object" if "properties" in schema else None)
        for each in [kind] if isinstance(kind, str) else kind or ():
            named[each] = None
    return tuple(named)


def values_of(schemas: Sequence[Schema]) -> dict[str, str]:
    """The values that schemas name, as JSON → why: the default first, then what else may stand there, then examples."""
    found: dict[str, str] = {}
    for schema in schemas:
        if "default" in schema:
            found.setdefault(literal(schema["default"]), "default")
    for schema in schemas:
        allowed: list[Any] = [schema["const"]] if "const" in schema else list(schema.get("enum", ()))
        if "boolean" in kinds_of([schema]) and not allowed:
            allowed = [True, False]
        if "null" in kinds_of([schema]):
            allowed.append(None)
        for value in allowed:
            found.setdefault(literal(value), "")
    for schema in schemas:
        examples = schema.get("examples", ())
        for value in examples if isinstance(examples, Sequence) and not isinstance(examples, str) else ():
            found.setdefault(literal(value), "example")
    return found


def template_of(root: Schema, schemas: Sequence[Schema], default: Any = None, depth: int = 0) -> Template:
    """A value to begin with, to be changed. `default` counts if it is not None, else what the schema says."""
    if default is None:
        default = next((schema["default"] for schema in schemas if schema.get("default") is not None), None)
    closed = [text for text, why in values_of(schemas).items() if why != "example"]
    kinds = kinds_of(schemas)
    if any("enum" in schema or "const" in schema for schema in schemas) or kinds == ("boolean",):
        chosen = dict.fromkeys(closed if default is None else [literal(default), *closed])
        return (Stop(choices=tuple(chosen)),)
    if isinstance(default, str):
        return ('"', Stop(inside_quotes(default)), '"')
    if default is not None and default != [] and default != {}:
        return (Stop(literal(default)),)
    kind = next((kind for kind in kinds if kind != "null"), "null" if kinds else "")
    return _begun(kind, root, schemas, depth)


def _begun(kind: str, root: Schema, schemas: Sequence[Schema], depth: int) -> Template:
    if kind == "string":
        return ('"', Stop(), '"')
    if kind in ("integer", "number"):
        least = next((schema["minimum"] for schema in schemas if "minimum" in schema), 0)
        return (Stop(literal(least)),)
    if kind == "array":
        return ("[", Stop(), "]")
    if kind != "object":
        return (Stop("null"),)
    needed = [field for field in fields_of(root, schemas) if field.required] if depth < DEEPEST_TEMPLATE else []
    if not needed:
        return ("{", Stop(), "}")
    inner = [(f"{literal(field.name)}: ", *template_of(root, field.schemas, depth=depth + 1)) for field in needed]
    return ("{ ", *joined(inner, ", "), " }")
