"""A picture as SVG: one file without scripts, fonts or links, for documents and browsers, light or dark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from rrext.columns import columns, one_line, wrapped
from rrext.limits import MAX_DRAWN_PROBLEMS, PICTURE_DEFAULTS
from rrext.picture.layout import Box, Label, Port, Wire, laid_out
from rrext.picture.picture import Picture, PictureNode
from rrext.picture.routes import Segment
from rrext.pipefile.text.problems import Severity

CELL_WIDTH: Final = 8
CELL_HEIGHT: Final = 18
MARGIN: Final = 16
RADIUS: Final = 6
ARROW: Final = 7
HEADING: Final = 36
LEGEND: Final = 34

ROOT: Final = "rrext-picture"
LEGEND_TEXTS: Final = {
    "source": "source",
    "response": "response",
    "missing": "no such component",
    "error": "error",
    "warning": "warning",
    "data": "data",
    "control": "control",
}


def as_svg(picture: Picture, width: int = PICTURE_DEFAULTS.width, *, styled: bool = True) -> str:
    """The picture as an SVG document, laid out like text of at most `width` columns. Tooltips show the problems.

    A picture without nodes shows its problems instead. One that is not `styled` is for a page that has the style sheet.
    """
    layout = laid_out(picture, width)
    reasons = [] if picture.nodes else list(_reasons(picture, width))
    heading = one_line(picture.name.strip())
    top = MARGIN + (HEADING if heading else 0)
    legend, legend_width = _legend(picture)
    reasons_width = max((columns(text) for text, _ in reasons), default=0)
    wide = max(max(layout.width, reasons_width) * CELL_WIDTH, columns(heading) * 10, legend_width) + 2 * MARGIN
    high = top + (layout.height + len(reasons)) * CELL_HEIGHT + LEGEND + MARGIN
    arrivals = {(port.x, port.y): port for box in layout.boxes for port in box.ports if port.arrives}
    size = f'width="{wide}" height="{high}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{ROOT}" role="img" {size} viewBox="0 0 {wide} {high}">',
        f"<title>{escape(heading or 'pipeline')}</title>",
        *([f"<style>\n{style_sheet(ROOT)}</style>"] if styled else []),
        f'<rect class="paper" {size}/>',
        *([_text(MARGIN, MARGIN + 16, heading, "heading")] if heading else []),
        f'<g transform="translate({MARGIN} {top})">',
        *(line for wire in layout.wires for line in _wire(wire, arrivals, picture)),
        *(line for box in layout.boxes for line in _box(box, picture.nodes[box.node])),
        *(line for label in layout.labels for line in _label(label, picture)),
        *(_text(0, _baseline(row), text, f"reason {severity}") for row, (text, severity) in enumerate(reasons)),
        "</g>",
        f'<g transform="translate({MARGIN} {high - MARGIN - CELL_HEIGHT})">',
        *legend,
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _reasons(picture: Picture, width: int) -> Iterator[tuple[str, Severity]]:
    """The lines of the problems of a picture without nodes, each with its severity."""
    for remark in picture.remarks[:MAX_DRAWN_PROBLEMS]:
        for line in wrapped(one_line(str(remark)), width):
            yield line, remark.severity


def _wire(wire: Wire, arrivals: Mapping[Point, Port], picture: Picture) -> Iterator[str]:
    """The lines of a net. Those that only faulty edges use have the severity as a class."""
    lines, branches = polylines(wire.segments)
    shared = _least(arrivals[end].severity for line in lines for end in (line[0], line[-1]) if end in arrivals)
    yield f'<g class="{wire.kind}"><title>{escape(f"{wire.kind} from {_name(picture.nodes[wire.node])}")}</title>'
    for line in lines:
        ends = [line[-1] in arrivals, line[0] in arrivals]
        if ends[1]:
            line.reverse()
        severity = arrivals[line[-1]].severity if any(ends) else shared
        mark = f" {severity}" if severity is not None else ""
        yield f'<path class="line{mark}" d="{_path([_centre(*point) for point in line], shorten=any(ends))}"/>'
        if any(ends):
            yield f'<path class="head{mark}" d="{_head(*_centre(*line[-1]), line[-1][0] == line[-2][0])}"/>'
    for point in branches:
        x, y = _centre(*point)
        yield f'<circle class="dot" cx="{x}" cy="{y}" r="3"/>'
    yield "</g>"


def _least(severities: Iterable[Severity | None]) -> Severity | None:
    """The mildest severity; None if an edge has none."""
    found = set(severities)
    return None if not found or None in found else "error" if found == {"error"} else "warning"


def _path(points: Sequence[Point], *, shorten: bool) -> str:
    """A line through points with rounded corners; shortened at its end for an arrowhead."""
    steps = [f"M{points[0][0]} {points[0][1]}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        room = min(RADIUS, _distance(before, corner) // 2, _distance(corner, after) // 2)
        first, second = _towards(corner, before, room), _towards(corner, after, room)
        if (before[0] == corner[0]) != (corner[0] == after[0]):
            steps.append(f"L{first[0]} {first[1]}Q{corner[0]} {corner[1]} {second[0]} {second[1]}")
    x, y = _towards(points[-1], points[-2], ARROW) if shorten else points[-1]
    return "".join((*steps, f"L{x} {y}"))


def _distance(one: Point, other: Point) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(point: Point, other: Point, length: int) -> Point:
    """The point at a distance from a point towards another."""
    x, y = other[0] - point[0], other[1] - point[1]
    return point[0] + (x > 0) * length - (x < 0) * length, point[1] + (y > 0) * length - (y < 0) * length


def _head(x: int, y: int, down: bool) -> str:
    if down:
        return f"M{x - 4} {y - ARROW}L{x + 4} {y - ARROW}L{x} {y}Z"
    return f"M{x - ARROW} {y - 4}L{x - ARROW} {y + 4}L{x} {y}Z"


def _box(box: Box, node: PictureNode) -> Iterator[str]:
    x, y = _centre(box.x, box.y)
    width, height = (box.width - 1) * CELL_WIDTH, (box.height - 1) * CELL_HEIGHT
    yield f'<g class="{" ".join(filter(None, (node.role, node.severity)))}" data-node={quoteattr(one_line(node.id))}>'
    yield f"<title>{escape(_tooltip(node))}</title>"
    yield f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="{RADIUS}"/>'
    for row, line in enumerate(box.lines, 1):
        yield _text((box.x + 2) * CELL_WIDTH, _baseline(box.y + row), line.text, line.style)
    yield "</g>"


def _label(label: Label, picture: Picture) -> Iterator[str]:
    edge = picture.edges[label.edge]
    source, target = picture.nodes[edge.source], picture.nodes[edge.target]
    about = f"{', '.join(map(one_line, edge.names))}: {edge.kind} from {_name(source)} to {_name(target)}"
    is_last = bool(edge.count) and label.text.endswith(edge.count)
    x = label.x * CELL_WIDTH
    if label.in_line:  # a rectangle in the colour of the paper interrupts the line
        place = f'x="{x - CELL_WIDTH // 2}" y="{label.y * CELL_HEIGHT}"'
        yield f'<rect class="paper" {place} width="{(columns(label.text) + 1) * CELL_WIDTH}" height="{CELL_HEIGHT}"/>'
    style = " ".join(filter(None, ("label", edge.severity)))
    if not is_last:
        yield _text(x, _baseline(label.y), label.text, style, about)
        return
    ends = f"data-from={quoteattr(one_line(source.id))} data-to={quoteattr(one_line(target.id))}"
    yield f'<g data-edge="{edge.kind}" data-names={quoteattr(" ".join(map(one_line, edge.names)))} {ends}>'
    yield _text(x, _baseline(label.y), label.text.removesuffix(edge.count), style, about)
    yield _text(x + columns(label.text.removesuffix(edge.count)) * CELL_WIDTH, _baseline(label.y), edge.count, "count")
    yield "</g>"


def _tooltip(node: PictureNode) -> str:
    """The details of a node, its problems last."""
    provider = "no such component" if node.role == "missing" else one_line(node.provider) or "no provider"
    parts = [f"{_name(node)} ({provider})", *([one_line(node.title)] if node.title else [])]
    return "\n".join((*parts, *(one_line(str(remark)) for remark in node.remarks)))


def _name(node: PictureNode) -> str:
    return one_line(node.id) or "(no id)"


def _text(x: int, y: int, text: str, style: str, about: str = "") -> str:
    tooltip = f"<title>{escape(about)}</title>" if about else ""
    return f'<text class="{style}" x="{x}" y="{y}">{tooltip}{escape(text)}</text>'


def _centre(x: int, y: int) -> Point:
    return x * CELL_WIDTH + CELL_WIDTH // 2, y * CELL_HEIGHT + CELL_HEIGHT // 2


def _baseline(row: int) -> int:
    return row * CELL_HEIGHT + CELL_HEIGHT // 2 + FONT_SIZE // 3


def _legend(picture: Picture) -> tuple[list[str], int]:
    """The legend of the used signs, and its width."""
    styles = {node.role for node in picture.nodes} | {node.severity for node in picture.nodes}
    kinds = {edge.kind for edge in picture.edges}
    parts: list[str] = []
    x = 0
    for style, text in LEGEND_TEXTS.items():
        if style in kinds:
            shape = f'<path class="line" d="M{x} 9L{x + 15} 9"/><path class="head" d="{_head(x + 22, 9, False)}"/>'
        elif style in styles:
            shape = f'<rect class="box" x="{x}" y="2" width="22" height="14" rx="3"/>'
        else:
            continue
        parts += [f'<g class="{style}">{shape}</g>', _text(x + 30, 13, text, "legend")]
        x += 30 + len(text) * CELL_WIDTH + 2 * MARGIN
    return parts, x


FONT_SIZE: Final = 12
"""Pixels. A monospaced character is six tenths as wide, so it fits into a cell in any such font."""

_LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "box": "#f6f8fa",
    "border": "#818b98",
    "data": "#0550ae",
    "control": "#8250df",
    "source": "#1a7f37",
    "source_box": "#dafbe1",
    "response": "#0969da",
    "response_box": "#ddf4ff",
    "error": "#cf222e",
    "error_box": "#ffebe9",
    "warning": "#9a6700",
    "warning_box": "#fff8c5",
}
_DARK: Final = {
    "paper": "#0d1117",
    "ink": "#f0f6fc",
    "faint": "#9198a1",
    "box": "#151b23",
    "border": "#656c76",
    "data": "#79c0ff",
    "control": "#d2a8ff",
    "source": "#3fb950",
    "source_box": "#12261e",
    "response": "#4493f8",
    "response_box": "#121d2f",
    "error": "#f85149",
    "error_box": "#25171c",
    "warning": "#d29922",
    "warning_box": "#272115",
}
_RULES: Final = """
.paper { fill: %(paper)s }
text { fill: %(ink)s }
.provider, .reference, .legend { fill: %(faint)s }
.box { fill: %(box)s; stroke: %(border)s }
.source .box { fill: %(source_box)s; stroke: %(source)s }
.response .box { fill: %(response_box)s; stroke: %(response)s }
.missing .box { stroke: %(error)s }
.error .box { fill: %(error_box)s; stroke: %(error)s }
.warning .box { fill: %(warning_box)s; stroke: %(warning)s }
.error .id, .label.error { fill: %(error)s }
.warning .id, .label.warning { fill: %(warning)s }
.data .line { stroke: %(data)s }
.control .line { stroke: %(control)s }
.data .dot, .data .head { fill: %(data)s; stroke: %(data)s }
.control .dot { fill: %(control)s }
.control .head { fill: %(paper)s; stroke: %(control)s }
.line.error, .head.error { stroke: %(error)s }
.data .head.error { fill: %(error)s }
.line.warning, .head.warning { stroke: %(warning)s }
.data .head.warning { fill: %(warning)s }
.reason.error { fill: %(error)s }
.reason.warning { fill: %(warning)s }
"""
_SHAPES: Final = f"""
text {{ font: {FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }}
.heading {{ font-size: 16px; font-weight: 600 }}
.id {{ font-weight: 600 }}
.title {{ font-style: italic }}
.box {{ stroke-width: 1.25 }}
.source .box, .response .box {{ stroke-width: 2 }}
.missing .box {{ stroke-dasharray: 4 3 }}
.line {{ fill: none; stroke-width: 1.5 }}
.control .line {{ stroke-dasharray: 5 4 }}
.head {{ stroke-width: 1.25; stroke-linejoin: round }}
"""


def style_sheet(root: str) -> str:
    """The rules for all elements inside the class `root`; the surrounding page is unaffected."""
    dark = _scoped(root, _RULES % _DARK)
    return f"{_scoped(root, _SHAPES)}{_scoped(root, _RULES % _LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _scoped(root: str, rules: str) -> str:
    found: list[str] = []
    for rule in rules.strip().splitlines():
        selectors, _, rest = rule.partition(" {")
        found.append(", ".join(f".{root} {selector}" for selector in selectors.split(", ")) + " {" + rest + "\n")
    return "".join(found)


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
