"""Lines take short ways, and spread over the gaps where many run."""

from __future__ import annotations

from rrext.picture.picture import Picture, PictureEdge, PictureNode
from rrext.picture.placement import Board, Cell
from rrext.picture.routes import NetRoute, nets_of, routes_of


def routes(cells: list[Cell], *edges: tuple[int, int]) -> list[NetRoute]:
    nodes = tuple(PictureNode(f"n{index}", "p") for index in range(len(cells)))
    board = Board(cells)
    picture = Picture(nodes, tuple(PictureEdge(source, target, "data", ("text",)) for source, target in edges))
    return routes_of(nets_of(picture, board, 20, 40, ()), board)


def gaps(found: list[NetRoute]) -> list[list[int]]:
    return [[trunk.gap for trunk in route.trunks] for route in found]


def test_what_stands_below_needs_no_gap() -> None:
    found = routes([(0, 0), (1, 0), (1, 1), (1, 2)], (0, 1), (0, 2), (0, 3))
    assert gaps(found) == [[]]
    assert found[0].drop == 1


def test_a_line_may_run_straight_through_empty_cells() -> None:
    found = routes([(0, 0), (3, 0), (2, 1), (1, 1)], (0, 1), (0, 2))
    assert gaps(found) == [[]]
    assert found[0].drop == 3


def test_a_line_goes_around_what_is_in_its_way_on_the_near_side() -> None:
    column = [(0, 2), (1, 2), (2, 2), (0, 0), (0, 1), (0, 3)]
    assert gaps(routes(column, (0, 1), (0, 2), (1, 2))) == [[2], []]


def test_a_gap_with_many_lines_is_left_to_them() -> None:
    column = [(row, 0) for row in range(14)]
    found = gaps(routes(column, *((source, target) for source in range(7) for target in (source + 7,))))
    assert {gap for trunks in found for gap in trunks} == {0, 1}
