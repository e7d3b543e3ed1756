"""The components and edges of a pipeline as written: with their positions and with variables in place.

Display, search and rename use this module, so the value of a variable can never appear in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rrext.editor.analysis import Analysis
from rrext.nodes.base.node import Node
from rrext.pipefile.shape import EdgeKind
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.tree import Located


class WrittenEdge(msgspec.Struct, frozen=True, eq=False):
    """An edge to the component that holds it. `name` is its lane or class type; it and `source` may be empty."""

    kind: EdgeKind
    index: int
    holder: int
    """The index of the component."""
    name: str
    source: str
    located: Located


class WrittenComponent(msgspec.Struct, frozen=True, eq=False):
    """One component; `located` may be other than an object. Missing texts are empty."""

    index: int
    id: str
    provider: str
    name: str
    description: str
    edges: tuple[WrittenEdge, ...]
    located: Located


class WrittenPipeline:
    """The components of one state of a document, in file order."""

    def __init__(self, analysis: Analysis) -> None:
        self._drafts = analysis.drafts
        where, base = analysis.map, analysis.base
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
        """The class of a component, if it is known and the provider is literal.

        A provider with a variable has no class here, because facts about the class would reveal the variable's value.
        """
        if "${" in component.provider or component.index >= len(self._drafts):
            return None
        return self._drafts[component.index].node

    def is_first(self, component: WrittenComponent) -> bool:
        """Whether edges with this component's id mean it, rather than an earlier one with the same id."""
        return self.by_id.get(component.id) is component


def _component(index: int, located: Located) -> WrittenComponent:
    edges = (*_edges(located, "input", index), *_edges(located, "control", index))
    edges = tuple(sorted(edges, key=lambda edge: edge.located.start))
    return WrittenComponent(
        index,
        text_of(member(located, "id")),
        text_of(member(located, "provider")),
        text_of(member(located, "name")),
        text_of(member(located, "description")),
        edges,
        located,
    )


def _edges(holder: Located, kind: EdgeKind, index: int) -> Iterator[WrittenEdge]:
    listed = member(holder, kind)
    if listed is None or listed.kind != "array":
        return
    key = "lane" if kind == "input" else "classType"
    for place, located in enumerate(listed.children):
        if located.kind == "object":
            yield WrittenEdge(kind, place, index, text_of(member(located, key)), text_of(member(located, "from")), located)


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
