"""Fixes of edges: their source, their lane or class type, the component that holds them, unreachable nodes, missing or excess
nodes on control edges; and of the two ends of a pipeline: its source, and output that no node or response reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from rrext.editor.analysis import WrittenEdge, member, text_of
from rrext.editor.completions.references import names_between
from rrext.editor.fixes.config import (
    add_components,
    add_edges,
    edge_of,
    fresh_id,
    new_component,
    remove_component,
    remove_edge,
    response_for,
)
from rrext.editor.fixes.fix import MAX_FIXES, Fix, FixContext, fix, replacements
from rrext.editor.text import Edit
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.edges import sent_lanes
from rrext.pipefile.shape import EDGE_KEYS, ROOT_KEYS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.problems import Problem, below, parts_of, pointer, shown


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


def from_not_found(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The intended id; else a component that offers the lane; or no edge."""
    found = _edge_of(context, problem.path)
    if found is None:
        return
    draft, edge = found
    taken = _others(context, draft, edge, name=edge.name)
    yield from replacements(context, problem, taken)
    if not problem.near:
        names = [name for name in sources_for(context, draft, edge.kind, edge.name) if name not in taken]
        yield from _instead(context, problem, edge.source, names, certain=False)
    yield _without(context, problem, edge)


def wrong_lane(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A fitting lane; else a response node for this lane; or no edge."""
    found = _edge_of(context, problem.path)
    if found is None:
        return
    draft, edge = found
    taken = _others(context, draft, edge, source=edge.source)
    producer = context.analysis.by_id.get(edge.source)
    common = names_for("input", producer, draft)
    yield from replacements(context, problem, taken, only=common[0] if len(common) == 1 else "")
    names = [name for name in common if name not in taken]
    yield from _instead(context, problem, edge.name, names)
    if producer is not None and not common:
        yield _other_response(context, problem, producer, draft, edge)
    yield _without(context, problem, edge, preferred=bool(common) and not names)


def _instead(
    context: FixContext, problem: Problem, old: str, names: Sequence[str], *, certain: bool = True
) -> Iterator[Fix | None]:
    """Replacements by fitting names that the problem does not list itself. `certain`: a single one is what was meant."""
    for name in names:
        if name not in problem.near:
            title = f"Replace {shown(old)} with {shown(name)}"
            preferred = certain and len(names) == 1 and not problem.near
            yield fix(problem, title, context.replace(problem.path, name), preferred=preferred)


def _other_response(
    context: FixContext, problem: Problem, producer: ComponentSpec, draft: ComponentSpec, edge: WrittenEdge
) -> Fix | None:
    """A response node for the producer's output, if this response node reads only this unsuitable edge."""
    if not draft.provider.startswith("response_") or len(draft.inputs) != 1 or producer.node is None:
        return None
    offered = offered_lanes(producer.node)
    lane = edge.name if edge.name in offered else offered[0] if len(offered) == 1 else ""
    found = response_for(context, [lane]) if lane else None
    if found is None or found[0] == draft.provider:
        return None
    changes = [context.replace(below(draft.path, "provider"), found[0])]
    if lane != edge.name:
        changes.append(context.replace(problem.path, lane))
    title = f"Make {shown(draft.id)} a {found[0]}" + ("" if lane == edge.name else f" that reads {lane}")
    return fix(problem, title, *changes, preferred=not problem.near)


def duplicate_edge(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of the edge."""
    yield fix(problem, "Remove this edge, which stands here already", remove_edge(context, problem.path), preferred=True)


def class_type_not_served(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """A class type that the node serves; or no edge."""
    found = _edge_of(context, problem.path)
    if found is None:
        return
    draft, edge = found
    taken = _others(context, draft, edge, source=edge.source)
    yield from replacements(context, problem, taken)
    served = [name for name in served_types(draft.node)[:5] if name not in taken] if draft.node is not None else []
    yield from _instead(context, problem, edge.name, served)
    yield _without(context, problem, edge)


def control_on_invoker(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The edge moved to the invoked component; or no edge."""
    found = _edge_of(context, problem.path)
    if found is None:
        return
    draft, edge = found
    invoked = context.analysis.by_id.get(edge.source)
    if invoked is not None:
        moved = edge_of("control", edge.name, draft.id)
        title = f"Move this edge to {shown(edge.source)}, which is invoked"
        yield fix(
            problem, title, remove_edge(context, problem.path), add_edges(context, invoked, "control", [moved]), preferred=True
        )
    yield _without(context, problem, edge)


def circle(context: FixContext, problem: Problem) -> Iterator[Fix | None]:
    """The removal of one edge of the circle; the last one, which closes it, comes first."""
    paths = [problem.path, *(other.path for other in reversed(problem.related))]
    for path in paths[:5]:
        found = _edge_of(context, path)
        if found is not None:
            draft, edge = found
            title = f"Remove the edge {_shown_edge(edge, draft.id)}"
            yield fix(problem, title, remove_edge(context, path), preferred=len(paths) == 1)


# the edge of a problem
def _edge_of(context: FixContext, path: str) -> tuple[ComponentSpec, WrittenEdge] | None:
    """The component and the edge at a pointer."""
    parts, draft = context.parts(path), context.draft(path)
    part = None if draft is None else context.part(draft)
    if draft is None or part is None or len(parts) < 4 or not parts[3].isdecimal():
        return None
    kind: EdgeKind = "input" if parts[2] == "input" else "control"
    found = (edge for edge in part.edges if edge.kind == kind and edge.index == int(parts[3]))
    edge = next(found, None)
    return None if edge is None else (draft, edge)


def _others(context: FixContext, draft: ComponentSpec, edge: WrittenEdge, *, name: str = "", source: str = "") -> set[str]:
    """The values that would duplicate another edge: the sources of a `name`, or the names from a `source`."""
    part = context.part(draft)
    others = [other for other in (part.edges if part is not None else ()) if other.kind == edge.kind and other is not edge]
    if source:
        return {other.name for other in others if other.source == source}
    return {other.source for other in others if other.name == name}


def _without(context: FixContext, problem: Problem, edge: WrittenEdge, *, preferred: bool = False) -> Fix | None:
    steps = len(parts_of(context.analysis.base)) + 4
    path = pointer(*parts_of(problem.path)[:steps])
    return fix(problem, f"Remove the edge from {shown(edge.source)}", remove_edge(context, path), preferred=preferred)


def _shown_edge(edge: WrittenEdge, end: str) -> str:
    return f"{edge.source}-[{edge.name}]->{end}"


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
