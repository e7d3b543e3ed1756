"""The settings of a node class: JSON Schema, checks of values, and instances of `Config`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.plugins import PluginError
from rrext.tools.forms import Form, Misfit, UnsupportedType, convert_items
from rrext.tools.grammar import Grammar
from rrext.tools.signature import NO_DEFAULT, annotations_of, object_schema, parse_docstring, strip_annotated
from rrext.tools.validation import SchemaValidator

Parts = tuple[str | int, ...]

_EXACT: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_SAYS_NOTHING: Final = frozenset({"type", "description", "default", "title", "examples"})


class Settings:
    """One `Config` class: attrs, a dataclass, a msgspec Struct, a TypedDict, or plain annotations.

    `schema` describes an object without further keys. Raises `PluginError`, which names the `owner`, for a type that
    JSON has no form for.
    """

    def __init__(self, config: type, *, owner: str) -> None:
        self.owner = owner
        grammar = Grammar()
        try:
            self._form = _plain_form(config, grammar.form) if _is_plain(config) else grammar.form(config)
        except (UnsupportedType, RecursionError) as error:
            raise PluginError(f"Config of {owner}: {error}") from error
        except Exception as error:  # annotations are code: anything can be raised
            raise PluginError(f"Config of {owner}: {type(error).__name__}: {error}") from error
        self.schema = _whole(self._form.schema, grammar.definitions)
        if "properties" not in self.schema:
            raise PluginError(f"Config of {owner} has no fields: it is no class of settings")
        self.names: tuple[str, ...] = tuple(self.schema["properties"])
        """The keys that the class knows."""
        self._required = frozenset(self.schema.get("required", ()))
        self._validator = SchemaValidator(self.schema)

    def has_default(self, name: str) -> bool:
        """Whether a key may be left out."""
        return name not in self._required

    def known(self, value: dict[str, Any]) -> tuple[Any, list[tuple[Parts, tuple[str, ...]]]]:
        """The value without the keys that the class does not know, inner objects included; and those keys.

        Each is given as its path and the keys that are known there.
        """
        unknown: list[tuple[Parts, tuple[str, ...]]] = []
        if self._knows_all(value):
            return value, unknown
        return _pruned(value, self.schema, self.schema, (), unknown), unknown

    def _knows_all(self, value: dict[str, Any]) -> bool:
        """Whether flat settings have known keys only."""
        names = self.names
        return all(key in names and type(item) is not dict and type(item) is not list for key, item in value.items())

    def problems(self, value: dict[str, Any]) -> list[tuple[Parts, str]]:
        """The errors of a value, as (path, message); values are never repeated."""
        if _fits_obviously(value, self.schema):
            return []
        return [] if self._validator.fits(value) else self._validator.problems(value, DEFAULTS.max_errors)

    def make(self, value: dict[str, Any]) -> tuple[Any, list[tuple[Parts, str]]]:
        """The instance for a value without problems; or None, and the problems that the class itself reports."""
        convert = self._form.convert
        if convert is None:
            return value, []
        try:
            return convert(value), []
        except Misfit as misfit:
            return None, misfit.problems


def _whole(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema with its definitions, and an object at its root even where the class contains itself."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return {**schema, "$defs": definitions} if definitions else schema


def _is_plain(config: type) -> bool:
    """Whether a class holds nothing but annotations and defaults: no library builds its instances."""
    marks = ("__attrs_attrs__", "__dataclass_fields__", "__struct_fields__", "__total__", "_fields")
    return not any(hasattr(config, mark) for mark in marks)


def _plain_form(config: type, forms: Callable[[Any], Form]) -> Form:
    fields: list[tuple[str, Form, bool, Any]] = []
    defaults: dict[str, Any] = {}
    hints = [(name, hint) for name, hint in annotations_of(config).items() if not (name.startswith("_") or _is_class_var(hint))]
    for name, hint in hints:
        default = getattr(config, name, NO_DEFAULT)
        if default is not NO_DEFAULT:
            defaults[name] = default
        try:
            form = forms(hint)
        except UnsupportedType as error:
            raise UnsupportedType(f"{name}: {error}") from None
        fields.append((name, form, default is NO_DEFAULT, default))
    doc = parse_docstring(vars(config).get("__doc__") or "")
    schema = object_schema(fields, doc.parameters)
    if doc.text:
        schema = {"description": doc.text, **schema}
    converts = {name: form.convert for name, form, _, _ in fields}

    def convert(value: Mapping[str, Any]) -> Any:
        items = convert_items((key, entry, converts[key]) for key, entry in value.items())
        return _instance(config, {**defaults, **items}, items)

    return Form(schema, {"object"}, convert)


def _is_class_var(hint: Any) -> bool:
    from typing import ClassVar, get_origin

    bare = strip_annotated(hint)
    return bare is ClassVar or get_origin(bare) is ClassVar


def _instance(config: type, values: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """An instance of a plain class. A class with its own `__init__` gets the given values, another one all fields."""
    if config.__init__ is not object.__init__:
        try:
            return config(**given)
        except Exception as error:
            raise Misfit.of(f"refused: {error}") from None
    instance = config()
    for name, value in values.items():
        setattr(instance, name, value if name in given else copy.deepcopy(value))
    return instance


def _pruned(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: Parts, unknown: list[tuple[Parts, tuple[str, ...]]]
) -> Any:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if type(value) is list:
        items = schema.get("items")
        if isinstance(items, dict):
            return [_pruned(item, items, root, (*at, place), unknown) for place, item in enumerate(value)]
        return value
    if type(value) is not dict:
        return value
    if "anyOf" in schema:
        objects = [member for member in schema["anyOf"] if "$ref" in member or member.get("type") == "object"]
        return _pruned(value, objects[0], root, at, unknown) if len(objects) == 1 else value
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    kept: dict[str, Any] = {}
    for key, item in value.items():
        inner = properties.get(key, rest)
        if inner is False:
            unknown.append(((*at, key), tuple(properties)))
        else:
            kept[key] = _pruned(item, inner, root, (*at, key), unknown) if isinstance(inner, dict) else item
    return kept


def _fits_obviously(value: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether flat settings fit, without the library that compiles schemas; False only means that it must be asked."""
    properties = schema["properties"]
    if any(name not in value for name in schema.get("required", ())):
        return False
    return all(key in properties and _is_exact(item, properties[key]) for key, item in value.items())


def _is_exact(item: Any, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind in _EXACT:
        return type(item) in _EXACT[kind] and _SAYS_NOTHING.issuperset(schema)
    if kind == "object" and type(item) is dict:
        return not item and _SAYS_NOTHING.union(("additionalProperties",)).issuperset(schema)
    if kind == "array" and type(item) is list and _SAYS_NOTHING.union(("items",)).issuperset(schema):
        inner = schema.get("items", {})
        return isinstance(inner, dict) and all(_is_exact(entry, inner) for entry in item)
    return False
