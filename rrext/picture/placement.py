"""The row and column of each node of a picture, and the text of its box.

Data runs down, control runs to the right: a node stands below the nodes that feed it, in the same column if that is free;
invoked nodes stand beside their invoker, one below the other. Nodes are placed after their predecessors, branch by branch.
Sizes do not matter here: rows and columns take the size of their content, and any placement can be drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from rrext.columns import columns, cut, one_line
from rrext.picture.picture import Kind, Picture, PictureEdge, PictureNode
from rrext.pipefile.text.problems import Severity

MARKS: Final[dict[Severity, str]] = {"error": "✗", "warning": "!"}
"""The mark before the id of a node, or the name of an edge, with a problem."""

REFERENCES: Final[dict[Kind, str]] = {"data": "◂", "control": "◃"}
"""The sign before the source id of an edge without a line."""

LABEL_LINES: Final = 8
"""Lines of names at one edge; a note counts the omitted names."""

TITLE_WIDTH: Final = 40
"""A longer title counts as a description and is omitted."""


class BoxLine(msgspec.Struct, frozen=True):
    """One line of a box. `style` is its role, for the formatting."""

    text: str
    style: Literal["id", "provider", "title", "reference", "count"]


def box_lines(node: PictureNode, room: int, references: Iterable[str] = ()) -> list[BoxLine]:
    """The lines of a node's box, each at most `room` columns wide."""
    mark = MARKS[node.severity] + " " if node.severity is not None else ""
    name, provider, title = (one_line(text) for text in (node.id, node.provider, node.title.strip()))
    kind = "no such component" if node.role == "missing" else provider or "(no provider)"
    lines = [BoxLine(mark + (name or "(no id)"), "id"), BoxLine(kind, "provider")]
    if title and title not in (name, provider) and columns(title) <= TITLE_WIDTH:
        lines.append(BoxLine(title, "title"))
    lines += [BoxLine(text, "reference") for text in references]
    if node.count:
        lines.append(BoxLine(node.count, "count"))
    return [BoxLine(cut(line.text, room), line.style) for line in lines]


def reference(edge: PictureEdge, source: PictureNode, room: int) -> list[str]:
    """An edge in words, for the box of its target: lines of at most `room` columns."""
    return [
        cut(f"{REFERENCES[edge.kind]} {one_line(source.id)}", room),
        *(f"  {names}" for names in label_lines(edge, room - 2)),
    ]


def label_lines(edge: PictureEdge, room: int) -> list[str]:
    """The names of an edge in lines of at most `room` columns, with a mark for a problem."""
    names = [cut(one_line(name), room) for name in edge.names]
    if edge.severity is not None:
        names[0] = cut(f"{MARKS[edge.severity]} {names[0]}", room)
    lines: list[str] = []
    for place, name in enumerate(names):
        more = f"{lines[-1]}, {name}" if lines else name
        if lines and columns(more) <= room:
            lines[-1] = more
        elif len(lines) < LABEL_LINES:
            lines.append(name)
        else:
            lines.append(cut(f"and {len(names) - place} more", room))
            break
    if edge.count:
        lines[-1] += edge.count
    return lines


def widest(texts: Iterable[str]) -> int:
    """The width of the widest text; 0 without texts."""
    return max(map(columns, texts), default=0)


class Order(msgspec.Struct, frozen=True):
    """All nodes, each after its feeders and invokers; edges that close a circle are omitted.

    For each node, `feeders` and `invokers` hold the nodes that send it data and that may invoke it; `fed` and `invoked` are the
    reverse.
    """

    nodes: tuple[int, ...]
    feeders: list[list[int]]
    invokers: list[list[int]]
    fed: list[list[int]]
    invoked: list[list[int]]


