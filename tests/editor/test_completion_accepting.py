"""Whatever is offered, wherever and however broken the text is there: to accept it leaves JSON behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import hypothesis
import pytest
from editor.completing import DOCUMENTS, Typing, at, mistakes, typed, value_at
from hypothesis import given
from hypothesis import strategies as st

from rrext.pipefile.text.problems import below
from rrext.pipefile.text.source import parse
from rrext.pipefile.text.tree import Located

Found = TypeVar("Found")
NAMED = ("provider", "node", "lane", "class_type", "profile", "tool", "name")
"""Offers whose label is the text that is written."""
PLACES = 700 if hypothesis.settings().max_examples > 50 else 30
"""Of a document at most so many places are tried, spread over all of it."""
NAMES = [f"document {number}" for number in range(len(DOCUMENTS))]


def accepted(typing: Typing) -> Iterator[tuple[str, str, str]]:
    """For each offer: its label, its kind, and the text after it was accepted."""
    for item in typing.completion.items:
        yield item.offer.label, item.offer.kind, typing.accept(item)


def leaves(text: str) -> Iterator[tuple[str, Located]]:
    """Every text, number and word of a document with its pointer."""
    where = parse(text).map
    assert where is not None
    waiting = [("", where.root)]
    while waiting:
        path, located = waiting.pop()
        for index, child in enumerate(located.children):
            inner = below(path, index if child.key is None else child.key)
            waiting.append((inner, child))
            if child.kind not in ("object", "array"):
                yield inner, child


def members(text: str) -> Iterator[Located]:
    """Every value of a document that has a key."""
    where = parse(text).map
    assert where is not None
    waiting = [where.root]
    while waiting:
        located = waiting.pop()
        waiting += located.children
        if located.key is not None:
            yield located


def spread(found: Iterable[Found]) -> list[Found]:
    """What was found, or evenly some of much."""
    listed = list(found)
    return listed[:: 1 + 3 * len(listed) // PLACES]


@pytest.mark.parametrize("text", DOCUMENTS, ids=NAMES)
def test_nothing_was_wrong_with_the_documents(text: str) -> None:
    assert mistakes(text) == []


@pytest.mark.promise("editor:offer:stays-sound")
@pytest.mark.parametrize("text", DOCUMENTS, ids=NAMES)
def test_in_a_sound_document_every_offer_at_every_place_leaves_it_sound(text: str) -> None:
    offered = 0
    for cursor in range(0, len(text) + 1, 1 + len(text) // PLACES):
        typing = typed(text, cursor)
        for label, _, after in accepted(typing):
            offered += 1
            assert mistakes(after) == [], (text[max(0, cursor - 30) : cursor] + "¦" + text[cursor : cursor + 30], label, after)
    assert offered > PLACES


def begun(body: str, form: str) -> tuple[str, int]:
    """The beginning of a text in one of the forms in which people leave it, and where the cursor is in it."""
    return {
        "nothing": ("", 0),
        "without its last quote": (f'"{body}', len(body) + 1),
        "in quotes": (f'"{body}"', len(body) + 1),
        "behind its quotes": (f'"{body}"', len(body) + 2),
        "without quotes": (body, len(body)),
        "in single quotes": (f"'{body}'", len(body) + 1),
        "with one single quote": (f"'{body}", len(body) + 1),
        "without its first quote": (f'{body}"', len(body)),
    }[form]


def lengths(form: str, most: int) -> set[int]:
    """How much of a text was typed, without what is the same text in another form."""
    if form == "nothing":
        return {0}
    return {most} if form == "without quotes" else {0, most}


FORMS = [
    "nothing",
    "without its last quote",
    "in quotes",
    "behind its quotes",
    "without quotes",
    "in single quotes",
    "with one single quote",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", DOCUMENTS, ids=NAMES)
def test_a_value_that_was_begun_is_completed_whatever_form_it_has(text: str, form: str) -> None:
    offered = 0
    for pointer, located in spread(leaves(text)):
        body = text[located.start : located.end].strip('"')
        for length in lengths(form, len(body) // 2):
            if not re.fullmatch(r"[\w.]*", body[:length]):
                continue
            piece, cursor = begun(body[:length], form)
            broken = text[: located.start] + piece + text[located.end :]
            for label, kind, after in accepted(typed(broken, located.start + cursor)):
                offered += 1
                assert mistakes(after) == [], (broken[located.start - 30 : located.start + 30], label, after)
                if kind in NAMED:
                    assert value_at(after, pointer) == label
    assert offered > 20


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", DOCUMENTS, ids=NAMES)
def test_a_key_that_was_begun_is_completed_whatever_form_it_has(text: str, form: str) -> None:
    offered = 0
    for located in spread(members(text)):
        assert located.key is not None
        assert located.key_span is not None
        start = located.key_span[0]
        for length in lengths(form, len(located.key)):
            piece, cursor = begun(located.key[:length], form)
            broken = text[:start] + piece + text[located.end :]
            for label, _, after in accepted(typed(broken, start + cursor)):
                offered += 1
                assert mistakes(after) == [], (broken[start - 30 : start + 30], label, after)
    assert offered > 20


@pytest.mark.parametrize("text", DOCUMENTS, ids=NAMES)
def test_a_key_before_its_colon_can_be_another(text: str) -> None:
    for located in members(text):
        assert located.key is not None
        assert located.key_span is not None
        start, end = located.key_span
        for form in ("in quotes", "without quotes", "in single quotes"):
            piece, cursor = begun(located.key[:2], form)
            for label, _, after in accepted(typed(text[:start] + piece + text[end:], start + cursor)):
                assert mistakes(after) == [], (label, after)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, int]:
    """A document with one sign missing, or only its beginning, and a cursor in it."""
    text = draw(st.sampled_from(DOCUMENTS))
    place = draw(st.integers(0, len(text) - 1))
    if draw(st.booleans()):
        text, place = text[:place], place - draw(st.integers(0, min(place, 8)))
        return text, place
    signs = [found.start() for found in re.finditer(r'[,:{}\[\]"]', text)]
    sign = signs[place % len(signs)]
    text = text[:sign] + text[sign + 1 :]
    near = draw(st.booleans())
    cursor = draw(st.integers(max(0, sign - 20), min(len(text), sign + 20)) if near else st.integers(0, len(text)))
    return text, cursor


@pytest.mark.promise("editor:offer:stays-sound")
@given(damaged())
def test_where_a_sign_is_missing_no_offer_makes_it_worse(damage: tuple[str, int]) -> None:
    text, cursor = damage
    before = len(mistakes(text))
    for label, _, after in accepted(typed(text, cursor)):
        assert len(mistakes(after)) <= before, (text[max(0, cursor - 40) : cursor] + "¦" + text[cursor : cursor + 40], label)


PIECES = [
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "'",
    "//",
    "/*",
    "*/",
    '"provider"',
    '"a": ',
    "x",
    "1",
    "\\",
    "${",
    "😀",
    "\ufeff",
]


@given(
    st.sampled_from(DOCUMENTS),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 60), st.sampled_from(PIECES)), max_size=5),
    st.integers(0, 2000),
)
def test_any_text_is_survived_and_edits_stay_in_the_line_of_the_cursor(
    text: str, changes: list[tuple[int, int, str]], at: int
) -> None:
    for place, length, piece in changes:
        start = place % (len(text) + 1)
        text = text[:start] + piece + text[start + length :]
    cursor = at % (len(text) + 1)
    for item in typed(text, cursor).completion.items:
        assert 0 <= item.start <= cursor <= item.end <= len(text)
        assert not re.search(r"[\r\n]", text[item.start : item.end])
        assert all(edit.end < item.start for edit in item.before)


# single forms, so that a mistake is easier to see


@pytest.mark.parametrize(
    ("text", "label", "after"),
    [
        ('{"components": [{"provider": ¦}]}', "webhook", '{"components": [{"provider": "webhook"}]}'),
        ('{"components": [{"provider":¦}]}', "webhook", '{"components": [{"provider": "webhook"}]}'),
        ('{"components":[{"provider":¦}]}', "webhook", '{"components":[{"provider":"webhook"}]}'),
        ('{"components": [{"provider" ¦}]}', "webhook", '{"components": [{"provider": "webhook"}]}'),
        ("{\"components\": [{'provider': 'we¦'}]}", "webhook", '{"components": [{\'provider\': "webhook"}]}'),
        ('{"components": [{"provider": "we¦, "id": "x"}]}', "webhook", '{"components": [{"provider": "webhook", "id": "x"}]}'),
        ('{"components": [{"provider": ¦"id": "x"}]}', "webhook", '{"components": [{"provider": "webhook", "id": "x"}]}'),
        ('{"components": [{"id": "x" prov¦}]}', "provider", '{"components": [{"id": "x", "provider": ""}]}'),
        ('{"components": [{"id": "x"¦}]}', "x_1", None),
        ('{"components": [{prov¦: "chat"}]}', "provider", '{"components": [{"provider": "chat"}]}'),
        ('{"components": [{"prov¦" "chat"}]}', "provider", '{"components": [{"provider": "chat"}]}'),
        ('{"version": "¦"}', "1", '{"version": 1}'),
    ],
)
def test_an_offer_brings_the_quotes_commas_and_colons_that_are_missing(text: str, label: str, after: str | None) -> None:
    typing = at(text)
    if after is None:
        assert label not in typing.labels
    else:
        assert typing.accept(label) == after
