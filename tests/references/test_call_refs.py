"""Names of tools anywhere: two forms, which mean one tool, and never two."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.references import CallRef, CallRefNames

pytestmark = pytest.mark.promise("references:names:one-to-one")

segment = st.from_regex(r"[a-zA-Z0-9-]{1,20}(_[a-zA-Z0-9-]{1,20}){0,2}", fullmatch=True)
foreign = st.sampled_from(["a__b", "_a", "a.b", "", "Käse 1", "n" * 70, "node__a", "self"]) | st.text(max_size=12)
plain_refs = st.builds(CallRef, segment, segment, segment, segment)
refs = plain_refs | st.builds(
    CallRef, st.sampled_from(["node", "mcp"]), segment | foreign, segment | foreign, segment | foreign
)


@given(plain_refs)
def test_a_plain_name_is_read_without_a_table(ref: CallRef) -> None:
    assert CallRef.read(ref.text) == ref
    assert CallRef.read(ref.text.replace(".", "__")) == ref


@given(st.lists(refs, unique=True, max_size=20))
def test_names_are_one_to_one(listed: list[CallRef]) -> None:
    table = CallRefNames(listed)
    names = {ref: table.add(ref) for ref in listed}
    assert len({text for text, _ in names.values()}) == len(listed)
    assert len({function for _, function in names.values()}) == len(listed)
    for ref, (text, function) in names.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function)
        assert table.find(text) == ref
        assert table.find(function) == ref
        if ref.is_plain:
            assert text == ref.text
        if ref.is_plain and len(text) + 4 <= 64:
            assert function == text.replace(".", "__")


@given(st.lists(refs, unique=True, min_size=1, max_size=8), st.data())
def test_a_forgotten_name_is_free_and_harms_no_other(listed: list[CallRef], data: st.DataObject) -> None:
    table = CallRefNames(listed)
    gone = data.draw(st.sampled_from(listed))
    names = table.add(gone)
    table.discard(gone)
    assert all(table.find(name) in (None, gone) for name in names)
    for ref in listed:
        if ref != gone:
            assert {table.find(name) for name in table.add(ref)} == {ref}


def test_a_hash_that_another_tool_has_as_its_name_is_passed_over() -> None:
    long = CallRef("node", "n" * 70, "query")
    function = CallRefNames([long]).add(long)[1]
    taken = CallRefNames()
    taken._refs[function] = CallRef("node", "other", "query")
    assert taken.add(long)[1] != function


@pytest.mark.parametrize("name", ["", "tools", "query", "tools.node.db.query", "tool.node.a.b.self", "tools.node.a__b.c.self"])
def test_other_texts_are_no_names(name: str) -> None:
    assert CallRef.read(name) is None
    assert CallRefNames().find(name) is None


ALIKE = ("Käse", "K se", "K.se", "K_se", "k_se", "K__se", "K\0se", "Кäse", "K\ud800se", "ﾏ", "")
alike = st.sampled_from([*ALIKE, *(letter * length for letter in "ab" for length in (10, 38, 62, 64, 70, 500))])
"""Segments that a name with fewer characters may make equal, and some around the limits of length."""


@given(st.lists(st.builds(CallRef, st.sampled_from(["mcp", "node"]), alike, alike, alike), unique=True, max_size=40))
def test_segments_that_look_alike_and_long_ones_have_names_of_their_own_that_are_found_again(listed: list[CallRef]) -> None:
    table = CallRefNames()
    for ref in listed:
        table.add(ref)
    for ref in listed:
        text, function = table.add(ref)
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function)
        assert table.find(text) == table.find(function) == ref
        if len("__".join(("tools", *ref))) > 64:
            assert re.fullmatch(r".*_[0-9a-f]{10}", function)


def test_a_name_of_just_64_characters_has_no_hash_and_one_of_65_has_one() -> None:
    room = 64 - len("tools__node__") - len("__query__self")
    short, long = CallRef("node", "n" * room, "query"), CallRef("node", "n" * (room + 1), "query")
    table = CallRefNames([short, long])
    names = [table.add(ref)[1] for ref in (short, long)]
    assert [len(name) for name in names] == [64, 64]
    assert names[0] == f"tools__node__{'n' * room}__query__self"
    assert CallRef.read(names[0]) == short
    assert CallRef.read(names[1]) is None
    assert table.find(names[1]) == long
