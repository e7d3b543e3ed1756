"""The layout of a picture in character cells: boxes, lines and labels.

The SVG uses the same layout with larger cells. Libraries for layered graphs exist, but none keeps to a width by wrapping,
leaves room for names, and aligns lines to cells: their drawings of a hundred nodes are several times wider than a terminal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

import msgspec

from rrext.picture.picture import Kind, Picture
from rrext.picture.placement import Board, BoxLine, box_lines, ordered, placed, reference, widest
from rrext.picture.routes import (
    ANCHOR,
    Geometry,
    Net,
    NetEnd,
    NetRoute,
    Segment,
    Size,
    least_width,
    nets_of,
    routes_of,
    segments_of,
)
from rrext.pipefile.text.problems import Severity

NARROWEST: Final = 40
"""The minimal width of a picture."""
TEXT_ROOM: Final = 34
"""Columns of text in a box; longer ids are cut."""
NAME_ROOM: Final = 24
"""Columns of one line of edge names; more names take more lines."""
NARROW_NAME_ROOM: Final = 10
"""`NAME_ROOM` in a tight picture."""
BESIDE: Final = 16
"""Columns reserved for borders and lines beside the text of a single box in a row."""


class Port(msgspec.Struct, frozen=True):
    """A point where a line meets the border of a box. A port that `arrives` has an arrowhead."""

    x: int
    y: int
    kind: Kind
    arrives: bool
    severity: Severity | None = None


class Box(msgspec.Struct, frozen=True):
    """The box of the node with index `node`."""

    node: int
    x: int
    y: int
    width: int
    height: int
    lines: tuple[BoxLine, ...]
    ports: tuple[Port, ...]


class Label(msgspec.Struct, frozen=True):
    """Names of the edge with index `edge`. `in_line`: they interrupt a line."""

    edge: int
    x: int
    y: int
    text: str
    in_line: bool


class Wire(msgspec.Struct, frozen=True):
    """All lines of one net from the box of `node`."""

    node: int
    kind: Kind
    segments: tuple[Segment, ...]


class Layout(msgspec.Struct, frozen=True):
    """All elements of a picture with their positions."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    labels: tuple[Label, ...]


def laid_out(picture: Picture, width: int) -> Layout:
    """The layout of a picture in at most `width` columns, `NARROWEST` at least.

    It has as many columns of boxes as fit. If not even one column leaves room for all lines, the longest ones are omitted, and
    their edges are written in the box at their end.
    """
    width = max(width, NARROWEST)
    order = ordered(picture)
    lines = _lines(picture, width, ())
    sizes = _sizes(lines)
    for most in range(max(1, min(len(picture.nodes), width // BESIDE)), 0, -1):
        board = Board(placed(order, most))
        if least_width(board, sizes) <= width:
            arrangement = _Arrangement(picture, board, sizes, width)
            if arrangement.geometry.width <= width:
                return _finished(picture, arrangement, lines)
    board = Board(placed(order, 1))
    written: set[int] = set()
    while True:
        lines = _lines(picture, width, sorted(written))
        arrangement = _Arrangement(picture, board, _sizes(lines), width, written, tight=True)
        excess = arrangement.geometry.width - width
        longest = arrangement.longest(excess) if excess > 0 else set[int]()
        if not longest:
            return _finished(picture, arrangement, lines)
        written |= longest


def _lines(picture: Picture, width: int, written: Iterable[int]) -> list[list[BoxLine]]:
    """The text of each box; the edges in `written` are included in words."""
    room = min(TEXT_ROOM, width - BESIDE)
    references: defaultdict[int, list[str]] = defaultdict(list)
    for index in written:
        edge = picture.edges[index]
        references[edge.target] += reference(edge, picture.nodes[edge.source], room)
    return [box_lines(node, room, references[index]) for index, node in enumerate(picture.nodes)]


def _sizes(lines: Iterable[list[BoxLine]]) -> list[Size]:
    return [(widest(line.text for line in box), len(box)) for box in lines]


class _Arrangement:
    """One attempt: a placement of nodes, with some edges in words."""

    def __init__(
        self,
        picture: Picture,
        board: Board,
        sizes: Sequence[Size],
        width: int,
        written: Set[int] = frozenset(),
        *,
        tight: bool = False,
    ) -> None:
        name_room = min(NARROW_NAME_ROOM if tight else NAME_ROOM, width - BESIDE)
        self.nets: list[Net] = nets_of(picture, board, name_room, width - BESIDE // 2, written)
        self.routes: list[NetRoute] = routes_of(self.nets, board)
        self.geometry = Geometry(board, sizes, self.nets, self.routes, tight=tight)

    def longest(self, count: int) -> set[int]:
        """The edges of the `count` longest vertical lines."""
        spans = sorted(
            (-max((trunk.high - trunk.low for trunk in route.trunks), default=0), route.net.index) for route in self.routes
        )
        chosen = [self.routes[index] for _, index in spans[:count]]
        return {end.edge for route in chosen for end in route.net.ends if not route.is_near(end, self.geometry.board)}


def _finished(picture: Picture, arrangement: _Arrangement, lines: Sequence[Sequence[BoxLine]]) -> Layout:
    geometry = arrangement.geometry
    nets = arrangement.nets
    wires = [Wire(route.net.node, route.net.kind, tuple(segments_of(route, geometry))) for route in arrangement.routes]
    ports: defaultdict[int, list[Port]] = defaultdict(list)
    for net in nets:
        ports[net.node].append(_departure(net, geometry))
        for end in net.ends:
            x, y = geometry.arrival(end)
            ports[end.node].append(Port(x, y, net.kind, True, picture.edges[end.edge].severity))
    boxes = [
        Box(
            node,
            *geometry.corner(node),
            geometry.column_width[geometry.board.cells[node][1]],
            geometry.box_height[node],
            tuple(texts),
            tuple(ports[node]),
        )
        for node, texts in enumerate(lines)
    ]
    labels = [label for net in nets for end in net.ends for label in _labels(end, geometry)]
    return Layout(geometry.width, geometry.height, tuple(boxes), tuple(wires), tuple(labels))


def _departure(net: Net, geometry: Geometry) -> Port:
    x, y = geometry.corner(net.node)
    if net.kind == "data":
        return Port(x + ANCHOR, y + geometry.box_height[net.node] - 1, net.kind, False)
    return Port(geometry.right_edge(net.node), y + 1, net.kind, False)


def _labels(end: NetEnd, geometry: Geometry) -> Iterator[Label]:
    x, y = geometry.arrival(end)
    if end.side == "top":
        for place, text in enumerate(end.labels):
            yield Label(end.edge, x + 2, y - len(end.labels) + place, text, False)
        return
    column = geometry.board.cells[end.node][1]
    start = x - geometry.label_width[column] - 2
    yield from (Label(end.edge, start, y, text, True) for text in end.labels)
