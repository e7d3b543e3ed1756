"""Where a cursor is in a text that is being typed, and what a new text replaces there."""

from __future__ import annotations

import pytest
from editor.completing import CURSOR
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.completions.cursor import Gap, gap_at
from rrext.editor.text import Edit
from rrext.pipefile.text.source import parse


def gap_in(text: str) -> tuple[Gap, str]:
    """The gap at the `¦`, and what it replaces."""
    cursor = text.index(CURSOR)
    text = text.replace(CURSOR, "", 1)
    where = parse(text).map
    assert where is not None
    gap = gap_at(where, cursor)
    return gap, text[gap.start : gap.end]


@pytest.mark.parametrize(
    ("text", "place", "path", "replaced"),
    [
        # nothing, or next to nothing
        ("{¦}", "key", "", ""),
        ("{¦", "key", "", ""),
        ("[¦", "element", "0", ""),
        # values
        ('{"a": ¦}', "value", "a", ""),
        ('{"a": ¦', "value", "a", ""),
        ('{"a":¦,"b": 1}', "value", "a", ""),
        ('{"a": ¦\n"b": 1}', "value", "a", ""),
        ('{"a": we¦b}', "value", "a", "web"),
        ('{"a": "we¦b"}', "value", "a", '"web"'),
        ('{"a": ¦"web"}', "value", "a", '"web"'),
        ('{"a": "web"¦}', "value", "a", '"web"'),
        ("{\"a\": 'we¦b'}", "value", "a", "'web'"),
        ('{"a": 1¦2}', "value", "a", "12"),
        ('{"a": tr¦ue, "b": 1}', "value", "a", "true"),
        # texts without their last quote
        ('{"a": "we¦}', "value", "a", '"we'),
        ('{"a": "we¦, "b": 1}', "value", "a", '"we'),
        ('{"a": "¦ "b": 1}', "value", "a", '"'),
        ('{"a": "¦"b": 1}', "value", "a", '"'),
        ('{"a": "two wo¦rds\n}', "value", "a", '"two words'),
        ('{"a": "we¦ // comment\n}', "value", "a", '"we'),
        # texts without their first quote
        ('{"a": we¦b", "b": 1}', "value", "a", 'web"'),
        # keys
        ('{"a": 1, ¦}', "key", "", ""),
        ('{"a": 1 ¦}', "key", "", ""),
        ('{"a"¦: 1}', "key", "", '"a"'),
        ('{"a¦b": 1}', "key", "", '"ab"'),
        ('{"a¦\n}', "key", "", '"a'),
        ("{a¦b: 1}", "key", "", "ab"),
        ("{'a¦b': 1}", "key", "", "'ab'"),
        ('{"a": {"b": [1, {"c": 1, ¦}]}}', "key", "a b 1", ""),
        ('{"a": {"b": [1, {"c": ¦', "value", "a b 1 c", ""),
        # a key whose colon is missing
        ('{"a" ¦}', "value", "a", ""),
        ('{"a" we¦b}', "value", "a", "web"),
        # elements
        ('{"a": [¦]}', "element", "a 0", ""),
        ('{"a": [1, ¦]}', "element", "a 1", ""),
        ('{"a": [1, 2¦3, 4]}', "element", "a 1", "23"),
        ('{"a": [{}, ¦ {}]}', "element", "a 1", ""),
        ('{"a": [{}, "x¦', "element", "a 1", '"x'),
        # a bracket that is missing
        ('{"a": [{"b": 1, ¦ {"b": 2}]}', "key", "a 0", ""),
        ('{"a": ["b": ¦]}', "value", "a 0 b", ""),
        ('"a": {"b": ¦', "value", "a b", ""),
    ],
)
def test_a_gap_knows_what_is_typed_where_and_what_that_replaces(text: str, place: str, path: str, replaced: str) -> None:
    gap, found = gap_in(text)
    assert (gap.place, " ".join(gap.path), found) == (place, path, replaced)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ¦{"b": 1}}',
        '{"a": ¦ [1]}',
        '{"a" ¦ : 1}',
        "{} ¦",
        "¦ {}",
        "¦",
        "  // only a comment\n¦",
        "{}} ¦",
        '{"a": "web,¦\n"b": 1}',
        '{"a": 1, prov ¦}',
        '{"a": 1, prov"¦: 2}',
    ],
)
def test_where_something_stands_already_or_nothing_makes_sense_there_is_no_gap(text: str) -> None:
    assert gap_in(text)[0].place == "nowhere"


