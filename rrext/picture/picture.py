"""The content of a picture: the nodes and edges of a valid or invalid pipeline, with their problems; or of a running pipeline
by its outline, without settings, with room for live counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from rrext.errors import ResultTooLarge
from rrext.limits import PICTURE_DEFAULTS, PictureLimits
from rrext.pipefile.edges import is_response, is_response_provider
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.shape import EDGE_KEYS
from rrext.pipefile.spec import ComponentSpec, ControlEdge, DataEdge, EdgeKind
from rrext.pipefile.text.problems import Problem, Severity

Kind = Literal["data", "control"]
Role = Literal["source", "step", "response", "missing"]

KINDS: Final[dict[EdgeKind, Kind]] = {"input": "data", "control": "control"}
"""The key of a component → the kind of its edges."""


class Remark(msgspec.Struct, frozen=True):
    """A problem in a picture. `place` is its line and column, from 1; None if the pipeline was not parsed from text."""

    severity: Severity
    code: str
    message: str
    place: tuple[int, int] | None = None

    def __str__(self) -> str:
        where = f"{self.place[0]}:{self.place[1]}: " if self.place is not None else ""
        return f"{where}{self.severity}: {self.message} [{self.code}]"


class PictureNode(msgspec.Struct, frozen=True):
    """A component, or an id in edges without a component, whose role is `missing`.

    `id`, `provider` and `title` may be empty. `count` is a last line, for numbers of a pipeline that runs.
    """

    id: str
    provider: str = ""
    title: str = ""
    role: Role = "step"
    remarks: tuple[Remark, ...] = ()
    count: str = ""

    @property
    def severity(self) -> Severity | None:
        """The worst severity of its problems; None if there is only information."""
        return worst(self.remarks)


class PictureEdge(msgspec.Struct, frozen=True):
    """All edges of one kind between two nodes, with indexes `source` and `target`.

    `names` are its lanes, or its class types, in file order. `count` follows them, for numbers of a pipeline that runs.
    """

    source: int
    target: int
    kind: Kind
    names: tuple[str, ...]
    severity: Severity | None = None
    count: str = ""


class Picture(msgspec.Struct, frozen=True):
    """The content of a picture. `remarks` are all problems, also those without a node, in the order of the text."""

    nodes: tuple[PictureNode, ...] = ()
    edges: tuple[PictureEdge, ...] = ()
    remarks: tuple[Remark, ...] = ()
    name: str = ""


def picture_of(loaded: LoadedPipeline, limits: PictureLimits = PICTURE_DEFAULTS) -> Picture:
    """The picture of a pipeline, as far as it could be parsed.

    Raises `ResultTooLarge` for too many nodes or edges.
    """
    drafts = loaded.outline.components
    index = {draft.id: draft.index for draft in reversed(drafts) if draft.id}
    lost = dict.fromkeys(edge.source_id for *_, edge in _all_edges(drafts) if edge.source_id not in index)
    index.update({name: len(drafts) + place for place, name in enumerate(lost)})
    require_room(len(drafts) + len(lost), 0, limits)
    remarks = _Remarks(loaded)
    nodes = [_node(draft, index, loaded.outline.sources, remarks) for draft in drafts]
    nodes += [PictureNode(name, role="missing") for name in lost]
    edges = _edges(drafts, index, remarks)
    require_room(0, len(edges), limits)
    name = loaded.unresolved.get("name")
    return Picture(tuple(nodes), edges, remarks.all, name if isinstance(name, str) else "")


def require_room(nodes: int, edges: int, limits: PictureLimits = PICTURE_DEFAULTS) -> None:
    """Raise `ResultTooLarge` for too many nodes or edges."""
    if nodes > limits.max_nodes:
        raise ResultTooLarge(f"{nodes} nodes are more than a picture can show: {limits.max_nodes} (max_nodes)")
    if edges > limits.max_edges:
        raise ResultTooLarge(f"{edges} edges are more than a picture can show: {limits.max_edges} (max_edges)")


def worst(remarks: Sequence[Remark]) -> Severity | None:
    """`error`, `warning`, or None if there is neither."""
    found = {remark.severity for remark in remarks}
    return "error" if "error" in found else "warning" if "warning" in found else None


class _Remarks:
    """The problems of a pipeline by component and edge."""

    def __init__(self, loaded: LoadedPipeline) -> None:
        self._nodes: dict[int, list[Remark]] = {}
        self._edges: dict[tuple[int, str, int], list[Remark]] = {}
        found: list[Remark] = []
        for problem in loaded.problems:
            remark = _remark(problem, loaded)
            found.append(remark)
            draft, parts = loaded.component_of(problem.path), loaded.parts(problem.path)
            if draft is not None:
                self._nodes.setdefault(draft.index, []).append(remark)
                if len(parts) > 3 and parts[3].isdecimal():
                    self._edges.setdefault((draft.index, parts[2], int(parts[3])), []).append(remark)
        self.all = tuple(found)

    def of_node(self, node: int) -> tuple[Remark, ...]:
        return tuple(self._nodes.get(node, ()))

    def of_edges(self, node: int, key: str, places: Sequence[int]) -> list[Remark]:
        return [remark for place in places for remark in self._edges.get((node, key, place), ())]


def _remark(problem: Problem, loaded: LoadedPipeline) -> Remark:
    where = loaded.source_map
    place = where.position(where.span_of(problem)[0]) if where is not None else None
    return Remark(problem.severity, problem.code, problem.message, place)


def _node(draft: ComponentSpec, index: dict[str, int], sources: Sequence[str], remarks: _Remarks) -> PictureNode:
    role: Role = "response" if is_response(draft) else "step"
    if draft.id in sources and index[draft.id] == draft.index:
        role = "source"
    return PictureNode(draft.id, draft.provider, draft.name, role, remarks.of_node(draft.index))


def _all_edges(drafts: Sequence[ComponentSpec]) -> Iterator[tuple[ComponentSpec, EdgeKind, str, DataEdge | ControlEdge]]:
    for draft in drafts:
        for kind in EDGE_KEYS:
            for name, edge in draft.edges(kind):
                yield draft, kind, name, edge


def _edges(drafts: Sequence[ComponentSpec], index: dict[str, int], remarks: _Remarks) -> tuple[PictureEdge, ...]:
    """All edges; parallel ones of a kind are merged."""
    merged: dict[tuple[int, int, EdgeKind], list[tuple[str, int]]] = {}
    for draft, kind, name, edge in _all_edges(drafts):
        merged.setdefault((index[edge.source_id], draft.index, kind), []).append((name, edge.index))
    found: list[PictureEdge] = []
    for (source, target, kind), edges in merged.items():
        severity = worst(remarks.of_edges(target, kind, [place for _, place in edges]))
        found.append(PictureEdge(source, target, KINDS[kind], tuple(name for name, _ in edges), severity))
    return tuple(found)


NODE_ROOM: Final = " " * 22
"""The place of a node's counts."""

