"""Conversion of a caller's input into the arguments of a tool's function, and the schema of its output, as far as the
annotation of its return value says one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments
from rrext.limits import Limits
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.forms import Convert, Misfit, UnsupportedType, json_kind, mapped
from rrext.tools.grammar import Grammar
from rrext.tools.signature import Parameter, Signature, object_schema, returned_hint
from rrext.tools.validation import InvalidSchema, Problem, SchemaValidator, pointer

Conversion = tuple[str, type | None, Convert]
"""A parameter, the type whose values need no conversion, and the conversion."""

ROOT = "/input"
_EXACT = {"integer": int, "string": str, "boolean": bool}
_ANNOTATION_KEYWORDS = frozenset({"type", "title", "description", "default", "examples"})
"""Keywords, besides the type, that refuse no value."""

_CLOSED_OBJECT = frozenset({"type", "title", "description", "properties", "required", "additionalProperties", "$defs"})
"""Keywords of a schema for which the types of its properties decide."""


class InputPlan:
    """The steps from a tool's input to its arguments: validation against the schema, then conversion of some values.

    `exact` maps properties to a Python type of which every value is valid. An input of only such properties needs no validator;
    most first calls of a process gain from that, because the import of the validator outweighs the call.
    """

    __slots__ = (
        "_annotations_validator", "_conversions", "_exact", "_exact_count", "_input_parameter", "_partial", "_required",
        "_validator", "schema",
    )  # fmt: skip

    def __init__(
        self,
        schema: dict[str, Any],
        conversions: tuple[Conversion, ...],
        *,
        exact: Mapping[str, type] | None = None,
        annotations_schema: dict[str, Any] | None = None,
        input_parameter: str | None = None,
    ) -> None:
        self.schema: dict[str, Any] = schema
        self._conversions = conversions
        self._exact = exact
        self._required = frozenset(schema.get("required", ()))
        # An input with this many properties has every property, so the set of required names need not be checked.
        self._exact_count = len(exact) if exact is not None and self._required <= exact.keys() else -1
        # Parameters decode their base64 themselves; only this validator checks base64 that the author's schema declares.
        self._validator = SchemaValidator(schema, content=annotations_schema is not None)
        self._annotations_validator = None if annotations_schema is None else SchemaValidator(annotations_schema, content=False)
        self._input_parameter = input_parameter
        self._partial: SchemaValidator | None = None

    @property
    def partial(self) -> SchemaValidator:
        """The schema for some of the properties: none is required."""
        if self._partial is None:
            self._partial = SchemaValidator({**self.schema, "required": []})
        return self._partial

    def arguments(self, input: Any, limits: Limits) -> dict[str, Any]:
        """The keyword arguments, in a new dict. Raises `InvalidArguments` with pointers below `/input`, and `InvalidSchema` for
        an unusable schema."""
        exact = self._exact
        if exact is not None and type(input) is dict:
            for name, value in input.items():
                if exact.get(name) is not type(value):
                    break
            else:
                if len(input) == self._exact_count or self._required <= input.keys():
                    return input.copy()
        if input is None:
            input = {}
        if type(input) is not dict:
            raise InvalidArguments.at(ROOT, f"expected object, got {json_kind(input)}")
        input = self._fitting(self._validator, input, limits)
        kwargs = input.copy() if self._input_parameter is None else {self._input_parameter: input.copy()}
        if self._annotations_validator is not None:
            kwargs = self._fitting(self._annotations_validator, kwargs, limits)
        return self._converted(kwargs, limits)

    def _fitting(self, validator: SchemaValidator, value: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """The value, if it fits; else the value that it means in the form of strict function calling."""
        try:
            if validator.fits(value):
                return value
            meant: dict[str, Any] = validator.meant(value)
            if meant is not value and validator.fits(meant):
                return meant
            small = len(msgspec.json.encode(meant)) <= limits.all_errors_input
            problems = validator.problems(meant, limits.max_errors if small else 1)
        except (ValueError, TypeError, RecursionError):
            raise InvalidArguments.at(ROOT, "expected JSON: it holds what JSON cannot, or is nested too deeply") from None
        raise self._invalid(problems or [((), "does not fit its schema")], below_name=validator is self._annotations_validator)

    def _converted(self, kwargs: dict[str, Any], limits: Limits) -> dict[str, Any]:
        problems: list[Problem] = []
        for name, exact, convert in self._conversions:
            if name in kwargs and type(kwargs[name]) is not exact:
                try:
                    kwargs[name] = convert(kwargs[name])
                except Misfit as misfit:
                    problems += misfit.below(name)
                except RecursionError:
                    problems.append(((name,), "nested too deeply"))
        if problems:
            raise self._invalid(problems[: limits.max_errors], below_name=True)
        return kwargs

    def _invalid(self, problems: list[Problem], *, below_name: bool) -> InvalidArguments:
        """The error for problems. If one parameter takes the whole input, pointers leave out its name."""
        skipped = 1 if below_name and self._input_parameter is not None else 0
        return InvalidArguments.of([(pointer(ROOT, path[skipped:]), message) for path, message in problems])


def derived_input(signature: Signature, texts: Mapping[str, str]) -> InputPlan:
    """The plan of a tool whose schema follows from its signature. Raises `UnsupportedType` with the parameter's name."""
    schema, conversions = _from_signature(signature, texts)
    exact = {name: _EXACT[entry["type"]] for name, entry in schema["properties"].items() if _is_exact(entry)}
    return InputPlan(schema, conversions, exact=exact)


