"""Tracks of parallel lines in the gap between two rows or columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from rrext.limits import MAX_ORDERED_LINES


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
