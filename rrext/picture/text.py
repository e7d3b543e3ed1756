"""A picture as text: in characters, for terminals and plain documents, and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.columns import columns, cut, one_line
from rrext.limits import PICTURE_DEFAULTS
from rrext.picture.layout import NARROWEST, Box, Layout, laid_out
from rrext.picture.picture import Kind, Picture, PictureEdge, PictureNode, Role
from rrext.picture.placement import MARKS, REFERENCES, box_lines
from rrext.pipefile.text.problems import Severity

_BORDERS: Final[dict[Role, str]] = {"step": "┌─┐│└┘", "source": "┏━┓┃┗┛", "response": "╔═╗║╚╝", "missing": "┌╌┐╎└┘"}
"""The upper left corner, the horizontal line, the upper right corner, the vertical line, the lower corners."""

_BELOW: Final[dict[Role, str]] = {"step": "┬", "source": "┯", "response": "╤", "missing": "┬"}
_BESIDE: Final[dict[Role, str]] = {"step": "├", "source": "┠", "response": "╟", "missing": "├"}
_ARROWS: Final[dict[tuple[Kind, bool], str]] = {("data", True): "▼", ("data", False): "▶", ("control", False): "▷"}

_COLOURS: Final[dict[str, str]] = {
    "id": "1",
    "provider": "2",
    "title": "3",
    "label": "2",
    "reference": "2",
    "control": "35",
    "source": "32",
    "response": "36",
    "error": "1;31",
    "warning": "1;33",
    "heading": "1",
}
"""The terminal codes of styles; other styles have the default colour."""


def as_text(picture: Picture, width: int = PICTURE_DEFAULTS.width, *, colour: bool = False) -> str:
    """The picture in lines of at most `width` columns, at least 40; empty without nodes.

    It never contains control characters of the file; with `colour` it has colour codes of its own.
    """
    if not picture.nodes:
        return ""
    width = max(width, NARROWEST)
    layout = laid_out(picture, width)
    canvas = _drawn(picture, layout)
    rows = map(_coloured, canvas.styled_rows()) if colour else canvas.rows()
    return "".join(f"{row}\n" for row in (*_heading(picture, width, colour), *rows, *_legend(picture, layout, width)))


def _heading(picture: Picture, width: int, colour: bool) -> Iterator[str]:
    name = cut(one_line(picture.name.strip()), width)
    if name:
        yield f"\x1b[{_COLOURS['heading']}m{name}\x1b[0m" if colour else name
        yield ""


def _legend(picture: Picture, layout: Layout, width: int) -> list[str]:
    """The legend of the used signs."""
    kinds = {wire.kind for wire in layout.wires}
    in_words = any(line.style == "reference" for box in layout.boxes for line in box.lines)
    roles = {node.role for node in picture.nodes}
    marks = {node.severity for node in picture.nodes}
    entries = [
        *(["━ source"] if "source" in roles else []),
        *(["═ response"] if "response" in roles else []),
        *(["╌ no such component"] if "missing" in roles else []),
        *(["─▶ data"] if "data" in kinds else []),
        *(["┄▷ control"] if "control" in kinds else []),
        *([" ".join((*REFERENCES.values(), "edges without a line"))] if in_words else []),
        *(f"{mark} {severity}" for severity, mark in MARKS.items() if severity in marks),
    ]
    lines = [""]
    for entry in entries:
        if lines[-1] and columns(lines[-1]) + 3 + len(entry) <= width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(entry)
    return lines if entries else []


def _drawn(picture: Picture, layout: Layout) -> Canvas:
    canvas = Canvas(layout.width, layout.height)
    for wire in layout.wires:
        for segment in wire.segments:
            canvas.line(*segment, wire.kind)
    for label in layout.labels:
        severity = picture.edges[label.edge].severity
        text = f" {label.text} " if label.in_line else label.text
        canvas.write(label.x - label.in_line, label.y, text, severity or "label")
    for box in layout.boxes:
        _draw_box(canvas, box, picture.nodes[box.node])
    return canvas


def _draw_box(canvas: Canvas, box: Box, node: PictureNode) -> None:
    left, flat, right, upright, lower_left, lower_right = _BORDERS[node.role]
    style = node.severity or node.role
    inner = box.width - 2
    canvas.sign(box.x, box.y, left + flat * inner + right, style)
    for row in range(1, box.height - 1):
        canvas.sign(box.x, box.y + row, upright, style)
        canvas.sign(box.x + box.width - 1, box.y + row, upright, style)
    canvas.sign(box.x, box.y + box.height - 1, lower_left + flat * inner + lower_right, style)
    for row, line in enumerate(box.lines, 1):
        marked: Severity | None = node.severity if line.style == "id" else None
        canvas.write(box.x + 2, box.y + row, line.text, marked or line.style)
    for port in box.ports:
        if port.arrives:
            canvas.sign(port.x, port.y, _ARROWS[port.kind, port.y == box.y], port.severity or port.kind)
        else:
            canvas.sign(port.x, port.y, (_BELOW if port.kind == "data" else _BESIDE)[node.role], style)


def _coloured(pieces: list[tuple[str, str]]) -> str:
    shown = "".join(f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if style in _COLOURS else text for style, text in pieces)
    return shown.rstrip()


UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8

_CORNERS: Final = {
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴",
    UP | RIGHT | DOWN | LEFT: "┼",
}
_GLYPHS: Final[dict[Kind, dict[int, str]]] = {
    "data": {**_CORNERS, UP: "│", DOWN: "│", UP | DOWN: "│", LEFT: "─", RIGHT: "─", LEFT | RIGHT: "─"},
    "control": {**_CORNERS, UP: "┆", DOWN: "┆", UP | DOWN: "┆", LEFT: "┄", RIGHT: "┄", LEFT | RIGHT: "┄"},
}


class Canvas:
    """A grid of cells; each has a text, usually one character, and a style. Later drawings cover earlier ones."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._texts = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]
        self._lines: dict[tuple[int, int], tuple[int, Kind]] = {}

    def line(self, x1: int, y1: int, x2: int, y2: int, kind: Kind) -> None:
        """Draw a straight line to the right or down. Lines that meet are joined, lines that cross form a cross."""
        if y1 == y2:
            for x in range(x1, x2 + 1):
                self._join(x, y1, (LEFT if x > x1 else 0) | (RIGHT if x < x2 else 0), kind)
        else:
            for y in range(y1, y2 + 1):
                self._join(x1, y, (UP if y > y1 else 0) | (DOWN if y < y2 else 0), kind)

    def _join(self, x: int, y: int, ways: int, kind: Kind) -> None:
        before = self._lines.get((x, y))
        if before is not None:
            ways |= before[0]
        self._lines[x, y] = (ways, kind)
        self._texts[y][x] = _GLYPHS[kind][ways]
        self._styles[y][x] = kind

    def sign(self, x: int, y: int, signs: str, style: str = "") -> None:
        """Write characters that take one cell each."""
        self._texts[y][x : x + len(signs)] = signs
        self._styles[y][x : x + len(signs)] = [style] * len(signs)

    def write(self, x: int, y: int, text: str, style: str = "") -> None:
        """Write a text without control characters, each character in as many cells as its width."""
        if text.isascii():
            self.sign(x, y, text, style)
            return
        texts, styles = self._texts[y], self._styles[y]
        for char in text:
            wide = columns(char)
            if wide == 0:  # it combines with the character before it
                texts[x - 1] += char
            else:
                texts[x : x + wide] = [char] + [""] * (wide - 1)
                styles[x : x + wide] = [style] * wide
                x += wide

    def rows(self) -> Iterator[str]:
        """The rows as text, without trailing blanks."""
        return ("".join(texts).rstrip() for texts in self._texts)

    def styled_rows(self) -> Iterator[list[tuple[str, str]]]:
        """The rows as pieces of (style, text)."""
        for texts, styles in zip(self._texts, self._styles, strict=True):
            pieces: list[tuple[str, str]] = []
            for text, style in zip(texts, styles, strict=True):
                if pieces and pieces[-1][0] == style:
                    pieces[-1] = (style, pieces[-1][1] + text)
                else:
                    pieces.append((style, text))
            yield pieces


