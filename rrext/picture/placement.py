"""The row and column of each node.

Data runs down, control runs to the right: a node stands below the nodes that feed it, in the same column if that is free;
invoked nodes stand beside their invoker, one below the other. Sizes do not matter here: rows and columns take the size of their
content, and any placement can be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rrext.picture.order import Order

Cell = tuple[int, int]
"""Row and column, from 0."""

# The costs of positions, tuned by looking at pictures.
ASIDE: Final = 6
"""A column further away."""
LEFT: Final = 3
"""The surcharge for a column to the left."""
DOWN_ALONE: Final = 2
"""A row further down, for a node without siblings: a straight line becomes longer."""
DOWN_BESIDE: Final = 50
"""A row further down, for a node with siblings, which should stand side by side."""
DOWN_BOUND: Final = 1
"""A row further down, for a node bound by control, which should stand below its siblings."""
CROWDED: Final = 40
"""No room on the right for the nodes that this one invokes."""


def placed(order: Order, most: int) -> list[Cell]:
    """A cell for each node, in at most `most` columns; no two nodes share one."""
    placing = _Placing(order, most)
    for node in order.nodes:
        placing.place(node)
    return [placing.cells[node] for node in range(len(order.nodes))]


class _Placing:
    """Places nodes one by one, each at the lowest present cost."""

    def __init__(self, order: Order, most: int) -> None:
        self._order = order
        self._most = most
        self._taken: set[Cell] = set()
        self._used = [0] * most  # for each column, the first row below all its nodes
        self._band = 0  # the first row for nodes without relation to those above
        self.cells: dict[int, Cell] = {}

    def place(self, node: int) -> None:
        """Place a node, after all nodes before it in the order."""
        feeders = self._order.feeders[node]
        invokers = self._order.invokers[node]
        if feeders:
            cell = self._below(node, feeders)
        elif invokers:
            cell = self._beside(self.cells[invokers[0]])
        else:
            cell = self._alone(node)
        self.cells[node] = cell
        self._taken.add(cell)
        self._used[cell[1]] = max(self._used[cell[1]], cell[0] + 1)

    def _below(self, node: int, feeders: Iterable[int]) -> Cell:
        above = max((self.cells[feeder] for feeder in feeders), key=lambda cell: (cell[0], -cell[1]))
        feeder = next(other for other in feeders if self.cells[other] == above)
        has_siblings = any(other in self.cells for other in self._order.fed[feeder])
        down = DOWN_BESIDE if has_siblings else DOWN_ALONE
        helpers = sum(other not in self.cells for other in self._order.invoked[node])
        return self._cheapest((above[0] + 1, above[1]), down, helpers)

    def _beside(self, invoker: Cell) -> Cell:
        return self._cheapest((invoker[0], min(invoker[1] + 1, self._most - 1)), DOWN_BOUND, 0)

    def _alone(self, node: int) -> Cell:
        """A cell for a node without predecessors: near its successors, else in a column of its own, else below everything."""
        order = self._order
        behind = (*order.fed[node], *order.invoked[node])
        known = [
            self.cells[other]
            for place in behind
            for other in (*order.feeders[place], *order.invokers[place])
            if other in self.cells
        ]
        if known:
            return self._cheapest(max(known), DOWN_BESIDE, 0)
        free = [column for column in range(self._most) if self._used[column] <= self._band]
        if not free:
            self._band = max(self._used)
        return self._band, free[0] if free else 0

    def _cheapest(self, wanted: Cell, down: int, helpers: int) -> Cell:
        best: Cell | None = None
        least = 0
        for row in range(wanted[0], max(*self._used, wanted[0]) + 1):
            base = (row - wanted[0]) * down
            if best is not None and base >= least:
                break
            for column in range(self._most):
                if (row, column) in self._taken:
                    continue
                aside = column - wanted[1]
                cost = base + (aside * ASIDE if aside >= 0 else -aside * (ASIDE + LEFT))
                if helpers and not self._has_room(row, column + 1, helpers):
                    cost += CROWDED
                if best is None or cost < least:
                    best, least = (row, column), cost
        assert best is not None, "the row below everything is free"
        return best

    def _has_room(self, row: int, column: int, count: int) -> bool:
        return column < self._most and not any((row + place, column) in self._taken for place in range(count))
