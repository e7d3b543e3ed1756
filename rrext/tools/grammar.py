"""The type grammar: the types that a tool may take, and the form of each. Other types are refused by name.

Texts and `msgspec.Meta` constraints of `Annotated` types become keywords of the schema.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from enum import Enum, Flag
from types import UnionType
from typing import Any, ForwardRef, Literal, NewType, Union, get_args, get_origin, is_typeddict

import msgspec

from rrext.tools.forms import (
    KINDS,
    NUMBER,
    Convert,
    Form,
    Misfit,
    UnsupportedType,
    convert_items,
    fixed_array,
    json_kind,
    type_name,
)

_LISTS = (list, Sequence, MutableSequence)
_DICTS = (dict, Mapping, MutableMapping)
_FORMATTED = ("datetime", "decimal", "uuid")
_SAFE_INTEGER = 2**53
"""Beyond it JSON peers compare integers as doubles, so they would confuse literals."""


class Grammar:
    """The forms of one tool's types. Recursive types become local definitions; others are written inline."""

    __slots__ = ("_known", "_open", "_recursive", "_scalars", "definitions")

    def __init__(self) -> None:
        self._scalars = scalar_forms()
        self._known: dict[Any, Form] = {}
        self._open: dict[Any, str] = {}
        self._recursive: set[Any] = set()
        self.definitions: dict[str, Any] = {}
        """The entries of `#/$defs`."""

    @property
    def classes(self) -> list[Any]:
        """The classes in the types so far."""
        return list(self._known)

    def form(self, hint: Any) -> Form:
        """The form of a type. Raises `UnsupportedType` with the type and the reason."""
        if hasattr(hint, "__metadata__"):
            return noted(self.form(hint.__origin__), hint.__metadata__, hint)
        found = self._scalars.get(hint) if _hashable(hint) else None
        if found is not None:
            return found
        if isinstance(hint, NewType):
            return self.form(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":  # `type X = …` of newer Pythons
            return self._once(hint, lambda: self.form(hint.__value__), None)
        if isinstance(hint, ForwardRef):
            raise UnsupportedType(f'"{hint.__forward_arg__}" is an alias that contains itself: use a class, or Any')
        return self._composed(hint)

    def _composed(self, hint: Any) -> Form:
        origin, args = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, UnionType):
            return _union([self.form(arg) for arg in args], hint)
        if origin is Literal:
            return _choice([(value, value) for value in args], hint)
        if origin in _LISTS:
            return _list(self.form(args[0] if args else Any))
        if origin in _DICTS:
            return self._dict(args, hint)
        if origin is tuple:
            return self._tuple((Any, ...) if hint in (tuple, typing.Tuple) else args)  # noqa: UP006 - the old spelling too
        if isinstance(hint, type):
            return self._class(hint)
        raise UnsupportedType(f"{type_name(hint)} has no form in JSON that callers and tools would agree on")

    def _class(self, cls: type) -> Form:
        if cls.__module__ in _FORMATTED:
            from rrext.tools.string_formats import format_forms

            found = format_forms().get(cls)
            if found is not None:
                return found
        if issubclass(cls, Enum) and not issubclass(cls, Flag):
            return _choice([(member.value, member) for member in cls], cls)
        if is_typeddict(cls) or _has_fields(cls):
            from rrext.tools.structure import class_form, outline

            return self._once(cls, lambda: class_form(cls, self.form), lambda: outline(cls))
        raise UnsupportedType(f"{type_name(cls)} has no form in JSON that callers and tools would agree on")

    def _once(self, key: Any, build: Callable[[], Form], outline: Callable[[], Form] | None) -> Form:
        """Build a form, unless it is known; a form that contains itself becomes a definition. `outline` gives the part of the
        form that is known before it is built."""
        if key in self._known:
            return self._known[key]
        if key in self._open:
            if outline is None:
                raise UnsupportedType(f"{key.__name__} is an alias that contains itself: use a class, or Any")
            self._recursive.add(key)
            known, inside = self._known, outline()
            return Form(
                self._reference(key), inside.kinds, lambda value: (known[key].convert or _same)(value), tags=inside.tags
            )
        self._open[key] = self._label(key.__name__)
        form = build()
        if key in self._recursive:
            self.definitions[self._open[key]] = form.schema
            form = Form(self._reference(key), form.kinds, form.convert, tags=form.tags)
        del self._open[key]
        self._known[key] = form
        return form

    def _reference(self, key: Any) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self._open[key]}"}

    def _label(self, name: str) -> str:
        taken = {*self._open.values(), *self.definitions}
        number = 1
        label = name
        while label in taken:
            number += 1
            label = f"{name}{number}"
        return label

    def _dict(self, args: tuple[Any, ...], hint: Any) -> Form:
        if not args:
            return Form({"type": "object", "additionalProperties": True}, {"object"})
        if args[0] is not str:
            raise UnsupportedType(f"{type_name(hint)} has keys that are no str: the keys of a JSON object are strings")
        item = self.form(args[1])
        schema: dict[str, Any] = {"type": "object", "additionalProperties": item.schema or True}
        inner = item.convert
        if inner is None:
            return Form(schema, {"object"})

        def convert(value: Any) -> dict[str, Any]:
            try:
                return {key: inner(entry) for key, entry in value.items()}
            except Misfit:
                return convert_items((key, entry, inner) for key, entry in value.items())

        return Form(schema, {"object"}, convert)

    def _tuple(self, args: tuple[Any, ...]) -> Form:
        if len(args) == 2 and args[1] is Ellipsis:
            items = _list(self.form(args[0]))
            inner = items.convert or _same
            return Form(items.schema, {"array"}, lambda value: tuple(inner(value)))
        return fixed_array([self.form(arg) for arg in args], len(args), tuple)


