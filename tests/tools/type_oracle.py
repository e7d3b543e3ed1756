"""The type grammar once more, written for the tests alone: types made at random, JSON values for them, and what a tool must
get for a value. Nothing here knows how `rrext.tools` does it."""

from __future__ import annotations

import base64
import dataclasses
import enum
import itertools
import math
import re
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, Union
from uuid import UUID

import attrs
import msgspec
from hypothesis import strategies as st


class Refused(Exception):
    """The type does not take this JSON value."""


def must(fits: bool) -> None:
    if not fits:
        raise Refused


# what a tool gets


def expected(hint: Any, value: Any) -> Any:
    """The Python value for a JSON value of a type; raises `Refused`."""
    if hint is Any:
        return value
    if hint in _SCALARS:
        return _SCALARS[hint](value)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(args, value)
    if origin is Literal:
        return _one_of([(option, option) for option in args], value)
    if origin is list:
        must(isinstance(value, list))
        return [expected(args[0], entry) for entry in value]
    if origin is dict:
        must(isinstance(value, dict))
        return {key: expected(args[1], entry) for key, entry in value.items()}
    if origin is tuple:
        must(isinstance(value, list))
        hints = [args[0]] * len(value) if args[1:] == (...,) else list(args)
        must(len(hints) == len(value))
        return tuple(expected(inner, entry) for inner, entry in zip(hints, value, strict=True))
    if issubclass(hint, enum.Enum):
        return _one_of([(member.value, member) for member in hint], value)
    return _instance(hint, value)


def _integer(value: Any) -> int:
    must(isinstance(value, int | float) and not isinstance(value, bool) and value == math.floor(value))
    return int(value)


def _number(value: Any) -> float:
    must(isinstance(value, int | float) and not isinstance(value, bool))
    return float(value)


def _exactly(kind: type) -> typing.Callable[[Any], Any]:
    def take(value: Any) -> Any:
        must(type(value) is kind)
        return value

    return take


def _text(parse: typing.Callable[[str], Any], pattern: str) -> typing.Callable[[Any], Any]:
    def take(value: Any) -> Any:
        must(isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) is not None)
        try:
            return parse(value)
        except ValueError:
            raise Refused from None

    return take


def _base64(value: Any) -> bytes:
    must(isinstance(value, str) and value.isascii())
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Refused from None


OFFSET = r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
_SCALARS: dict[Any, typing.Callable[[Any], Any]] = {
    type(None): _exactly(type(None)),
    None: _exactly(type(None)),
    bool: _exactly(bool),
    int: _integer,
    float: _number,
    str: _exactly(str),
    bytes: _base64,
    date: _text(date.fromisoformat, r"\d{4}-\d\d-\d\d"),
    datetime: _text(
        lambda text: datetime.fromisoformat(text.upper()), r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?" + OFFSET
    ),
    time: _text(time.fromisoformat, r"\d\d:\d\d:\d\d(\.\d{1,6})?" + OFFSET),
    UUID: _text(UUID, r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    Decimal: _text(Decimal, r"-?\d+(\.\d+)?"),
}


def _union(args: tuple[Any, ...], value: Any) -> Any:
    if {int, float} <= set(args) and isinstance(value, int | float) and not isinstance(value, bool):
        return value  # a number as it was sent
    for arg in args:
        try:
            return expected(arg, value)
        except Refused:
            continue
    raise Refused


def _one_of(options: list[tuple[Any, Any]], value: Any) -> Any:
    for option, member in options:
        same_kind = isinstance(option, bool) == isinstance(value, bool) and isinstance(option, str) == isinstance(value, str)
        if same_kind and option == value:
            return member
    raise Refused


def _instance(cls: Any, value: Any) -> Any:
    hints = typing.get_type_hints(cls, include_extras=True)
    if issubclass(cls, tuple):
        must(isinstance(value, list) and len(cls._fields) - len(cls._field_defaults) <= len(value) <= len(cls._fields))
        return cls(*(expected(hints[name], entry) for name, entry in zip(cls._fields, value, strict=False)))
    must(isinstance(value, dict))
    optional = {name for name, hint in hints.items() if typing.get_origin(hint) is NotRequired}
    optional |= _with_default(cls)
    must(value.keys() <= hints.keys() and hints.keys() - optional <= value.keys())
    plain = {name: typing.get_args(hint)[0] if typing.get_origin(hint) is NotRequired else hint for name, hint in hints.items()}
    return cls(**{name: expected(plain[name], entry) for name, entry in value.items()})


def _with_default(cls: Any) -> set[str]:
    if dataclasses.is_dataclass(cls):
        return {f.name for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}
    if attrs.has(cls):
        return {f.name for f in attrs.fields(cls) if f.default is not attrs.NOTHING}
    if issubclass(cls, msgspec.Struct):
        return {f.name for f in msgspec.structs.fields(cls) if not f.required}
    return set()


# types, at random

KINDS = {
    "null": [type(None)],
    "boolean": [bool],
    "number": [int, float],
    "string": [str, bytes, date, datetime, time, UUID, Decimal],
}
_numbers = itertools.count()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 10


literals = st.lists(
    st.one_of(st.integers(-3, 3), st.booleans(), st.sampled_from(["a", "b", ""])), min_size=1, max_size=4, unique_by=repr
).map(lambda options: Literal[tuple(options)])
scalars = st.sampled_from([hint for hints in KINDS.values() for hint in hints] + [Any, Colour, Size])


@st.composite
def unions(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    members: list[Any] = [draw(st.sampled_from(hints)) for hints in draw(st.permutations(list(KINDS.values())))]
    members.append(list[draw(inner)])
    members.append(dict[str, draw(inner)])
    chosen = draw(st.lists(st.sampled_from(members), min_size=2, max_size=4, unique_by=str))
    if int in chosen and draw(st.booleans()):
        chosen.append(float)
    return Union[tuple(chosen)]  # noqa: UP007 - made of a tuple


@st.composite
def classes(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    fields = [(f"f{n}", draw(inner)) for n in range(draw(st.integers(0, 3)))]
    name = f"Made{next(_numbers)}"
    match draw(st.sampled_from(["dataclass", "attrs", "struct", "typed_dict", "named_tuple"])):
        case "dataclass":
            return dataclasses.make_dataclass(name, [*fields, ("g", int, 3)] if draw(st.booleans()) else fields)
        case "attrs":
            made = {field: attrs.field(type=hint) for field, hint in fields}
            return attrs.make_class(name, {**made, "g": attrs.field(type=int, default=3)} if draw(st.booleans()) else made)
        case "struct":
            return msgspec.defstruct(name, [*fields, ("g", int, 3)] if draw(st.booleans()) else fields)
        case "typed_dict":
            return TypedDict(name, dict(fields) | ({"g": NotRequired[int]} if draw(st.booleans()) else {}))
        case _:
            return NamedTuple(name, fields)


hints = st.recursive(
    scalars | literals,
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),
        inner.map(lambda hint: dict[str, hint]),
        inner.map(lambda hint: tuple[hint, ...]),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: tuple[tuple(parts)]),
        inner.filter(lambda hint: hint is not Any).map(lambda hint: hint | None),
        unions(inner),
        classes(inner),
    ),
    max_leaves=6,
)

