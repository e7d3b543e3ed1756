"""The straight segments of a net, after all tracks have positions."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.picture.geometry import Geometry
from rrext.picture.nets import ANCHOR, Net
from rrext.picture.routes import LEVEL, NetRoute, Trunk

Segment = tuple[int, int, int, int]
"""x1, y1, x2, y2: a straight line to the right or down, both ends included. At boxes it ends on their borders."""


def segments_of(route: NetRoute, geometry: Geometry) -> Iterator[Segment]:
    """All segments of a net. They meet at their ends, or one ends on another."""
    net = route.net
    if net.kind == "data":
        yield _departing(route, geometry)
    for end in net.ends:
        if end.side == "top":
            x, y = geometry.arrival(end)
            joint = geometry.joints[net.index, geometry.board.cells[end.node][0]][x]
            if not joint.up:  # else a line from straight above covers it
                yield x, joint.heights[0], x, y
    for trunk in route.trunks:
        yield from _trunk(net, trunk, geometry)
    for level, run in geometry.runs[net.index]:
        y = geometry.level_y[level] + run.track
        yield run.low, y, run.high, y


def _departing(route: NetRoute, geometry: Geometry) -> Segment:
    """The line down from the box, to the box below or to its first turn."""
    node = route.net.node
    x, y = geometry.corner(node)
    level = geometry.board.cells[node][0] + 1 if route.drop is None else route.drop
    joint = geometry.joints[route.net.index, level][x + ANCHOR]
    lower = geometry.row_y[level] if joint.down else joint.heights[0]
    return x + ANCHOR, y + geometry.box_height[node] - 1, x + ANCHOR, lower


def _trunk(net: Net, trunk: Trunk, geometry: Geometry) -> Iterator[Segment]:
    x = geometry.trunk_x[trunk]
    top, bottom = (_place(net, height, x, geometry) for height in (trunk.low, trunk.high))
    if top < bottom:
        yield x, top, x, bottom
    for height in trunk.lefts:
        y = geometry.y_of(height)
        yield geometry.right_edge(net.node), y, x, y
    for height in trunk.rights:
        y = geometry.y_of(height)
        yield x, y, geometry.column_x[trunk.gap], y


def _place(net: Net, height: int, x: int, geometry: Geometry) -> int:
    """The end of a trunk: a line of a box, or the horizontal line at a level."""
    return geometry.y_of(height) if height % LEVEL else geometry.joints[net.index, height // LEVEL][x].heights[0]
