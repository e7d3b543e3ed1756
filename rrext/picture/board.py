"""The nodes of a picture in rows and columns, with queries for neighbours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from rrext.picture.placement import Cell


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
