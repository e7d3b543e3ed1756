"""Schemas that plainly admit no value: mistakes of who narrows a parameter. Schemas may be empty for other reasons as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from rrext.limits import MAX_COMPARED_PARTS, MAX_STRICT_DEPTH
from rrext.tools.validation import InvalidSchema, SchemaValidator

Path: TypeAlias = tuple[str | int, ...]
Reason: TypeAlias = tuple[Path, str]
NONE: Final[Mapping[str, Any]] = {}
FALSE: Final[Mapping[str, Any]] = {"enum": []}
"""What the schema `false` means."""
_NUMBERS: Final = {"number", "integer"}
_RANGES: Final = (
    (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"), _NUMBERS),
    (("minLength",), ("maxLength",), {"string"}),
    (("minItems",), ("maxItems",), {"array"}),
    (("minProperties",), ("maxProperties",), {"object"}),
)
"""Bounds that exclude each other, and the types of the values that they are for."""
_TYPES: Final[Mapping[type, set[str]]] = {
    str: {"string"},
    bool: {"boolean"},
    type(None): {"null"},
    list: {"array"},
    dict: {"object"},
    **dict.fromkeys((int, float), _NUMBERS),
}
_ANY: Final = set[str]().union(*_TYPES.values())


def why_nothing_fits(narrower: Any, original: Any = True, definitions: Mapping[str, Any] = NONE) -> Iterator[Reason]:
    """The places in a narrower schema that admit no value, alone or beside the original one, each with a sentence.

    `definitions` are those that the original refers to.
    """
    return _Conjunction(narrower, original, definitions, 0).reasons()


class _Conjunction:
    """The parts of two schemas, all of which hold. Those of the original have no place."""

    def __init__(self, narrower: Any, original: Any, definitions: Mapping[str, Any], depth: int) -> None:
        self._whole = {"allOf": [original, narrower], "$defs": definitions}
        self._definitions = definitions
        self._depth = depth
        self._own = list(islice(_conjuncts(narrower, (), NONE), MAX_COMPARED_PARTS))
        self._originals = [part for _, part in islice(_conjuncts(original, (), definitions), MAX_COMPARED_PARTS)]
        self._parts: list[tuple[Path | None, Mapping[str, Any]]] = [*((None, part) for part in self._originals), *self._own]

    def reasons(self) -> Iterator[Reason]:
        """Each reason why nothing fits."""
        yield from self._types()
        left = self._types_left()
        for least, most, types in _RANGES:
            if left is None or left <= types:
                yield from self._range(least, most)
        required: dict[str, Path | None] = {}
        for path, part in self._parts:
            for index, name in enumerate(_listed(part, "required")):
                if isinstance(name, str):
                    required[name] = None if path is None else (*path, "required", index)
        for name, place in required.items() if left is None or left <= {"object"} else ():
            yield from self._property(name, place)
        yield from self._values()

    def _types(self) -> Iterator[Reason]:
        left: set[str] | None = None
        for path, part in self._parts:
            types = _types_of(part)
            if types is None:
                continue
            if path is not None and left is not None and not left & types:
                yield (*path, "type"), f"Nothing fits: other schemas of this want {' or '.join(sorted(left)) or 'no type'}."
            left = types if left is None else left & types

    def _types_left(self) -> set[str] | None:
        """The types of values that all parts admit; None if no part tells. Bounds for other types refuse nothing."""
        left: set[str] | None = None
        for _, part in self._parts:
            types = _types_of(part)
            if "const" in part or isinstance(part.get("enum"), list):
                values = [part["const"]] if "const" in part else part["enum"]
                listed = set[str]().union(*(_TYPES.get(type(value), _ANY) for value in values))
                types = listed if types is None else listed & types
            if types is not None:
                left = types if left is None else left & types
        return left

    def _range(self, least: tuple[str, ...], most: tuple[str, ...]) -> Iterator[Reason]:
        lows = [(part[key], path, key) for path, part in self._parts for key in least if _is_number(part.get(key))]
        highs = [(part[key], path, key) for path, part in self._parts for key in most if _is_number(part.get(key))]
        if not lows or not highs:
            return
        low = max(lows, key=lambda each: (each[0], each[2].startswith("exclusive")))
        high = min(highs, key=lambda each: (each[0], not each[2].startswith("exclusive")))
        is_open = low[2].startswith("exclusive") or high[2].startswith("exclusive")
        if low[0] > high[0] or (low[0] == high[0] and is_open):
            text = f"Nothing fits: {low[2]} {low[0]} and {high[2]} {high[0]} exclude each other."
            yield from (((*path, key), text) for _, path, key in (low, high) if path is not None)

    def _property(self, name: str, place: Path | None) -> Iterator[Reason]:
        """Why a property that is required, as it stands at a place, cannot be there."""
        for path, part in self._parts:
            properties = _members(part)
            if part.get("additionalProperties") is False and "patternProperties" not in part and name not in properties:
                if place is not None:
                    yield place, f'Nothing fits: additionalProperties excludes "{name[:200]}".'
                elif path is not None:
                    yield (*path, "additionalProperties"), f'Nothing fits: "{name[:200]}" is required.'
            if path is not None and name in properties and self._depth < MAX_STRICT_DEPTH:
                others = {"allOf": [_members(other)[name] for other in self._originals if name in _members(other)]}
                inner = _Conjunction(properties[name], others, self._definitions, self._depth + 1)
                yield from (((*path, "properties", name, *where), text) for where, text in inner.reasons())

    def _values(self) -> Iterator[Reason]:
        """Values that stand in the schema, and of which none fits."""
        validator = SchemaValidator(self._whole)
        for path, part in self._own:
            for key, values in (("const", [part["const"]] if "const" in part else None), ("enum", part.get("enum"))):
                if isinstance(values, list) and not any(_fits(validator, value) for value in values):
                    yield path if part is FALSE else (*path, key), "Nothing fits: no value is admitted here."


def _conjuncts(schema: Any, path: Path, definitions: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The objects in a schema that hold together, with their places."""
    if schema is False:
        schema = FALSE
    if not isinstance(schema, Mapping) or len(path) > MAX_STRICT_DEPTH:
        return
    yield path, schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _conjuncts(definitions.get(reference.removeprefix("#/$defs/")), (*path, "$ref"), definitions)
    for index, part in enumerate(_listed(schema, "allOf")):
        yield from _conjuncts(part, (*path, "allOf", index), definitions)


def _types_of(schema: Mapping[str, Any]) -> set[str] | None:
    """The types that a schema says; None if it says none."""
    given = schema.get("type")
    types = {given} if isinstance(given, str) else set(map(str, given)) if isinstance(given, list) else None
    return types if types is None or "number" not in types else {*types, "integer"}


def _members(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else NONE


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(validator: SchemaValidator, value: Any) -> bool:
    try:
        return validator.fits(value)
    except (InvalidSchema, ValueError, TypeError, RecursionError):
        return True  # that is another problem, which others tell
