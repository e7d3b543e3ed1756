"""Text for people: widths, cuts, wrapped lines, tables."""

from __future__ import annotations

from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.cli.console.lines import amount, duration, pace, size
from rrext.cli.console.tables import table
from rrext.columns import columns, cut, one_line, printable, wrapped

WORDS = st.text(st.sampled_from("ab本\u0301 -é"), max_size=40)
WIDTHS = st.integers(2, 30)


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("é", 1), ("🙂", 2)])
def test_a_text_is_as_wide_as_a_terminal_shows_it(text: str, width: int) -> None:
    assert columns(text) == width


def test_what_steers_a_terminal_is_made_visible_and_lines_stay() -> None:
    assert printable("a\x1b[31mb\tc\nd\x85é") == "a\\u001b[31mb c\nd\\u0085é"
    assert one_line("a\x1b[31mb\tc\nd\x85é") == "a\\u001b[31mb c\\u000ad\\u0085é"


@given(WORDS, WIDTHS)
def test_a_cut_text_fits_and_says_that_it_was_cut(text: str, width: int) -> None:
    shown = cut(text, width)
    assert columns(shown) <= width
    assert shown == text if columns(text) <= width else text.startswith(shown[:-1]) and shown.endswith("…")


@given(WORDS, WIDTHS)
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert lines
    assert all(columns(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(text.split())


def test_words_are_kept_whole_where_they_fit() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]


ROWS = [
    ("read_file", "f", "path: string, limit: integer = 100", "Read a file of any size, or a part of it."),
    ("x", "本", "", ""),
]
HEADS = ("TOOL", "NODE", "PARAMETERS", "DESCRIPTION")


def test_a_table_without_a_width_has_a_line_for_each_row() -> None:
    head, first, second = table(HEADS, ROWS, width=None)
    assert first.endswith(ROWS[0][3])
    assert head.index("NODE") == first.index("f  ") == second.index("本")


@given(st.integers(20, 200), st.lists(st.tuples(*[st.text("ab本 ", min_size=1, max_size=30)] * 4), min_size=1, max_size=4))
def test_a_table_keeps_to_its_width(width: int, rows: list[tuple[str, ...]]) -> None:
    lines = list(table(HEADS, rows, width=width))
    is_list = not lines[0].startswith("TOOL")
    assert is_list or all(columns(line) <= width for line in lines)
    written = "".join("".join(lines if is_list else lines[1:]).split())
    assert sorted(written) == sorted("".join("".join("".join(row).split()) for row in rows))


def test_a_table_that_is_too_narrow_becomes_lists() -> None:
    lines = list(table(HEADS, ROWS[:1], width=40))
    assert lines[:2] == ["read_file", "  f"]
    assert all(columns(line) <= 40 for line in lines)


def test_only_a_table_for_a_terminal_has_bold_heads() -> None:
    assert next(iter(table(HEADS, ROWS, width=200, bold=True))).startswith("\x1b[1mTOOL")
    assert "\x1b" not in "".join(table(HEADS, ROWS, width=200))


@pytest.mark.parametrize(
    ("value", "total", "shown"),
    [
        (3, None, "3"),
        (0.5, None, "0.5"),
        (1, 4, "1/4 (25%)"),
        (5, 4, "5/4 (100%)"),
        (0, 0, "0/0"),
        (10**9, 2e9, "1000000000/2000000000 (50%)"),
    ],
)
def test_an_amount_has_its_share_where_there_is_a_total(value: float, total: float | None, shown: str) -> None:
    assert amount(value, total) == shown


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_020_000, "996.1 KiB"),
        (1_047_000, "1.0 MiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**42, "4.0 TiB"),
    ],
)
def test_sizes_are_short(nbytes: int, shown: str) -> None:
    assert size(nbytes) == shown


def test_wide_characters_are_what_unicode_says() -> None:
    assert all(columns(char) == 2 for char in "日本語ＡＢ" if east_asian_width(char) in "WF")


def test_characters_that_nobody_sees_are_shown_as_escapes() -> None:
    hidden = "a\u00a0b\u00adc\u200bd\u2060e\ufefff\u3164g\ufe0fh\U000e0041i\u2028j"
    assert one_line(hidden) == r"a\u00a0b\u00adc\u200bd\u2060e\ufefff\u3164g\ufe0fh\u{e0041}i\u2028j"
    assert one_line("grün 字 😀 e\u0301") == "grün 字 😀 e\u0301"


@pytest.mark.parametrize(
    ("done", "total", "seconds", "shown"),
    [
        (0, 10, 5, ""),
        (5, 10, 0.5, ""),
        (1024, 4096, 2, "512 B/s, 6 s left"),
        (1 << 20, 1 << 30, 10, "102.4 KiB/s, 2 h 50 min left"),
        (4096, 4096, 2, "2.0 KiB/s"),
    ],
)
def test_a_pace_is_a_rate_and_the_time_that_is_left(done: float, total: float, seconds: float, shown: str) -> None:
    assert pace(done, total, seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "0 s"), (99, "99 s"), (180, "3 min"), (7500, "2 h 5 min")])
def test_a_duration_is_readable(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
