"""Text is split where the text says, however it arrives; nothing of it is lost, and no piece is too large."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from rrext.nodes.documents.formats import table_of
from rrext.nodes.documents.splitter import (
    STRATEGIES,
    Characters,
    EstimatedTokens,
    Measure,
    Passage,
    Splitter,
    Tokens,
    safe_cut,
    table_parts,
)

WORDS = (
    *("The ", "otter ", "swims. ", "e.g. ", "\n", "\n\n", "\r\n", "# Head\n", "## Sub ##\n", "#no\n", "```\n", "~~~\n"),
    *("\t", "  ", "def f():\n", "    return 1\n", "}\n", "é", "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪", "。", "! ", "x" * 30),
    *("\u3000", "A"),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=120).map("".join)


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


TOKENIZER = word_tokenizer()
MEASURES: dict[str, Callable[[int], Measure]] = {
    "characters": Characters,
    "estimated tokens": EstimatedTokens,
    "tokens": lambda size: Tokens(size, TOKENIZER),
}


def split(text: str, strategy: str, measure: Measure, overlap: int = 0, cuts: Sequence[int] = ()) -> list[Passage]:
    """The pieces of a text that arrives in parts."""
    splitter = Splitter(strategy, measure, overlap)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found: list[Passage] = []
    for begin, end in pairwise(places):
        found += splitter.feed(text[begin:end])
    return [*found, *splitter.finish()]


def texts(strategy: str, text: str, size: int, overlap: int = 0) -> list[str]:
    return [passage.text for passage in split(text, strategy, Characters(size), overlap)]


ANY_STRATEGY = st.sampled_from(list(STRATEGIES))
ANY_MEASURE = st.sampled_from(list(MEASURES))
SIZES = st.integers(16, 80)


@given(TEXTS, ANY_STRATEGY, ANY_MEASURE, SIZES, st.integers(0, 8), st.lists(st.integers(0, 2000), max_size=20))
@pytest.mark.promise("document:split:any-cut")
def test_pieces_do_not_depend_on_how_the_text_arrives(
    text: str, strategy: str, measure: str, size: int, overlap: int, cuts: list[int]
) -> None:
    whole = split(text, strategy, MEASURES[measure](size), overlap)
    assert split(text, strategy, MEASURES[measure](size), overlap, cuts) == whole


@given(TEXTS, ANY_STRATEGY, ANY_MEASURE, SIZES)
def test_without_overlap_the_pieces_joined_are_the_text_but_for_pieces_of_white_space(
    text: str, strategy: str, measure: str, size: int
) -> None:
    place = 0
    for passage in split(text, strategy, MEASURES[measure](size)):
        assert not text[place : passage.start].strip()
        assert text[passage.start :].startswith(passage.text)
        assert passage.line == text[: passage.start].count("\n") + 1
        place = passage.start + len(passage.text)
    assert not text[place:].strip()


@given(TEXTS, ANY_STRATEGY, ANY_MEASURE, SIZES, st.integers(0, 8))
def test_no_piece_is_larger_than_its_size_and_none_is_blank(
    text: str, strategy: str, measure: str, size: int, overlap: int
) -> None:
    used = MEASURES[measure](size)
    for passage in split(text, strategy, used, overlap):
        assert used.fits(passage.text)
        assert passage.text.strip()
        assert passage.text == text[passage.start : passage.end]


@given(TEXTS, ANY_STRATEGY, SIZES, st.integers(1, 8))
@example("The The e\u0301\notter ", "characters", 16, 2)
def test_what_overlaps_is_the_end_of_the_piece_before(text: str, strategy: str, size: int, overlap: int) -> None:
    pieces = split(text, strategy, Characters(size), overlap)
    for before, piece in pairwise(pieces):
        again = before.start + len(before.text) - piece.start
        assert again <= overlap
        assert text[piece.start :].startswith(piece.text)


@given(TEXTS, ANY_STRATEGY, SIZES)
def test_no_piece_begins_inside_what_a_person_sees_as_one_character(text: str, strategy: str, size: int) -> None:
    for passage in split(text, strategy, Characters(size)):
        before, first = text[passage.start - 1 : passage.start], passage.text[0]
        assert unicodedata.category(first) not in ("Mn", "Me")
        assert "\u200d" not in (before, first)
        assert (before, first) != ("\r", "\n")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", ["\n", "\n\n ", " ", ".", '"', ". ", "e\u0301", "\u200d", "# a\n", "```\n", "🇩🇪"])
def test_a_large_text_of_one_thing_takes_no_more_time_than_any_other(strategy: str, text: str) -> None:
    whole = text * (200_000 // len(text))
    pieces = split(whole + "end", strategy, Characters(100_000), 1000)
    assert pieces[-1].text.endswith("end")


def test_flags_are_kept_whole() -> None:
    flags = "🇩🇪🇫🇷🇮🇹🇳🇱" * 10
    assert all(len(piece) % 2 == 0 for piece in texts("characters", flags, 17))


def test_a_character_of_too_many_parts_is_cut_after_all() -> None:
    assert safe_cut("e" + "\u0301" * 500, 200) == 200


def test_memory_holds_no_more_than_a_window_of_the_text() -> None:
    splitter = Splitter("characters", Characters(100))
    for _ in range(1000):
        list(splitter.feed("word " * 200))
        assert len(splitter._text) + sum(map(len, splitter._parts)) < 1000


# --- strategies ---


def test_paragraphs_come_before_lines_lines_before_sentences_and_those_before_words() -> None:
    assert texts("characters", "One two three.\n\nFour five six seven.", 30) == ["One two three.\n\n", "Four five six seven."]
    assert texts("characters", "One two three. Four\nfive six seven eight.", 30) == [
        "One two three. Four\n",
        "five six seven eight.",
    ]
    assert texts("characters", "One two three. Four five six.", 24) == ["One two three. ", "Four five six."]
    assert texts("characters", "one two three four", 16) == ["one two three ", "four"]
    assert texts("characters", "x" * 40, 16) == ["x" * 16, "x" * 16, "x" * 8]


def test_sentences_are_kept_whole_if_they_fit() -> None:
    text = "It rained. Nobody came, e.g. from town. Why? No idea! 雨だ。誰も来ない。"
    assert texts("sentences", text, 30) == ["It rained. ", "Nobody came, e.g. from town. ", "Why? No idea! 雨だ。誰も来ない。"]
    assert texts("sentences", "word " * 10 + "end.", 24) == ["word word word word ", "word word word word ", "word word end."]


MARKDOWN = """Before.

