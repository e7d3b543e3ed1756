"""A picture as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rrext.columns import cut, one_line
from rrext.picture.picture import Kind, Picture, PictureEdge, Role
from rrext.picture.placement import MARKS, box_lines

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
