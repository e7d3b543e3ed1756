"""Vectors by hashing: the same everywhere, of length 1, and nearer to what is worded alike."""

from __future__ import annotations

import os
import subprocess
import sys
from math import isclose, sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.errors import Cancelled, InvalidArguments
from rrext.nodes.embeddings.embedder import HashingEmbedder, batches, hashed
from rrext.tools.context import ToolContext

ROOT = Path(__file__).resolve().parents[3]
EXPECTED = [0.0] * 2 + [-0.19245008972987526] + [0.0] * 5 + [0.9622504486493763, 0.19245008972987526] + [0.0] * 6
"""The vector of "one", of 16 numbers: the word itself, and two of its three trigrams; the third fell together with it."""
NOT_BLANK = st.text(min_size=1).filter(lambda text: bool(text.strip()))


def likeness(first: str, second: str) -> float:
    return sum(a * b for a, b in zip(hashed(first), hashed(second), strict=True))


@given(NOT_BLANK, st.integers(16, 400))
def test_every_text_has_a_vector_of_length_one(text: str, size: int) -> None:
    vector = hashed(text, size)
    assert len(vector) == size
    assert isclose(sqrt(sum(number * number for number in vector)), 1.0, rel_tol=1e-12)


def test_a_text_has_the_same_vector_in_every_process_and_every_version() -> None:
    code = "from rrext.nodes.embeddings.embedder import hashed; print(repr(hashed('Grüße an alle: ½ Tag frei!', 24)))"
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        assert said.strip() == repr(hashed("Grüße an alle: ½ Tag frei!", 24))
    # What was stored by one version has to be found by the next: these numbers never change.
    assert hashed("one", 16) == EXPECTED


@pytest.mark.parametrize(
    ("first", "second"),
    [("Straße", "STRASSE"), ("é", "e\u0301"), ("ＡＢＣ", "abc"), ("a,b;  c", "a b c"), ("ﬁne", "fine"), ("ℌello", "hello")],
)
def test_writing_the_same_in_another_way_makes_no_difference(first: str, second: str) -> None:
    assert hashed(first) == hashed(second)


def test_features_that_cancel_each_other_out_leave_a_vector_all_the_same() -> None:
    assert hashed("cada", 1) == [1.0]


def test_texts_that_share_words_are_nearer_than_texts_that_share_none() -> None:
    question = "Why was the database connection refused?"
    near, spelt_alike, far = "The database refused the connection.", "databases, connections", "Bananas are rich in potassium."
    assert likeness(question, near) > 0.4 > likeness(question, spelt_alike) > 0.1 > likeness(question, far)


def test_the_order_of_two_words_counts() -> None:
    assert hashed("dog bites man") != hashed("man bites dog")


def test_a_blank_text_has_no_vector_and_says_which_one_it_was() -> None:
    with pytest.raises(InvalidArguments) as caught:
        HashingEmbedder().embed(["a", " \n"], "document", ToolContext())
    assert "/input/texts/1" in str(caught.value.data)


def test_a_call_that_nobody_waits_for_ends_between_two_texts() -> None:
    ctx = ToolContext()
    ctx.token.cancel()
    with pytest.raises(Cancelled):
        HashingEmbedder().embed(["a"], "query", ctx)


@given(st.lists(st.text(max_size=9)), st.integers(1, 5), st.integers(1, 20))
def test_batches_lose_nothing_and_keep_their_limits(texts: list[str], most: int, characters: int) -> None:
    found = list(batches(texts, most, characters))
    assert [text for batch in found for text in batch] == texts
    for batch in found:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(map(len, batch)) <= characters
