"""What a result is expected to be: a JSON value, in which an object with one key that begins with `$` stands for many values.

`{"$pattern": …}`, `{"$schema": …}`, `{"$any": true}`, `{"$at": {pointer: expectation}}`; `{"$equals": …}` is a value as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import Any, Final

import msgspec

from rrext.pipefile.text.problems import below, value_at
from rrext.tools.validation import InvalidSchema, SchemaValidator, pointer

MATCHERS: Final = ("$any", "$at", "$equals", "$pattern", "$schema")
"""The keys that make an object an expectation of another kind."""
LONGEST: Final = 300
"""Characters of a value in a message."""
MOST_LINES: Final = 500
"""Lines of a text, and items of a list, up to which what moved is looked for: it takes their square at worst."""
MOST_SHOWN: Final = 40
"""Lines of a difference of two texts that are told."""
MOST_PROBLEMS: Final = 5
"""Problems of a schema that are told."""


class Difference(msgspec.Struct, frozen=True):
    """What is not as expected at a place of a result. `path` is a JSON pointer, `text` a sentence."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the result'}: {self.text}"


def matcher_of(expected: Any) -> str | None:
    """The kind of an expectation that stands for many values; None for a value as it stands."""
    if isinstance(expected, dict) and len(expected) == 1:
        (key,) = expected
        return key if key in MATCHERS else None
    return None


def flaws(expected: Any, path: str) -> Iterator[tuple[str, str]]:
    """The expectations in `expected` that nothing can meet, each with its pointer and a sentence."""
    kind = matcher_of(expected)
    if kind is None:
        for key, value in _members(expected):
            yield from flaws(value, below(path, key))
        return
    given, path = expected[kind], below(path, kind)
    if kind == "$pattern":
        try:
            SchemaValidator({"pattern": given}).compile()
        except InvalidSchema:
            yield path, "is no regular expression (ECMA 262, as in JSON Schema)"
    elif kind == "$schema":
        try:
            SchemaValidator(given).compile()
        except (InvalidSchema, TypeError, ValueError, AttributeError) as error:
            yield path, f"is no JSON Schema: {error}"
    elif kind == "$at":
        if not isinstance(given, dict):
            yield path, "expected an object of pointers and expectations"
            return
        for place, inner in given.items():
            if place and not place.startswith("/"):
                yield below(path, place), f'a pointer begins with "/": "/{place}"'
            yield from flaws(inner, below(path, place))


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[Difference]:
    """What of a result is not as expected, from left to right."""
    kind = matcher_of(expected)
    if kind is not None:
        yield from _MATCH[kind](expected[kind], actual, path)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys([*expected, *actual]):
            place = below(path, key)
            if key not in actual:
                yield Difference(place, f"expected {shown(expected[key])}, and it is missing")
            elif key not in expected:
                yield Difference(place, f"is not expected: {shown(actual[key])}")
            else:
                yield from differences(expected[key], actual[key], place)
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _items(expected, actual, path)
    elif isinstance(expected, str) and isinstance(actual, str) and expected != actual and _have_lines(expected, actual):
        lines = unified_diff(expected.split("\n"), actual.split("\n"), n=1, lineterm="")
        shown_lines = (line for line in lines if not line.startswith(("---", "+++", "@@")))
        told = [line if len(line) <= LONGEST else f"{line[:LONGEST]}…" for line in islice(shown_lines, MOST_SHOWN)]
        yield Difference(path, "\n".join(["another text (- expected, + got)", *told]))
    elif not _same(expected, actual):
        yield Difference(path, f"expected {shown(expected)}, got {shown(actual)}")


