"""The other components of a pipeline: what they say of themselves, as the file has it and no variable replaced.

Only values are read and no places: to find the places of a whole file costs ten times as much, at every keystroke.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.spot import EdgeKind
from rrext.pipefile.shape import EDGE_KEYS
from rrext.pipefile.text.pointer import below

__all__ = ["KINDS", "Edge", "Part", "Parts"]

KINDS: Final[tuple[EdgeKind, ...]] = ("input", "control")


class Edge(msgspec.Struct, frozen=True):
    """An edge to the component that holds it; what it does not say is empty. `name` is its lane or class type."""

    kind: EdgeKind
    name: str
    source: str


class Part(msgspec.Struct, frozen=True):
    """A component; what it does not say is empty. `said` tells that its config calls it a source."""

    index: int
    id: str
    provider: str
    said: bool
    edges: tuple[Edge, ...]


class Parts:
    """All components in the order of the file. Of those with the same id, the first is meant by it."""

    __slots__ = ("all", "by_id", "starts")

    def __init__(self, analysis: Analysis) -> None:
        listed = analysis.map.find(below(analysis.base, "components"))
        is_list = listed is not None and listed.kind == "array"
        values: list[Any] = listed.value if listed is not None and is_list else []
        self.all = [_part(index, value) for index, value in enumerate(values)]
        self.by_id = {part.id: part for part in reversed(self.all) if part.id}
        self.starts = [child.start for child in listed.children] if listed is not None and is_list else []
        """Where each of them begins."""

    def __repr__(self) -> str:
        return f"<Parts: {len(self.all)} components>"


def _part(index: int, value: Any) -> Part:
    if not isinstance(value, dict):
        return Part(index, "", "", False, ())
    config = value.get("config")
    said = isinstance(config, dict) and config.get("mode") == "Source"
    return Part(index, _text(value, "id"), _text(value, "provider"), said, tuple(_edges(value)))


def _edges(value: dict[str, Any]) -> Iterator[Edge]:
    for kind in KINDS:
        listed = value.get(kind)
        for edge in listed if isinstance(listed, list) else ():
            if isinstance(edge, dict):
                yield Edge(kind, _text(edge, EDGE_KEYS[kind][0]), _text(edge, "from"))


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""
