"""The route of each net through the gaps between rows and columns; exact positions are computed later.

Gap `c` between columns is left of column `c`, level `r` between rows is above row `r`. A net runs vertically in gaps (`Trunk`),
or below its own box if that column is empty (`drop`), and horizontally at levels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from rrext.picture.board import Board
from rrext.picture.nets import Net, NetEnd

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
