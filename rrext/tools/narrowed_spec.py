"""A tool with fixed arguments or narrower parameters, as configuration gives them, and the parameters that are so narrow
that plainly no value fits them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rrext.errors import InvalidArguments, near_matches
from rrext.limits import MAX_COMPARED_PARTS, MAX_QUOTED_NAME, MAX_STRICT_DEPTH, Limits
from rrext.tools.arguments import ROOT, InputPlan, fits_exactly, published_input
from rrext.tools.spec import ToolSpec
from rrext.tools.validation import InvalidSchema, SchemaValidator, keywords, pointer

if TYPE_CHECKING:
    from rrext.tools.decorator import ToolOptions
    from rrext.tools.spec import FunctionMetadata


_NOTES: Final = frozenset({"title", "description", "default", "examples"})
"""Keywords that refuse no value: those of the narrower schema replace the original ones."""

_ALONE: Final = frozenset({
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "items", "properties", "required",
    "minProperties", "maxProperties",
})  # fmt: skip
"""Keywords whose meaning does not depend on these others."""

_OF_PARTS: Final = frozenset({"items", "properties", "required"})
"""Keywords whose meaning depends on keywords that are not among those."""


class NarrowedSpec(ToolSpec):
    """A tool whose published schema lacks the fixed arguments and has the narrower parameters.

    An input is checked against the published schema, then, with the fixed arguments, against the original one.
    """

    __slots__ = ("_fixed", "_origin", "_parameters", "_published")

    def __init__(self, origin: ToolSpec, arguments: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(origin.function, origin.options, owner=origin.owner, bound=origin.bound, metadata=origin._metadata)
        self._origin = origin
        self._fixed = arguments
        self._parameters = parameters
        self._published: tuple[InputPlan, InputPlan] | None = None

    def structure(self, node: Any, input: Any, limits: Limits) -> dict[str, Any]:
        fixed = self._fixed
        if type(input) is dict and not fixed.keys().isdisjoint(input):
            taken = [(pointer(ROOT, [name]), "is fixed and cannot be given") for name in fixed if name in input]
            raise InvalidArguments.of(taken)
        try:
            given = self.plan(node).arguments(input, limits)
        except InvalidSchema as error:
            raise self._metadata.unusable(error) from None
        return self._origin.structure(node, {**given, **fixed}, limits)

    def _input(self, node: Any) -> InputPlan:
        """The plan of the published schema, kept as long as the original plan is the same."""
        original, kept = self._origin.plan(node), self._published
        if kept is None or kept[0] is not original:
            schema = narrowed_schema(original.schema, self._fixed, self._parameters)
            kept = self._published = original, published_input(schema)
        return kept[1]

    def _copy(self, options: ToolOptions, metadata: FunctionMetadata | None) -> ToolSpec:
        return NarrowedSpec(self._origin._copy(options, metadata), self._fixed, self._parameters)


def narrowed_schema(
    schema: Mapping[str, Any], fixed: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A schema of an object without the fixed properties and with narrower ones. Both schemas of a property hold."""
    properties = {name: part for name, part in schema.get("properties", {}).items() if name not in fixed}
    for name, narrower in parameters.items():
        properties[name] = _intersection(properties[name], narrower) if name in properties else dict(narrower)
    made = {**schema, "properties": properties}
    required = [name for name in made.pop("required", ()) if name not in fixed]
    return {**made, "required": required} if required else made


def narrowing_problems(
    plan: InputPlan, fixed: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Any]], limits: Limits
) -> list[tuple[tuple[str | int, ...], str, Sequence[str]]]:
    """The problems of fixed arguments and narrower parameters for a tool: path below the reference, sentence, near names."""
    schema = plan.schema
    found: list[tuple[tuple[str | int, ...], str, Sequence[str]]] = []
    known = list(schema.get("properties", ()))
    is_open = schema.get("additionalProperties") is not False
    named = chain((("arguments", name) for name in fixed), (("parameters", name) for name in parameters))
    unknown = () if is_open else ((key, name) for key, name in named if name not in known)
    for key, name in islice(unknown, limits.max_errors):
        near = near_matches(name, known) if len(name) <= MAX_QUOTED_NAME else []
        found.append(((key, name), f'The tool has no parameter "{name[:MAX_QUOTED_NAME]}".', near))
    about = {
        name: value for name, value in fixed.items() if name in known and not fits_exactly(schema["properties"][name], value)
    }
    try:
        if about:
            found += [(("arguments", *path), f"{text}.", ()) for path, text in _problems(plan.partial, about, limits)]
    except InvalidSchema:
        return found  # an author's mistake, which each call tells
    definitions = {"$defs": schema.get("$defs", {})}
    for name, narrower in parameters.items():
        try:
            SchemaValidator({**narrower, **(definitions if "$ref" in keywords(narrower) else {})}).compile()
        except InvalidSchema as error:
            found.append((("parameters", name), f"This is no JSON Schema: {error}.", ()))
        else:
            beside = schema["properties"][name] if name in known else True
            reasons = islice(why_nothing_fits(narrower, beside, definitions["$defs"]), 1)
            found += [(("parameters", name, *path), text, ()) for path, text in reasons]
    return found


def _problems(validator: SchemaValidator, value: dict[str, Any], limits: Limits) -> list[Any]:
    try:
        return [] if validator.fits(value) else validator.problems(value, limits.max_errors)
    except (ValueError, RecursionError):
        return [((), "is nested too deeply")]


def _intersection(original: Any, narrower: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that fits what both fit: one object where their keywords do not meet, else `allOf`."""
    rules = {key for key in narrower if key not in _NOTES}
    if not isinstance(original, dict):
        return dict(narrower) if original is True else {"allOf": [original, dict(narrower)]}
    agree = all(original.get(key, narrower[key]) == narrower[key] for key in rules)
    if agree and rules <= _ALONE and (original.keys() <= _ALONE | _NOTES or not rules & _OF_PARTS):
        return {**original, **narrower}
    notes = {key: value for key, value in {**original, **narrower}.items() if key in _NOTES}
    return {**notes, "allOf": [original, {key: narrower[key] for key in rules}]}


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
