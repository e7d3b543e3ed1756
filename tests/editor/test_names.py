"""Ids: every place that means a component is found, and a new id leaves the pipeline what it was."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from editor.readers import at, broken, documents, look, written
from hypothesis import assume, given
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis, text_of
from rrext.editor.outline import Name, Names, NotRenamed
from rrext.editor.text import applied

PLAIN = ["a", "b", "c d", "é😀", 'q"uote', "[x]"]

A = {"id": "a", "provider": "webhook", "config": {}}
B = {"id": "b", "provider": "anything", "config": {}, "input": [{"lane": "text", "from": "a"}]}


def name_at(analysis: Analysis, piece: str, nth: int = 0, inside: int = 1) -> Name:
    found = Names(analysis).at(at(analysis, piece, nth, inside))
    assert found is not None
    return found


def texts(analysis: Analysis, names: list[Name]) -> list[tuple[str, str]]:
    return [(name.use, analysis.text[slice(*name.span)]) for name in names]


def renamed(analysis: Analysis, name: Name, new: str) -> str:
    return applied(analysis.text, Names(analysis).renamed(name, new))


def edges(text: str) -> set[tuple[str, int, str, str]]:
    """Every edge as it is written, and the place of the component that it ends at."""
    return {(edge.kind, edge.holder, edge.name, edge.source) for edge in look(text).written.edges()}


def ids(text: str) -> list[str]:
    """The ids of the components, and at last the one that the pipeline begins with."""
    written = look(text).written
    return [*(part.id for part in written.components), text_of(written.source)]


def test_an_id_is_found_wherever_it_is_meant() -> None:
    analysis = look({"components": [A, B], "source": "a"})
    for nth in range(3):
        name = name_at(analysis, '"a"', nth)
        names = Names(analysis)
        assert texts(analysis, names.meaning(name)) == [("id", "a"), ("from", "a"), ("source", "a")]
        declared = names.declaration(name)
        assert declared is not None
        assert declared.span[0] == at(analysis, '"a"')


@pytest.mark.parametrize("inside", [0, 1, 2, 3])
def test_the_quotes_belong_to_the_name(inside: int) -> None:
    analysis = look({"components": [A]})
    assert name_at(analysis, '"a"', inside=inside).value == "a"


def test_values_that_only_look_like_ids_are_none() -> None:
    analysis = look({"components": [{**A, "provider": "a", "name": "a", "config": {"from": "a", "id": "a"}}], "name": "a"})
    names = Names(analysis)
    assert texts(analysis, names.meaning(name_at(analysis, '"a"'))) == [("id", "a")]
    assert [names.at(at(analysis, '"a"', nth)) is not None for nth in range(6)] == [True, False, False, False, False, False]


def test_an_id_that_nobody_has_has_its_uses_alone() -> None:
    other = {**B, "id": "c"}
    analysis = look({"components": [B, other]})
    name = name_at(analysis, '"a"')
    assert Names(analysis).declaration(name) is None
    assert texts(analysis, Names(analysis).meaning(name)) == [("from", "a"), ("from", "a")]


def test_of_an_id_that_stands_twice_the_uses_mean_the_first() -> None:
    analysis = look({"components": [A, A, B]})
    names = Names(analysis)
    first, second, use = (name_at(analysis, '"a"', nth) for nth in range(3))
    assert names.declaration(use) == first
    assert [name.span for name in names.meaning(second)] == [second.span]
    assert [name.span for name in names.meaning(use)] == [first.span, use.span]


# renaming


def test_renaming_changes_every_place_and_nothing_else() -> None:
    analysis = look({"components": [A, B], "source": "a"})
    text = renamed(analysis, name_at(analysis, '"a"', 1), 'in "1"\\')
    assert json.loads(text) == {
        "components": [{**A, "id": 'in "1"\\'}, {**B, "input": [{"lane": "text", "from": 'in "1"\\'}]}],
        "source": 'in "1"\\',
    }


def test_the_second_of_two_equal_ids_is_renamed_alone_and_then_both_are_their_own() -> None:
    analysis = look({"components": [A, A, B]})
    text = renamed(analysis, name_at(analysis, '"a"', 1), "other")
    assert ids(text) == ["a", "other", "b", ""]
    assert edges(text) == edges(analysis.text)
    text = renamed(analysis, name_at(analysis, '"a"', 0), "other")
    assert ids(text) == ["other", "a", "b", ""]
    assert edges(text) == {("input", 2, "text", "other")}


def test_the_uses_of_an_id_that_nobody_has_can_be_renamed() -> None:
    analysis = look({"components": [B, {**B, "id": "c"}]})
    assert {source for *_, source in edges(renamed(analysis, name_at(analysis, '"a"'), "z"))} == {"z"}


def test_an_id_that_looks_like_a_variable_is_renamed_like_any_other_because_no_id_has_variables() -> None:
    analysis = look(
        {"components": [{**A, "id": "${ROCKETRIDE_ID}"}, {**B, "input": [{"lane": "text", "from": "${ROCKETRIDE_ID}"}]}]}
    )
    text = renamed(analysis, name_at(analysis, '"${ROCKETRIDE_ID}"'), "plain")
    assert ids(text) == ["plain", "b", ""]
    assert edges(text) == {("input", 1, "text", "plain")}


@pytest.mark.parametrize("new", ["", "  ", "b", "x${Y}", "nobody", "\ud800"])
def test_an_id_that_would_not_do_is_refused(new: str) -> None:
    other = {**B, "input": [{"lane": "text", "from": "nobody"}]}
    analysis = look({"components": [A, other]})
    with pytest.raises(NotRenamed):
        Names(analysis).renamed(name_at(analysis, '"a"'), new)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{\"components\": [{'id': 'a'}]}", "no proper quotes"),
        ('{"components": [{"id": a}]}', "no proper quotes"),
        ('{"components": [{"id": "a\n}]}', "no proper quotes"),
    ],
)
def test_an_id_that_cannot_be_renamed_says_why_before_a_new_one_is_typed(text: str, why: str) -> None:
    analysis = look(text)
    name = next(iter(Names(analysis)))
    with pytest.raises(NotRenamed, match=why):
        Names(analysis).check_renameable(name)


def replaced(text: str, meant: set[tuple[int, str]], old: str, new: str) -> tuple[list[str], set[tuple[str, int, str, str]]]:
    """The ids and edges of a pipeline with another name at some places."""
    *named, source = ids(text)
    named = [new if (index, "id") in meant else own for index, own in enumerate(named)]
    named.append(new if (-1, "source") in meant else source)
    changed = {
        (kind, holder, name, new if source == old and (holder, "from") in meant else source)
        for kind, holder, name, source in edges(text)
    }
    return named, changed


@pytest.mark.promise("editor:rename:keeps-graph")
@given(written(documents(PLAIN)), st.sampled_from([*PLAIN, "new", "\\u0041", "x" * 300, "'"]), st.data())
def test_renaming_keeps_the_graph_and_renaming_back_the_text(text: str, new: str, data: st.DataObject) -> None:
    analysis = look(text)
    names = Names(analysis)
    everything = list(names)
    assume(everything)
    name = data.draw(st.sampled_from(everything))
    places = names.meaning(name)
    old = name.value
    try:
        after = renamed(analysis, name, new)
    except NotRenamed:
        assert new != old
        assert new in {other.value for other in everything}
        return
    if new == old:
        assert after == text
        return
    meant = {(-1 if place.component is None else place.component, place.use) for place in places}
    assert (ids(after), edges(after)) == replaced(text, meant, old, new)
    again = look(after)
    same = [other for other in Names(again) if other.value == new]
    assert [place.use for place in same] == [place.use for place in places]
    if old not in {other.value for other in Names(again)}:
        back = renamed(again, same[0], old)
        assert (ids(back), edges(back)) == (ids(text), edges(text))
        if "\\u" not in text and "call" not in {place.use for place in places}:
            assert back == text


@given(broken(), st.data())
def test_any_place_of_any_text_gives_names_inside_of_it_or_none(text: str, data: st.DataObject) -> None:
    analysis = look(text)
    names = Names(analysis)
    for name in names:
        declared = names.declaration(name)
        places = names.meaning(name)
        assert name in places
        assert declared is None or declared in places
        assert places == sorted(places, key=lambda place: place.span)
        start, end = name.span
        assert 0 <= name.outer[0] <= start <= end <= name.outer[1] <= len(text)
    for offset in range(len(text) + 2):
        found = names.at(offset)
        assert (found is not None) == any(name.outer[0] <= offset <= name.outer[1] for name in names)
    everything = list(names)
    if everything:
        name = data.draw(st.sampled_from(everything))
        old = name.value
        places = names.meaning(name)
        with suppress(NotRenamed):
            after = renamed(analysis, name, "brand new")
            meant = {(-1 if place.component is None else place.component, place.use) for place in places}
            assert (ids(after), edges(after)) == replaced(text, meant, old, "brand new")