@pytest.mark.parametrize(
    "text", ['{"a": 1 // ¦\n}', "{ // x¦", '{"a": /* ¦ */ 1}', '{"a": /* ¦', "// ¦", '{"a": [1, // "¦"\n2]}']
)
def test_a_comment_has_no_gap(text: str) -> None:
    assert gap_in(text)[0].place == "nowhere"


@pytest.mark.parametrize("text", ['{"a": 1 // x\n¦}', '{"a": /* x */¦ 1}', '{"a": "// ¦"}', '{"a": "/* ¦"}'])
def test_behind_a_comment_and_in_a_text_that_looks_like_one_is_no_comment(text: str) -> None:
    assert gap_in(text)[0].place in ("key", "value")


@pytest.mark.parametrize(
    ("text", "lead", "before"),
    [
        ('{"a": 1\n¦}', "", Edit(7, 7, ",")),
        ('{"a": 1 // one\n¦}', "", Edit(7, 7, ",")),
        ('{"a": {}¦}', ", ", None),
        ('{"a": [{}¦]}', ", ", None),
        ('{"a": 1,\n¦}', "", None),
        ('{"a" ¦}', "", Edit(4, 4, ":")),
        ('{"a": [1 ¦]}', "", Edit(8, 8, ",")),
    ],
)
def test_a_comma_or_colon_that_was_forgotten_before_it_is_known(text: str, lead: str, before: Edit | None) -> None:
    gap, _ = gap_in(text)
    assert (gap.lead, gap.before) == (lead, before)


@pytest.mark.parametrize(
    ("text", "comma"),
    [
        ('{¦ "b": 1}', True),
        ("{¦}", False),
        ('{¦, "b": 1}', False),
        ('{"a": ¦ "b": 1}', True),
        ('{"a": ¦, "b": 1}', False),
        ('{"a": "x¦" "b": 1}', True),
        ('{"a": [¦ {}]}', True),
        ('{"a": [¦, {}]}', False),
        ('{"a": [{"b": ¦ {}]}', False),
    ],
)
def test_a_comma_that_must_follow_is_known(text: str, comma: bool) -> None:
    assert gap_in(text)[0].comma is comma


@pytest.mark.parametrize(
    ("text", "colon"),
    [('{"a¦": 1}', "there"), ('{"a¦" 1}', "missing"), ('{"a¦" {}}', "missing"), ('{"a¦"}', "none"), ('{"a¦", "b": 1}', "none")],
)
def test_a_key_knows_whether_its_colon_is_there(text: str, colon: str) -> None:
    assert gap_in(text)[0].colon == colon


PIECES = st.sampled_from(
    [
        *"{}[],:\"'/\\ \n\r\t$",
        '"a"',
        '"a": ',
        "'b'",
        "//",
        "/*",
        "*/",
        "12",
        "true",
        "x",
        "${",
        "\ufeff",
        "é😀",
        '{"a": [',
        "]}",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(0, 100))
def test_of_any_text_a_gap_is_a_piece_of_one_line_around_the_cursor(text: str, at: int) -> None:
    cursor = min(at, len(text))
    where = parse(text).map
    assert where is not None
    gap = gap_at(where, cursor)
    if gap.place == "nowhere":
        return
    assert 0 <= gap.start <= cursor <= gap.end <= len(text)
    assert "\n" not in text[gap.start : gap.end]
    assert "\r" not in text[gap.start : gap.end]
    assert gap.typed == text[gap.start : cursor]
    assert gap.before is None or gap.before.end < gap.start
    depth = len(gap.path) if gap.place == "key" else len(gap.path) - 1
    assert len(gap.brackets) == depth + 1


@given(st.lists(PIECES, max_size=12).map("".join), st.integers(-5, 30))
def test_an_offset_outside_of_the_text_is_nowhere(text: str, beyond: int) -> None:
    where = parse(text).map
    assert where is not None
    outside = beyond if beyond < 0 else len(text) + 1 + beyond
    assert gap_at(where, outside).place == "nowhere"


def test_a_text_in_which_the_parser_gave_up_is_walked_through_only_so_far() -> None:
    def place(count: int) -> str:
        text = '{"a": ' + "[] x\n" * count
        where = parse(text).map
        assert where is not None
        return gap_at(where, len(text)).place

    assert place(1_000) == "value"
    assert place(30_000) == "nowhere"
