"""What can be folded: brackets and comments, in the form that each kind of editor can use."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from editor.readers import broken, look
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.editor.outline.folds import Fold, by_lines, comments_of, folds_of, limited
from rrext.pipefile.text import tokens

TEXT = """// What it is for,
// in two lines.
{
  "components": [ // one line
    // Sources
    {
      "id": "w", "provider": "webhook",
      "config": {
      } },
    // the end
    { "id": "x", "provider": "response_text",
      "input": [{
        "lane": "text",
        "from": "w" }],
    },
    /* Several
       lines. */
  ]
}
"""


def lines(folds: list[Fold], kind: str = "") -> list[tuple[int, int]]:
    return [fold.lines for fold in folds if not kind or fold.kind == kind]


def test_brackets_fold_so_that_the_closing_one_stays() -> None:
    found = by_lines(folds_of(look(TEXT)))
    assert lines(found, "brackets") == [(2, 17), (3, 16), (5, 7), (10, 13), (11, 13)]


def test_a_bracket_that_closes_behind_a_value_goes_with_its_line() -> None:
    (fold,) = by_lines(folds_of(look('{"a":\n1,\n"b": 2}')))
    assert fold.lines == (0, 2)


def test_comments_in_lines_that_follow_each_other_are_one() -> None:
    assert lines(folds_of(look(TEXT)), "comment") == [(0, 1), (15, 16)]


def test_a_comment_behind_a_value_is_about_its_line_alone() -> None:
    text = '{ // a\n// b\n// c\n"x": 1 // d\n// e\n}'
    assert lines(folds_of(look(text)), "comment") == [(1, 2)]


def test_a_folded_component_says_which_it_was() -> None:
    assert [fold.label for fold in folds_of(look(TEXT)) if fold.kind == "brackets" and fold.label] == [
        "w webhook",
        "x response_text",
    ]


def test_editors_that_fold_pieces_get_what_stands_between_the_brackets() -> None:
    pieces = [TEXT[slice(*fold.span)] for fold in folds_of(look(TEXT)) if fold.kind == "brackets"]
    assert '\n        "lane": "text",\n        "from": "w" ' in pieces
    assert "\n      " in pieces


def test_of_brackets_that_open_on_one_line_the_innermost_folds() -> None:
    text = '{ "components": [ {\n"id": "a" }\n] }'
    assert [text[slice(*fold.span)] for fold in by_lines(folds_of(look(text)))] == ['\n"id": "a" ']


def test_a_limit_keeps_what_hides_most() -> None:
    folds = by_lines(folds_of(look(TEXT)))
    assert [fold.lines for fold in limited(folds, 2)] == [(2, 17), (3, 16)]
    assert limited(folds, 0) == []


def test_what_stands_on_one_line_does_not_fold() -> None:
    assert folds_of(look('// one\n{"components": [{}]}\n')) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"http://x" // a', ["// a"]),
        ("'//' /* b", ["/* b"]),
        ('{"a" /* c */ : 1 /**/}', ["/* c */", "/**/"]),
        ('"\\"// no" // yes', ["// yes"]),
        ("/*/ x */ / /", ["/*/ x */"]),
        ("'it // is'\n// so", ["// so"]),
    ],
)
def test_comments_are_found_and_what_looks_like_one_in_a_text_is_not(text: str, found: list[str]) -> None:
    assert [text[slice(*span)] for span in comments_of(text)] == found


@given(st.text("\"\\/*a\n' {}[]:,", max_size=30))
@example("/**")
def test_comments_do_not_overlap_and_are_what_the_parser_takes_for_comments(text: str) -> None:
    spans = list(comments_of(text))
    assert spans == sorted(spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for start, end in spans:
        whole = re.compile(tokens.COMMENTS.pattern).fullmatch(text, start, end)
        assert whole or (text.startswith("/*", start) and end == len(text))


@given(broken(), st.integers(0, 5))
def test_any_text_gives_folds_inside_of_it(text: str, most: int) -> None:
    analysis = look(text)
    folds = folds_of(analysis)
    last = analysis.map.line_count - 1
    for fold in folds:
        assert 0 <= fold.span[0] <= fold.span[1] <= len(text)
        assert 0 <= fold.lines[0] <= fold.lines[1] <= last
        assert "\n" not in fold.label
    whole = by_lines(folds)
    assert len({fold.lines[0] for fold in whole}) == len(whole)
    assert all(fold.lines[0] < fold.lines[1] for fold in whole)
    assert len(limited(folds, most)) == min(most, len(folds))
