"""From the input that a caller sent to the arguments of the tool's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rrext.errors import InvalidArguments
from rrext.limits import Limits
from rrext.tools.forms import Convert, Misfit, UnsupportedType, convert_items, json_kind
from rrext.tools.grammar import Grammar
from rrext.tools.schema import object_schema
from rrext.tools.signature import NO_DEFAULT, Parameter, Signature
from rrext.tools.validation import InvalidSchema, Problem, SchemaValidator, pointer

__all__ = ["InputPlan", "derived_input", "given_input"]

Conversion = tuple[str, type | None, Convert]
"""A parameter, the type whose values need no conversion, and the conversion."""

ROOT = "/input"
_SPREAD = (dict, Mapping, Any)
_EXACT = {"integer": int, "string": str, "boolean": bool}
_SAYS_NOTHING = frozenset({"type", "title", "description", "default", "examples"})
"""Keywords that keep no value out, besides the type."""


class InputPlan:
    """How the input of a tool becomes its arguments: check it against the schema, then convert what needs it.

    `exact` has the properties of which any value of one Python type is right as it is. An input of nothing else needs no
    validator, which most first calls of a process are glad of: loading it takes longer than all the rest of the call.
    """

    __slots__ = ("_all", "_bind", "_conversions", "_exact", "_required", "_validator", "schema")

    def __init__(
        self,
        schema: dict[str, Any],
        conversions: tuple[Conversion, ...],
        *,
        content: bool,
        exact: Mapping[str, type] | None = None,
        bind: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.schema = schema
        self._conversions = conversions
        self._bind = bind
        self._exact = exact
        self._required = frozenset(schema.get("required", ()))
        # An input of as many properties has them all, and so what is required: that is told without a set.
        self._all = len(exact) if exact is not None and self._required <= exact.keys() else -1
        self._validator = SchemaValidator(schema, content=content)

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
        try:
            fits = type(input) is dict and self._validator.fits(input)
        except (ValueError, TypeError, RecursionError):
            fits = False  # no JSON; from the wire nothing else comes
        if not fits:
            raise self._refusal(input, limits)
        return self._converted(input, limits)

    def _converted(self, input: dict[str, Any], limits: Limits) -> dict[str, Any]:
        kwargs = input.copy() if self._bind is None else self._bind(input)
        try:
            for name, exact, convert in self._conversions:
                if name in kwargs and type(kwargs[name]) is not exact:
                    kwargs[name] = convert(kwargs[name])
        except Misfit:
            raise self._misfits(input, limits) from None
        except RecursionError:
            raise InvalidArguments.at(ROOT, "nested too deeply") from None
        return kwargs

    def _misfits(self, input: dict[str, Any], limits: Limits) -> InvalidArguments:
        """The conversion stopped at one problem; here are all of them."""
        kwargs = input if self._bind is None else self._bind(input)
        try:
            convert_items((name, kwargs[name], convert) for name, _, convert in self._conversions if name in kwargs)
        except Misfit as misfit:
            return _invalid(misfit.problems[: limits.max_errors])
        raise RuntimeError("a conversion failed once and then did not: it depends on more than its input")

    def _refusal(self, input: Any, limits: Limits) -> InvalidArguments:
        if type(input) is not dict:
            return InvalidArguments.at(ROOT, f"expected object, got {json_kind(input)}")
        try:
            small = len(msgspec.json.encode(input)) <= limits.all_errors_input
            problems = self._validator.problems(input, limits.max_errors if small else 1)
        except (ValueError, TypeError, RecursionError):
            problems = []
        if problems:
            return _invalid(problems)
        return InvalidArguments.at(ROOT, "expected JSON: it holds something that JSON cannot, or is nested too deeply")


def _invalid(problems: list[Problem]) -> InvalidArguments:
    return InvalidArguments.of([(pointer(ROOT, path), message) for path, message in problems])


def derived_input(signature: Signature, texts: Mapping[str, str]) -> InputPlan:
    """The plan of a tool whose schema comes from its signature. Raises `UnsupportedType` naming the parameter."""
    grammar = Grammar()
    forms = [(parameter, _form(grammar, parameter)) for parameter in signature.parameters]
    schema = object_schema(((p.name, form, p.required, p.default) for p, form in forms), texts)
    if grammar.definitions:
        schema["$defs"] = grammar.definitions
    conversions = tuple((p.name, form.exact, form.convert) for p, form in forms if form.convert is not None)
    exact = {name: _EXACT[entry["type"]] for name, entry in schema["properties"].items() if _is_exact(entry)}
    # Parameters decode their base64 anyway, so the validator need not.
    return InputPlan(schema, conversions, content=False, exact=exact)


def _is_exact(schema: Mapping[str, Any]) -> bool:
    """Whether a schema asks for nothing but a type that Python has too. Floats are not among them: NaN is no number."""
    return schema.get("type") in _EXACT and schema.keys() <= _SAYS_NOTHING


def given_input(signature: Signature, schema: Mapping[str, Any]) -> InputPlan:
    """The plan of a tool whose schema its author gave. The properties go to the parameters of their names; a single
    parameter that is none of them takes the whole object. Raises `UnsupportedType` or `InvalidSchema`."""
    root = {"type": "object", **schema}
    if root["type"] != "object":
        raise InvalidSchema(f'the root of an input schema is an object, not "{root["type"]}"')
    parameters = signature.parameters
    properties = root.get("properties", {})
    if len(parameters) == 1 and parameters[0].name not in properties and parameters[0].hint in _SPREAD:
        name = parameters[0].name
        return InputPlan(root, (), content=True, bind=lambda input: {name: input.copy()})
    grammar = Grammar()
    forms = [(parameter.name, _form(grammar, parameter)) for parameter in parameters]
    conversions = tuple((name, form.exact, form.convert) for name, form in forms if form.convert is not None)
    return InputPlan(root, conversions, content=True, bind=_by_name(parameters))


def _by_name(parameters: tuple[Parameter, ...]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What a schema lets through need not be what the function takes; that is said here, before it is called."""
    names = {parameter.name for parameter in parameters}
    required = [parameter.name for parameter in parameters if parameter.default is NO_DEFAULT]

    def bind(input: dict[str, Any]) -> dict[str, Any]:
        problems: list[Problem] = [((name,), f"required property missing: {name}") for name in required if name not in input]
        problems += [((name,), "the tool takes no such property") for name in input if name not in names]
        if problems:
            raise _invalid(problems)
        return input.copy()

    return bind


def _form(grammar: Grammar, parameter: Parameter) -> Any:
    try:
        return grammar.form(parameter.hint)
    except UnsupportedType as error:
        raise UnsupportedType(f'parameter "{parameter.name}": {error}') from None