EDGE_ROOM: Final = " " * 8
"""The place of an edge's count."""

NAMES: Final[dict[EdgeKind, str]] = {"input": "lane", "control": "classType"}
"""Kind of edge → the member with its name."""


def picture_of_outline(outline: Mapping[str, Any]) -> Picture:
    """The picture of an outline, as `rrext_get_pipeline` answers it. Raises `ResultTooLarge`."""
    components = outline["components"]
    require_room(len(components), 0)
    index = {component["id"]: place for place, component in enumerate(components)}
    nodes = [_outlined_node(component, outline["sources"]) for component in components]
    names: dict[tuple[int, int, Any], list[str]] = {}
    for target, component in enumerate(components):
        for kind, member in NAMES.items():
            for edge in component[kind]:
                if edge["from"] in index:
                    names.setdefault((index[edge["from"]], target, KINDS[kind]), []).append(edge[member])
    require_room(0, len(names))
    edges = [PictureEdge(*key, tuple(lanes), count=EDGE_ROOM) for key, lanes in names.items()]
    return Picture(tuple(nodes), tuple(edges))


def _outlined_node(component: Mapping[str, Any], sources: list[str]) -> PictureNode:
    is_source = component["id"] in sources
    role: Role = "source" if is_source else "response" if is_response_provider(component["provider"]) else "step"
    return PictureNode(component["id"], component["provider"], component["name"], role, count=NODE_ROOM)