def given_input(signature: Signature, schema: Mapping[str, Any], takes_input: bool = False) -> InputPlan:
    """The plan of a tool with a schema by its author. Each property goes to the parameter of its name; a single parameter with
    another name takes the whole object, and so does the only parameter with `takes_input`, whose annotation is not checked.
    Otherwise the annotations are checked besides the schema. Raises `UnsupportedType` or `InvalidSchema`."""
    root = {"type": "object", **schema}
    if root["type"] != "object":
        raise InvalidSchema(f'the root of an input schema is an object, not "{root["type"]}"')
    parameters, properties = signature.parameters, root.get("properties", {})
    if takes_input:
        return InputPlan(root, (), input_parameter=parameters[0].name)
    annotations_schema, conversions = _from_signature(signature, {})
    if len(parameters) == 1 and parameters[0].name not in properties:
        only = parameters[0].name
        if annotations_schema["properties"][only].get("type", "object") == "object":
            return InputPlan(root, conversions, annotations_schema=annotations_schema, input_parameter=only)
    for parameter in parameters:
        if parameter.required and parameter.name not in properties and root.get("additionalProperties") is False:
            raise InvalidSchema(f'input_schema has no property for the parameter "{parameter.name}"')
    return InputPlan(root, conversions, annotations_schema=annotations_schema)


def published_input(schema: dict[str, Any]) -> InputPlan:
    """The plan of a check that converts nothing."""
    properties = schema.get("properties", {})
    if schema.keys() <= _CLOSED_OBJECT and schema.get("additionalProperties") is False:
        return InputPlan(schema, (), exact={name: _EXACT[part["type"]] for name, part in properties.items() if _is_exact(part)})
    return InputPlan(schema, ())


def _from_signature(signature: Signature, texts: Mapping[str, str]) -> tuple[dict[str, Any], tuple[Conversion, ...]]:
    grammar = Grammar()
    forms = [(parameter, _form(grammar, parameter)) for parameter in signature.parameters]
    schema = object_schema(((p.name, form, p.required, p.default) for p, form in forms), texts)
    if grammar.definitions:
        schema["$defs"] = grammar.definitions
    return schema, tuple((p.name, form.exact, form.convert) for p, form in forms if form.convert is not None)


def fits_exactly(schema: Any, value: Any) -> bool:
    """Whether a value fits a schema that asks for its Python type alone. False if only a validator can tell."""
    return _is_exact(schema) and _EXACT[schema["type"]] is type(value)


def _is_exact(schema: Any) -> bool:
    """Whether a schema only asks for a type that Python has too. Floats do not count: JSON has no NaN."""
    if not isinstance(schema, dict):  # true and false are schemas too
        return False
    kind = schema.get("type")
    return isinstance(kind, str) and kind in _EXACT and schema.keys() <= _ANNOTATION_KEYWORDS


def _form(grammar: Grammar, parameter: Parameter) -> Any:
    try:
        return grammar.form(parameter.hint)
    except UnsupportedType as error:
        raise UnsupportedType(f'parameter "{parameter.name}": {error}') from None


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
