"""Fixes of the source of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.editor.edits import Edit
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.edge_ends import catalog_nodes
from rrext.editor.fixes.fix import Fix, fix, replacements
from rrext.editor.fixes.nodes import add_components, edge_of, fresh_id, new_component, remove_component, response_for
from rrext.editor.limits import MAX_FIXES
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes
from rrext.pipefile.shape import ROOT_KEYS
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.problems import Problem, shown


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
