"""Strict JSON in both directions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import ParseError
from rrext.wire.codec import decode, encode, insert_member, quote

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(VALUES)
def test_a_json_value_comes_back_as_it_was(value: Any) -> None:
    assert decode(encode(value)) == value
    assert decode(memoryview(bytearray(json.dumps(value).encode()))) == value


def test_the_last_of_equal_keys_counts() -> None:
    assert decode(b'{"a":1,"a":2}') == {"a": 2}


def test_integers_of_any_size_that_is_sane_are_exact() -> None:
    assert decode(b"123456789012345678901234567890") == 123456789012345678901234567890


@pytest.mark.parametrize(
    "text", [b"", b"NaN", b"-Infinity", b"1e400", b'"\\ud800"', b"[1,]", b"{}x", b"\xef\xbb\xbf1", b"9" * 5000]
)
def test_what_is_no_json_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ParseError, match="not JSON"):
        decode(text)


@pytest.mark.parametrize("text", [b'"\xff"', b'{"\xff":1}', b'{"a":["\xed\xa0\x80"]}', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"'])
def test_what_is_no_utf8_is_a_parse_error_wherever_it_stands(text: bytes) -> None:
    with pytest.raises(ParseError, match="not UTF-8"):
        decode(text)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 50_000])
def test_nesting_too_deep_for_the_decoder_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ParseError, match="nested too deeply"):
        decode(text)


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (math.nan, "/: nan is not JSON"),
        ({"a": [1, {"b/c~d": math.inf}]}, "/a/1/b~1c~0d: inf is not JSON"),
        ({"a": {1: 2}}, "/a: the key 1 is no string"),
        ({None: 2}, "/: the key None is no string"),
        ({"a": object()}, "/a: a value of type object is not JSON"),
        ([{1, 2}], "/0: a value of type set is not JSON"),
        ((1, (2, 1j)), "/1/1: a value of type complex is not JSON"),
        (LOOP, "contains itself"),
        ("\ud800", "lone surrogate"),
        ({"\udc00": 1}, "lone surrogate"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        encode(value)
    assert says in str(caught.value)


def test_tuples_and_bytes_have_a_form_in_json() -> None:
    assert encode({"a": (1, True, None), "b": b"\x00\xff"}) == b'{"a":[1,true,null],"b":"AP8="}'


def test_a_name_is_quoted_even_if_it_is_no_utf8() -> None:
    assert quote('a"b') == b'"a\\"b"'
    assert decode(quote("a\ud800b")) == "a?b"


@given(st.dictionaries(TEXT.filter("new".__ne__), VALUES, max_size=3), VALUES)
def test_a_member_can_be_added_to_an_encoded_object(body: dict[str, Any], value: Any) -> None:
    assert decode(insert_member(encode(body), "new", encode(value))) == {**body, "new": value}
