"""Nets: all data that one node sends, or all control of the nodes that it invokes, is one line with branches.

Data leaves a box at the bottom and arrives at the top; control leaves on the right and arrives on the left. Data without room
at the top arrives on the left too, where each line of the box has room for one end.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import count
from typing import Final, Literal

from rrext.picture.board import Board
from rrext.picture.boxes import label_lines, widest
from rrext.picture.picture import Kind, Picture

ANCHOR: Final = 3
"""Columns from the left edge of a box to the point where data leaves, and where data from above arrives."""
TOP_WIDTH: Final = 38
"""Columns for the ends at the top of one box, with their names."""


class NetEnd:
    """A point where a net meets a box: `port` columns from its left edge at the `top`, or at its line `port` on the `left`."""

    def __init__(self, edge: int, node: int, labels: list[str]) -> None:
        self.edge = edge
        self.node = node
        self.labels = labels
        self.side: Literal["top", "left"] = "left"
        self.port = 0


class Net:
    """A line from `node` to all its ends."""

    def __init__(self, index: int, node: int, kind: Kind) -> None:
        self.index = index
        self.node = node
        self.kind: Kind = kind
        self.ends: list[NetEnd] = []


def nets_of(picture: Picture, board: Board, name_room: int, top_room: int, without: Container[int]) -> list[Net]:
    """The nets of a picture with positioned ends. Edges in `without` are omitted.

    Lines of names have `name_room` columns, and the ends at the top of one box have `top_room`.
    """
    nets: dict[tuple[int, Kind], Net] = {}
    for index, edge in enumerate(picture.edges):
        if index not in without:
            net = nets.setdefault((edge.source, edge.kind), Net(len(nets), edge.source, edge.kind))
            net.ends.append(NetEnd(index, edge.target, label_lines(edge, name_room)))
    arriving: dict[int, list[tuple[Net, NetEnd]]] = {}
    for net in nets.values():
        for end in net.ends:
            arriving.setdefault(end.node, []).append((net, end))
    for node, ends in arriving.items():
        _Sides(node, board, nets, min(top_room, TOP_WIDTH)).settle(ends)
    return list(nets.values())


def extent_above(ends: Sequence[NetEnd]) -> int:
    """Columns from the left edge of a box that its top ends take, names included."""
    return max((end.port + 2 + widest(end.labels) for end in ends), default=0)


class _Sides:
    """Chooses the side and the port of each end at one box."""

    def __init__(self, node: int, board: Board, nets: dict[tuple[int, Kind], Net], room: int) -> None:
        self._node = node
        self._board = board
        self._nets = nets
        self._room = room

    def settle(self, arriving: list[tuple[Net, NetEnd]]) -> None:
        """Put data at the top if there is room, and all other ends on the left."""
        data = sorted((pair for pair in arriving if pair[0].kind == "data"), key=self._from_left)
        control = sorted((pair for pair in arriving if pair[0].kind == "control"), key=self._from_left)
        self._put_left([*self._put_on_top(data), *control])

    def _from_left(self, arriving: tuple[Net, NetEnd]) -> tuple[int, int, int]:
        row, column = self._board.cells[arriving[0].node]
        return column, row, arriving[0].node

    def _put_on_top(self, arriving: list[tuple[Net, NetEnd]]) -> list[tuple[Net, NetEnd]]:
        """Put ends at the top; returns those without room."""
        above = self._board.above(self._node)
        straight = [pair for pair in arriving if pair[0].node == above]
        others = [pair for pair in arriving if pair[0].node != above]
        # Keep the column of the data line of the node above free: two lines there could meet.
        at = ANCHOR if straight or (above, "data") not in self._nets else ANCHOR + 2
        ports: list[int] = []
        for _, end in (*straight, *others):
            ports.append(at)
            at += 2 + max(widest(end.labels), 1) + 1
        fitting = [*straight, *others] if at - 1 <= self._room else straight
        for (_, end), port in zip(fitting, ports, strict=False):
            end.side, end.port = "top", port
        return [pair for pair in others if pair not in fitting]

    def _put_left(self, arriving: list[tuple[Net, NetEnd]]) -> None:
        """Give each end as many ports as its names have lines.

        A line from the box on the left may go straight into this one; others avoid its row.
        """
        beside = self._board.on_the_left(self._node)
        passing = self._nets.get((beside, "control")) if beside is not None else None
        lines = count(0 if passing is None else 1)
        for net, end in arriving:
            net.ends.remove(end)
            for place, label in enumerate(end.labels):
                one = NetEnd(end.edge, end.node, [label])
                is_straight = net is passing and place == 0 and self._only_goes_down(net)
                one.port = 0 if is_straight else next(lines)
                net.ends.append(one)

    def _only_goes_down(self, net: Net) -> bool:
        """Whether all other ends are below the row of the node, so that the line does not pass its own start."""
        row = self._board.cells[net.node][0]
        return all(end.node == self._node or self._board.cells[end.node][0] > row for end in net.ends)
