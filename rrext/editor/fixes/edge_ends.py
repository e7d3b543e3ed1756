"""The two ends of an edge: their components, and the lanes or class types that they share."""

from __future__ import annotations

from rrext.editor.completions.candidate_edges import names_between
from rrext.editor.fixes.context import FixContext
from rrext.editor.limits import MAX_FIXES
from rrext.nodes.base.node import Node
from rrext.pipefile.spec import ComponentSpec, EdgeKind


def names_for(kind: EdgeKind, source: ComponentSpec | None, end: ComponentSpec) -> list[str]:
    """The lanes or class types that both ends have; none if one of them is unknown."""
    if source is None or source.node is None or end.node is None:
        return []
    return list(names_between(kind, source.node, end.node))[:MAX_FIXES]


def sources_for(context: FixContext, draft: ComponentSpec, kind: EdgeKind, name: str) -> list[str]:
    """The ids of the components from which such an edge could come."""
    after = context.written.behind(draft.id, kind)
    found = [
        other.id
        for other in context.analysis.drafts
        if other is not draft and other.id not in after and name in names_for(kind, other, draft) and is_first(context, other)
    ]
    return found[:MAX_FIXES]


def is_first(context: FixContext, draft: ComponentSpec) -> bool:
    """Whether an edge from its id comes from this component."""
    return bool(draft.id) and context.analysis.by_id.get(draft.id) is draft


def may_bind(context: FixContext, invoker: ComponentSpec, class_type: str) -> bool:
    """Whether a node has room for another helper of a class type."""
    if invoker.node is None:
        return False
    most = invoker.node.invoke.get(class_type, {}).get("max")
    if not isinstance(most, int):
        return True
    bound = [edge for draft in context.analysis.drafts for edge in draft.controls]
    return sum(edge.source_id == invoker.id and edge.class_type == class_type for edge in bound) < most


def catalog_nodes(context: FixContext) -> list[tuple[str, type[Node]]]:
    """All usable nodes, by provider name."""
    return [(entry.name, entry.node) for entry in context.known_nodes.entries() if entry.node is not None]
