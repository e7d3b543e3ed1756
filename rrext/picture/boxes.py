"""The text of a node's box, and of an edge's label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from rrext.columns import columns, cut, one_line
from rrext.picture.picture import Kind, PictureEdge, PictureNode
from rrext.pipefile.text.problems import Severity

MARKS: Final[dict[Severity, str]] = {"error": "✗", "warning": "!"}
"""The mark before the id of a node, or the name of an edge, with a problem."""
REFERENCES: Final[dict[Kind, str]] = {"data": "◂", "control": "◃"}
"""The sign before the source id of an edge without a line."""
LABEL_LINES: Final = 8
"""Lines of names at one edge; a note counts the omitted names."""
TITLE_WIDTH: Final = 40
"""A longer title counts as a description and is omitted."""


class BoxLine(msgspec.Struct, frozen=True):
    """One line of a box. `style` is its role, for the formatting."""

    text: str
    style: Literal["id", "provider", "title", "reference", "count"]


def box_lines(node: PictureNode, room: int, references: Iterable[str] = ()) -> list[BoxLine]:
    """The lines of a node's box, each at most `room` columns wide."""
    mark = MARKS[node.severity] + " " if node.severity is not None else ""
    name, provider, title = (one_line(text) for text in (node.id, node.provider, node.title.strip()))
    kind = "no such component" if node.role == "missing" else provider or "(no provider)"
    lines = [BoxLine(mark + (name or "(no id)"), "id"), BoxLine(kind, "provider")]
    if title and title not in (name, provider) and columns(title) <= TITLE_WIDTH:
        lines.append(BoxLine(title, "title"))
    lines += [BoxLine(text, "reference") for text in references]
    if node.count:
        lines.append(BoxLine(node.count, "count"))
    return [BoxLine(cut(line.text, room), line.style) for line in lines]


def reference(edge: PictureEdge, source: PictureNode, room: int) -> list[str]:
    """An edge in words, for the box of its target: lines of at most `room` columns."""
    return [
        cut(f"{REFERENCES[edge.kind]} {one_line(source.id)}", room),
        *(f"  {names}" for names in label_lines(edge, room - 2)),
    ]


def label_lines(edge: PictureEdge, room: int) -> list[str]:
    """The names of an edge in lines of at most `room` columns, with a mark for a problem."""
    names = [cut(one_line(name), room) for name in edge.names]
    if edge.severity is not None:
        names[0] = cut(f"{MARKS[edge.severity]} {names[0]}", room)
    lines: list[str] = []
    for place, name in enumerate(names):
        more = f"{lines[-1]}, {name}" if lines else name
        if lines and columns(more) <= room:
            lines[-1] = more
        elif len(lines) < LABEL_LINES:
            lines.append(name)
        else:
            lines.append(cut(f"and {len(names) - place} more", room))
            break
    if edge.count:
        lines[-1] += edge.count
    return lines


def widest(texts: Iterable[str]) -> int:
    """The width of the widest text; 0 without texts."""
    return max(map(columns, texts), default=0)