def _list(item: Form) -> Form:
    schema: dict[str, Any] = {"type": "array", "items": item.schema}  # models refuse an array without `items`
    inner, exact = item.convert, item.exact
    if inner is None:
        return Form(schema, {"array"})

    def convert(value: Any) -> list[Any]:
        if exact is not None and set(map(type, value)) <= {exact}:
            return value  # long lists of numbers, at the speed of C
        try:
            return [inner(entry) for entry in value]
        except Misfit:
            return list(convert_items((place, entry, inner) for place, entry in enumerate(value)).values())

    return Form(schema, {"array"}, convert)


def _choice(members: Sequence[tuple[Any, Any]], hint: Any) -> Form:
    """The form of an enumeration: pairs of the published value and the tool's value."""
    kinds: dict[str, None] = {}
    for value, _ in members:
        kind = json_kind(value)
        if kind not in ("null", "boolean", NUMBER, "string") or isinstance(value, float):
            raise UnsupportedType(f"{type_name(hint)} has a value that is neither str, int, bool nor None")
        if kind == NUMBER and abs(value) > _SAFE_INTEGER:
            raise UnsupportedType(f"{type_name(hint)} has an integer beyond 2**53: JSON peers mix it up with its neighbours")
        kinds[kind] = None
    if not kinds:
        raise UnsupportedType(f"{type_name(hint)} has no values")
    schema: dict[str, Any] = {"enum": [value for value, _ in members]}
    if len(kinds) == 1:
        schema = {"type": "integer" if NUMBER in kinds else next(iter(kinds)), **schema}
    if NUMBER not in kinds and all(value is member for value, member in members):
        return Form(schema, kinds)
    # True equals 1 in Python and not in JSON, so the table has the kind too; 1.0 and 1 are one number in both.
    table = {(json_kind(value), value): member for value, member in members}

    def convert(value: Any) -> Any:
        try:
            return table[json_kind(value), value]
        except (KeyError, TypeError):
            raise Misfit.of("expected one of the listed values") from None

    return Form(schema, kinds, convert)


def _union(members: list[Form], hint: Any) -> Form:
    """The form of a union; the JSON kind of the value selects the member, and a literal property selects among objects."""
    if any(member.kinds == KINDS for member in members):
        raise UnsupportedType(f"{type_name(hint)} contains Any: use Any alone")
    members = _one_number(members)
    objects = [member for member in members if member.kinds == {"object"}]
    others = [member for member in members if member.kinds != {"object"}]
    if len(objects) > 1:
        others.append(_tagged(objects, hint))
    else:
        others += objects
    owner: dict[str, Form] = {}
    for member in others:
        for kind in member.kinds:
            if kind in owner:
                raise UnsupportedType(f"{type_name(hint)} is ambiguous: two of its members are a JSON {kind}")
            owner[kind] = member
    schema = {"anyOf": [member.schema for member in members]} if len(members) > 1 else members[0].schema
    plain = all(member.plain for member in members)
    converts = {kind: member.convert for kind, member in owner.items()}
    if not any(converts.values()):
        return Form(schema, owner, plain=plain)

    def convert(value: Any) -> Any:
        inner = converts.get(json_kind(value))
        return value if inner is None else inner(value)

    return Form(schema, owner, convert, plain=plain)


