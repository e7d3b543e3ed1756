"""Parameters in the form of an engine: JSON of an answer becomes the database's value again.

`{"base64": …}` is bytes. Ladybug gets integers beyond 64 bits as decimals. It turns texts into dates, times, numbers and UUIDs
by itself where it expects these, but takes no ISO duration for an interval and no object for a map: that its error says, and
`ParameterVariants` makes the parameters as expected there. A text elsewhere stays a text, and an object a struct.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from itertools import chain, combinations
from typing import Any, Final, TypeAlias

import msgspec

from rrext.nodes.graph.limits import READING_ATTEMPTS

INTEGERS: Final = range(-(2**63), 2**63)
INTERVAL: Final = re.compile(r'parsing interval\. Given: "(.*?)"', re.S)
MAP: Final = re.compile(r"casting function from STRUCT.* to MAP|casting function from MAP.* to |is incompatible with MAP")
"""The engine's messages for a missing map, and for an unexpected one."""
DURATION: Final = re.compile(r"-?P(?=[0-9T])(?:[0-9.]+[YMWD])*(?:T(?:[0-9.]+[HMS])+)?")

Shape: TypeAlias = "tuple[str, ...]"
"""The path of a value in the parameters: names and keys, without list indexes."""


def bytes_in(value: Any) -> Any:
    """The value with every nested `{"base64": …}` as bytes."""
    match value:
        case {"base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return value
        case dict():
            return {key: bytes_in(entry) for key, entry in value.items()}
        case list():
            return [bytes_in(entry) for entry in value]
        case _:
            return value


def wide_integers_in(value: Any) -> Any:
    """The value with every nested integer beyond 64 bits as a decimal."""
    match value:
        case int() if value not in INTEGERS:
            return Decimal(value)
        case dict():
            return {key: wide_integers_in(entry) for key, entry in value.items()}
        case list():
            return [wide_integers_in(entry) for entry in value]
        case _:
            return value


class ParameterVariants:
    """The parameters of one Ladybug statement, and their variants with other types.

    An error says what is expected, and not where. So places are tried one by one, then two by two: the fewest that help are
    those where the engine expects it, and no text or object elsewhere becomes another value.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.params: dict[str, Any] = wide_integers_in(bytes_in(dict(params)))
        self._base = self.params  # the parameters before the current variant
        self._problem = ""
        self._ways: Iterator[tuple[Shape, ...]] = iter(())
        self._left = READING_ATTEMPTS

    def learn(self, message: str) -> bool:
        """Take the expected type from the engine's error; return whether `params` changed."""
        if (found := INTERVAL.search(message)) is not None:
            return DURATION.fullmatch(found[1]) is not None and self._tried(
                found[1], lambda value: value == found[1], _interval
            )
        if MAP.search(message) is not None:
            return self._tried("a map", _is_object, _map)
        return False

    def _tried(self, problem: str, is_meant: Callable[[Any], bool], make: Callable[[Any], Any]) -> bool:
        """Convert the values at the next paths, in all entries of a list."""
        if problem != self._problem:
            shapes: dict[Shape, None] = {}
            _search((), self.params, is_meant, shapes)
            deepest_first = sorted((shape for shape in shapes if shape), key=len, reverse=True)
            self._problem, self._base = problem, self.params
            self._ways = chain.from_iterable(combinations(deepest_first, size + 1) for size in range(len(deepest_first)))
        way = next(self._ways, None)
        self._left -= 1
        if way is None or self._left < 0:
            return False
        self.params = _remade((), self._base, frozenset(way), make)
        return True


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _search(shape: Shape, value: Any, is_meant: Callable[[Any], bool], found: dict[Shape, None]) -> None:
    if is_meant(value):
        found[shape] = None
    if isinstance(value, dict):
        for key, entry in value.items():
            _search((*shape, key), entry, is_meant, found)
    elif isinstance(value, list):
        for entry in value:
            _search(shape, entry, is_meant, found)


def _remade(shape: Shape, value: Any, shapes: frozenset[Shape], make: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_remade(shape, entry, shapes, make) for entry in value]
    if isinstance(value, dict):
        value = {key: _remade((*shape, key), entry, shapes, make) for key, entry in value.items()}
    return make(value) if shape in shapes else value


def _interval(value: Any) -> Any:
    if not isinstance(value, str) or DURATION.fullmatch(value) is None:
        return value
    try:
        return msgspec.convert(value, timedelta)
    except msgspec.ValidationError:  # months and years, which a Python duration lacks
        return value


def _map(value: Any) -> Any:
    return {"key": list(value), "value": list(value.values())} if isinstance(value, dict) else value
