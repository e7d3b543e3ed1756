"""Fixes of connections: unreachable nodes, and missing or excess helpers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rrext.editor.completions.candidate_edges import names_between
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.edge_ends import catalog_nodes, is_first, may_bind
from rrext.editor.fixes.fix import Fix, fix
from rrext.editor.fixes.nodes import (
    add_components,
    add_edges,
    edge_of,
    fresh_id,
    new_component,
    remove_component,
    remove_edge,
)
from rrext.editor.limits import MAX_FIXES
from rrext.nodes.base.node import served_types
from rrext.pipefile.reachability import sent_lanes
from rrext.pipefile.shape import EDGE_KEYS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem, shown


class Join(msgspec.Struct, frozen=True):
    """An edge that would connect a component. `unread`: no node reads the source's output yet."""

    kind: EdgeKind
    name: str
    source: ComponentSpec
    unread: bool


def joins_to(context: FixContext, draft: ComponentSpec, sources: list[ComponentSpec]) -> list[Join]:
    """The edges that could lead to a component from given sources, without a circle."""
    found: list[Join] = []
    if draft.node is None:
        return found
    read = {edge.source_id for other in context.analysis.drafts for edge in other.inputs}
    after: dict[EdgeKind, set[str]] = {kind: context.written.behind(draft.id, kind) for kind in EDGE_KEYS}
    for source in sources:
        if source.node is None or not is_first(context, source):
            continue
        for lane in names_between("input", source.node, draft.node):
            if source.id not in after["input"] and (not source.inputs or lane in sent_lanes(source)):
                found.append(Join("input", lane, source, source.id not in read))
        for kind in names_between("control", source.node, draft.node):
            if source.id not in after["control"] and may_bind(context, source, kind):
                found.append(Join("control", kind, source, unread=True))
    return found


def not_connected(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """An edge from a reachable node; or the removal of the node and every edge from it."""
    draft = context.draft(problem.path)
    if draft is None:
        return
    joins = [] if _is_led_to(context, draft) else joins_to(context, draft, _members(context))
    unread = [join for join in joins if join.unread]
    best = unread if len(unread) == 1 else joins
    for join in sorted(joins, key=lambda join: not join.unread)[:MAX_FIXES]:
        name = join.source.id
        edits = add_edges(context, draft, join.kind, [edge_of(join.kind, join.name, name)])
        verb = "Connect it to" if join.kind == "input" else "Bind it to"
        yield fix(problem, f"{verb} {shown(name)} ({join.name})", edits, preferred=len(best) == 1 and join is best[0])
    title = f"Remove {shown(draft.id)}" + (", with every edge from it" if _is_used(context, draft) else "")
    yield fix(problem, title, remove_component(context, draft), preferred=not joins)


def _members(context: FixContext) -> list[ComponentSpec]:
    """The reachable components: the sources and their chains."""
    outline = context.analysis.loaded.outline
    ids = {*outline.sources, *outline.chain}
    return [draft for draft in context.analysis.drafts if draft.id in ids and is_first(context, draft)]


def _is_led_to(context: FixContext, draft: ComponentSpec) -> bool:
    """Whether another component leads to this one; then that one needs the connection."""
    edges = (*draft.inputs, *draft.controls)
    return any(edge.source_id in context.analysis.by_id and edge.source_id != draft.id for edge in edges)


def _is_used(context: FixContext, draft: ComponentSpec) -> bool:
    return bool(context.written.edges_from.get(draft.id))


# helpers


def invoke_missing(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A binding of an unbound node; or a new node."""
    draft = context.draft(problem.path)
    class_type = None if draft is None else _missing_type(context, draft, problem)
    if draft is None or class_type is None:
        return
    edge = edge_of("control", class_type, draft.id)
    unbound = [other for other in context.analysis.drafts if _could_help(context, other, draft, class_type)]
    for other in unbound[:MAX_FIXES]:
        title = f"Bind {shown(other.id)} to {shown(draft.id)} ({class_type})"
        yield fix(problem, title, add_edges(context, other, "control", [edge]), preferred=len(unbound) == 1)
    nodes = [(name, node) for name, node in catalog_nodes(context) if class_type in served_types(node) and not node.is_source()]
    for name, node in nodes[:MAX_FIXES]:
        id_ = fresh_id(context, name)
        component = new_component(context, name, node, node_id=id_, controls=[edge])
        title = f"Add {shown(id_)}, bound to {shown(draft.id)} ({class_type})"
        yield fix(problem, title, add_components(context, component), preferred=len(nodes) == 1 and not unbound)


def _missing_type(context: FixContext, draft: ComponentSpec, problem: Problem) -> str | None:
    """The class type of a problem: several problems of one node come in the order of `invoke`."""
    if draft.node is None:
        return None
    others = [other for other in context.analysis.loaded.problems if other.code == problem.code and other.path == problem.path]
    place = next((index for index, other in enumerate(others) if other is problem), 0)
    missing = [
        class_type
        for class_type, slot in draft.node.invoke.items()
        if len(_bound(context, draft, class_type)) < (slot.get("min") or 0)
    ]
    return missing[place] if place < len(missing) else None


def _bound(context: FixContext, draft: ComponentSpec, class_type: str) -> list[tuple[ComponentSpec, int]]:
    """The helpers of a node, each with the index of the edge that binds it."""
    return [
        (other, edge.index)
        for other in context.analysis.drafts
        for edge in other.controls
        if edge.source_id == draft.id and edge.class_type == class_type
    ]


def _could_help(context: FixContext, other: ComponentSpec, draft: ComponentSpec, class_type: str) -> bool:
    if other is draft or other.node is None or other.controls or other.inputs or not is_first(context, other):
        return False
    return (
        class_type in served_types(other.node)
        and draft.id not in context.written.behind(other.id, "control")
        and not other.node.is_source()
    )


def invoke_excess(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of one of the excess helpers."""
    draft = context.draft(problem.path)
    if draft is None or draft.node is None:
        return
    paths = {other.path for other in problem.related}
    for class_type in draft.node.invoke:
        for helper, index in _bound(context, draft, class_type)[:MAX_FIXES]:
            if below(helper.path, "id") in paths:
                title = f"Unbind {shown(helper.id)} from {shown(draft.id)}"
                yield fix(problem, title, remove_edge(context, below(helper.path, "control", index)))
