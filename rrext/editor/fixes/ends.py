"""The two ends of an edge: which components they are, and what they could have in common."""

from __future__ import annotations

from typing import Final

from rrext.editor.completions.fitting import names_between
from rrext.editor.fixes.bench import Bench
from rrext.editor.spot import EdgeKind
from rrext.nodes.base.node import Node
from rrext.pipefile.graph import reached
from rrext.pipefile.shape import Draft

__all__ = ["behind", "ends_of", "may_bind", "names_for", "sources_for"]

MANY: Final = 5
"""So many ways are offered; who has more of them chooses while typing."""


def ends_of(bench: Bench, draft: Draft, source: str) -> tuple[Draft, Draft] | None:
    """The component that an edge comes from, by the id that is written there, and the one that holds it."""
    part = bench.written.by_id.get(source)
    drafts = bench.analysis.drafts
    if part is None or part.index >= len(drafts):
        return None
    return drafts[part.index], draft


def names_for(kind: EdgeKind, source: Draft, end: Draft) -> list[str]:
    """The lanes or class types that both ends have; none if one of them is not known."""
    if source.node is None or end.node is None:
        return []
    return list(names_between(kind, source.node, end.node))[:MANY]


def sources_for(bench: Bench, draft: Draft, kind: EdgeKind, name: str) -> list[str]:
    """The ids of the components from which such an edge could come, as they are written."""
    if draft.node is None:
        return []
    after = behind(bench, draft, kind)
    found = [
        bench.name(other)
        for other in bench.analysis.drafts
        if other is not draft and other.id not in after and name in names_for(kind, other, draft) and is_first(bench, other)
    ]
    return [name for name in found if name][:MANY]


def is_first(bench: Bench, draft: Draft) -> bool:
    """Whether an edge from its id comes from this component."""
    return bool(draft.id) and bench.analysis.by_id.get(draft.id) is draft


def behind(bench: Bench, draft: Draft, kind: EdgeKind) -> set[str]:
    """The ids that edges of a kind lead to from a component, its own included: an edge from there would close a circle."""
    follows: dict[str, list[str]] = {}
    for other in bench.analysis.drafts:
        for edge in other.inputs if kind == "input" else other.controls:
            follows.setdefault(edge.source_id, []).append(other.id)
    return reached([draft.id], follows)


def may_bind(bench: Bench, invoker: Draft, class_type: str) -> bool:
    """Whether a node has room for one more helper of a class type."""
    if invoker.node is None:
        return False
    most = invoker.node.invoke.get(class_type, {}).get("max")
    if not isinstance(most, int):
        return True
    bound = [edge for draft in bench.analysis.drafts for edge in draft.controls]
    return sum(edge.source_id == invoker.id and edge.class_type == class_type for edge in bound) < most


def known_nodes(bench: Bench) -> list[tuple[str, type[Node]]]:
    """All nodes that can be used, by provider name."""
    return [(ware.name, ware.node) for ware in bench.shelf.wares() if ware.node is not None]
