"""Lines side by side never meet, and take no more tracks than they must."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rrext.picture.routes import ChannelLine, assign_tracks


@st.composite
def runs(draw: st.DrawFn) -> list[ChannelLine]:
    spans = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=60))
    places = st.lists(st.integers(0, 40), max_size=4)
    return [ChannelLine(net, low, low + length, draw(places), draw(places)) for net, (low, length) in enumerate(spans)]


@given(runs(), st.integers(0, 2), st.booleans())
def test_lines_on_one_track_keep_their_distance(found: list[ChannelLine], gap: int, tight: bool) -> None:
    tracks = assign_tracks(found, gap, tight=tight)
    assert {run.track for run in found} == set(range(tracks))
    for one, other in combinations(found, 2):
        assert one.track != other.track or one.high + gap < other.low or other.high + gap < one.low


@given(runs(), st.integers(0, 2))
def test_tight_lines_take_as_many_tracks_as_lie_side_by_side_somewhere(found: list[ChannelLine], gap: int) -> None:
    side_by_side = (sum(run.low <= place <= run.high + gap for run in found) for place in range(100))
    assert assign_tracks(found, gap, tight=True) == max(side_by_side)


def test_the_order_saves_crossings() -> None:
    inner, outer = ChannelLine(0, 10, 20, [], [12, 18]), ChannelLine(1, 0, 30, [], [0, 30])
    assert assign_tracks([inner, outer], 1, tight=False) == 2
    assert (outer.track, inner.track) == (0, 1), "what leaves the inner one on the far side would cross the outer one"
    inner, outer = ChannelLine(0, 10, 20, [12, 18], []), ChannelLine(1, 0, 30, [0, 30], [])
    assert assign_tracks([inner, outer], 1, tight=False) == 2
    assert (outer.track, inner.track) == (1, 0)
