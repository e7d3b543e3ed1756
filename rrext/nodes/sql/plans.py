"""The answer of EXPLAIN as readable lines, from the form of each database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

TREE: Final = ("id", "parent", "notused", "detail")
"""SQLite's columns: a row is a child of the row whose id is its parent."""


def plan_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A plan's lines: SQLite's as a tree, MySQL's as a table, others as they are. None for a plan without text, as in JSON."""
    if tuple(columns) == TREE:
        return _tree(rows)
    if len(columns) > 2:
        return _table(columns, rows)
    if not all(isinstance(row[-1], str) for row in rows):
        return []
    return [line.rstrip() for row in rows for line in row[-1].splitlines()]


def _tree(rows: Sequence[Sequence[Any]]) -> list[str]:
    depths = {0: -1}
    lines: list[str] = []
    for number, parent, _, detail in rows:  # parents come before their children
        depths[number] = depths.get(parent, -1) + 1
        lines.append("  " * depths[number] + str(detail))
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    cells = [[columns[place] for place in kept]]
    cells += [["" if row[place] is None else str(row[place]) for place in kept] for row in rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
