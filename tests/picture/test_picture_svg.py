"""The SVG is valid, harmless and complete: every node with what is wrong, every edge with its names, nothing that overlaps."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_graphs import drawn_from, pictures

from rrext.picture.layout import laid_out
from rrext.picture.picture import Picture, PictureEdge, PictureNode, Remark
from rrext.picture.svg import as_svg, polylines

SPACE = "{http://www.w3.org/2000/svg}"
KNOWN = {"svg", "title", "style", "rect", "g", "path", "circle", "text"}
EVIL = '"><script>alert(1)</script>&amp;]]>\x00\x1b\ud800\uffff'


def read(svg: str) -> ElementTree.Element:
    """The document, which holds nothing that could run or load something."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        assert element.tag.removeprefix(SPACE) in KNOWN
        assert not [key for key in element.attrib if key.startswith("on") or "href" in key or key == "style"]
    (style,) = root.iter(f"{SPACE}style")
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    return root


def groups(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SPACE}g") if "data-node" in group.attrib]


def texts(element: ElementTree.Element, style: str) -> list[str]:
    """The texts of a class. Their tooltips stand inside of them, before what is shown."""
    found = [text for text in element.iter(f"{SPACE}text") if style in text.attrib["class"].split()]
    return [(text[0].tail if len(text) else text.text) or "" for text in found]


