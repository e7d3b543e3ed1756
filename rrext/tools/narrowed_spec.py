"""A tool with fixed arguments or narrower parameters, as configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidArguments, near_matches
from rrext.limits import MAX_QUOTED_NAME, Limits
from rrext.tools.arguments import ROOT, InputPlan, fits_exactly, published_input
from rrext.tools.empty_schemas import why_nothing_fits
from rrext.tools.spec import ToolSpec
from rrext.tools.validation import InvalidSchema, SchemaValidator, keywords, pointer

if TYPE_CHECKING:
    from rrext.tools.decorator import ToolOptions
    from rrext.tools.metadata import FunctionMetadata

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
