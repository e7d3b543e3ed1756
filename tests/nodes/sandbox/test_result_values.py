"""How any Python value becomes JSON: the function that guests use, outside of them."""

from __future__ import annotations

import json
import math
from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.sandbox.values import MAX_DEPTH, ResultTooBig, encode_result

LIMIT = 10_000_000

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**1023, 2**1023 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
strange_keys = st.integers() | st.floats() | st.none() | st.booleans() | st.binary() | st.tuples(st.integers()) | st.text()
strange = st.recursive(
    plain | st.binary() | st.floats() | st.integers() | st.decimals() | st.complex_numbers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(strange_keys, inner, max_size=4),
    max_leaves=20,
)


class Listed:
    """What has `tolist`, as numpy's arrays and numbers."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value

    def __repr__(self) -> str:
        return "Listed()"


def encoded(value: object) -> Any:
    return msgspec.json.decode(encode_result(value, LIMIT))


@given(plain)
def test_what_is_json_already_stays_itself(value: Any) -> None:
    assert encoded(value) == value
    assert json.loads(encode_result(value, LIMIT)) == value


@given(strange)
def test_everything_else_becomes_json_too(value: Any) -> None:
    text = encode_result(value, LIMIT)
    assert json.loads(text, parse_constant=pytest.fail) == msgspec.json.decode(text)


@given(st.lists(strange_keys, max_size=8), st.integers())
def test_no_key_is_lost(keys: list[Any], value: int) -> None:
    mapping = {key: value for key in keys if key == key}
    assert len(encoded(mapping)) == len(mapping)
    assert all(key in encoded(mapping) for key in mapping if isinstance(key, str))


@given(strange, st.integers(0, 200))
def test_the_limit_is_kept_to_the_byte(value: Any, limit: int) -> None:
    whole = encode_result(value, LIMIT)
    if len(whole) <= limit:
        assert encode_result(value, limit) == whole
    else:
        with pytest.raises(ResultTooBig):
            encode_result(value, limit)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), "(1, 2)"),
        ({1}, "{1}"),
        (b"\xff", "b'\\xff'"),
        (1j, "1j"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (-0.0, 0),
        (2**64, 2**64),
        (math.factorial(170), math.factorial(170)),
        (-(2**1023), str(-(2**1023))),
        (array("d", [1.5, math.inf]), [1.5, "inf"]),
        (memoryview(b"ab"), [97, 98]),
        (Listed(Listed([(1,)])), ["(1,)"]),
        (Listed, repr(Listed)),
        ({Listed(1): 2, "1": 3}, {"1 (Listed)": 2, "1": 3}),
        ([{"a": (1,)}], [{"a": "(1,)"}]),
        ({1: "a", "1": "b"}, {"1 (int)": "a", "1": "b"}),
        ({True: 1, None: 2, 1.5: 3, (1,): 4}, {"True": 1, "None": 2, "1.5": 3, "(1,)": 4}),
        ("\ud83d\ude00", "😀"),
        ("a\ud800b", "a\ufffdb"),
        ('\0\x1f\x7f"\\/\n', '\0\x1f\x7f"\\/\n'),
        (type("S", (str,), {})("s"), "s"),
        (type("I", (int,), {})(3), 3),
        (type("L", (list,), {})([1]), [1]),
    ],
)
def test_what_the_documentation_says(value: Any, expected: Any) -> None:
    assert encoded(value) == expected


@pytest.mark.promise("python:result:ints")
def test_an_int_is_a_number_in_the_range_of_floats_and_no_digit_of_a_larger_one_is_lost() -> None:
    for most in (2**1023 - 1, 1 - 2**1023):
        assert encoded([most]) == [most]
        assert abs(float(most)) != math.inf
    assert encoded(10**4299) == "1" + "0" * 4299
    assert encoded(-(16**4000)) == "-0x1" + "0" * 4000
    assert encoded({16**4000: (16**4000,)}) == {"0x1" + "0" * 4000: "<tuple: repr() raised ValueError>"}
    with pytest.raises(ResultTooBig):
        encode_result([2**1000] * 100, 10_000)


def test_a_container_in_itself_is_marked_and_a_shared_one_is_not() -> None:
    knot: list[Any] = [1]
    knot.append({"again": knot})
    assert encoded(knot) == [1, {"again": "[...]"}]
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert encoded(loop) == {"self": "{...}"}
    shared = [1]
    assert encoded([shared, shared]) == [[1], [1]]


def test_nesting_ends_in_a_repr() -> None:
    value: Any = "core"
    for _ in range(MAX_DEPTH + 2):
        value = [value]
    found = encoded(value)
    for _ in range(MAX_DEPTH):
        (found,) = found
    assert found == "[['core']]"


def test_laughs_cost_no_more_than_the_limit() -> None:
    value: Any = ["ha"]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(ResultTooBig):
        encode_result(value, 100_000)


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Endless:
    def tolist(self) -> Endless:
        return self

    def __repr__(self) -> str:
        return "Endless()"


class Unlisted:
    def tolist(self, how: str) -> list[str]:
        return [how]

    def __repr__(self) -> str:
        return "Unlisted()"


def test_a_list_that_cannot_be_had_is_a_repr() -> None:
    assert encoded([Endless(), Unlisted()]) == ["Endless()", "Unlisted()"]


class Liar:
    def __repr__(self) -> Any:
        return 5


def test_a_repr_that_fails_is_told() -> None:
    assert encoded([Hostile(), Liar()]) == ["<Hostile: repr() raised RuntimeError>", "<Liar: repr() raised TypeError>"]
    assert encoded({Hostile(): 1}) == {"<Hostile: repr() raised RuntimeError>": 1}