# One
## Deep
Text.

```
# no heading
```

# Two #
More.
"""


def test_markdown_is_cut_before_headings_and_each_piece_knows_those_above_it() -> None:
    pieces = split(MARKDOWN, "markdown", Characters(200), 20)
    assert [(passage.text.strip()[:6], passage.headings) for passage in pieces] == [
        ("Before", ()),
        ("# One\n", ("One", "Deep")),
        ("# Two ", ("Two",)),
    ]


def test_a_section_that_is_too_long_is_cut_and_keeps_its_headings() -> None:
    pieces = split("# Long\n\n" + "Some words here. " * 40, "markdown", Characters(100), 20)
    assert len(pieces) > 5
    assert {passage.headings for passage in pieces} == {("Long",)}


def test_the_headings_above_what_comes_next_are_known_before_it_is_split() -> None:
    splitter = Splitter("markdown", Characters(1000))
    assert list(splitter.feed("# One\ntext\n## Two\n")) == []
    assert splitter.headings == ("One", "Two")
    assert [passage.headings for passage in splitter.finish()] == [("One",), ("One", "Two")]


def test_code_is_cut_between_definitions() -> None:
    code = "def a():\n    x = 1\n\n    return x\n\n\ndef b():\n    return 2\n\n\nclass C:\n    pass\n"
    assert texts("code", code, 50) == [
        "def a():\n    x = 1\n\n    return x\n\n\n",
        "def b():\n    return 2\n\n\nclass C:\n    pass\n",
    ]


def test_what_overlaps_in_code_is_whole_lines_if_there_are_any() -> None:
    code = "".join(f"line {n} of code\n" for n in range(9))
    assert texts("code", code, 40, 20)[1] == "line 1 of code\nline 2 of code\n"


# --- sizes ---


def test_estimated_tokens_have_four_bytes() -> None:
    assert texts_of(EstimatedTokens(16), "x" * 100) == ["x" * 64, "x" * 36]
    assert texts_of(EstimatedTokens(16), "雨" * 40) == ["雨" * 21, "雨" * 19]


def test_tokens_are_those_of_the_tokenizer() -> None:
    pieces = texts_of(Tokens(16, TOKENIZER), "word, " * 30)
    assert [len(TOKENIZER.encode(piece).ids) for piece in pieces] == [16, 16, 16, 12]


def texts_of(measure: Measure, text: str) -> list[str]:
    return [passage.text for passage in split(text, "characters", measure)]


# --- tables ---


@given(st.lists(st.lists(st.text("abc |", min_size=1, max_size=12), min_size=1, max_size=4), min_size=1, max_size=12), SIZES)
def test_a_table_is_split_into_tables_that_fit(rows: list[list[str]], size: int) -> None:
    table = table_of(rows)
    measure = Characters(size)
    parts = list(table_parts(table, measure))
    assert all(measure.fits(part) for part in parts)
    header = "".join(table.splitlines(keepends=True)[:2])
    names = [part for part in parts if part.startswith(header)]
    if names:
        parts = [header, *(part.removeprefix(header) for part in parts)]
    assert "".join("".join(parts).split()) == "".join(table.split())


def test_every_part_of_a_table_has_the_names_of_the_columns() -> None:
    table = table_of([["name", "price"], *([f"thing {n}", str(n)] for n in range(20))])
    parts = list(table_parts(table, Characters(100)))
    assert len(parts) > 3
    assert all(part.startswith("| name | price |\n| --- | --- |\n| thing") for part in parts)


@pytest.mark.parametrize("table", ["", "no table at all\n", "| only |\n", "| a |\n| - |\n"])
def test_a_table_that_fits_stays_as_it_is(table: str) -> None:
    assert list(table_parts(table, Characters(100))) == [table]