def box(group: ElementTree.Element) -> tuple[int, int, int, int]:
    rect = group.find(f"{SPACE}rect")
    assert rect is not None
    x, y, width, height = (int(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


@given(pictures(), st.sampled_from([60, 200]))
@settings(max_examples=30, deadline=None)
def test_every_node_has_a_box_of_its_own_inside_of_the_image(picture: Picture, width: int) -> None:
    root = read(as_svg(picture, width))
    assert [group.attrib["data-node"] for group in groups(root)] == [node.id for node in picture.nodes]
    boxes = [box(group) for group in groups(root)]
    for one, other in combinations(boxes, 2):
        assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    assert max(x for _, _, x, _ in boxes) < int(root.attrib["width"])
    assert max(y for _, _, _, y in boxes) < int(root.attrib["height"])


@given(pictures(40))
@settings(max_examples=40, deadline=None)
def test_bent_lines_are_the_straight_ones_and_none_is_drawn_twice(picture: Picture) -> None:
    for wire in laid_out(picture, 100).wires:
        lines, branches = polylines(wire.segments)
        straight = {step for x1, y1, x2, y2 in wire.segments for step in steps((x1, y1), (x2, y2))}
        bent = [step for line in lines for one, other in pairwise(line) for step in steps(one, other)]
        assert len(bent) == len(set(bent))
        assert set(bent) == straight
        ends = [point for line in lines for point in (line[0], line[-1])]
        assert all(ends.count(point) > 2 for point in branches)
        assert len(set(ends)) == len(lines) + 1, "a net is a tree: there is one way to each end"


def steps(one: tuple[int, int], other: tuple[int, int]) -> set[frozenset[tuple[int, int]]]:
    """A straight line as pairs of neighbouring cells."""
    (x1, y1), (x2, y2) = sorted((one, other))
    cells = [(x, y) for x in range(x1, x2 + 1) for y in range(y1, y2 + 1)]
    return {frozenset(pair) for pair in pairwise(cells)}


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.text(min_size=1, max_size=20))
def test_any_text_gives_a_document_that_can_be_read(names: list[str], lane: str) -> None:
    nodes = tuple(PictureNode(name, name, name, remarks=(Remark("error", "x", name),)) for name in names)
    edges = tuple(PictureEdge(index, index - 1, "data", (lane,)) for index in range(1, len(nodes)))
    root = read(as_svg(Picture(nodes, edges, name=lane)))
    assert len(groups(root)) == len(names)


def test_texts_of_the_file_are_texts_and_nothing_else() -> None:
    nodes = (PictureNode(EVIL, EVIL, EVIL, "step", (Remark("error", "bad", EVIL, (3, 7)),)), PictureNode("b", "p"))
    svg = as_svg(Picture(nodes, (PictureEdge(0, 1, "control", (EVIL,)),), name=EVIL))
    shown = '"><script>alert(1)</script>&amp;]]>\\u0000\\u001b\\ud800\\uffff'
    root = read(svg)
    assert [group.attrib["data-node"] for group in groups(root)] == [shown, "b"]
    assert texts(root, "heading") == [shown]
    assert "<script" not in svg
    tooltip = groups(root)[0].find(f"{SPACE}title")
    assert tooltip is not None
    assert tooltip.text == f"{shown} ({shown})\n{shown}\n3:7: error: {shown} [bad]"


def test_nodes_have_their_roles_and_what_is_wrong_as_classes() -> None:
    nodes = (
        PictureNode("a", "chat", role="source"),
        PictureNode("b", "p", remarks=(Remark("warning", "w", "m"),)),
        PictureNode("c", "response", role="response", remarks=(Remark("error", "e", "m"),)),
        PictureNode("d", role="missing"),
    )
    root = read(as_svg(Picture(nodes)))
    assert [group.attrib["class"] for group in groups(root)] == ["source", "step warning", "response error", "missing"]
    assert texts(root, "provider")[3] == "no such component"
    assert texts(root, "id") == ["a", "! b", "✗ c", "d"]
    assert texts(root, "legend") == ["source", "response", "no such component", "error", "warning"]


def test_edges_have_their_kinds_names_and_tooltips() -> None:
    edges = (PictureEdge(0, 1, "data", ("text", "table"), "error"), PictureEdge(0, 2, "control", ("tool",)))
    root = read(as_svg(Picture(tuple(PictureNode(name, "p") for name in "abc"), edges)))
    assert sorted(texts(root, "label")) == ["tool", "✗ text, table"]
    assert texts(root, "error") == ["✗ text, table"]
    tooltips = {title.text for title in root.iter(f"{SPACE}title")}
    assert {"text, table: data from a to b", "tool: control from a to c", "data from a", "control from a"} <= tooltips
    kinds = [group.attrib["class"] for group in root.iter(f"{SPACE}g") if group.attrib.get("class") in ("data", "control")]
    assert kinds == ["data", "control", "data", "control"], "two lines, and two in the legend"


def test_each_arrow_ends_at_the_border_of_a_box_and_its_line_at_the_arrow() -> None:
    picture = drawn_from(5, 30, 50, 4)
    root = read(as_svg(picture))
    boxes = [box(group) for group in groups(root)]
    paths = [(path.attrib["class"], path.attrib["d"]) for path in root.iter(f"{SPACE}path")]
    legend = 2 * len({edge.kind for edge in picture.edges})
    heads = [(line, head) for (_, line), (style, head) in pairwise(paths[:-legend]) if style == "head"]
    assert heads
    for line, head in heads:
        x, y = map(int, re.findall(r"(\d+) (\d+)Z", head)[0])
        assert any((x == left and top < y < bottom) or (y == top and left < x < right) for left, top, right, bottom in boxes)
        end_x, end_y = map(int, re.findall(r"L(\d+) (\d+)$", line)[0])
        assert (x - end_x, y - end_y) in ((7, 0), (0, 7))


def test_there_are_colours_for_light_and_for_dark_paper_and_all_are_bound_to_the_picture() -> None:
    (style,) = read(as_svg(Picture((PictureNode("a", "p"),)))).iter(f"{SPACE}style")
    assert style.text is not None
    light, _, dark = style.text.partition("@media (prefers-color-scheme: dark) {\n")
    for part in (light, dark):
        rules = [line for line in part.splitlines() if "{" in line]
        assert all(selector.startswith(".rrext-picture ") for rule in rules for selector in rule.split(" {")[0].split(", "))
    assert re.findall(r"paper \{ fill: (#\w+)", light) != re.findall(r"paper \{ fill: (#\w+)", dark)


@pytest.mark.parametrize("width", [1, 40, 200])
def test_an_empty_picture_is_an_image_all_the_same(width: int) -> None:
    assert groups(read(as_svg(Picture(name="nothing"), width))) == []


def test_a_picture_without_nodes_says_why() -> None:
    remarks = (
        Remark("error", "unquoted_text", "Text needs double quotes: " + "x" * 300, (1, 1)),
        Remark("warning", "odd", EVIL),
    )
    root = read(as_svg(Picture((), (), remarks), 80))
    assert "".join(texts(root, "error")).startswith("1:1: error: Text needs double quotes:")
    assert "unquoted_text" in "".join(texts(root, "error"))
    assert all(len(line) * 8 < int(root.attrib["width"]) for line in texts(root, "reason"))
    assert texts(root, "warning")


def test_a_faulty_edge_has_the_colour_of_its_problem_and_the_others_do_not() -> None:
    nodes = tuple(PictureNode(name, "p") for name in ("a", "b", "c", "d", "e"))
    edges = [PictureEdge(0, 1, "data", ("text",), "error"), PictureEdge(0, 2, "data", ("text",))]
    edges += [PictureEdge(3, 4, kind, ("x",), "error") for kind in ("data", "control")]
    root = read(as_svg(Picture(nodes, tuple(edges))))

    def marks(node: str, kind: str, shape: str) -> set[bool]:
        (net,) = (group for group in root.iter(f"{SPACE}g") if group.findtext(f"{SPACE}title") == f"{kind} from {node}")
        paths = (path.attrib["class"].split() for path in net.iter(f"{SPACE}path"))
        return {"error" in path for path in paths if shape in path}

    assert marks("a", "data", "head") == {True, False}
    assert False in marks("a", "data", "line")
    assert marks("d", "data", "line") == marks("d", "data", "head") == {True}
    assert marks("d", "control", "line") == marks("d", "control", "head") == {True}
