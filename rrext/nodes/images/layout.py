"""Lines and tables of the pieces of text that were found in a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from rrext.nodes.documents.formats import table_of

FEWEST_ROWS: Final = 2
FEWEST_COLUMNS: Final = 2
LONGEST_CELL: Final = 40
"""Characters of a usual cell at most, on the average of a table: columns of prose have more."""


class TextBox(msgspec.Struct, frozen=True):
    """A piece of text and its place in the picture, in pixels from the upper left corner."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return (self.top + self.bottom) / 2


def lines_of(boxes: Iterable[TextBox]) -> list[list[TextBox]]:
    """The pieces line by line, each from left to right: pieces are in one line if the middle of one is within the other."""
    lines: list[list[TextBox]] = []
    for box in sorted(boxes, key=lambda one: (one.middle, one.left)):
        last = lines[-1] if lines else []
        if any(one.top <= box.middle <= one.bottom or box.top <= one.middle <= box.bottom for one in last):
            last.append(box)
        else:
            lines.append([box])
    return [sorted(line, key=lambda one: one.left) for line in lines]


def text_of(lines: Sequence[Sequence[TextBox]]) -> str:
    """The text of the lines, with a line break behind each."""
    return "".join(" ".join(box.text for box in line) + "\n" for line in lines)


def tables_of(lines: Sequence[Sequence[TextBox]]) -> list[str]:
    """What stands in the lines as tables, in Markdown: lines behind each other whose pieces are below each other in columns."""
    return [found for run in _runs(lines) if (found := _table(run))]


def _runs(lines: Sequence[Sequence[TextBox]]) -> Iterator[list[Sequence[TextBox]]]:
    """The longest runs of lines with several pieces each, whose columns do not run into each other."""
    run: list[Sequence[TextBox]] = []
    for line in lines:
        if len(line) >= FEWEST_COLUMNS and _fits([*run, line]):
            run.append(line)
            continue
        yield run
        run = [line] if len(line) >= FEWEST_COLUMNS else []
    yield run


def _fits(run: Sequence[Sequence[TextBox]]) -> bool:
    columns = _columns(run)
    widest = max(len(line) for line in run)
    return len(columns) >= widest and all(len({_column(columns, box) for box in line}) == len(line) for line in run)


def _columns(run: Sequence[Sequence[TextBox]]) -> list[tuple[float, float]]:
    """The ranges in which pieces stand below each other."""
    columns: list[tuple[float, float]] = []
    for box in sorted((box for line in run for box in line), key=lambda one: one.left):
        if columns and box.left <= columns[-1][1]:
            columns[-1] = columns[-1][0], max(columns[-1][1], box.right)
        else:
            columns.append((box.left, box.right))
    return columns


def _column(columns: Sequence[tuple[float, float]], box: TextBox) -> int:
    return next(n for n, (left, right) in enumerate(columns) if left <= box.left <= right)


def _table(run: Sequence[Sequence[TextBox]]) -> str:
    cells = [box.text for line in run for box in line]
    if len(run) < FEWEST_ROWS or sum(map(len, cells)) > LONGEST_CELL * len(cells):
        return ""
    columns = _columns(run)
    rows = [[""] * len(columns) for _ in run]
    for row, line in zip(rows, run, strict=True):
        for box in line:
            row[_column(columns, box)] = box.text
    return table_of(rows)
