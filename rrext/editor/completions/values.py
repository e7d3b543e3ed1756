"""Values that schemas name, and templates of new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rrext.editor.completions.template import Stop, Template, inside_quotes, joined, literal
from rrext.editor.limits import MAX_TEMPLATE_DEPTH
from rrext.editor.schemas.examples import choices_of
from rrext.editor.schemas.lookup import Schema, fields_of, kinds_of, list_of


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
