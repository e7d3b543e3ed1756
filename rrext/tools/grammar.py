"""The type grammar: which types a tool may take, and the form of each. Everything else is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from enum import Enum, Flag
from types import UnionType
from typing import Any, ForwardRef, Literal, NewType, Union, get_args, get_origin, is_typeddict

import msgspec

from rrext.tools.constraints import noted
from rrext.tools.forms import KINDS, NUMBER, Form, Misfit, UnsupportedType, convert_items, json_kind, type_name
from rrext.tools.scalars import scalar_forms

__all__ = ["Grammar"]

_LISTS = (list, Sequence, MutableSequence)
_DICTS = (dict, Mapping, MutableMapping)
_FORMATTED = ("datetime", "decimal", "uuid")
_SAFE_INTEGER = 2**53
"""Beyond it JSON peers compare integers as doubles, so literals would be mixed up."""


class Grammar:
    """Makes the forms of one tool's types. Recursive types become local definitions, all others are written out."""

    __slots__ = ("_known", "_open", "_recursive", "_scalars", "definitions")

    def __init__(self) -> None:
        self._scalars = scalar_forms()
        self._known: dict[Any, Form] = {}
        self._open: dict[Any, str] = {}
        self._recursive: set[Any] = set()
        self.definitions: dict[str, Any] = {}
        """What `#/$defs` has to hold."""

    def form(self, hint: Any) -> Form:
        """The form of a type. Raises `UnsupportedType`, which names the type and says why."""
        if hasattr(hint, "__metadata__"):
            return noted(self.form(hint.__origin__), hint.__metadata__, hint)
        found = self._scalars.get(hint) if _hashable(hint) else None
        if found is not None:
            return found
        if isinstance(hint, NewType):
            return self.form(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":  # `type X = …` of newer Pythons
            return self._once(hint, hint.__name__, lambda: self.form(hint.__value__))
        if isinstance(hint, ForwardRef):
            raise UnsupportedType(f'"{hint.__forward_arg__}" is an alias that contains itself: use a class, or Any')
        return self._composed(hint)

    def _composed(self, hint: Any) -> Form:
        origin, args = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, UnionType):
            return _union([self.form(arg) for arg in args], hint)
        if origin is Literal:
            return _choice({value: value for value in args}, hint)
        if origin in _LISTS:
            return _list(self.form(args[0] if args else Any))
        if origin in _DICTS:
            return self._dict(args, hint)
        if origin is tuple:
            return self._tuple(args)
        if isinstance(hint, type):
            return self._class(hint)
        raise UnsupportedType(f"{type_name(hint)} has no form in JSON that callers and tools would agree on")

    def _class(self, cls: type) -> Form:
        if cls.__module__ in _FORMATTED:
            from rrext.tools.formats import format_forms

            found = format_forms().get(cls)
            if found is not None:
                return found
        if issubclass(cls, Enum) and not issubclass(cls, Flag):
            return _choice({member.value: member for member in cls}, cls)
        if is_typeddict(cls) or _has_fields(cls):
            from rrext.tools.structure import class_form

            return self._once(cls, cls.__name__, lambda: class_form(cls, self.form))
        raise UnsupportedType(f"{type_name(cls)} has no form in JSON that callers and tools would agree on")

    def _once(self, key: Any, name: str, build: Callable[[], Form]) -> Form:
        """Build a form, unless it is known; where it contains itself, it becomes a definition."""
        if key in self._known:
            return self._known[key]
        if key in self._open:
            self._recursive.add(key)
            # What it will be is not known yet; classes are objects, and aliases in themselves are refused as unions.
            return Form({"$ref": f"#/$defs/{self._open[key]}"}, {"object"}, lambda value: self._known[key].convert(value))  # type: ignore[misc]
        taken = {*self._open.values(), *self.definitions}
        label = name if name not in taken else next(f"{name}{n}" for n in range(2, len(taken) + 3) if f"{name}{n}" not in taken)
        self._open[key] = label
        try:
            form = build()
        finally:
            del self._open[key]
        if key in self._recursive:
            self.definitions[label] = form.schema
            reference = {"$ref": f"#/$defs/{label}"}
            form = Form(reference, form.kinds, form.convert or _same, plain=form.plain, tags=form.tags)
        self._known[key] = form
        return form

    def _dict(self, args: tuple[Any, ...], hint: Any) -> Form:
        if not args:
            return Form({"type": "object"}, {"object"})
        if args[0] is not str:
            raise UnsupportedType(f"{type_name(hint)} has keys that are no str: the keys of a JSON object are strings")
        item = self.form(args[1])
        schema = {"type": "object", "additionalProperties": item.schema} if item.schema else {"type": "object"}
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
        if not args or (len(args) == 2 and args[1] is Ellipsis):
            items = _list(self.form(args[0] if args else Any))
            inner = items.convert or _same
            return Form(items.schema, {"array"}, lambda value: tuple(inner(value)))
        if args == ((),):
            args = ()
        return fixed_array([self.form(arg) for arg in args], len(args), tuple)


