"""Offers that follow from a JSON Schema alone: the keys of an object, their values, and templates of new values."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from rrext.editor.completions.offer import About, Offer
from rrext.editor.completions.template import Stop, Template, inside_quotes, joined, literal
from rrext.editor.schemas.descriptions import type_text
from rrext.editor.schemas.examples import choices_of
from rrext.editor.schemas.lookup import Field, Schema, fields_of, kinds_of, list_of
from rrext.secrets.names import masked

MAX_DETAIL_VALUE: Final = 40
"""Characters of a value in the detail of an offer."""
MAX_LABEL_VALUE: Final = 60
"""Characters of a value as the label of an offer."""
MAX_TEMPLATE_DEPTH: Final = 3
"""The nesting depth of objects in a template."""


def schema_keys(
    root: Schema, fields: Sequence[Field], present: Container[str], about: About, given: Mapping[str, Any]
) -> Iterator[Offer]:
    """The missing keys, required ones first. `given` are values that apply without being written."""
    for place, field in enumerate(fields):
        if field.name in present:
            continue
        default = given.get(field.name, field.default)
        needed = field.required and field.name not in given
        detail = type_text(field.schema, root)
        if needed:
            detail += ", required"
        elif default is not None:
            detail += f", {_short(masked(default, field.name))} if left out"
        value = template_of(root, field.schemas, given.get(field.name))
        rank = place if needed else 100 + place
        yield Offer(field.name, "key", (literal(field.name),), detail, (*about, field.name), rank, value=value)


def schema_values(root: Schema, schemas: Sequence[Schema], about: About) -> Iterator[Offer]:
    """The values that schemas name, and an empty object or list."""
    found = values_of(schemas)
    for rank, (text, why) in enumerate(found.items()):
        yield Offer(_label(text), "value", (text,), why, about, rank)
    kinds = kinds_of(schemas)
    for kind, label in (("object", "{ }"), ("array", "[ ]")):
        if kind in kinds and label.replace(" ", "") not in found:
            yield Offer(label, "value", template_of(root, schemas), kind, about, 50, finds=label[0])


def _label(text: str) -> str:
    """A value as it is shown: a string without its quotes, unless it is empty."""
    shown = text[1:-1] if text.startswith('"') and len(text) > 2 else text
    return shown if len(shown) <= MAX_LABEL_VALUE else f"{shown[:MAX_LABEL_VALUE]}…"


def _short(value: Any) -> str:
    text = literal(value)
    return text if len(text) <= MAX_DETAIL_VALUE else f"{text[:MAX_DETAIL_VALUE]}…"


# values


def values_of(schemas: Sequence[Schema]) -> dict[str, str]:
    """The values that schemas name, as JSON → reason: defaults first, then other allowed values, then examples."""
    found: dict[str, str] = {}
    for schema in schemas:
        if "default" in schema:
            found.setdefault(literal(schema["default"]), "default")
    for schema in schemas:
        allowed: list[Any] = list(choices_of(schema))
        if "boolean" in kinds_of([schema]) and not allowed:
            allowed = [True, False]
        if "null" in kinds_of([schema]):
            allowed.append(None)
        for value in allowed:
            found.setdefault(literal(value), "")
    for schema in schemas:
        for value in list_of(schema, "examples"):
            found.setdefault(literal(value), "example")
    return found


def template_of(root: Schema, schemas: Sequence[Schema], default: Any = None, depth: int = 0) -> Template:
    """A template of a new value. `default` replaces the default of the schema unless it is None."""
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
    needed = [field for field in fields_of(root, schemas) if field.required] if depth < MAX_TEMPLATE_DEPTH else []
    if not needed:
        return ("{", Stop(), "}")
    inner = [(f"{literal(field.name)}: ", *template_of(root, field.schemas, depth=depth + 1)) for field in needed]
    return ("{ ", *joined(inner, ", "), " }")