def updated(expected: Any, actual: Any) -> Any:
    """The expectation that a result meets: that of before where it still holds, else the result. `UNSET` is none."""
    if expected is not msgspec.UNSET and not any(differences(expected, actual)):
        return expected
    before: Any = expected
    kind = matcher_of(before)
    if kind == "$at":
        found = {place: (inner, value_at(actual, place)) for place, inner in before[kind].items()}
        there = {place: updated(*each) for place, each in found.items() if each[1] is not msgspec.UNSET}
        if there:
            return {kind: there}
    if matcher_of(actual) is not None:
        return {"$equals": actual}
    if isinstance(actual, dict):
        known: dict[str, Any] = before if kind is None and isinstance(before, dict) else {}
        return {key: updated(known.get(key, msgspec.UNSET), value) for key, value in actual.items()}
    if isinstance(actual, list):
        is_alike = isinstance(before, list) and len(before) == len(actual)
        items: list[Any] = before if is_alike else [msgspec.UNSET] * len(actual)
        return [updated(inner, value) for inner, value in zip(items, actual, strict=True)]
    return actual


def shown(value: Any) -> str:
    """A value in a message: its JSON, cut if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _have_lines(expected: str, actual: str) -> bool:
    return all(1 <= text.count("\n") < MOST_LINES for text in (expected, actual))


def _same(expected: Any, actual: Any) -> bool:
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)


def _items(expected: list[Any], actual: list[Any], path: str) -> Iterator[Difference]:
    """Items that lack, items that are too many, and differences of the others, which may have moved for these."""
    if len(expected) == len(actual) or max(len(expected), len(actual)) > MOST_LINES:
        steps = [("replace", 0, len(expected), 0, len(actual))]
    else:
        encoded = [[msgspec.json.encode(each) for each in items] for items in (expected, actual)]
        steps = SequenceMatcher(None, *encoded, autojunk=False).get_opcodes()
    for kind, first, last, begin, end in steps:
        if kind == "equal":
            continue
        both = min(last - first, end - begin)
        for place in range(both):
            yield from differences(expected[first + place], actual[begin + place], below(path, begin + place))
        for place in range(first + both, last):
            yield Difference(below(path, begin + both), f"expected {shown(expected[place])}, and it is missing")
        for place in range(begin + both, end):
            yield Difference(below(path, place), f"is not expected: {shown(actual[place])}")


def _equals(given: Any, actual: Any, path: str) -> Iterator[Difference]:
    if not _identical(given, actual):
        yield Difference(path, f"expected {shown(given)}, got {shown(actual)}")


def _identical(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_identical(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_identical, one, other))
    return _same(one, other)


def _any(given: Any, actual: Any, path: str) -> Iterator[Difference]:
    del given, actual, path
    yield from ()


def _pattern(given: str, actual: Any, path: str) -> Iterator[Difference]:
    """The engine of schemas gives up where Python's would take for ever."""
    if not isinstance(actual, str):
        yield Difference(path, f"expected a text that fits the pattern {shown(given)}, got {shown(actual)}")
    elif not SchemaValidator({"pattern": given}).fits(actual):
        yield Difference(path, f"does not fit the pattern {shown(given)}: {shown(actual)}")


def _schema(given: Mapping[str, Any], actual: Any, path: str) -> Iterator[Difference]:
    validator = SchemaValidator(given)
    if not validator.fits(actual):
        for place, text in validator.problems(actual, MOST_PROBLEMS):
            value = value_at(actual, pointer("", place))
            yield Difference(pointer(path, place), text if value is msgspec.UNSET else f"{text}: {shown(value)}")


def _at(given: Mapping[str, Any], actual: Any, path: str) -> Iterator[Difference]:
    for place, inner in given.items():
        value = value_at(actual, place)
        if value is msgspec.UNSET:
            yield Difference(path + place, f"expected {shown(inner)}, and it is missing")
        else:
            yield from differences(inner, value, path + place)


_MATCH: Final[Mapping[str, Callable[[Any, Any, str], Iterator[Difference]]]] = {
    "$any": _any,
    "$at": _at,
    "$equals": _equals,
    "$pattern": _pattern,
    "$schema": _schema,
}
