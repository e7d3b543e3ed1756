"""A form: one type as callers see it (JSON Schema) and as its tool receives it (a conversion)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

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
