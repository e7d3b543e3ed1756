"""Fixes of the two ends of a pipeline: its source, and output that no node or response reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rrext.editor.analysis import member, text_of
from rrext.editor.fixes.edges import catalog_nodes, is_first, joins_to, names_for
from rrext.editor.fixes.fix import MAX_FIXES, Fix, FixContext, fix, replacements
from rrext.editor.fixes.nodes import add_components, add_edges, edge_of, fresh_id, new_component, remove_component, response_for
from rrext.editor.text import Edit
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes
from rrext.pipefile.edges import sent_lanes
from rrext.pipefile.shape import ROOT_KEYS
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, below, parts_of, pointer, shown


def empty_file(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The smallest pipeline with a result."""
    node = context.known_nodes.node("webhook")
    found = response_for(context, ["text"])
    components = []
    if node is not None and found is not None:
        first = new_component(context, "webhook", node)
        last = new_component(context, found[0], found[1], inputs=[edge_of("input", "text", first["id"])])
        components = [first, last]
    style, end = context.layout.style, len(context.text)
    lines = ("," + style.newline).join(style.indent * 2 + style.block(each, style.indent * 2) for each in components)
    inside = f"[{style.newline}{lines}{style.newline}{style.indent}]" if lines else "[]"
    before = style.newline if "//" in context.text and not context.text.endswith(("\n", "\r")) else ""
    text = f"{before}{{{style.newline}{style.indent}{style.member('components', inside)}{style.newline}}}{style.newline}"
    yield fix(problem, "Begin with a pipeline that sends back a text", (Edit(end, end, text),), preferred=True)


def no_source(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A source with the lanes that the first nodes accept."""
    lanes = {
        lane for draft in context.analysis.drafts if draft.node and not draft.inputs for lane in accepted_lanes(draft.node)
    }
    sources = [(name, node) for name, node in catalog_nodes(context) if node.is_source() and node.provider == name]
    sources.sort(key=lambda each: _fitness(each[1], lanes))
    fitting = [name for name, node in sources if lanes.intersection(offered_lanes(node))]
    for name, node in sources[:MAX_FIXES]:
        id_ = fresh_id(context, name)
        edits = add_components(context, new_component(context, name, node, node_id=id_), first=True)
        yield fix(problem, f"Add the source {shown(id_)}", edits, preferred=name == (fitting[0] if fitting else "webhook"))


def _fitness(node: type[Node], lanes: set[str]) -> tuple[bool, int]:
    """A sort key: sources with a wanted lane first, among them those with few other lanes."""
    offered = offered_lanes(node)
    fits = not lanes.isdisjoint(offered)
    return not fits, len(offered) if fits else -len(offered)


def multiple_sources(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The explicit choice of one source; preferably the only one whose output is read."""
    sources = _sources(context)
    read = [draft for draft in sources if context.written.edges_from.get(draft.id)]
    for draft in sources[:MAX_FIXES]:
        preferred = len(read) == 1 and draft is read[0]
        yield _named(context, problem, draft, f"Begin at {shown(draft.id)}", preferred=preferred)


def source_not_found(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The intended id, or the id of a source; or no `source` if there is only one."""
    sources = _sources(context)
    yield from replacements(context, problem)
    for draft in sources[:MAX_FIXES]:
        if draft.id not in problem.near:
            title = f"Begin at {shown(draft.id)}"
            yield _named(context, problem, draft, title, preferred=len(sources) == 1 and not problem.near)
    yield fix(problem, 'Remove "source"', context.remove(problem.path), preferred=False)


def not_a_source(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The id of a source, or no `source`."""
    sources = _sources(context)
    for draft in sources[:MAX_FIXES]:
        yield _named(context, problem, draft, f"Begin at {shown(draft.id)}", preferred=len(sources) == 1)
    yield fix(problem, 'Remove "source"', context.remove(problem.path))


def other_source(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The other source as the start; or its removal."""
    draft = context.draft(problem.path)
    if draft is not None:
        yield _named(context, problem, draft, f"Begin at {shown(draft.id)} instead", preferred=False)
        yield fix(problem, f"Remove {shown(draft.id)}, with every edge from it", remove_component(context, draft))


def _sources(context: FixContext) -> list[ComponentSpec]:
    drafts = context.analysis.drafts
    return [
        draft for draft in drafts if draft.node and draft.node.is_source() and context.analysis.by_id.get(draft.id) is draft
    ]


def _named(context: FixContext, problem: Problem, draft: ComponentSpec, title: str, *, preferred: bool) -> Fix | None:
    name = draft.id
    edits = context.set(context.analysis.base, "source", name, ROOT_KEYS) if name else None
    return fix(problem, title, edits, preferred=preferred)


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
