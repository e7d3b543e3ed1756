"""The id of what cannot be read is found where it is an id, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.wire.messages import MAX_ID
from rrext.wire.recovery import recover_members


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"id":5,', {"id": 5}),
        (b'{"id":5}', {"id": 5}),
        (b' \r\n\t{ "id" : 5 , ', {"id": 5}),
        (b'{"id":"x","seq":7,"jsonrpc":"2.0","request_seq":8,', {"id": "x", "seq": 7, "jsonrpc": "2.0", "request_seq": 8}),
        (b'{"id":-5,', {"id": -5}),
        (b'{"id":5,"id":6,', {"id": 6}),
        (b'{"id":"\xc3\xbc\\n\\u00fc",', {"id": "ü\nü"}),
        (b'{"\\u0069d":5,', {"id": 5}),
        (b'{"a":"\\"id\\":1,","id":5,', {"id": 5}),
        (b'{"a":{"id":1},"b":[{"id":2},["id",3]],"id":5,', {"id": 5}),
        (b'{"a":NaN,"id":5,', {"id": 5}),
        (b'{"a":"line\nbreak \xff","id":5,', {"id": 5}),
        (b'{"a":[1,,}}', {}),
        (b'{"id":5', {}),
        (b'{"id":"x"', {}),
        (b'{"id":"x', {}),
        (b'{"id":', {}),
        (b'{"id"', {}),
        (b'{"i', {}),
        (b"{", {}),
        (b"", {}),
        (b"[1", {}),
        (b'[{"id":5,', {}),
        (b'"id":5,', {}),
        (b'{"a":{"id":5,', {}),
        (b'{"a":"id\\":5,', {}),
        (b'{"a":1}{"id":5,', {}),
        (b'{"a":[}],"id":5,', {}),
        (b'{"a":[},"id":5,', {}),
        (b'{"a":{],"id":5,', {}),
        (b'{"a":1}"id":5,', {}),
        (b'{"a" "b","id":5,', {}),
        (b'{"a":1 "id":5,', {}),
        (b'{,"id":5,', {}),
        (b"{id:5,", {}),
        (b'{"id":5.0,', {"id": None}),
        (b'{"id":5e0,', {"id": None}),
        (b'{"id":05,', {"id": None}),
        (b'{"id":true,', {"id": None}),
        (b'{"id":null,', {"id": None}),
        (b'{"id":{"a":1},', {"id": None}),
        (b'{"id":[5],', {"id": None}),
        (b'{"id":"\xff",', {"id": None}),
        (b'{"id":%d,' % MAX_ID, {"id": MAX_ID}),
        (b'{"id":%d,' % (MAX_ID + 1), {"id": None}),
        (b'{"id":5,"id":null,', {"id": None}),
        (b"\xff\xfe{\x00", {}),
    ],
)
def test_only_a_top_level_member_that_is_whole_is_found(text: bytes, found: dict[str, Any]) -> None:
    assert recover_members(text) == found
    assert recover_members(memoryview(bytearray(text))) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "seq", "a"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


def usable(value: object) -> int | str | None:
    if isinstance(value, str):
        return None if any(0xD800 <= ord(c) <= 0xDFFF for c in value) else value
    return value if type(value) is int and abs(value) <= MAX_ID else None


@given(
    st.dictionaries(
        st.sampled_from(["id", "seq", "jsonrpc", "a", "b"]) | st.text(), VALUES | st.integers() | st.text(), max_size=6
    ),
    st.booleans(),
)
def test_it_agrees_with_a_parser_on_what_a_parser_can_read(message: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(message, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    wanted = {"id", "seq", "request_seq", "jsonrpc"}
    assert recover_members(text) == {name: usable(value) for name, value in message.items() if name in wanted}


@given(st.dictionaries(st.sampled_from(["id", "seq", "a", "b"]), VALUES | st.integers() | st.text(), max_size=6), st.data())
def test_what_is_found_in_a_cut_off_message_is_what_the_whole_one_says(message: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(message).encode()
    cut = data.draw(st.integers(0, len(text)))
    whole = recover_members(text)
    found = recover_members(text[:cut])
    assert found.items() <= whole.items()


@given(st.binary(max_size=300))
def test_it_never_raises(text: bytes) -> None:
    recover_members(text)
    recover_members(b'{"id":' + text)


@pytest.mark.parametrize(
    "text", [b'"\\' * 2048, b'"\\"' * 1365, b"{" * 4096, b'{"a":' * 819, b'{"' + b"\\" * 4094, b"[{" * 2048]
)
def test_nesting_and_escapes_of_the_whole_window_are_no_trouble(text: bytes) -> None:
    assert recover_members(text) == {}
    assert recover_members(b'{"id":5,"a":' + text) == {"id": 5}