def fixed_array(items: Sequence[Form], required: int, make: Callable[[list[Any]], Any]) -> Form:
    """An array with a type for each place, of which the first `required` must be there."""
    schema: dict[str, Any] = {"type": "array"}
    if items:
        schema["prefixItems"] = [item.schema for item in items]
    schema |= {"items": False, "minItems": required, "maxItems": len(items)}
    converts = [item.convert for item in items]

    def convert(value: Any) -> Any:
        places = convert_items((place, *pair) for place, pair in enumerate(zip(value, converts, strict=False)))
        return make(list(places.values()))

    return Form(schema, {"array"}, convert)


def _list(item: Form) -> Form:
    schema = {"type": "array", "items": item.schema} if item.schema else {"type": "array"}
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


def _choice(members: Mapping[Any, Any], hint: Any) -> Form:
    """One of some values: what is published, and what the tool gets for it."""
    kinds: dict[str, None] = {}
    for value in members:
        kind = json_kind(value)
        if kind not in ("null", "boolean", NUMBER, "string") or isinstance(value, float):
            raise UnsupportedType(f"{type_name(hint)} has a value that is neither str, int, bool nor None")
        if kind == NUMBER and abs(value) > _SAFE_INTEGER:
            raise UnsupportedType(f"{type_name(hint)} has an integer beyond 2**53, which JSON peers cannot tell from its neighbours")
        kinds[kind] = None
    if not kinds:
        raise UnsupportedType(f"{type_name(hint)} has no values")
    schema: dict[str, Any] = {"enum": list(members)}
    if len(kinds) == 1:
        schema = {"type": "integer" if NUMBER in kinds else next(iter(kinds)), **schema}
    if NUMBER not in kinds and all(value is member for value, member in members.items()):
        return Form(schema, kinds)
    # True equals 1 in Python and not in JSON, so the table has the kind too; 1.0 and 1 are one number in both.
    table = {(json_kind(value), value): member for value, member in members.items()}

    def convert(value: Any) -> Any:
        try:
            return table[json_kind(value), value]
        except (KeyError, TypeError):
            raise Misfit.here("expected one of the listed values") from None

    return Form(schema, kinds, convert)


def _union(members: list[Form], hint: Any) -> Form:
    """One of some forms, told apart by the JSON kind of the value, and objects by a literal property."""
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
    """`int | float` is one member, a number that stays as it was sent."""
    bare = [member for member in members if member.schema in ({"type": "integer"}, {"type": "number"})]
    if len(bare) < 2:
        return members
    at = members.index(bare[0])
    rest = [member for member in members if member not in bare]
    return [*rest[:at], Form({"type": "number"}, {NUMBER}), *rest[at:]]


def _tagged(objects: list[Form], hint: Any) -> Form:
    """Objects that differ in the literal string of a property that all of them require."""
    for name in objects[0].tags:
        if not all(name in member.tags for member in objects):
            continue
        owner = {tag: member for member in objects for tag in member.tags[name]}
        if len(owner) == sum(len(member.tags[name]) for member in objects):
            converts = {tag: member.convert or _same for tag, member in owner.items()}
            return Form({}, {"object"}, lambda value: converts[value[name]](value))
    raise UnsupportedType(f"{type_name(hint)} is ambiguous: give its classes a common field of different Literal strings")


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
