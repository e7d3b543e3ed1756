"""Nodes stand where one looks for them: data below, what is invoked on the right, nothing on top of each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from picture_graphs import pictures, small_pictures

from rrext.picture.picture import Kind, Picture, PictureEdge, PictureNode, Role
from rrext.picture.placement import Cell, ordered, placed


def cells(count: int, *edges: tuple[int, int, Kind], most: int = 5) -> list[Cell]:
    roles: list[Role] = ["source", *["step"] * (count - 1)]  # type: ignore[list-item]
    nodes = tuple(PictureNode(f"n{index}", "p", role=role) for index, role in enumerate(roles))
    return placed(ordered(Picture(nodes, tuple(PictureEdge(*edge, ("x",)) for edge in edges))), most)


@given(pictures(), st.integers(1, 9))
def test_no_two_nodes_share_a_cell_and_no_column_is_added(picture: Picture, most: int) -> None:
    found = placed(ordered(picture), most)
    assert len(set(found)) == len(picture.nodes)
    assert all(row >= 0 and 0 <= column < most for row, column in found)


@given(small_pictures() | pictures(), st.integers(1, 9))
def test_data_runs_down_but_where_it_runs_in_circles(picture: Picture, most: int) -> None:
    order = ordered(picture)
    assert sorted(order.nodes) == list(range(len(picture.nodes)))
    place = {node: index for index, node in enumerate(order.nodes)}
    found = placed(order, most)
    for node, feeders in enumerate(order.feeders):
        assert all(found[feeder][0] < found[node][0] and place[feeder] < place[node] for feeder in feeders)
    for node, invokers in enumerate(order.invokers):
        assert all(place[invoker] < place[node] for invoker in invokers)


@given(small_pictures())
def test_only_edges_in_circles_lead_back(picture: Picture) -> None:
    order = ordered(picture)
    behind = {node: {edge.target for edge in picture.edges if edge.source == node} for node in range(len(picture.nodes))}
    kept = {(source, target) for target, sources in enumerate(order.feeders) for source in sources}
    kept |= {(source, target) for target, sources in enumerate(order.invokers) for source in sources}
    for edge in picture.edges:
        if (edge.source, edge.target) not in kept:
            reached, waiting = set[int](), [edge.target]
            while waiting:
                node = waiting.pop()
                if node not in reached:
                    reached.add(node)
                    waiting.extend(behind[node])
            assert edge.source in reached


def test_a_chain_is_a_column() -> None:
    assert cells(4, (0, 1, "data"), (1, 2, "data"), (2, 3, "data")) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_consumers_of_one_node_stand_side_by_side() -> None:
    assert cells(4, (0, 1, "data"), (0, 2, "data"), (0, 3, "data")) == [(0, 0), (1, 0), (1, 1), (1, 2)]


def test_more_than_fit_begin_another_row() -> None:
    assert cells(4, (0, 1, "data"), (0, 2, "data"), (0, 3, "data"), most=2) == [(0, 0), (1, 0), (1, 1), (2, 0)]


def test_what_a_node_may_invoke_stands_beside_it_and_below() -> None:
    found = cells(5, (0, 1, "data"), (1, 2, "control"), (1, 3, "control"), (1, 4, "control"))
    assert found == [(0, 0), (1, 0), (1, 1), (2, 1), (3, 1)]


def test_a_node_moves_down_to_have_room_for_what_it_may_invoke() -> None:
    found = cells(5, (0, 1, "data"), (0, 2, "control"), (0, 3, "control"), (1, 4, "control"))
    assert found == [(0, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


def test_a_circle_begins_at_the_source() -> None:
    assert cells(3, (1, 0, "data"), (2, 1, "data"), (0, 2, "data")) == [(0, 0), (2, 0), (1, 0)]


def test_what_nothing_leads_to_has_a_column_of_its_own_or_stands_near_what_it_leads_to() -> None:
    assert cells(3, (0, 1, "data")) == [(0, 0), (1, 0), (0, 1)]
    assert cells(4, (0, 1, "data"), (1, 2, "data"), (3, 2, "data")) == [(0, 0), (1, 0), (2, 0), (1, 1)]
    assert cells(3, most=2) == [(0, 0), (0, 1), (1, 0)]
