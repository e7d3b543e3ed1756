"""The analysis of one state of a document: its problems, its components as they are written, and the positions of all values.

Completion, display, search and rename read the components as they are written, with variables in place, so the value of a
variable can never appear in them. Only values are read, without positions: computing the positions of a whole file at every
keystroke takes ten times as long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from rrext.errors import Cancelled
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.edges import reached
from rrext.pipefile.environment import Environment
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.shape import EDGE_KEYS, EDGE_TOOLS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.problems import Problem, below
from rrext.pipefile.text.source import SourceMap, parse
from rrext.pipefile.text.tree import Located
from rrext.pipefile.validation import PipelineOutline
from rrext.references import KnownConnection


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


class AnalysisSettings(msgspec.Struct, frozen=True):
    """The catalog, environment and limits of an analysis. `trusted`: the document's nodes may be loaded and run.

    `connections` are those of the operator; None if they are not known.
    """

    catalog: Catalog
    environment: Environment
    trusted: bool = False
    limits: Limits = DEFAULTS
    connections: tuple[KnownConnection, ...] | None = None


class Analysis:
    """The analysis of one state of a document. It is immutable, so any thread may read it.

    `map` holds the text that was read: the document's, or an empty one if the document is too large.
    """

    def __init__(self, loaded: LoadedPipeline, settings: AnalysisSettings) -> None:
        where = loaded.source_map
        assert where is not None  # `positions=True` asks for it
        self.loaded = loaded
        self.map: SourceMap = where
        self.settings = settings
        self.drafts = loaded.outline.components
        self.by_id = {draft.id: draft for draft in reversed(self.drafts) if draft.id}
        """Components by id; the first one of a duplicate id."""
        listed = where.find(below(loaded.base, "components"))
        self._written: WrittenPipeline | None = None
        self._starts = [item.start for item in listed.children] if listed is not None and listed.kind == "array" else []

    @property
    def text(self) -> str:
        """The text that was read."""
        return self.map.text

    @property
    def base(self) -> str:
        """The pointer to the pipeline in the document."""
        return self.loaded.base

    @property
    def written(self) -> WrittenPipeline:
        """The components as they are written."""
        if self._written is None:
            self._written = WrittenPipeline(self.map, self.base, self.drafts)
        return self._written

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems of the pipeline."""
        return self.loaded.problems

    def component_at(self, offset: int) -> ComponentSpec | None:
        """The component around an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return None
        located = self.map.find(below(self.base, "components", index))
        if located is None or offset > located.end:
            return None
        return self.drafts[index] if index < len(self.drafts) else None


def unread(problem: Problem, settings: AnalysisSettings) -> Analysis:
    """The analysis of a document without a text: a problem at its start says why."""
    where = parse("").map
    loaded = LoadedPipeline(None, (problem,), {}, base="", outline=PipelineOutline(), text="", source_map=where)
    return Analysis(loaded, settings)


def analyse(text: str, settings: AnalysisSettings, *, stop: Callable[[], bool] | None = None) -> Analysis:
    """Analyse a text. No code of it runs, and no content raises an exception.

    An unknown provider is information if code that is not loaded may define it. Raises `Cancelled` soon after `stop` returns
    true.
    """
    if stop is not None and stop():
        raise Cancelled
    loaded = load_pipeline(
        text,
        settings.catalog,
        settings.environment,
        strict_env=False,
        positions=True,
        connections=settings.connections,
        limits=settings.limits,
        stop=stop,
    )
    return Analysis(loaded, settings)
