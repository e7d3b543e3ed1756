"""Fixes of unread output: of nodes, of the source, and of keys of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rrext.editor.fixes.connections import joins_to
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.edge_ends import catalog_nodes, is_first, names_for
from rrext.editor.fixes.fix import Fix, fix
from rrext.editor.fixes.nodes import add_components, add_edges, edge_of, fresh_id, new_component, response_for
from rrext.editor.limits import MAX_FIXES
from rrext.editor.written_pipeline import member, text_of
from rrext.nodes.base.node import Node, offered_lanes
from rrext.pipefile.reachability import sent_lanes
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.pointer import below, parts_of, pointer
from rrext.pipefile.text.problems import Problem, shown

_USUAL: Final = ("text", "answers", "questions", "documents", "json", "table")
"""The lanes that people most likely want to see, in that order."""


def no_response(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A response node behind all nodes with unread output, or behind one."""
    found = (context.draft(other.path) for other in problem.related)
    leaves = [leaf for leaf in found if leaf is not None and is_first(context, leaf)]
    if len(leaves) > 1:
        yield _response(context, problem, [(leaf, lane) for leaf in leaves for lane in sent_lanes(leaf)], preferred=True)
    for leaf in leaves[:MAX_FIXES]:
        yield from _after(context, problem, leaf, preferred=len(leaves) == 1)


def output_unread(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A response node behind the node."""
    draft = context.draft(problem.path)
    if draft is not None:
        yield from _after(context, problem, draft, preferred=True)


def _after(context: FixContext, problem: Problem, leaf: ComponentSpec, *, preferred: bool) -> Iterator[Fix | None]:
    lanes = sent_lanes(leaf)
    yield _response(context, problem, [(leaf, lane) for lane in lanes], preferred=preferred)
    if len(lanes) > 1:
        for lane in lanes[:MAX_FIXES]:
            yield _response(context, problem, [(leaf, lane)])


def _response(
    context: FixContext, problem: Problem, reads: Sequence[tuple[ComponentSpec, str]], *, preferred: bool = False
) -> Fix | None:
    """A response node that reads lanes of components."""
    lanes = list(dict.fromkeys(lane for _, lane in reads))
    found = response_for(context, lanes) if lanes else None
    if found is None or not all(draft.id for draft, _ in reads):
        return None
    inputs = [edge_of("input", lane, draft.id) for draft, lane in reads]
    component = new_component(context, found[0], found[1], inputs=inputs)
    behind = " and ".join(dict.fromkeys(shown(draft.id) for draft, _ in reads))
    which = f" for {', '.join(lanes)}" if len(lanes) > 1 else ""
    return fix(problem, f"Add {found[0]} after {behind}{which}", add_components(context, component), preferred=preferred)


# the source


def source_unread(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A node that reads the source's output: an existing idle one, or new ones that answer."""
    source = context.draft(problem.path)
    if source is None or source.node is None or not source.id:
        return
    idle = [draft for draft in context.analysis.drafts if draft is not source and not draft.inputs and not draft.controls]
    joins = [(draft, join) for draft in idle for join in joins_to(context, draft, [source]) if join.kind == "input"]
    for draft, join in joins[:MAX_FIXES]:
        edits = add_edges(context, draft, "input", [edge_of("input", join.name, source.id)])
        title = f"Connect {shown(draft.id)} to it ({join.name})"
        yield fix(problem, title, edits, preferred=len(joins) == 1)
    offered = offered_lanes(source.node)
    answering = _answering(context) if "chat" in source.node.accepts and "questions" in offered else []
    for name, node in answering[:MAX_FIXES]:
        yield _answer(context, problem, source, name, node, preferred=len(answering) == 1 and not joins)
    for lane in [lane for lane in (*_USUAL, *offered) if lane in offered][:1]:
        yield _response(context, problem, [(source, lane)], preferred=not joins and not answering)


def _answering(context: FixContext) -> list[tuple[str, type[Node]]]:
    """The nodes that answer questions without helpers."""
    return [
        (name, node)
        for name, node in catalog_nodes(context)
        if "answers" in node.lanes.get("questions", ()) and not any(slot.get("min") for slot in node.invoke.values())
    ]


def _answer(
    context: FixContext, problem: Problem, source: ComponentSpec, name: str, node: type[Node], *, preferred: bool
) -> Fix | None:
    found = response_for(context, ["answers"])
    if found is None:
        return None
    id_ = fresh_id(context, name)
    first = new_component(context, name, node, node_id=id_, inputs=[edge_of("input", "questions", source.id)])
    last = new_component(context, found[0], found[1], inputs=[edge_of("input", "answers", id_)])
    title = f"Add {name} and {found[0]} after {shown(source.id)}"
    return fix(problem, title, add_components(context, first, last), preferred=preferred)


# keys of the result


def response_key_unread(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The key for an arriving lane; or an edge for this lane; or no key."""
    draft = context.draft(problem.path)
    located = context.find(problem.path)
    if draft is None or located is None:
        return
    lane = str(located.value)
    entries = context.children(below(draft.path, "config", "lanes"))
    named = {text_of(member(entry, "laneId")) for entry in entries}
    arriving = [other for other in _arriving(context, draft) if other not in named]
    for other in arriving[:MAX_FIXES]:
        title = f"Replace {shown(lane)} with {shown(other)}"
        yield fix(problem, title, context.replace(problem.path, other), preferred=len(arriving) == 1)
    for edge in _also_offering(context, draft, lane):
        title = f"Read {lane} from {shown(edge['from'])} too"
        yield fix(problem, title, add_edges(context, draft, "input", [edge]))
    entry = pointer(*parts_of(problem.path)[:-1])
    yield fix(problem, f"Remove the key for {shown(lane)}", context.remove(entry), preferred=not arriving)


def _arriving(context: FixContext, draft: ComponentSpec) -> list[str]:
    """The written lanes that arrive at a component, except those with variables."""
    part = context.part(draft)
    edges = () if part is None else part.edges
    return list(dict.fromkeys(edge.name for edge in edges if edge.kind == "input" and edge.name and "${" not in edge.name))


def _also_offering(context: FixContext, draft: ComponentSpec, lane: str) -> list[dict[str, Any]]:
    """The edges that would bring a lane from the component's present sources."""
    part = context.part(draft)
    found: list[dict[str, Any]] = []
    for source in dict.fromkeys(edge.source for edge in (part.edges if part is not None else ()) if edge.kind == "input"):
        if lane in names_for("input", context.analysis.by_id.get(source), draft):
            found.append(edge_of("input", lane, source))
    return found[:MAX_FIXES]
