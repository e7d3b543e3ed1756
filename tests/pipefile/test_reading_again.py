"""Reading a text again after an edit gives exactly what reading it for the first time gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from keystrokes import MARKS, SCALARS, SPACES, STRINGS, WRONG, Edit, edited, edits, flat, map_of

from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.text.jsonc import Scanner
from rrext.pipefile.text.problems import Problem, Problems
from rrext.pipefile.text.source import ParsedText, parse


@st.composite
def texts(draw: st.DrawFn, depth: int = 0) -> str:
    """JSON with comments, trailing commas, keys that stand twice, and now and then something wrong."""
    space = st.sampled_from(SPACES)
    kinds = ["objects", "object"] if depth == 0 else ["scalar", "object", "objects", "list"]
    kind = draw(st.sampled_from(kinds[: 4 if depth < 5 else 1]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS * 2 + WRONG))
    items = [draw(texts(depth + 2 if kind == "objects" else depth + 1)) for _ in range(draw(st.integers(0, 4)))]
    if kind == "objects":
        items = ['{"id":' + item + draw(st.sampled_from(["", ",", ', "to":[{}]'])) + "}" for item in items]
    if kind == "object":
        items = [f"{draw(st.sampled_from(STRINGS))}{draw(space)}:{draw(space)}{item}" for item in items]
    pieces = [draw(space) + item + draw(space) for item in items]
    opening, closing = "{}" if kind == "object" else "[]"
    return opening + ",".join(pieces) + draw(st.sampled_from(["", "", ","])) + draw(space) + closing


soup = st.lists(st.sampled_from([*MARKS, *WRONG, *SCALARS, *SPACES]) | st.text(max_size=2), max_size=40).map("".join)


def plainly(
    text: str, limits: Limits, found: tuple[Problem, ...]
) -> tuple[list[tuple[Any, ...]], tuple[Problem, ...], bool, bool]:
    """What a walk over every character gives, if it was found already that the text is no Unicode."""
    problems = Problems(limits.max_problems)
    for problem in found:
        if problem.code == "not_utf8":
            problems.append(problem)
    scanner = Scanner(text, problems, limits.max_depth)
    root = scanner.run()
    return flat(root), problems.listing(), scanner.complete, scanner.stopped


def assert_same(source: ParsedText, limits: Limits) -> None:
    where = map_of(source)
    tree, problems, complete, stopped = plainly(where.text, limits, source.problems[:1])
    assert flat(where.root) == tree
    assert repr(source.value) == tree[0][2]
    assert source.problems == problems
    assert (source.complete, where.stopped) == (complete, stopped)


@given(texts() | soup)
@example('[{"a":1,"a":2},{"a":1}]')
@example('[{"a":[[[[[[[[]]]]]]]]}]')
@example('[{"a":"' + "x" * 70_000 + '"},{}]')
def test_pieces_change_nothing(text: str) -> None:
    for limits in (DEFAULTS, Limits(max_depth=3)):
        assert_same(parse(text, limits=limits), limits)


@given(texts() | soup, edits, st.sampled_from([DEFAULTS, Limits(max_depth=4), Limits(max_problems=3)]), st.booleans())
@example('[{"a":}, {"b":1}, {"c":1}]', [(1.0, 0, " ")], DEFAULTS, False)
@example('[{"a":1},, {"b":1}, {"c":1}]', [(1.0, 0, " ")], DEFAULTS, False)
@example('[{"a":1},{"b":2}]', [(7 / 17, 1, ",")], DEFAULTS, False)
@example('[{"a":1} @ @ @, {"b":1}, {"c":1}]', [(1.0, 0, " ")], DEFAULTS, False)
@example('[{"a":1}, {"b":1}, {"c":1}]', [(0.0, 0, "["), (0.0, 0, "[["), (0.0, 0, "[")], Limits(max_depth=4), False)
@example('{"a":[{"b":1},{"c":2}]}', [(0.3, 0, '"'), (0.3, 1, "")], DEFAULTS, True)
@example('[{"a":[{"b":1 ]}, {"c":2}]', [(0.0, 0, " ")], DEFAULTS, False)
def test_reading_again_gives_what_reading_for_the_first_time_gives(
    text: str, changes: list[Edit], limits: Limits, looked_at: bool
) -> None:
    readings = [parse(text, limits=limits)]
    for edit in changes:
        if looked_at:  # what was looked at is a tree already, the rest is still text
            flat(map_of(readings[-1]).root)
        text = edited(text, edit)
        readings.append(parse(text, limits=limits, former=map_of(readings[-1])))
    for source in reversed(readings):  # the earlier ones still hold what they held
        assert_same(source, limits)


@given(texts(), texts(), edits)
def test_what_was_read_before_may_be_any_other_text(one: str, other: str, changes: list[Edit]) -> None:
    first = map_of(parse(one))
    assert_same(parse(other, former=first), DEFAULTS)
    for edit in changes:
        other = edited(other, edit)
        assert_same(parse(other, former=first), DEFAULTS)


ELEMENTS = ['{"a":1}', '{"b":"\\"}"}', "{}", '{"c":[{"d":{}}]}', '{"e":1 /* */,}']


@given(st.lists(st.sampled_from(ELEMENTS), min_size=2, max_size=9), st.data())
def test_objects_that_were_not_touched_stay_the_same_objects(items: list[str], data: st.DataObject) -> None:
    touched = data.draw(st.integers(0, len(items) - 1))
    new = data.draw(st.sampled_from(['{"new":1}', '{"new":', '{"new":"', '{"new" 1', '{"new":1}}']))
    before = parse('{"list": [' + ", ".join(items) + "]}")
    after = parse('{"list": [' + ", ".join([*items[:touched], new, *items[touched + 1 :]]) + "]}", former=map_of(before))
    old, now = before.value["list"], after.value["list"]
    assert all(one is other for one, other in zip(old[:touched], now[:touched], strict=True))
    if new == '{"new":1}':
        assert all(one is other for one, other in zip(old[touched + 1 :], now[touched + 1 :], strict=True))


def test_what_follows_an_object_that_lost_its_end_stays_the_same() -> None:
    text = '{"list": [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]}'
    before = parse(text)
    after = parse(text.replace('{"b": 2}', '{"b": 2'), former=map_of(before))
    assert after.value == before.value
    assert after.value["list"][0] is before.value["list"][0]
    assert after.value["list"][3] is before.value["list"][3]


@pytest.mark.parametrize("body", ['{"b": 2}', '{"b": 2 /* not strict */}'])
def test_after_a_mistake_objects_stay_the_same_too(body: str) -> None:
    text = '{"list": [{"a": 1},, ' + ", ".join([body] * 5) + '], "end": 1}'
    before = parse(text)
    after = parse(text.replace('"end": 1', '"end": 2'), former=map_of(before))
    assert [one is other for one, other in zip(before.value["list"], after.value["list"], strict=True)][2:] == [True] * 4


def test_an_object_that_stands_twice_after_an_edit_is_two_objects() -> None:
    before = parse('[{"a": 1},]')
    after = parse('[{"a": 1},{"a": 1},]', former=map_of(before))
    first, second = after.value
    assert first == second
    assert first is not second
