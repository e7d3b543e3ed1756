"""Summaries of the pipeline's components, as the file has them, with variables in place.

Only values are read, without positions: computing the positions of a whole file at every keystroke takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.pipefile.shape import EDGE_KEYS, EdgeKind
from rrext.pipefile.text.pointer import below

KINDS: Final[tuple[EdgeKind, ...]] = ("input", "control")


class EdgeSummary(msgspec.Struct, frozen=True):
    """An edge to the component that holds it; missing values are empty. `name` is its lane or class type."""

    kind: EdgeKind
    name: str
    source: str


class ComponentSummary(msgspec.Struct, frozen=True):
    """A component; missing values are empty. `is_marked_source`: its config calls it a source."""

    index: int
    id: str
    provider: str
    is_marked_source: bool
    edges: tuple[EdgeSummary, ...]


class ComponentSummaries:
    """All components in file order. An id means the first component that has it."""

    def __init__(self, analysis: Analysis) -> None:
        listed = analysis.map.find(below(analysis.base, "components"))
        is_list = listed is not None and listed.kind == "array"
        values: list[Any] = listed.value if listed is not None and is_list else []
        self.all = [_summary(index, value) for index, value in enumerate(values)]
        self.by_id = {summary.id: summary for summary in reversed(self.all) if summary.id}
        self.starts = [child.start for child in listed.children] if listed is not None and is_list else []
        """The offset of each component."""


def _summary(index: int, value: Any) -> ComponentSummary:
    if not isinstance(value, dict):
        return ComponentSummary(index, "", "", False, ())
    config = value.get("config")
    is_marked_source = isinstance(config, dict) and config.get("mode") == "Source"
    return ComponentSummary(index, text_at(value, "id"), text_at(value, "provider"), is_marked_source, tuple(_edges(value)))


def _edges(value: dict[str, Any]) -> Iterator[EdgeSummary]:
    for kind in KINDS:
        listed = value.get(kind)
        for edge in listed if isinstance(listed, list) else ():
            if isinstance(edge, dict):
                yield EdgeSummary(kind, text_at(edge, EDGE_KEYS[kind][0]), text_at(edge, "from"))


def text_at(value: object, key: str) -> str:
    """The string under a key of an object; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
