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
from rrext.pipefile.shape import EDGE_KEYS, EDGE_TOOLS
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


class WrittenReference(msgspec.Struct, frozen=True, eq=False):
    """A reference to a tool. `holder` is the index of the component, `path` the path of the list from there.

    `node` is the component that is meant, empty if the reference names none; missing texts are empty.
    """

    holder: int
    path: tuple[str, ...]
    index: int
    located: Located
    kind: str
    node: str
    tool: str

    def text(self, key: str) -> str:
        """A text of the reference."""
        return text_at(self.located.value, key)


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

    def references(self) -> Iterator[WrittenReference]:
        """All references to tools, in file order: those in configs, and those on control edges."""
        for component in self.components:
            node = self.node_of(component)
            if node is not None and node.takes_references and isinstance(component.config.get("tools"), list):
                config = member(component.located, "config")
                assert config is not None
                yield from _references(member(config, "tools"), component.index, ("config", "tools"), "")
            for edge in component.edges:
                if edge.kind == "control" and isinstance(component.located.value["control"][edge.index].get(EDGE_TOOLS), list):
                    listed = member(component.edge(edge), EDGE_TOOLS)
                    yield from _references(listed, component.index, ("control", str(edge.index), EDGE_TOOLS), component.id)

    def owner_of(self, reference: WrittenReference) -> WrittenComponent | None:
        """The component whose tool is meant: the named one, or the first that has the tool."""
        if reference.node:
            return self.by_id.get(reference.node)
        if reference.kind:
            return None
        nodes = ((component, self.node_of(component)) for component in self.components)
        return next((component for component, node in nodes if node is not None and reference.tool in node.tools), None)

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


def _references(listed: Located | None, holder: int, path: tuple[str, ...], node: str) -> Iterator[WrittenReference]:
    for index, located in enumerate(() if listed is None else listed.children):
        value = located.value
        if isinstance(value, str) and not node:
            yield WrittenReference(holder, path, index, located, "", "", value)
        elif isinstance(value, dict):
            kind = "node" if node else text_at(value, "type")
            named = node or text_at(value, "node") if kind == "node" else ""
            yield WrittenReference(holder, path, index, located, kind or "?", named, text_at(value, "tool"))


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
