"""A picture of a running pipeline has a place for the count of each node and of each edge."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

from hypothesis import given, settings
from msgspec.structs import replace
from picture_graphs import pictures

from rrext.columns import columns
from rrext.picture.picture import EDGE_ROOM, NODE_ROOM, Picture
from rrext.picture.svg import CELL_HEIGHT, CELL_WIDTH, as_svg

SPACE = "{http://www.w3.org/2000/svg}"


def counted(picture: Picture) -> Picture:
    nodes = tuple(replace(node, count=NODE_ROOM) for node in picture.nodes)
    return replace(picture, nodes=nodes, edges=tuple(replace(edge, count=EDGE_ROOM) for edge in picture.edges))


def texts(group: ElementTree.Element) -> list[tuple[int, int, int]]:
    """Row, begin and end of each text, in pixels."""
    found: list[tuple[int, int, int]] = []
    for text in group.iter(f"{SPACE}text"):
        shown = (text[0].tail if len(text) else text.text) or ""
        x, y = int(text.attrib["x"]), int(text.attrib["y"])
        found.append((y, x, x + columns(shown) * CELL_WIDTH))
    return found


@given(pictures(40))
@settings(max_examples=30, deadline=None)
def test_each_node_and_each_drawn_edge_has_room_for_a_count(picture: Picture) -> None:
    root = ElementTree.fromstring(as_svg(counted(picture), 110, styled=False))
    nodes = [group for group in root.iter(f"{SPACE}g") if "data-node" in group.attrib]
    assert len(nodes) == len(picture.nodes)
    for group in nodes:
        (place,) = (text for text in group.iter(f"{SPACE}text") if text.attrib["class"] == "count")
        box = group.find(f"{SPACE}rect")
        assert box is not None
        assert int(place.attrib["x"]) + len(NODE_ROOM) * CELL_WIDTH <= int(box.attrib["x"]) + int(box.attrib["width"])
    edges = [group for group in root.iter(f"{SPACE}g") if "data-edge" in group.attrib]
    known = {
        (picture.nodes[edge.source].id, picture.nodes[edge.target].id, edge.kind, " ".join(edge.names))
        for edge in picture.edges
    }
    drawn = [tuple(group.attrib[f"data-{name}"] for name in ("from", "to", "edge", "names")) for group in edges]
    assert set(drawn) <= known
    assert len(set(drawn)) == len(drawn)
    assert not list(root.iter(f"{SPACE}style"))
    everything = texts(root)
    for one, other in combinations(everything, 2):
        assert abs(one[0] - other[0]) >= CELL_HEIGHT // 2 or one[2] <= other[1] or other[2] <= one[1], (one, other)


@given(pictures(12))
@settings(max_examples=30, deadline=None)
def test_a_picture_without_counts_is_drawn_as_before(picture: Picture) -> None:
    assert 'class="count"' not in as_svg(picture, 110)
    assert "data-edge" not in as_svg(picture, 110)
