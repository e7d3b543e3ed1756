"""What is kept of a stream: its beginning and end, in bounded memory, in whole characters."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.sandbox.outcome import Capture, cut_middle


def fed(pieces: list[bytes], limit: int) -> Capture:
    capture = Capture(limit)
    for piece in pieces:
        capture.feed(piece)
    return capture


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.text(max_size=300), st.integers(60, 100), st.lists(st.integers(0, 1000), max_size=8))
def test_however_it_arrives_the_text_is_the_same(text: str, limit: int, cuts: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert fed(split(text.encode(), cuts), limit).text() == cut_middle(text, limit)


@given(st.text(min_size=1, max_size=40), st.integers(1, 400), st.integers(60, 100))
def test_a_long_stream_gives_what_the_whole_text_would(piece: str, times: int, limit: int) -> None:
    piece = piece.encode("utf-8", "replace").decode()
    assert fed([piece.encode()] * times, limit).text() == cut_middle(piece * times, limit)


@given(st.text(max_size=500), st.integers(60, 100))
def test_the_cut_text_has_both_ends_and_counts_what_is_missing(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    assert len(cut) <= limit
    if len(text) <= limit:
        assert cut == text
        return
    found = re.fullmatch(r"(.*)\n… \[(\d+) characters left out\] …\n(.*)", cut, re.DOTALL)
    assert found
    first, count, last = found.groups()
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first) + len(last) + int(count) == len(text)


@given(st.lists(st.binary(max_size=200), max_size=50))
def test_bytes_that_are_no_text_never_fail(pieces: list[bytes]) -> None:
    assert len(fed(pieces, 80).text()) <= 80


@pytest.mark.parametrize("limit", range(60))
def test_even_a_tiny_limit_is_kept(limit: int) -> None:
    assert len(cut_middle("x" * 100, limit)) <= limit


def test_memory_stays_bounded() -> None:
    capture = Capture(1000)
    for _ in range(2000):
        capture.feed(b"x" * 1000)
        assert len(capture._head) + len(capture._tail) <= 6 * 1000 + 1000
    assert capture.text().count("x") == 1000 - len("\n… [1999043 characters left out] …\n")
