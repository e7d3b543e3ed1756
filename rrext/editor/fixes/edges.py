"""Fixes of edges: their source, their lane or class type, and the component that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.edge_ends import names_for, sources_for
from rrext.editor.fixes.fix import Fix, fix, replacements
from rrext.editor.fixes.nodes import add_edges, edge_of, remove_edge, response_for
from rrext.editor.written_pipeline import WrittenEdge
from rrext.nodes.base.node import offered_lanes, served_types
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.pointer import below, parts_of, pointer
from rrext.pipefile.text.problems import Problem, shown


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
