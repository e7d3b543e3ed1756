"""Positions and edits mean what they mean to the editor that sends them, whatever the text and whatever its units."""

from __future__ import annotations

import pytest
from editor.unit_oracle import NaiveText, units_of
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.editor.text import MARK_STEP, Position, Text, Unit

UNITS: tuple[Unit, ...] = ("utf-8", "utf-16", "utf-32")

ALPHABET = [
    *'ab \t{}",:',
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",  # a form feed
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "é",
    "e\u0301",  # the same with a combining character
    "ß",
    "√",
    "字",
    "😀",
    "👩‍👩‍👧",
    "🇩🇪",
    "\U0010ffff",
    "\ufeff",
]
HALVES = ["\ud83d", "\ude00", "\udbff", "\udc00"]

texts = st.lists(st.sampled_from(ALPHABET), max_size=24).map("".join)
broken_texts = st.lists(st.sampled_from([*ALPHABET, *HALVES, *HALVES]), max_size=16).map("".join)
numbers = st.one_of(st.integers(-2, 12), st.sampled_from([-(2**31), 2**31 - 1, 2**32, 2**64]))
places = st.tuples(numbers, numbers)
units = st.sampled_from(UNITS)


def lines_of(text: Text) -> list[str]:
    """The lines without their ends, by the places where they begin and end."""
    last = text.position(len(text.content))[0]
    return [text.content[text.offset(line, 0) : text.offset(line, 2**31)] for line in range(last + 1)]


@given(texts, places, units)
def test_a_place_means_the_offset_that_an_editor_means(text: str, place: Position, unit: Unit) -> None:
    index = NaiveText(text, unit).index(place)
    whole = [offset for offset in range(len(text) + 1) if len(units_of(text[:offset], unit)) <= index]
    assert Text(text, unit).offset(*place) == whole[-1], "inside of a character it is the place before it"


@given(texts, units)
def test_the_place_of_every_offset_is_the_editors_and_leads_back(text: str, unit: Unit) -> None:
    naive, ours = NaiveText(text, unit), Text(text, unit)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n" and offset:
            assert ours.position(offset) == ours.position(offset - 1), "between CR and LF no editor can be"
        else:
            assert ours.position(offset) == naive.place(len(units_of(text[:offset], unit)))
            assert ours.offset(*ours.position(offset)) == offset


@given(texts, units)
def test_lines_are_the_editors(text: str, unit: Unit) -> None:
    naive, ours = NaiveText(text, unit), Text(text, unit)
    lines = naive.lines()
    assert len(lines_of(ours)) == len(lines)
    for number, (start, end) in enumerate(lines):
        assert units_of(lines_of(ours)[number], unit) == naive.units[start:end]


@pytest.mark.parametrize("unit", UNITS)
def test_offsets_outside_of_the_text_are_its_ends(unit: Unit) -> None:
    text = Text("a\n😀b", unit)
    assert text.position(-7) == (0, 0)
    assert text.position(99) == text.position(4)


@given(broken_texts, st.lists(st.tuples(places, places, broken_texts), max_size=6))
@example("😀", [((0, 1), (0, 1), "x")])
@example("😀", [((0, 1), (0, 2), "")])
@example("a😀", [((0, 2), (0, 2), "\ude00\ud83d")])
@example("\ude00", [((0, 0), (0, 0), "\ud83d")])
@example("😀\r\n😀", [((0, 1), (1, 1), "")])
def test_edits_in_utf_16_leave_what_the_editor_has_also_where_they_cut_characters_in_two(
    text: str, edits: list[tuple[Position, Position, str]]
) -> None:
    naive, ours = NaiveText(text, "utf-16"), Text("").edited((0, 0), (0, 0), text)
    assert ours.content == naive.text
    for start, end, new in edits:
        naive.replace(start, end, new)
        ours = ours.edited(start, end, new)
        assert ours.content == naive.text
        assert_fresh(ours)


@given(texts, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), texts), max_size=6), units)
def test_edits_in_any_unit_leave_what_the_editor_has(text: str, edits: list[tuple[int, int, str]], unit: Unit) -> None:
    naive, ours = NaiveText(text, unit), Text(text, unit)
    for first, last, new in edits:
        start, end = (ours.position(min(offset, len(ours.content))) for offset in (first, last))
        naive.replace(start, end, new)
        ours = ours.edited(start, end, new)
        assert ours.content == naive.text
        assert_fresh(ours)


def assert_fresh(text: Text) -> None:
    """Lines that were carried over from the text before are those that a new text has."""
    fresh = Text(text.content, text.unit)
    assert lines_of(text) == lines_of(fresh)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [2 * MARK_STEP - 1, 2 * MARK_STEP, 2900])
def test_a_long_line_has_places_everywhere(unit: Unit, size: int) -> None:
    line = ("x" * 700 + "é😀字" * 500 + "y" * 700)[-size:]
    naive, ours = NaiveText(f"\n{line}\n", unit), Text(f"\n{line}\n", unit)
    for offset in [*range(0, size, 7), size]:
        place = ours.position(1 + offset)
        assert place == (1, len(units_of(line[:offset], unit)))
        assert ours.offset(*place) == 1 + offset
    beyond = naive.place(len(naive.units) - 1)
    assert ours.offset(1, beyond[1] + 1) == 1 + size


def test_a_place_inside_of_an_emoji_is_the_place_before_it() -> None:
    assert Text("a😀b", "utf-16").offset(0, 2) == 1
    assert [Text("a😀b", "utf-8").offset(0, character) for character in range(1, 7)] == [1, 1, 1, 1, 2, 3]


def test_a_text_says_what_it_is() -> None:
    assert repr(Text("a\nb", "utf-8")) == "<Text of 3 characters in 2 lines, utf-8>"
