"""Who listens to whom, and in which order nodes open and close."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_pipelines import SOURCE, part, spec

from rrext.errors import InvalidPipeline
from rrext.limits import Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.spec import DataEdge, PipelineSpec
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


class Pass(Node):
    lanes = {"text": ("text",)}


class Reads(Node):
    lanes = {"text": ("text", "answers"), "table": ("text",)}

    def write_text(self, text: str) -> None: ...


def plan(classes: dict[str, type[Node]], *edges: str, limits: Limits | None = None) -> LanePlan:
    return LanePlan.of(spec(classes, *edges), limits or Limits())


def names(found: LanePlan, sender: str, lane: str = "text") -> list[str]:
    return [receiver.node_id for receiver in found.receivers(sender, lane)]


def test_receivers_are_in_file_order_and_know_their_lane() -> None:
    found = plan({"b": Reads, "a": Reads, "c": Reads}, "source text a", "source text b", "a text c")
    assert names(found, SOURCE) == ["b", "a"]
    assert names(found, "a") == ["c"]
    assert names(found, "a", "answers") == []
    assert found.source_lanes == {"text"}
    assert found.listens("text")
    assert not found.listens("table")


def test_a_node_without_the_method_is_replaced_by_those_who_listen_to_it_on_that_lane() -> None:
    found = plan({"p": Pass, "a": Reads, "b": Reads}, "source text p", "p text a", "source text b")
    assert names(found, SOURCE) == ["a", "b"]


def test_a_node_that_is_reached_in_two_ways_receives_twice() -> None:
    found = plan({"p": Pass, "q": Pass, "a": Reads}, "source text p", "source text q", "p text a", "q text a")
    assert names(found, SOURCE) == ["a", "a"]


def test_an_edge_that_stands_twice_counts_once() -> None:
    assert names(plan({"a": Reads}, "source text a", "source text a"), SOURCE) == ["a"]


def test_a_node_may_emit_on_the_lanes_that_its_class_declares() -> None:
    assert plan({"a": Reads}, "source text a").declared["a"] == ("text", "answers")


def test_a_node_opens_after_all_that_send_to_it_though_the_chain_is_depth_first() -> None:
    found = plan(dict.fromkeys("abcd", Reads), "source text a", "source text b", "a text d", "b text c", "c text d")
    assert spec(dict.fromkeys("abcd", Reads), "source text a", "source text b", "a text d", "b text c", "c text d").chain == (
        "a",
        "d",
        "b",
        "c",
    )
    assert found.opening == found.closing == ("a", "b", "c", "d")


def test_a_node_that_serves_by_control_alone_opens_first_and_closes_last() -> None:
    found = plan({"memory": Reads, "agent": Reads, "tool": Reads}, "source text agent")
    assert found.closing == ("agent", "memory", "tool")
    assert found.opening == ("tool", "memory", "agent")


def test_a_control_bound_node_that_sends_closes_before_its_listeners() -> None:
    found = plan({"a": Reads, "b": Reads, "served": Reads}, "source text a", "served text b")
    assert found.closing.index("served") < found.closing.index("b")


def test_an_edge_from_outside_of_the_chain_brings_nothing() -> None:
    whole = spec({"a": Reads, "lost": Reads}, "source text a", "lost text a")
    found = LanePlan.of(msgspec.structs.replace(whole, chain=("a",)))
    assert found.closing == ("a",)
    assert names(found, SOURCE) == ["a"]


def test_data_edges_in_a_circle_are_refused() -> None:
    with pytest.raises(InvalidPipeline, match="a, b make a circle"):
        plan({"a": Reads, "b": Reads}, "source text a", "a text b", "b text a")


@given(st.data())
def test_every_order_is_topological_and_ties_keep_the_chain(data: st.DataObject) -> None:
    count = data.draw(st.integers(min_value=1, max_value=8))
    ids = data.draw(st.permutations([f"n{i}" for i in range(count)]))
    edges = ["source text " + node for node in ids if data.draw(st.booleans())]
    edges += [f"{a} text {b}" for i, a in enumerate(ids) for b in ids[i + 1 :] if data.draw(st.booleans())]
    file_order = data.draw(st.permutations(ids))
    whole = spec(dict.fromkeys(file_order, Reads), *edges)
    found = LanePlan.of(whole)
    assert sorted(found.opening) == sorted(found.closing) == sorted(ids)
    senders = {node: {e.source_id for part in whole.components if part.id == node for e in part.inputs} for node in ids}
    for order in (found.opening, found.closing):
        for node in ids:
            assert all(order.index(sender) < order.index(node) for sender in senders[node] - {SOURCE})
    moved = [node for node in found.closing if senders[node] or any(node in s for s in senders.values())]
    for earlier, later in pairwise(moved):  # neighbours that could change places stand as in the chain
        assert earlier in senders[later] or whole.chain.index(earlier) < whole.chain.index(later)


def test_a_method_knows_whether_it_is_async_and_which_parameter_takes_the_context() -> None:
    class Mixed(Node):
        lanes = {"text": ()}

        def open(self, entry: Any) -> None: ...
        async def write_text(self, text: str, *, ctx: ToolContext) -> None: ...
        def closing(self, context: "ToolContext | None" = None) -> None: ...  # noqa: UP037
        def write_table(self, table: str) -> None: ...

    found = plan({"a": Mixed}, "source text a")
    methods = found.methods["a"]
    assert set(methods) == {"open", "write_text", "closing"}, "nobody sends tables here"
    assert {name: (m.is_async, m.context) for name, m in methods.items()} == {
        "open": (False, None),
        "write_text": (True, "ctx"),
        "closing": (False, "context"),
    }
    assert found.needs_loop


def test_a_pipeline_needs_the_loop_only_for_methods_that_it_uses() -> None:
    class Lazy(Node):
        def write_text(self, text: str) -> None: ...
        async def write_table(self, table: str) -> None: ...

    assert not plan({"a": Lazy}, "source text a").needs_loop
    assert plan({"a": Lazy}, "source table a").needs_loop


def test_a_wrapped_async_method_is_async() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    class Wrapped(Node):
        @twice
        async def write_text(self, text: str) -> None: ...

    assert plan({"a": Wrapped}, "source text a").needs_loop


def test_a_tool_may_be_called_like_a_method_of_the_lifecycle() -> None:
    class Files(Node):
        @tool_function
        def open(self, path: str) -> str: ...
        @tool_function
        def write_text(self, path: str, text: str) -> str: ...

    found = plan({"a": Files}, "source text a")
    assert dict(found.methods["a"]) == {}
    assert names(found, SOURCE) == []


def test_a_lane_method_that_is_a_generator_is_refused_because_its_body_would_never_run() -> None:
    class Wrong(Node):
        def write_text(self, text: str) -> Any:
            yield text

    with pytest.raises(InvalidPipeline, match=r'Node "a": Wrong.write_text is a generator'):
        plan({"a": Wrong}, "source text a")


def rows_of_diamonds(count: int, last: type[Node]) -> LanePlan:
    """source → p0 → (l0, r0) → p1 → (l1, r1) → … → end, all of it passing on."""
    edges = ["source text p0"]
    for i in range(count):
        edges += [f"p{i} text l{i}", f"p{i} text r{i}", f"l{i} text p{i + 1}", f"r{i} text p{i + 1}"]
    ids = [f"{kind}{i}" for i in range(count + 1) for kind in ("p", "l", "r")]
    classes: dict[str, type[Node]] = {**dict.fromkeys(ids, Pass), f"p{count}": last}
    return plan(classes, *edges, limits=Limits(max_receivers=1024))


def test_pass_through_nodes_multiply_a_payload_up_to_the_limit() -> None:
    assert names(rows_of_diamonds(10, Reads), SOURCE) == ["p10"] * 1024
    with pytest.raises(InvalidPipeline, match="max_receivers"):
        rows_of_diamonds(11, Reads)


def test_pass_through_nodes_that_lead_nowhere_cost_nothing() -> None:
    assert names(rows_of_diamonds(60, Pass), SOURCE) == []


def test_a_long_row_of_pass_through_nodes_is_no_recursion() -> None:
    ids = [*(f"p{i}" for i in range(5000)), "end"]
    senders = [SOURCE, *ids]
    classes: dict[str, type[Node]] = {**dict.fromkeys(ids, Pass), "end": Reads}
    components = tuple(part(i, classes[i], DataEdge("text", sender)) for i, sender in zip(ids, senders, strict=False))
    found = LanePlan.of(PipelineSpec(SOURCE, components, tuple(ids), ""))
    assert names(found, SOURCE) == ["end"]
