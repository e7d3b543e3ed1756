"""The lines of a picture: the route of each net through the gaps between rows and columns, its tracks, and its straight
segments.

A net is all data that one node sends, or all control of the nodes that it invokes: one line with branches. Data leaves a box at
the bottom and arrives at the top; control leaves on the right and arrives on the left. Data without room at the top arrives on
the left too, where each line of the box has room for one end.

Gap `c` between columns is left of column `c`, level `r` between rows is above row `r`. A net runs vertically in gaps (`Trunk`),
or below its own box if that column is empty (`drop`), and horizontally at levels. Lines that are parallel in a gap have a track
each; positions are computed after all tracks are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Final, Literal

from rrext.limits import MAX_ORDERED_LINES
from rrext.picture.picture import Kind, Picture
from rrext.picture.placement import Board, label_lines, widest

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


class ChannelLine:
    """A straight line along a channel, from `low` to `high`.

    `before` and `after` are the positions where lines of the same net leave it to the near side of the channel (the side of
    track 0) and to the far side. `assign_tracks` sets `track`.
    """

    def __init__(self, net: int, low: int, high: int, before: Sequence[int], after: Sequence[int]) -> None:
        self.net = net
        self.low = low
        self.high = high
        self.before = sorted(before)
        self.after = sorted(after)
        self.track = 0


def assign_tracks(runs: Sequence[ChannelLine], gap: int, *, tight: bool) -> int:
    """Assign a track to each line so that no two come closer than `gap`; returns the number of tracks.

    With `tight` the number of tracks is minimal, else a simple search reduces crossings.
    """
    if tight or len(runs) > MAX_ORDERED_LINES:
        return _packed(runs, gap)
    order: list[ChannelLine] = []
    for run in sorted(runs, key=_span):
        order.insert(_best_place(run, order), run)
    for place, run in enumerate(order):
        run.track = max((other.track + 1 for other in order[:place] if _meet(run, other, gap)), default=0)
    return max((run.track + 1 for run in runs), default=0)


def _packed(runs: Sequence[ChannelLine], gap: int) -> int:
    """Assign each line to the first free track, which gives the minimal number of tracks."""
    ends: list[int] = []
    for run in sorted(runs, key=_span):
        run.track = next((track for track, end in enumerate(ends) if end + gap < run.low), len(ends))
        ends[run.track : run.track + 1] = [run.high]
    return len(ends)


def _span(run: ChannelLine) -> tuple[int, int, int]:
    return run.low, run.high, run.net


def _meet(run: ChannelLine, other: ChannelLine, gap: int) -> bool:
    return run.low <= other.high + gap and other.low <= run.high + gap


def _best_place(run: ChannelLine, order: Sequence[ChannelLine]) -> int:
    """The index in the order with the fewest crossings for another line; the last of equal ones."""
    cost = sum(_crossings(run, other) for other in order)
    best, least = 0, cost
    for place, other in enumerate(order, 1):
        cost += _crossings(other, run) - _crossings(run, other)
        if cost <= least:
            best, least = place, cost
    return best


def _crossings(near: ChannelLine, far: ChannelLine) -> int:
    """The number of crossings of two lines if `near` has the lower track."""
    return _inside(near.after, far) + _inside(far.before, near)


def _inside(places: Sequence[int], run: ChannelLine) -> int:
    return max(bisect_left(places, run.high) - bisect_right(places, run.low), 0)


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


LEVEL: Final = 1 << 20
"""Heights before sizes are known: level N is N × LEVEL, line L of row N is that plus 1 + L. No box has that many lines."""

CROWD: Final = 3
"""The cost of each other trunk in a gap, in tenths of a column of detour."""


def at_level(level: int) -> int:
    """The height of a level."""
    return level * LEVEL


def at_line(row: int, line: int) -> int:
    """The height of a line of the boxes in a row."""
    return row * LEVEL + 1 + line


class Trunk:
    """A vertical line in the gap `gap`, and the heights where other lines of its net leave it."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.lefts: list[int] = []
        self.rights: list[int] = []
        self.leaves: list[int] = []

    @property
    def low(self) -> int:
        """The height of its upper end."""
        return min((*self.lefts, *self.rights, *self.leaves))

    @property
    def high(self) -> int:
        """The height of its lower end."""
        return max((*self.lefts, *self.rights, *self.leaves))