# JSON values, at random

json_numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(-5, 12).map(float),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
)
texts = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["a", "b", "red", "1", "true", "QQ==", "QQ", "Q Q=", "QUJD", "12.50", "-0", "1e5", "NaN", ".5", "1."]),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.times().map(lambda moment: moment.isoformat() + "+02:00"),
    st.uuids().map(str),
    st.sampled_from(
        [
            "2026-11-21T09:30:00Z", "2026-11-21t09:30:00z", "2026-11-21 09:30:00Z", "2026-11-21T09:30:00", "2026-02-30",
            "2026-11-21T09:30:00+24:00", "2026-11-21T24:00:00Z", "09:30:00", "09:30:00Z", "9:30:00Z", "20261121",
            "2026-1-1", "2026-11-21T09:30:00-00:00", "2026-11-21T09:30:00.5Z", "2026-11-21T09:30:00,5Z", "09:30Z",
            "12345678123412341234123456789abc", "{12345678-1234-1234-1234-123456789abc}", "2026-W01-1", "１２",
        ]
    ),
)  # fmt: skip
json_scalars = st.one_of(st.none(), st.booleans(), json_numbers, texts)
json_values = st.recursive(
    json_scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["f0", "f1", "f2", "g", "k"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def values_of(draw: st.DrawFn, hint: Any) -> Any:
    """A JSON value that mostly fits a type: some places are anything at all."""
    if draw(st.integers(0, 11)) == 0:
        return draw(json_values)
    return draw(_fitting(hint))


def _fitting(hint: Any) -> st.SearchStrategy[Any]:
    if hint is Any:
        return json_values
    simple = {
        type(None): st.none(),
        bool: st.booleans(),
        int: json_numbers,
        float: json_numbers,
        str: texts,
        bytes: st.binary(max_size=4).map(lambda raw: base64.b64encode(raw).decode()),
        Colour: st.sampled_from(["red", "blue", "RED"]),
        Size: st.sampled_from([1, 10, 10.0, 2, True]),
    }
    if hint in simple:
        return simple[hint]
    if hint in _SCALARS:
        return texts
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args) | st.sampled_from([0, 1, 1.0, True, False, -0.0, "a"])
    if origin is list:
        return st.lists(values_of(args[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=2), values_of(args[1]), max_size=3)
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=3) if args[1:] == (...,) else _row([values_of(arg) for arg in args])
    return _object(hint)


def _row(places: list[st.SearchStrategy[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.tuples(*places).map(list).flatmap(lambda row: st.sampled_from([row, row, row, row[:-1], [*row, None]]))


def _object(cls: Any) -> st.SearchStrategy[Any]:
    named = typing.get_type_hints(cls, include_extras=True)
    plain = {key: typing.get_args(hint)[0] if typing.get_origin(hint) is NotRequired else hint for key, hint in named.items()}
    if issubclass(cls, tuple):
        return _row([values_of(plain[name]) for name in cls._fields])
    optional = _with_default(cls) | {key for key, hint in named.items() if typing.get_origin(hint) is NotRequired}
    entries = {key: values_of(hint) for key, hint in plain.items()}
    fixed = st.fixed_dictionaries(
        {key: entry for key, entry in entries.items() if key not in optional},
        optional={key: entry for key, entry in entries.items() if key in optional},
    )
    return st.one_of(
        fixed, fixed, fixed, fixed.map(lambda found: {**found, "k": 1}), fixed.map(lambda found: dict(list(found.items())[1:]))
    )
