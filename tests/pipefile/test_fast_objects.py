"""Objects that the fast decoder reads are exactly those that a walk over every character gives."""

from __future__ import annotations

from typing import Any

from broken_texts import MARKS, SCALARS, SPACES, STRINGS, WRONG, Edit, edited, edits, flat, map_of
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.limits import DEFAULTS, Limits
from rrext.pipefile.text.problems import Problem, Problems
from rrext.pipefile.text.scanner import Scanner
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


def plainly(text: str, limits: Limits, found: tuple[Problem, ...]) -> tuple[list[tuple[Any, ...]], tuple[Problem, ...], bool]:
    """What a walk over every character gives, if it was found already that the text is no Unicode."""
    problems = Problems(limits.max_problems)
    for problem in found:
        if problem.code == "not_utf8":
            problems.append(problem)
    scanner = Scanner(text, problems, limits.max_depth)
    root = scanner.run()
    return flat(root), problems.listing(), scanner.complete


def assert_same(source: ParsedText, limits: Limits) -> None:
    where = map_of(source)
    tree, problems, complete = plainly(where.text, limits, source.problems[:1])
    assert flat(where.root) == tree
    assert repr(source.value) == tree[0][2]
    assert source.problems == problems
    assert source.complete == complete


@given(texts() | soup, edits | st.just([]))
@example('[{"a":1,"a":2},{"a":1}]', [])
@example('[{"a":[[[[[[[[]]]]]]]]}]', [])
@example('[{"a":"' + "x" * 70_000 + '"},{}]', [])
@example('[{"a":}, {"b":1}, {"c":1}]', [(1.0, 0, " ")])
@example('[{"a":1},, {"b":1}, {"c":1}]', [(1.0, 0, " ")])
@example('[{"a":1} @ @ @, {"b":1}, {"c":1}]', [(1.0, 0, " ")])
@example('[{"a":1}, {"b":1}, {"c":1}]', [(0.0, 0, "["), (0.0, 0, "[["), (0.0, 0, "[")])
@example('[{"a":[{"b":1 ]}, {"c":2}]', [(0.0, 0, " ")])
def test_the_fast_decoder_changes_nothing_in_any_state_of_a_text(text: str, changes: list[Edit]) -> None:
    for limits in (DEFAULTS, Limits(max_depth=3), Limits(max_problems=3)):
        assert_same(parse(text, limits=limits), limits)
        for edit in changes:
            text = edited(text, edit)
            assert_same(parse(text, limits=limits), limits)