ROOM: Final = 60
"""Columns of a line of text; Mermaid cannot break an id itself."""

_SHAPES: Final[dict[Role, tuple[str, str]]] = {
    "source": ("([", "])"),
    "step": ("[", "]"),
    "response": ("[[", "]]"),
    "missing": ("{{", "}}"),
}
_LINES: Final[dict[Kind, str]] = {"data": "-->", "control": "-.->"}
_CLASSES: Final = {
    "source": "fill:#dafbe1,stroke:#1a7f37,stroke-width:2px,color:#1f2328",
    "response": "fill:#ddf4ff,stroke:#0969da,stroke-width:2px,color:#1f2328",
    "missing": "fill:#ffffff,stroke:#cf222e,stroke-dasharray:5 4,color:#1f2328",
    "error": "fill:#ffebe9,stroke:#cf222e,color:#1f2328",
    "warning": "fill:#fff8c5,stroke:#9a6700,color:#1f2328",
}
_STROKES: Final = {"error": "#cf222e", "warning": "#9a6700"}
_ESCAPED: Final = str.maketrans(
    {"#": "#35;", '"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;", "`": "#96;", "%": "#37;", ":": "#58;", "\\": "#92;"}
)
"""Characters with a meaning in Mermaid, also inside quotes. A colon has one beside the word "style"."""


def as_mermaid(picture: Picture) -> str:
    """The picture as a flowchart from top to bottom. Comments at its end list the problems."""
    return "".join(f"{line}\n" for line in _lines(picture))


def _lines(picture: Picture) -> Iterator[str]:
    name = one_line(picture.name.strip())
    if name:
        yield from ("---", f"title: {msgspec.json.encode(name).decode()}", "---")
    yield "flowchart TD"
    for index, node in enumerate(picture.nodes):
        opening, closing = _SHAPES[node.role]
        text = "<br/>".join(_escaped(line.text) for line in box_lines(node, ROOM))
        yield f'    n{index}{opening}"{text}"{closing}'
    for edge in picture.edges:
        yield f'    n{edge.source} {_LINES[edge.kind]}|"{_names(edge)}"| n{edge.target}'
    yield from _styles(picture)
    for remark in picture.remarks:
        yield f"    %% {one_line(str(remark)).replace('{', '(').replace('}', ')')}"


def _names(edge: PictureEdge) -> str:
    mark = MARKS[edge.severity] + " " if edge.severity is not None else ""
    return _escaped(mark + ", ".join(cut(one_line(name), ROOM) for name in edge.names))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED)


def _styles(picture: Picture) -> Iterator[str]:
    """Classes for special nodes; problems come last, because they override the others."""
    for style, rules in _CLASSES.items():
        members = [f"n{index}" for index, node in enumerate(picture.nodes) if style in (node.severity, node.role)]
        if members:
            yield f"    classDef {style} {rules}"
            yield f"    class {','.join(members)} {style}"
    for severity, colour in _STROKES.items():
        places = [str(place) for place, edge in enumerate(picture.edges) if edge.severity == severity]
        if places:
            yield f"    linkStyle {','.join(places)} stroke:{colour}"
