"""Growing a selection: from a variable over texts and members to everything."""

from __future__ import annotations

from itertools import pairwise

from editor.readers import broken, look
from hypothesis import given

from rrext.editor.outline.selection import selections_at

TEXT = '{ "a": [1, {"key": "x ${NAME} y"}] } // end'


def grown(piece: str, inside: int = 0, text: str = TEXT) -> list[str]:
    return [text[slice(*span)] for span in selections_at(look(text), text.index(piece) + inside)]


def test_a_selection_grows_from_a_variable_to_everything() -> None:
    assert grown("NAME") == [
        "${NAME}",
        "x ${NAME} y",
        '"x ${NAME} y"',
        '"key": "x ${NAME} y"',
        '{"key": "x ${NAME} y"}',
        '1, {"key": "x ${NAME} y"}',
        '[1, {"key": "x ${NAME} y"}]',
        '"a": [1, {"key": "x ${NAME} y"}]',
        ' "a": [1, {"key": "x ${NAME} y"}] ',
        '{ "a": [1, {"key": "x ${NAME} y"}] }',
        TEXT,
    ]


def test_a_key_grows_to_its_member() -> None:
    assert grown("key")[:3] == ["key", '"key"', '"key": "x ${NAME} y"']


def test_between_key_and_value_the_member_is_first() -> None:
    assert grown(":", 1)[0] == '"a": [1, {"key": "x ${NAME} y"}]'


def test_a_number_grows_to_what_stands_between_the_brackets() -> None:
    assert grown("1,")[:2] == ["1", '1, {"key": "x ${NAME} y"}']


def test_behind_the_end_everything_is_selected() -> None:
    assert grown("end") == [TEXT]


def test_in_an_empty_text_nothing_is_selected() -> None:
    assert selections_at(look(""), 0) == [(0, 0)]
    assert selections_at(look(" " * 20_000_000), 7) == [(7, 7)]


@given(broken())
def test_each_selection_of_any_place_holds_the_place_and_the_one_before(text: str) -> None:
    analysis = look(text)
    for offset in range(len(text) + 1):
        spans = selections_at(analysis, offset)
        assert spans
        for start, end in spans:
            assert 0 <= start <= offset <= end <= len(text)
        for inner, outer in pairwise(spans):
            assert outer[0] <= inner[0]
            assert inner[1] <= outer[1]
            assert inner != outer
