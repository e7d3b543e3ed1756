"""Whatever the graph: boxes stand apart, the width is kept, and each line leads from its node to its consumers."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_graphs import pictures, small_pictures
from picture_tracing import Drawing, Frame

from rrext.picture.picture import Picture, PictureEdge
from rrext.picture.placement import REFERENCES, label_lines
from rrext.picture.text import as_text

WIDTHS = st.sampled_from([40, 80, 120, 200])


def body(picture: Picture, width: int) -> str:
    """The picture without its legend, which has lines and arrows of its own."""
    return as_text(picture, width).partition("\n\n")[0]


def check(picture: Picture, width: int) -> None:
    drawing = Drawing(body(picture, width))
    assert drawing.width <= width
    frames = {frame.name: frame for frame in drawing.frames}
    assert len(drawing.frames) == len(picture.nodes)
    assert set(frames) == {node.id for node in picture.nodes}
    for one, other in combinations(drawing.frames, 2):
        apart = one.right < other.left or other.right < one.left or one.bottom < other.top or other.bottom < one.top
        assert apart, (one.texts, other.texts)
    for index, node in enumerate(picture.nodes):
        leaving = [edge for edge in picture.edges if edge.source == index]
        _check_leaving(picture, drawing, frames[node.id], frames, leaving)
    assert not drawing.loose_ends()


def _check_leaving(
    picture: Picture, drawing: Drawing, frame: Frame, frames: dict[str, Frame], leaving: list[PictureEdge]
) -> None:
    """Each edge is a line with its names, or words in the box at which it ends; and no other line leaves the box."""
    arrived: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for target, kind, place in drawing.ends(frame):
        arrived.setdefault((target.name, kind), []).append(place)
    for edge in leaving:
        target = frames[picture.nodes[edge.target].id]
        places = arrived.pop((target.name, edge.kind), [])
        assert any(_is_named(edge, target, frame, drawing, places, room) for room in range(8, 35)), edge
    assert not arrived


def _is_named(
    edge: PictureEdge, target: Frame, source: Frame, drawing: Drawing, places: list[tuple[int, int]], room: int
) -> bool:
    """Whether the names of an edge stand at its ends, or in the box if it has none, in lines of at most `room` columns."""
    names = label_lines(edge, room)
    if not places:
        words = [f"{REFERENCES[edge.kind]} {source.name}", *names]
        return words in [target.texts[place : place + len(words)] for place in range(len(target.texts))]
    if drawing.at(*places[0]) == "▼":
        ((x, y),) = places
        above = [_text_at(drawing, x + 2, y - line) for line in range(len(names), 0, -1)]
        return all(shown.startswith(name) for shown, name in zip(above, names, strict=True))
    return sorted(drawing.name_in_line(*place) for place in places) == sorted(names)


def _text_at(drawing: Drawing, x: int, y: int) -> str:
    return "".join(drawing.cells[y][x:])


@pytest.mark.promise("picture:edges:followed")
@given(small_pictures(), WIDTHS)
@settings(max_examples=2 * settings().max_examples)
def test_every_edge_of_a_small_picture_can_be_followed(picture: Picture, width: int) -> None:
    check(picture, width)


@pytest.mark.promise("picture:edges:followed")
@given(pictures(), WIDTHS)
@settings(max_examples=settings().max_examples // 4)
def test_every_edge_of_a_large_picture_can_be_followed(picture: Picture, width: int) -> None:
    check(picture, width)
