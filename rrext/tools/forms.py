"""A form: one type as callers see it (JSON Schema) and as its tool receives it (a conversion).

The second half answers questions about a JSON Schema: the target of a reference, the alternatives, the accepted kinds of
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

Convert = Callable[[Any], Any]

NUMBER = "number"
KINDS = frozenset({"null", "boolean", NUMBER, "string", "array", "object"})
_KIND_OF: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: NUMBER,
    float: NUMBER,
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


class UnsupportedType(TypeError):
    """A type that JSON has no form for, or for which schema and conversion would disagree."""


class Misfit(Exception):
    """The conversion refuses a value that the schema accepts: `(path, message)` for each problem."""

    def __init__(self, problems: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    @classmethod
    def of(cls, message: str) -> Misfit:
        """The error for one problem with the value itself."""
        return cls([((), message)])

    def below(self, step: str | int) -> list[tuple[tuple[str | int, ...], str]]:
        """The problems with `step` before each path."""
        return [((step, *path), message) for path, message in self.problems]


class Form:
    """The form of one type. `schema` is published. `convert` makes the tool's value from the accepted JSON value; None: they
    are equal. `kinds` are the JSON kinds that the schema can accept.

    `exact` is a Python type whose values need no conversion. `plain` says that lengths and patterns apply to the JSON value
    itself. `tags` has the literal strings of an object's required properties; a union tells its members apart by them.
    """

    __slots__ = ("convert", "exact", "kinds", "plain", "schema", "tags")

    def __init__(
        self,
        schema: dict[str, Any],
        kinds: Iterable[str],
        convert: Convert | None = None,
        *,
        exact: type | None = None,
        plain: bool = True,
        tags: dict[str, frozenset[str]] | None = None,
    ) -> None:
        self.schema = schema
        self.kinds = frozenset(kinds)
        self.convert = convert
        self.exact = exact
        self.plain = plain
        self.tags = tags or {}

    def extended(self, keywords: dict[str, Any]) -> Form:
        """The same form with more schema keywords."""
        if not keywords:
            return self
        return Form({**self.schema, **keywords}, self.kinds, self.convert, exact=self.exact, plain=self.plain, tags=self.tags)

    def __repr__(self) -> str:
        return f"<Form {self.schema}>"


def fixed_array(items: Sequence[Form], required: int, make: Callable[[list[Any]], Any]) -> Form:
    """An array with one type for each position, of which the first `required` are required."""
    schema: dict[str, Any] = {"type": "array"}
    if items:
        schema["prefixItems"] = [item.schema for item in items]
    schema |= {"items": False, "minItems": required, "maxItems": len(items)}
    converts = [item.convert for item in items]

    def convert(value: Any) -> Any:
        places = convert_items((place, *pair) for place, pair in enumerate(zip(value, converts, strict=False)))
        return make(list(places.values()))

    return Form(schema, {"array"}, convert)


def json_kind(value: Any) -> str:
    """The JSON kind of a value: `null`, `boolean`, `number`, `string`, `array` or `object`."""
    return _KIND_OF.get(type(value)) or type(value).__name__


def convert_items(items: Iterable[tuple[str | int, Any, Convert | None]]) -> dict[Any, Any]:
    """Convert values by their keys. Raises one `Misfit` with the problems of all."""
    done: dict[Any, Any] = {}
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for place, value, convert in items:
        try:
            done[place] = value if convert is None else convert(value)
        except Misfit as misfit:
            problems += misfit.below(place)
    if problems:
        raise Misfit(problems)
    return done


def type_name(hint: Any) -> str:
    """A readable name of a type, close to its source."""
    if isinstance(hint, type) and not getattr(hint, "__args__", None):
        return hint.__qualname__
    return str(hint).replace("typing.", "")


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
