"""The components and edges of a pipeline as they are written, with variables in place.

Completion, display, search and rename use this module, so the value of a variable can never appear in them. Only values are
read, without positions: computing the positions of a whole file at every keystroke takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rrext.nodes.base.node import Node
from rrext.pipefile.graph import reached
from rrext.pipefile.shape import EDGE_KEYS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.source import SourceMap
from rrext.pipefile.text.tree import Located


class WrittenEdge(msgspec.Struct, frozen=True, eq=False):
    """An edge to the component that holds it. `name` is its lane or class type; it and `source` may be empty."""

    kind: EdgeKind
    index: int
    holder: int
    """The index of the component."""
    name: str
    source: str


class WrittenComponent(msgspec.Struct, frozen=True, eq=False):
    """One component; `located` may be other than an object. Missing texts are empty."""

    index: int
    id: str
    provider: str
    name: str
    description: str
    config: dict[str, Any]
    edges: tuple[WrittenEdge, ...]
    located: Located

    @property
    def is_marked_source(self) -> bool:
        """Whether the config calls the component a source."""
        return self.config.get("mode") == "Source"

    def edge(self, edge: WrittenEdge) -> Located:
        """The position of one of its edges."""
        listed = member(self.located, edge.kind)
        assert listed is not None  # the edge was read there
        return listed.children[edge.index]


class WrittenPipeline:
    """The components of one state of a document, in file order. `base` is the pointer to the pipeline."""

    def __init__(self, where: SourceMap, base: str, drafts: Sequence[ComponentSpec]) -> None:
        self._drafts = drafts
        listed = where.find(below(base, "components"))
        children = listed.children if listed is not None and listed.kind == "array" else []
        self.components: Sequence[WrittenComponent] = [_component(index, located) for index, located in enumerate(children)]
        self.by_id: dict[str, WrittenComponent] = {
            component.id: component for component in reversed(self.components) if component.id
        }
        """Components by id; the first one of a duplicate id."""
        self.edges_from: dict[str, list[WrittenEdge]] = {}
        """The edges from each id, also from ids without a component."""
        for edge in self.edges():
            if edge.source:
                self.edges_from.setdefault(edge.source, []).append(edge)
        self.source = where.find(below(base, "source"))
        """The pipeline's `source`."""

    def edges(self) -> Iterator[WrittenEdge]:
        """All edges, in file order."""
        for component in self.components:
            yield from component.edges

    def node_of(self, component: WrittenComponent) -> type[Node] | None:
        """The class of a component, if it is known."""
        return self._drafts[component.index].node if component.index < len(self._drafts) else None

    def is_first(self, component: WrittenComponent) -> bool:
        """Whether edges with this component's id mean it, rather than an earlier one with the same id."""
        return self.by_id.get(component.id) is component

    def behind(self, node_id: str, kind: EdgeKind) -> set[str]:
        """The ids reachable from a component by edges of a kind, its own included; an edge from them would close a circle."""
        if not node_id:
            return set()
        follows: dict[str, list[str]] = {}
        for edge in self.edges():
            if edge.kind == kind:
                follows.setdefault(edge.source, []).append(self.components[edge.holder].id)
        return reached([node_id], follows)


def _component(index: int, located: Located) -> WrittenComponent:
    value: dict[str, Any] = located.value if isinstance(located.value, dict) else {}
    config = value.get("config")
    return WrittenComponent(
        index,
        text_at(value, "id"),
        text_at(value, "provider"),
        text_at(value, "name"),
        text_at(value, "description"),
        config if isinstance(config, dict) else {},
        tuple(_edges(value, index)),
        located,
    )


def _edges(value: dict[str, Any], holder: int) -> Iterator[WrittenEdge]:
    for kind in value:
        listed = value[kind]
        if (kind == "input" or kind == "control") and isinstance(listed, list):
            for index, edge in enumerate(listed):
                if isinstance(edge, dict):
                    yield WrittenEdge(kind, index, holder, text_at(edge, EDGE_KEYS[kind][0]), text_at(edge, "from"))


def text_at(value: object, key: str) -> str:
    """The string under a key of an object; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def member(located: Located, key: str) -> Located | None:
    """The value of a key in an object; the last one of a duplicate key."""
    if located.kind != "object":
        return None
    for child in reversed(located.children):
        if child.key == key:
            return child
    return None


def text_of(located: Located | None) -> str:
    """The string value; empty if there is none."""
    return located.value if located is not None and isinstance(located.value, str) else ""
