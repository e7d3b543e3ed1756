"""The dimensions of a layout: widths of gaps and columns, heights of levels and rows, and the track of each line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rrext.picture.board import Board
from rrext.picture.boxes import widest
from rrext.picture.channels import ChannelLine, assign_tracks
from rrext.picture.nets import ANCHOR, Net, NetEnd, extent_above
from rrext.picture.routes import LEVEL, NetRoute, Trunk

BORDERS: Final = 4
"""Columns of a box besides its text: two borders and a blank inside each."""
NARROWEST_BOX: Final = 12
"""The minimal width of a box."""
GAP: Final = 4
"""Columns between boxes without lines."""
MARGIN: Final = 2
"""Columns between the last line of a gap and the box on its right."""
LABEL_MARGIN: Final = 4
"""Columns around a name in a line: a piece of the line and a blank on each side."""


Size = tuple[int, int]
"""Columns and lines of the text of a box."""


class Joint:
    """A point where a vertical line meets a level of its net: at `x`, continuing `up` or `down` or both.

    `heights` are those of the level's horizontal lines that meet it: one, or two if it continues both ways.
    """

    def __init__(self, x: int) -> None:
        self.x = x
        self.up = False
        self.down = False
        self.heights: list[int] = []


class Geometry:
    """Columns, rows and tracks of one arrangement, in character cells.

    `column_x` and `column_width` belong to the boxes, `row_y` is their top. `runs` has the horizontal lines of each net with
    their levels, `joints` the points that they connect, by net, level and x.
    """

    def __init__(
        self, board: Board, sizes: Sequence[Size], nets: Sequence[Net], routes: Sequence[NetRoute], *, tight: bool
    ) -> None:
        self.board = board
        self.tight = tight
        self._tops: defaultdict[int, list[NetEnd]] = defaultdict(list)
        self._lefts: defaultdict[int, list[NetEnd]] = defaultdict(list)
        for net in nets:
            for end in net.ends:
                (self._tops if end.side == "top" else self._lefts)[end.node].append(end)
        self.box_height = [
            2 + max(sizes[node][1], *(end.port + 1 for end in self._lefts[node]), 0) for node in range(len(board.cells))
        ]
        self._set_across(sizes, routes)
        self.joints: dict[tuple[int, int], dict[int, Joint]] = {}
        self.runs: defaultdict[int, list[tuple[int, ChannelLine]]] = defaultdict(list)
        self._set_down(routes)

        # horizontal dimensions

    def _set_across(self, sizes: Sequence[Size], routes: Sequence[NetRoute]) -> None:
        columns = range(self.board.columns)
        nodes = [self.board.in_column(column) for column in columns]
        self.column_width = [max(self._box_width(node, sizes[node]) for node in nodes[column]) for column in columns]
        self.label_width = [
            widest(label for node in nodes[column] for end in self._lefts[node] for label in end.labels) for column in columns
        ]
        self.column_x: list[int] = []
        self.trunk_x: dict[Trunk, int] = {}
        x = 0
        for gap, trunks in enumerate(self._trunks(routes)):
            x = self._behind_gap(gap, x, self._set_trunks(trunks, x + (gap > 0)))
            if gap in columns:
                self.column_x.append(x)
                x += self.column_width[gap]
        self.width = x

    def _trunks(self, routes: Sequence[NetRoute]) -> list[dict[Trunk, ChannelLine]]:
        """The vertical lines in each gap."""
        found: list[dict[Trunk, ChannelLine]] = [{} for _ in range(self.board.columns + 1)]
        for route in routes:
            for trunk in route.trunks:
                found[trunk.gap][trunk] = ChannelLine(route.net.index, trunk.low, trunk.high, trunk.lefts, trunk.rights)
        return found

    def _set_trunks(self, trunks: dict[Trunk, ChannelLine], first: int) -> int | None:
        """Place the lines of a gap, from the column `first` on; returns the column behind the last one, None without any."""
        spacing = 1 if self.tight else 2
        tracks = assign_tracks(list(trunks.values()), 0, tight=self.tight)
        self.trunk_x.update({trunk: first + run.track * spacing for trunk, run in trunks.items()})
        return first + (tracks - 1) * spacing + 1 if tracks else None

    def _behind_gap(self, gap: int, start: int, behind_tracks: int | None) -> int:
        """The start of the column after a gap."""
        if gap == self.board.columns:
            return start if behind_tracks is None else behind_tracks
        if behind_tracks is None:
            return start + (GAP if gap else 0)
        labels = self.label_width[gap]
        return max(behind_tracks + (labels + LABEL_MARGIN if labels else MARGIN), start + (GAP if gap else 0))

    def _box_width(self, node: int, size: Size) -> int:
        return max(_text_width(size), extent_above(self._tops[node]) + 1)

        # vertical dimensions

    def _set_down(self, routes: Sequence[NetRoute]) -> None:
        board = self.board
        for route in routes:
            self._join(route)
        levels: list[list[ChannelLine]] = [[] for _ in range(board.rows + 1)]
        for (net, level), joints in self.joints.items():
            for run in _runs(net, sorted(joints.values(), key=_place)):
                levels[level].append(run)
                self.runs[net].append((level, run))
        tracks = [assign_tracks(level, 1, tight=self.tight) for level in levels]
        self.level_y: list[int] = []
        self.row_y: list[int] = []
        y = 0
        for row in range(board.rows):
            nodes = board.in_row(row)
            self.level_y.append(y)
            y += tracks[row] + max((len(end.labels) for node in nodes for end in self._tops[node]), default=0)
            self.row_y.append(y)
            y += max(self.box_height[node] for node in nodes)
        self.level_y.append(y)
        self.height = y + tracks[-1]
        for net, runs in self.runs.items():
            for level, run in runs:
                for x in {run.low, run.high, *run.before, *run.after}:
                    self.joints[net, level][x].heights.append(self.level_y[level] + run.track)

    def _join(self, route: NetRoute) -> None:
        """Collect the points where a net's lines meet levels."""
        net = route.net
        row, column = self.board.cells[net.node]
        anchor = self.column_x[column] + ANCHOR
        if net.kind == "data":
            self._joint(net, row + 1, anchor).up = True
        for end in net.ends:
            if end.side == "top":
                end_row, end_column = self.board.cells[end.node]
                self._joint(net, end_row, self.column_x[end_column] + end.port).down = True
        for trunk in route.trunks:
            for height in trunk.leaves:
                joint = self._joint(net, height // LEVEL, self.trunk_x[trunk])
                joint.up = joint.up or trunk.low < height
                joint.down = joint.down or height < trunk.high
        if route.drop is not None:
            for level in range(row + 1, route.drop + 1):
                if level in (row + 1, route.drop) or (net.index, level) in self.joints:
                    joint = self._joint(net, level, anchor)
                    joint.up = True
                    joint.down = joint.down or level < route.drop

    def _joint(self, net: Net, level: int, x: int) -> Joint:
        return self.joints.setdefault((net.index, level), {}).setdefault(x, Joint(x))

    def __repr__(self) -> str:
        return f"<Geometry {self.width}×{self.height}>"

        # queries

    def corner(self, node: int) -> tuple[int, int]:
        """The upper left corner of a node's box."""
        row, column = self.board.cells[node]
        return self.column_x[column], self.row_y[row]

    def right_edge(self, node: int) -> int:
        """The column of the right border of a node's box."""
        column = self.board.cells[node][1]
        return self.column_x[column] + self.column_width[column] - 1

    def arrival(self, end: NetEnd) -> tuple[int, int]:
        """The point where an end meets the border of its box."""
        x, y = self.corner(end.node)
        return (x + end.port, y) if end.side == "top" else (x, y + 1 + end.port)

    def y_of(self, height: int) -> int:
        """The row of a line of a box, given as by `at_line`."""
        row, line = divmod(height, LEVEL)
        return self.row_y[row] + line


def least_width(board: Board, sizes: Sequence[Size]) -> int:
    """The minimal width of a board, regardless of its lines."""
    boxes = (max(_text_width(sizes[node]) for node in board.in_column(column)) for column in range(board.columns))
    return sum(boxes) + GAP * max(board.columns - 1, 0)


def _text_width(size: Size) -> int:
    return max(NARROWEST_BOX, size[0] + BORDERS)


def _place(joint: Joint) -> int:
    return joint.x


def _runs(net: int, joints: Sequence[Joint]) -> list[ChannelLine]:
    """The horizontal lines that connect joints.

    At a joint with a vertical line in both directions, the lines on its left and on its right have separate tracks, so that
    four lines of a net never meet in one point, which would look like a crossing.
    """
    found: list[ChannelLine] = []
    part = [joints[0]]
    for joint in joints[1:]:
        part.append(joint)
        if joint is joints[-1] or (joint.up and joint.down):
            ups = [other.x for other in part if other.up]
            downs = [other.x for other in part if other.down]
            found.append(ChannelLine(net, part[0].x, joint.x, ups, downs))
            part = [joint]
    return found
