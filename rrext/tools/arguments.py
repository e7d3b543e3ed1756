"""From the input that a caller sent to the arguments of the tool's function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rrext.errors import InvalidArguments
from rrext.limits import Limits
from rrext.tools.forms import Convert, Misfit, UnsupportedType, json_kind
from rrext.tools.grammar import Grammar
from rrext.tools.schema import object_schema
from rrext.tools.signature import Parameter, Signature
from rrext.tools.validation import InvalidSchema, Problem, SchemaValidator, pointer

__all__ = ["InputPlan", "derived_input", "given_input"]

Conversion = tuple[str, type | None, Convert]
"""A parameter, the type whose values need no conversion, and the conversion."""

ROOT = "/input"
_EXACT = {"integer": int, "string": str, "boolean": bool}
_SAYS_NOTHING = frozenset({"type", "title", "description", "default", "examples"})
"""Keywords that keep no value out, besides the type."""


class InputPlan:
    """How the input of a tool becomes its arguments: check it against the schema, then convert what needs it.

    `exact` has the properties of which any value of one Python type is right as it is. An input of nothing else needs no
    validator, which most first calls of a process are glad of: loading it takes longer than all the rest of the call.
    """

    __slots__ = ("_all", "_conversions", "_exact", "_own", "_required", "_validator", "_whole", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        conversions: tuple[Conversion, ...],
        *,
        exact: Mapping[str, type] | None = None,
        own: dict[str, Any] | None = None,
        whole: str | None = None,
    ) -> None:
        self.schema = schema
        self._conversions = conversions
        self._exact = exact
        self._required = frozenset(schema.get("required", ()))
        # An input of as many properties has them all, and so what is required: that is told without a set.
        self._all = len(exact) if exact is not None and self._required <= exact.keys() else -1
        # Parameters decode their base64 anyway; what only the author's schema says is base64, nobody else checks.
        self._validator = SchemaValidator(schema, content=own is not None)
        self._own = None if own is None else SchemaValidator(own, content=False)
        self._whole = whole

    def arguments(self, input: Any, limits: Limits) -> dict[str, Any]:
        """The keyword arguments, in a dict of their own. Raises `InvalidArguments` with pointers below `/input`, and
        `InvalidSchema` if there is no using the schema."""
        exact = self._exact
        if exact is not None and type(input) is dict:
            for name, value in input.items():
                if exact.get(name) is not type(value):
                    break
            else:
                if len(input) == self._all or self._required <= input.keys():
                    return input.copy()
        if input is None:
            input = {}
        if type(input) is not dict:
            raise InvalidArguments.at(ROOT, f"expected object, got {json_kind(input)}")
        self._check(self._validator, input, limits)
        kwargs = input.copy() if self._whole is None else {self._whole: input.copy()}
        if self._own is not None:
            self._check(self._own, kwargs, limits)
        return self._converted(kwargs, limits)

    def _check(self, validator: SchemaValidator, value: dict[str, Any], limits: Limits) -> None:
        try:
            if validator.fits(value):
                return
            small = len(msgspec.json.encode(value)) <= limits.all_errors_input
            problems = validator.problems(value, limits.max_errors if small else 1)
        except (ValueError, TypeError, RecursionError):
            raise InvalidArguments.at(ROOT, "expected JSON: it holds what JSON cannot, or is nested too deeply") from None
        raise self._invalid(problems or [((), "does not fit its schema")], below_name=validator is self._own)

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
        """The error for problems. Where one parameter takes the whole input, its name is no step on the way."""
        skipped = 1 if below_name and self._whole is not None else 0
        return InvalidArguments.of([(pointer(ROOT, path[skipped:]), message) for path, message in problems])


def derived_input(signature: Signature, texts: Mapping[str, str]) -> InputPlan:
    """The plan of a tool whose schema comes from its signature. Raises `UnsupportedType` naming the parameter."""
    schema, conversions = _from_signature(signature, texts)
    exact = {name: _EXACT[entry["type"]] for name, entry in schema["properties"].items() if _is_exact(entry)}
    return InputPlan(schema, conversions, exact=exact)


def given_input(signature: Signature, schema: Mapping[str, Any]) -> InputPlan:
    """The plan of a tool whose schema its author gave. The properties go to the parameters of their names; a single
    parameter that is none of them takes the whole object. What the schema lets through and the annotations do not is
    refused too. Raises `UnsupportedType` or `InvalidSchema`."""
    root = {"type": "object", **schema}
    if root["type"] != "object":
        raise InvalidSchema(f'the root of an input schema is an object, not "{root["type"]}"')
    parameters, properties = signature.parameters, root.get("properties", {})
    own, conversions = _from_signature(signature, {})
    if len(parameters) == 1 and parameters[0].name not in properties:
        only = parameters[0].name
        if own["properties"][only].get("type", "object") == "object":
            return InputPlan(root, conversions, own=own, whole=only)
    for parameter in parameters:
        if parameter.required and parameter.name not in properties and root.get("additionalProperties") is False:
            raise InvalidSchema(f'input_schema has no property for the parameter "{parameter.name}"')
    return InputPlan(root, conversions, own=own)


def _from_signature(signature: Signature, texts: Mapping[str, str]) -> tuple[dict[str, Any], tuple[Conversion, ...]]:
    grammar = Grammar()
    forms = [(parameter, _form(grammar, parameter)) for parameter in signature.parameters]
    schema = object_schema(((p.name, form, p.required, p.default) for p, form in forms), texts)
    if grammar.definitions:
        schema["$defs"] = grammar.definitions
    return schema, tuple((p.name, form.exact, form.convert) for p, form in forms if form.convert is not None)


def _is_exact(schema: Mapping[str, Any]) -> bool:
    """Whether a schema asks for nothing but a type that Python has too. Floats are not among them: NaN is no number."""
    return schema.get("type") in _EXACT and schema.keys() <= _SAYS_NOTHING


def _form(grammar: Grammar, parameter: Parameter) -> Any:
    try:
        return grammar.form(parameter.hint)
    except UnsupportedType as error:
        raise UnsupportedType(f'parameter "{parameter.name}": {error}') from None
