"""Questions about a JSON Schema: the target of a reference, the alternatives, the accepted kinds of JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rrext.tools.forms import KINDS, NUMBER, json_kind

ANYTHING: Mapping[str, Any] = {}
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER: Final = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")


def resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """The schema behind local references; a reference to nothing, or to itself, is a schema that accepts anything."""
    for _ in range(len(root.get("$defs", ())) + len(root.get("definitions", ())) + 1):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        schema = _at(root, str(schema["$ref"]))
    return ANYTHING


def _at(root: Mapping[str, Any], reference: str) -> Any:
    place: Any = root if reference.startswith("#") else ANYTHING
    for step in reference.split("/")[1:]:
        place = place.get(step.replace("~1", "/").replace("~0", "~"), ANYTHING) if isinstance(place, Mapping) else ANYTHING
    return place


def alternatives(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The members of a union, those of unions inside it too; a schema that is no union is its own only member."""
    return list(_members(schema, root, ()))


def _members(schema: Any, root: Mapping[str, Any], above: tuple[int, ...]) -> list[Mapping[str, Any]]:
    schema = resolved(schema, root)
    if not isinstance(schema, Mapping) or id(schema) in above:
        return []
    union = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(union, list | tuple) or "type" in schema:
        return [schema]
    return [member for inner in union for member in _members(inner, root, (*above, id(schema)))]


def accepted_kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """The JSON kinds (`null`, `boolean`, `number`, `string`, `array`, `object`) of the values that a schema may accept."""
    schema = resolved(schema, root)
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping):
        return KINDS
    members = alternatives(schema, root)
    if members != [schema]:
        return frozenset().union(*(accepted_kinds(member, root) for member in members))
    if "const" in schema:
        return frozenset({json_kind(schema["const"])})
    if "enum" in schema:
        return frozenset(map(json_kind, schema["enum"]))
    names = type_names(schema)
    return frozenset(NUMBER if name == "integer" else name for name in names) if names else KINDS


def type_names(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema names; none for a schema without `type`."""
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(map(str, found))


def is_open_object(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is of an object with any properties, such as a mapping: one without `properties` that is not closed."""
    return "object" in type_names(schema) and not schema.get("properties") and schema.get("additionalProperties") is not False


def mapped(schema: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Any:
    """A new schema in which `change` was applied to every schema inside, then to the schema itself."""
    if not isinstance(schema, Mapping):
        return schema
    found = dict(schema)
    for key in _MAPS:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: mapped(inner, change) for name, inner in found[key].items()}
    for key in _LISTS:
        if isinstance(found.get(key), list | tuple):
            found[key] = [mapped(inner, change) for inner in found[key]]
    for key in _INNER:
        if key in found:
            found[key] = mapped(found[key], change)
    return change(found)