class NetRoute:
    """The route of one net. `drop` is the level down to which it runs below its own box, or None.

    `leaves` of a trunk are the levels at which it meets the rest of the net.
    """

    def __init__(self, net: Net) -> None:
        self.net = net
        self.drop: int | None = None
        self.trunks: list[Trunk] = []

    def drops_through(self, level: int, board: Board) -> bool:
        """Whether the line below the net's own box reaches a level, so that other lines may begin there."""
        return self.drop is not None and board.cells[self.net.node][0] < level <= self.drop

    def is_near(self, end: NetEnd, board: Board) -> bool:
        """Whether an end is reached without a trunk."""
        return end.side == "top" and self.drops_through(board.cells[end.node][0], board)


def routes_of(nets: Iterable[Net], board: Board) -> list[NetRoute]:
    """A route for each net."""
    finder = _Finder(board)
    return [finder.find(net) for net in nets]


class _Finder:
    """Finds routes one after the other, with even use of the gaps."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._used: list[list[tuple[int, int]]] = [[] for _ in range(board.columns + 1)]

    def find(self, net: Net) -> NetRoute:
        """The route of one net."""
        route = NetRoute(net)
        groups: defaultdict[int, list[NetEnd]] = defaultdict(list)
        for end in net.ends:
            if end.side == "left":
                groups[self._board.cells[end.node][1]].append(end)
        if net.kind == "control":
            self._control(route, groups)
        else:
            self._data(route, groups)
        for trunk in route.trunks:
            self._used[trunk.gap].append((trunk.low, trunk.high))
        return route

    def _control(self, route: NetRoute, groups: dict[int, list[NetEnd]]) -> None:
        row, column = self._board.cells[route.net.node]
        main = Trunk(column + 1)
        main.lefts.append(at_line(row, 0))
        self._serve(route, main, groups)

    def _data(self, route: NetRoute, groups: dict[int, list[NetEnd]]) -> None:
        row = self._board.cells[route.net.node][0]
        lowest = self._board.row_below(route.net.node)
        levels = {self._board.cells[end.node][0] for end in route.net.ends if end.side == "top"}
        near = [level for level in levels if row < level <= lowest]
        if near:
            route.drop = max(near)
        far = sorted(levels.difference(near))
        if not far and not groups:
            return
        gap = max(groups, key=lambda gap: (len(groups[gap]), -gap)) if groups else self._best_gap(route.net, far)
        main = Trunk(gap)
        main.leaves += [at_level(level) for level in (row + 1, *far)]
        self._serve(route, main, groups)

    def _serve(self, route: NetRoute, main: Trunk, groups: dict[int, list[NetEnd]]) -> None:
        """Connect the main trunk to the ends in its gap, and to one more trunk for each other gap with ends."""
        route.trunks.append(main)
        for gap, ends in sorted(groups.items()):
            places = [(self._board.cells[end.node][0], end.port) for end in ends]
            heights = [at_line(row, line) for row, line in places]
            if gap == main.gap:
                main.rights += heights
                continue
            level = min(places)[0]
            if not route.drops_through(level, self._board):
                main.leaves.append(at_level(level))
            branch = Trunk(gap)
            branch.rights += heights
            branch.leaves.append(at_level(level))
            route.trunks.append(branch)

    def _best_gap(self, net: Net, far: Sequence[int]) -> int:
        """The gap with the shortest connections to all levels."""
        row, column = self._board.cells[net.node]
        places = [column * 10 + 2]
        for end in net.ends:
            if end.side == "top" and self._board.cells[end.node][0] in far:
                places.append(self._board.cells[end.node][1] * 10 + 3)
        low, high = at_level(min(row + 1, far[0])), at_level(max(row + 1, far[-1]))

        def cost(gap: int) -> tuple[int, int]:
            crowd = sum(other_low <= high and low <= other_high for other_low, other_high in self._used[gap])
            return sum(abs(gap * 10 - place) for place in places) + crowd * CROWD, gap

        return min(range(self._board.columns + 1), key=cost)


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
    top, bottom = (_net_place(net, height, x, geometry) for height in (trunk.low, trunk.high))
    if top < bottom:
        yield x, top, x, bottom
    for height in trunk.lefts:
        y = geometry.y_of(height)
        yield geometry.right_edge(net.node), y, x, y
    for height in trunk.rights:
        y = geometry.y_of(height)
        yield x, y, geometry.column_x[trunk.gap], y


def _net_place(net: Net, height: int, x: int, geometry: Geometry) -> int:
    """The end of a trunk: a line of a box, or the horizontal line at a level."""
    return geometry.y_of(height) if height % LEVEL else geometry.joints[net.index, height // LEVEL][x].heights[0]
