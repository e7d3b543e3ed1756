"""The picture of a running pipeline by its outline: nodes and edges without settings, with room for live counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rrext.picture.picture import KINDS, Picture, PictureEdge, PictureNode, Role, require_room
from rrext.pipefile.edges import is_response_provider
from rrext.pipefile.spec import EdgeKind

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
    nodes = [_node(component, outline["sources"]) for component in components]
    names: dict[tuple[int, int, Any], list[str]] = {}
    for target, component in enumerate(components):
        for kind, member in NAMES.items():
            for edge in component[kind]:
                if edge["from"] in index:
                    names.setdefault((index[edge["from"]], target, KINDS[kind]), []).append(edge[member])
    require_room(0, len(names))
    edges = [PictureEdge(*key, tuple(lanes), count=EDGE_ROOM) for key, lanes in names.items()]
    return Picture(tuple(nodes), tuple(edges))


def _node(component: Mapping[str, Any], sources: list[str]) -> PictureNode:
    is_source = component["id"] in sources
    role: Role = "source" if is_source else "response" if is_response_provider(component["provider"]) else "step"
    return PictureNode(component["id"], component["provider"], component["name"], role, count=NODE_ROOM)
