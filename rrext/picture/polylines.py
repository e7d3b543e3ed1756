"""Polylines of a net from its straight segments, and its branching points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from rrext.picture.segments import Segment

Point = tuple[int, int]


def polylines(segments: Sequence[Segment]) -> tuple[list[list[Point]], list[Point]]:
    """The lines between ends and branches, each segment in exactly one line; and the branches.

    The segments form a tree. A line drawn once has even dashes.
    """
    ways = _ways(segments)
    knots = [point for point, others in ways.items() if len(others) != 2]
    lines: list[list[Point]] = []
    gone: set[tuple[Point, Point]] = set()
    for knot in knots:
        for other in ways[knot]:
            if (knot, other) not in gone:
                lines.append(_walk(knot, other, ways, gone))
    return lines, [point for point in knots if len(ways[point]) > 2]


def _ways(segments: Sequence[Segment]) -> dict[Point, list[Point]]:
    """For each end, bend or branch, the adjacent such points."""
    across: defaultdict[int, set[int]] = defaultdict(set)
    down: defaultdict[int, set[int]] = defaultdict(set)
    for x1, y1, x2, y2 in segments:
        for x, y in ((x1, y1), (x2, y2)):
            across[y].add(x)
            down[x].add(y)
    ways: defaultdict[Point, list[Point]] = defaultdict(list)
    for x1, y1, x2, y2 in segments:
        if y1 == y2:
            places = [(x, y1) for x in sorted(across[y1]) if x1 <= x <= x2]
        else:
            places = [(x1, y) for y in sorted(down[x1]) if y1 <= y <= y2]
        _connect(places, ways)
    return ways


def _connect(places: Sequence[Point], ways: defaultdict[Point, list[Point]]) -> None:
    for one, other in pairwise(places):
        if other not in ways[one]:
            ways[one].append(other)
            ways[other].append(one)


def _walk(start: Point, onward: Point, ways: dict[Point, list[Point]], gone: set[tuple[Point, Point]]) -> list[Point]:
    """Follow a line to its end or branch."""
    line = [start]
    while True:
        point = line[-1]
        gone.update(((point, onward), (onward, point)))
        line.append(onward)
        if len(ways[onward]) != 2:
            return line
        onward = next(other for other in ways[onward] if other != point)