def _one_number(members: list[Form]) -> list[Form]:
    """The members with `int | float` as one member: a number that stays as the caller sent it."""
    bare = [member for member in members if member.schema in ({"type": "integer"}, {"type": "number"})]
    if len(bare) < 2:
        return members
    at = members.index(bare[0])
    rest = [member for member in members if member not in bare]
    return [*rest[:at], Form({"type": "number"}, {NUMBER}), *rest[at:]]


def _tagged(objects: list[Form], hint: Any) -> Form:
    """The form of objects that differ in the literal string of a property that all of them require."""
    for name in objects[0].tags:
        owner = {tag: member for member in objects for tag in member.tags.get(name, ())}
        if all(name in member.tags for member in objects) and len(owner) == sum(len(member.tags[name]) for member in objects):
            return _by_tag(name, {tag: member.convert or _same for tag, member in owner.items()})
    raise UnsupportedType(f"{type_name(hint)} is ambiguous: give its classes a common field of different Literal strings")


def _by_tag(name: str, converts: Mapping[str, Convert]) -> Form:
    return Form({}, {"object"}, lambda value: converts[value[name]](value))


def _same(value: Any) -> Any:
    return value


def _has_fields(cls: type) -> bool:
    return (
        issubclass(cls, msgspec.Struct)
        or hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "__attrs_attrs__")
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


_NUMBERS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf"}
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}
_TEXTS = ("title", "description", "examples")


def noted(form: Form, notes: Iterable[Any], hint: Any) -> Form:
    """A form with the keywords of its annotations. Raises `UnsupportedType` for a constraint that does not apply to it."""
    keywords: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, str):
            keywords["description"] = note
        elif isinstance(note, msgspec.Meta):
            keywords.update(_meta(note, form, hint))
        elif isinstance(getattr(note, "documentation", None), str):  # typing_extensions.Doc
            keywords["description"] = note.documentation
    return form.extended(keywords)


def _meta(meta: msgspec.Meta, form: Form, hint: Any) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for name, keyword in _NUMBERS.items():
        limit = getattr(meta, name)
        if limit is not None:
            _require(NUMBER in form.kinds, name, hint)
            keywords[keyword] = limit
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        size = getattr(meta, name)
        if size is not None:
            sized = [_SIZES[kind] for kind in sorted(form.kinds) if kind in _SIZES]
            _require(bool(sized) and form.plain, name, hint)
            keywords.update({prefix + what: size for what in sized})
    if meta.pattern is not None:
        _require("string" in form.kinds and form.plain, "pattern", hint)
        keywords["pattern"] = meta.pattern
    if meta.tz is not None:
        # Published times always have an offset, so tz=True says nothing new and tz=False cannot be.
        _require(meta.tz and "format" in form.schema, "tz", hint)
    keywords.update({name: getattr(meta, name) for name in _TEXTS if getattr(meta, name) is not None})
    return {**keywords, **(meta.extra_json_schema or {})}


def _require(applies: bool, name: str, hint: Any) -> None:
    if not applies:
        raise UnsupportedType(f"Meta({name}=...) does not apply to {type_name(hint.__origin__)}")


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)  # JSON Schema: a number without fraction is an integer, however it is written
    raise Misfit.of("expected integer")


def _number(value: Any) -> float | int:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit.of("expected number")
    try:
        return float(value)
    except OverflowError:
        return value  # valid by its schema, with more digits than a float has range


def _bytes(value: Any) -> bytes:
    try:
        return msgspec.convert(value, bytes)
    except msgspec.ValidationError:
        raise Misfit.of("expected base64 (RFC 4648, with padding)") from None


def is_base64(value: Any) -> bool:
    """Whether a JSON value is base64 as `bytes` parameters accept it."""
    try:
        _bytes(value)
    except Misfit:
        return False
    return True


def scalar_forms() -> dict[Any, Form]:
    """The form of each scalar type of JSON; and of bytes, as base64."""
    return {
        Any: Form({}, KINDS),
        None: Form({"type": "null"}, {"null"}),
        type(None): Form({"type": "null"}, {"null"}),
        bool: Form({"type": "boolean"}, {"boolean"}),
        int: Form({"type": "integer"}, {NUMBER}, _integer, exact=int),
        float: Form({"type": "number"}, {NUMBER}, _number, exact=float),
        str: Form({"type": "string"}, {"string"}),
        bytes: Form({"type": "string", "contentEncoding": "base64"}, {"string"}, _bytes, plain=False),
    }
