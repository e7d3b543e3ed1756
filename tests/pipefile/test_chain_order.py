"""The chain: in which order the nodes of a pipeline are asked."""

from __future__ import annotations

import itertools
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sample_nodes import component, load, pipeline

from rrext.pipefile.edges import chain_order, circles, reached


def chain(*components: dict[str, Any], source: str = "w") -> tuple[str, ...]:
    loaded = load(pipeline(*components, source=source))
    assert not loaded.errors
    return loaded.outline.chain


W = component("w", "webhook")


def test_data_comes_first_depth_first_in_file_order() -> None:
    found = chain(
        W,
        component("b", "upper", "text:w"),
        component("a", "upper", "text:w"),
        component("out_a", "response_text", "text:a"),
        component("out_b", "response_text", "text:b"),
    )
    assert found == ("b", "out_b", "a", "out_a")


def test_the_source_is_not_in_the_chain() -> None:
    assert chain(W) == ()


def test_a_node_that_two_feed_stands_once() -> None:
    found = chain(
        W,
        component("a", "upper", "text:w"),
        component("b", "upper", "text:w"),
        component("c", "upper", "text:b", "text:a"),
        component("out", "response_text", "text:c"),
    )
    assert found == ("a", "c", "out", "b")


def test_what_is_bound_by_control_comes_after_all_data_until_nothing_is_added() -> None:
    found = chain(
        component("deep", "tool_hammer", control="tool:helper"),
        component("helper", "agent", control="tool:agent_1"),
        W,
        component("t", "tool_hammer", control="tool:w"),
        component("agent_1", "agent", "questions:w"),
        component("llm_1", "llm", control="llm:agent_1 llm:helper"),
        component("out", "response_answers", "answers:agent_1"),
    )
    # The first pass through the file meets helper, t and llm_1; only the second meets deep, which stands before helper.
    assert found == ("agent_1", "out", "helper", "t", "llm_1", "deep")


def test_a_pipeline_of_tools_alone_has_a_chain() -> None:
    assert chain(W, component("t", "tool_hammer", control="tool:w"), component("u", "weather", control="tool:t")) == ("t", "u")


def test_what_a_controlled_node_feeds_is_reached_too() -> None:
    found = chain(
        W,
        component("agent_1", "agent", "questions:w"),
        component("out", "response_answers", "answers:agent_1"),
        component("llm_1", "llm", control="llm:agent_1"),
        component("inner", "response_answers", "answers:llm_1"),
    )
    assert found == ("agent_1", "out", "llm_1", "inner")


def test_nodes_that_nothing_reaches_are_left_out() -> None:
    assert chain(W, component("u", "upper"), component("v", "upper", "text:u")) == ()


nodes = st.integers(2, 12).flatmap(
    lambda n: st.tuples(
        st.just([f"n{i}" for i in range(n)]),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25),
    )
)


def follows(names: list[str], edges: list[tuple[int, int]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for a, b in sorted(set(edges), key=lambda edge: edge[1]):
        found.setdefault(names[a], []).append(names[b])
    return found


@given(nodes)
def test_the_order_is_that_of_repeated_passes_through_the_file(graph: Any) -> None:
    names, data_edges, control_edges = graph
    data, control = follows(names, data_edges), follows(names, control_edges)
    expected: dict[str, None] = {}

    def walk(node: str) -> None:
        if node not in expected:
            expected[node] = None
            for other in data.get(node, ()):
                walk(other)

    walk("n0")
    before = 0
    while len(expected) != before:
        before = len(expected)
        for name in names:
            if name not in expected and any(name in control.get(invoker, ()) for invoker in expected):
                walk(name)
    del expected["n0"]
    order = {name: index for index, name in enumerate(names)}
    assert chain_order("n0", order, data, control) == tuple(expected)
    assert reached(["n0"], data, control) == {"n0", *expected}


@given(nodes)
def test_every_knot_gives_one_circle_along_its_edges(graph: Any) -> None:
    names, edges, _ = graph
    leads = follows(names, edges)
    reach = {name: reached(leads.get(name, ()), leads) for name in names}
    in_circles = {name for name in names if name in reach[name]}
    found = circles(names, leads)
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(later in leads[earlier] for earlier, later in itertools.pairwise(circle))
        assert len(set(circle)) == len(circle) - 1
    knots = {frozenset(other for other in in_circles if other in reach[name] and name in reach[other]) for name in in_circles}
    assert len(found) == len(knots)


def test_ten_thousand_nodes_in_a_row_need_no_recursion() -> None:
    names = [f"n{i}" for i in range(10_000)]
    forward = {a: [b] for a, b in itertools.pairwise(names)}
    order = {name: i for i, name in enumerate(names)}
    assert chain_order("n0", order, forward, {}) == tuple(names[1:])
    assert len(circles(names, {**forward, names[-1]: ["n0"]})[0]) == 10_001
    # The worst order for passes: each pass finds one node. A list of passes would take ten thousand walks.
    backward = {b: [a] for a, b in itertools.pairwise(names)}
    assert chain_order(names[-1], order, {}, backward) == tuple(reversed(names[:-1]))
    shuffled = names[:]
    random.Random(1).shuffle(shuffled)
    assert circles(shuffled, forward) == []
