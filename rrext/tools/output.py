"""The schema of a tool's output, as far as the annotation of its return value says one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.forms import UnsupportedType
from rrext.tools.grammar import Grammar
from rrext.tools.schema_view import mapped
from rrext.tools.signature import returned_hint

_REFUSING: Final = frozenset((
    "format", "pattern", "contentEncoding", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "default",
))  # fmt: skip
"""Keywords for what callers may send, which a tool does not promise of what it returns, such as the offset of a time."""


def derived_output(function: Callable[..., Any], owner: type | None) -> Mapping[str, Any] | None:
    """The types of an object whose class names its fields, or of a list of such objects; None for every other annotation.

    Objects may have further properties, as those of a subclass have.
    """
    try:
        hint = returned_hint(function, owner)
        grammar = Grammar()
        schema = grammar.form(hint).schema
    except (ToolDefinitionError, UnsupportedType):
        return None
    if any(field.alias != field.name for each in grammar.classes for field in getattr(each, "__attrs_attrs__", ())):
        return None  # private fields, which stay in their object
    if not _names_fields(schema if schema.get("type") != "array" else schema.get("items"), grammar.definitions):
        return None
    if grammar.definitions:
        schema = {**schema, "$defs": grammar.definitions}
    return mapped(schema, _types_alone)


def _names_fields(schema: Any, definitions: Mapping[str, Any]) -> bool:
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = definitions.get(reference.rpartition("/")[2], {})
    return schema.get("type") == "object" and bool(schema.get("properties"))


def _types_alone(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    closed = {"additionalProperties"} if schema.get("additionalProperties") is False else set()
    return {key: value for key, value in schema.items() if key not in _REFUSING and key not in closed}