def ordered(picture: Picture) -> Order:
    """The order of a picture's nodes: the source first, invoked nodes before fed ones."""
    count = len(picture.nodes)
    behind: list[list[int]] = [[] for _ in range(count)]
    for edge in sorted(picture.edges, key=lambda edge: (edge.kind, edge.target)):
        if edge.target not in behind[edge.source]:
            behind[edge.source].append(edge.target)
    roots = _roots(picture)
    back = _leading_back(behind, roots)
    found = Order((), *([[] for _ in range(count)] for _ in range(4)))
    for edge in picture.edges:
        if (edge.source, edge.target) not in back:
            before, after = (found.feeders, found.fed) if edge.kind == "data" else (found.invokers, found.invoked)
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
    nodes = _sorted(behind, back, roots)
    return Order(nodes, found.feeders, found.invokers, found.fed, found.invoked)


def _roots(picture: Picture) -> list[int]:
    """The starts of walks: the source, then nodes without incoming edges, then unvisited ones."""
    nodes = range(len(picture.nodes))
    led_to = {edge.target for edge in picture.edges if edge.source != edge.target}
    source = (node for node in nodes if picture.nodes[node].role == "source")
    return list(dict.fromkeys((*source, *(node for node in nodes if node not in led_to), *nodes)))


def _leading_back(behind: Sequence[Sequence[int]], roots: Iterable[int]) -> set[tuple[int, int]]:
    """The edges that close circles on walks from the roots."""
    back: set[tuple[int, int]] = set()
    seen: set[int] = set()
    for root in roots:
        if root in seen:
            continue
        way = {root: iter(behind[root])}  # an ordered set of the nodes from the root to here
        seen.add(root)
        while way:
            node = next(reversed(way))
            for other in way[node]:
                if other in way:
                    back.add((node, other))
                elif other not in seen:
                    seen.add(other)
                    way[other] = iter(behind[other])
                    break
            else:
                del way[node]
    return back


def _sorted(behind: Sequence[Sequence[int]], back: set[tuple[int, int]], roots: Sequence[int]) -> tuple[int, ...]:
    """The nodes in topological order, each followed at once by its successors that are ready."""
    missing = [0] * len(behind)
    for node, others in enumerate(behind):
        for other in others:
            missing[other] += (node, other) not in back
    ready = [node for node in reversed(roots) if not missing[node]]
    found: list[int] = []
    while ready:
        node = ready.pop()
        found.append(node)
        for other in reversed(behind[node]):
            if (node, other) not in back:
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
    return tuple(found)


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


class Board:
    """The cells of nodes. Rows and columns count from 0; level N is the gap above row N, and the last level is below all
    rows."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.rows = max((row for row, _ in cells), default=-1) + 1
        self.columns = max((column for _, column in cells), default=-1) + 1
        self._at = {cell: node for node, cell in enumerate(cells)}
        self._rows_of: list[list[int]] = [[] for _ in range(self.columns)]
        for row, column in sorted(cells):
            self._rows_of[column].append(row)

    def above(self, node: int) -> int | None:
        """The next node above in the same column."""
        row, column = self.cells[node]
        rows = self._rows_of[column]
        place = bisect_left(rows, row)
        return self._at[rows[place - 1], column] if place else None

    def row_below(self, node: int) -> int:
        """The row of the next node below in the same column; the number of rows if there is none."""
        row, column = self.cells[node]
        rows = self._rows_of[column]
        place = bisect_left(rows, row) + 1
        return rows[place] if place < len(rows) else self.rows

    def on_the_left(self, node: int) -> int | None:
        """The node in the cell on the left."""
        row, column = self.cells[node]
        return self._at.get((row, column - 1))

    def in_column(self, column: int) -> list[int]:
        """The nodes of a column, from the top."""
        return [self._at[row, column] for row in self._rows_of[column]]

    def in_row(self, row: int) -> list[int]:
        """The nodes of a row, from the left."""
        found = (self._at.get((row, column)) for column in range(self.columns))
        return [node for node in found if node is not None]
