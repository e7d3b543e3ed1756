"""Expectations of results: the differences that are told, and the expectations that `--update` writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.testing.expectations import differences, flaws, updated

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "a\nb", "a\nc\n"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "$any", "$at", "$x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def told(expected: Any, actual: Any) -> list[str]:
    return [str(each) for each in differences(expected, actual)]


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        (1, 1.0, []),
        (1, True, ["the result: expected 1, got true"]),
        (None, 0, ["the result: expected null, got 0"]),
        ({"a": 1}, {"a": 2, "b": 3}, ["/a: expected 1, got 2", "/b: is not expected: 3"]),
        ({"a/b": {"c": 1}}, {"a/b": {}}, ["/a~1b/c: expected 1, and it is missing"]),
        ([1, 2, 3], [1, 3], ["/1: expected 2, and it is missing"]),
        ([1, 3], [1, 2, 3], ["/1: is not expected: 2"]),
        ([1, {"a": 2}], [1, {"a": 3}, 4], ["/1/a: expected 2, got 3", "/2: is not expected: 4"]),
        ("a\nb", "a\nc", ["the result: another text (- expected, + got)\n a\n-b\n+c"]),
        ("a", "a\n", ['the result: expected "a", got "a\\n"']),
        ({"$pattern": "^20"}, "2026", []),
        ({"$pattern": "^20"}, "1926", ['the result: does not fit the pattern "^20": "1926"']),
        ({"$pattern": "^20"}, 20, ['the result: expected a text that fits the pattern "^20", got 20']),
        ({"$schema": {"type": "object", "required": ["a"]}}, {"a": 1}, []),
        ({"$schema": {"properties": {"a": {"type": "string"}}}}, {"a": 1}, ["/a: expected string, got integer: 1"]),
        ({"$any": True}, [1], []),
        ({"a": {"$any": True}}, {}, ['/a: expected {"$any":true}, and it is missing']),
        ({"$at": {"/rows/1/id": 7, "/rows/0": {"id": {"$any": True}}}}, {"rows": [{"id": 1}, {"id": 7}], "more": 1}, []),
        ({"$at": {"/rows/2/id": 7}}, {"rows": []}, ["/rows/2/id: expected 7, and it is missing"]),
        ({"$at": {"": {"a": 1}}}, {"a": 1}, []),
        ({"$equals": {"$any": True}}, {"$any": True}, []),
        ({"$equals": {"$any": True}}, 1, ['the result: expected {"$any":true}, got 1']),
        ({"$equals": 1}, True, ["the result: expected 1, got true"]),
        ({"$any": 1, "b": 2}, {"$any": 1, "b": 2}, []),
    ],
)
def test_what_is_not_as_expected_is_told_with_its_place(expected: Any, actual: Any, lines: list[str]):
    assert told(expected, actual) == lines


def test_a_long_value_is_cut():
    (line,) = told(1, "x" * 100_000)
    assert len(line) < 400
    assert "(100,002 characters)" in line


def test_long_texts_and_lists_are_compared_in_bounded_time_and_words():
    texts = ["\n".join(f"{word} {number} of a long text" for number in range(100_000)) for word in ("one", "two")]
    lists = [list(range(50_000)), list(range(1, 50_000))]
    assert len(told(*texts)[0]) < 1000
    assert told(*lists)[0] == "/0: expected 0, got 1"
    (line,) = told(*("\n".join([word * 1000] * 400) for word in ("one", "two")))
    assert len(line) < 50_000


def test_a_pattern_that_would_take_for_ever_is_given_up():
    (line,) = told({"$pattern": "^(x+)+$"}, "x" * 40 + "!")
    assert line.startswith("the result: does not fit the pattern")


@pytest.mark.parametrize(
    ("expected", "path", "words"),
    [
        ({"$pattern": "("}, "/e/$pattern", "is no regular expression"),
        ({"$pattern": 1}, "/e/$pattern", "is no regular expression"),
        ({"a": [{"$schema": {"type": 7}}]}, "/e/a/0/$schema", "is no JSON Schema"),
        ({"$at": []}, "/e/$at", "expected an object of pointers"),
        ({"$at": {"rows": 1}}, "/e/$at/rows", 'a pointer begins with "/": "/rows"'),
        ({"$at": {"/a": {"$pattern": "["}}}, "/e/$at/~1a/$pattern", "is no regular expression"),
    ],
)
def test_an_expectation_that_nothing_can_meet_is_a_problem(expected: Any, path: str, words: str):
    ((place, text),) = flaws(expected, "/e")
    assert place == path
    assert text.startswith(words)


@given(VALUES)
def test_a_result_meets_the_expectation_that_is_written_of_it(actual: Any):
    assert told(updated(msgspec.UNSET, actual), actual) == []


@given(VALUES, VALUES)
def test_an_updated_expectation_is_met_whatever_was_expected_before(expected: Any, actual: Any):
    if not any(flaws(expected, "")):
        assert told(updated(expected, actual), actual) == []


def test_an_update_keeps_what_still_holds():
    expected = {"at": {"$pattern": "^2026-"}, "rows": [{"id": {"$any": True}, "n": 1}], "gone": 1}
    actual = {"at": "2026-11-29", "rows": [{"id": 9, "n": 2}], "new": 3}
    assert updated(expected, actual) == {"at": {"$pattern": "^2026-"}, "rows": [{"id": {"$any": True}, "n": 2}], "new": 3}
    assert updated({"$at": {"/a": 1, "/b": {"$any": True}, "/c": 0}}, {"a": 2, "b": 5}) == {
        "$at": {"/a": 2, "/b": {"$any": True}}
    }
