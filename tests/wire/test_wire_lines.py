"""Lines come out whole, however the bytes are cut, and a line that is too long costs no more than it may."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import RrextError
from rrext.limits import READ_BUFFER, Limits
from rrext.wire.framing import Lines
from rrext.wire.messages import Fatal

Seen: TypeAlias = bytes | tuple[str, bytes]

LIMITS = Limits(max_frame=200_000, max_header=512, id_recovery=16)

line = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b" "))
long_line = st.integers(400, 220_000).map(lambda size: b"{" + b"x" * (size - 1))


def framer() -> Lines[Seen]:
    made: Lines[Seen] = Lines(LIMITS)

    def refused(error: RrextError, start: memoryview) -> Seen:
        return error.code, bytes(start)

    made.deliver(lambda json, tail, nbytes: bytes(json), refused)
    return made


def expected(lines: list[bytes]) -> list[Seen]:
    """What a reader that splits at newlines sees."""
    seen: list[Seen] = []
    for text in lines:
        if len(text) > LIMITS.max_frame:
            seen.append(("frame_too_large", text[: LIMITS.id_recovery]))
        elif text.strip():
            seen.append(text)
    return seen


@given(lines=st.lists(st.one_of(line, long_line), max_size=12), cuts=st.lists(st.integers(0, 2_000_000), max_size=12))
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(text + b"\n" for text in lines)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    reader = framer()
    seen = [event for start, stop in pairwise(places) for event in reader.receive_data(data[start:stop])]
    assert seen == expected(lines)
    assert reader.receive_eof() == []


@pytest.mark.parametrize("size", [LIMITS.max_frame - 1, LIMITS.max_frame, LIMITS.max_frame + 1, LIMITS.max_frame + 2])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_is_taken_up_to_the_limit(size: int, end: bytes) -> None:
    reader = framer()
    text = b"{" + b"x" * (size - 1)
    seen = reader.receive_data(text + end + b"{}\n")
    kept = text + end.rstrip(b"\n")
    fits = len(kept) <= LIMITS.max_frame
    assert seen == [kept if fits else ("frame_too_large", text[: LIMITS.id_recovery]), b"{}"]


def test_a_line_without_an_end_is_refused_once_and_holds_no_memory() -> None:
    reader = framer()
    events = [event for _ in range(100) for event in reader.receive_data(b"x" * 10_000)]
    assert events == [("frame_too_large", b"x" * LIMITS.id_recovery)]
    assert len(reader.get_buffer()) <= READ_BUFFER
    assert reader.receive_data(b"\n{}\n") == [b"{}"]


def test_input_that_ends_inside_a_line_is_told() -> None:
    reader = framer()
    assert reader.receive_data(b'{"a"') == []
    (fatal,) = reader.receive_eof()
    assert isinstance(fatal, Fatal)
    assert "inside a line" in fatal.error.message


def test_the_buffer_is_small_before_and_after_a_large_line() -> None:
    reader = framer()
    assert len(reader.get_buffer()) == LIMITS.max_header
    assert reader.receive_data(b"x" * 150_000) == []
    assert len(reader.get_buffer()) > 0
    assert reader.receive_data(b"x" * 50_000 + b"\n") == [b"x" * 200_000]
    assert len(reader.get_buffer()) <= READ_BUFFER


def test_what_is_sent_is_one_line() -> None:
    reader = framer()
    assert b"".join(reader.frame([b'{"a":', b"1}"])) == b'{"a":1}\n'
    assert b"".join(reader.frame([b"x" * 100_000])) == b"x" * 100_000 + b"\n"
