"""Fixes of where a pipeline begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rrext.editor.edits import Edit
from rrext.editor.fixes.bench import Bench
from rrext.editor.fixes.ends import known_nodes
from rrext.editor.fixes.fix import Fix, fix
from rrext.editor.fixes.near import replacements
from rrext.editor.fixes.nodes import add_components, edge_of, fresh_id, new_component, remove_component, response_for
from rrext.nodes.base.node import Node
from rrext.nodes.base.ports import accepted_lanes, offered_lanes
from rrext.pipefile.shape import ROOT_KEYS, Draft
from rrext.pipefile.text.problems import Problem, shown

__all__ = ["SOURCE_MAKERS"]

MANY: Final = 5


def empty_file(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The smallest pipeline with a result."""
    node = bench.shelf.node("webhook")
    found = response_for(bench, ["text"])
    components = []
    if node is not None and found is not None:
        first = new_component(bench, "webhook", node)
        last = new_component(bench, found[0], found[1], inputs=[edge_of("input", "text", first["id"])])
        components = [first, last]
    style, end = bench.layout.style, len(bench.text)
    lines = ("," + style.newline).join(style.indent * 2 + style.block(each, style.indent * 2) for each in components)
    inside = f"[{style.newline}{lines}{style.newline}{style.indent}]" if lines else "[]"
    before = style.newline if "//" in bench.text and not bench.text.endswith(("\n", "\r")) else ""
    text = f"{before}{{{style.newline}{style.indent}{style.member('components', inside)}{style.newline}}}{style.newline}"
    yield fix(problem, "Begin with a pipeline that sends back a text", (Edit(end, end, text),), preferred=True)


def no_source(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """A source that has what the first nodes want."""
    lanes = {lane for draft in bench.analysis.drafts if draft.node and not draft.inputs for lane in accepted_lanes(draft.node)}
    sources = [(name, node) for name, node in known_nodes(bench) if node.is_source() and node.provider == name]
    sources.sort(key=lambda each: _fitness(each[1], lanes))
    fitting = [name for name, node in sources if lanes.intersection(offered_lanes(node))]
    for name, node in sources[:MANY]:
        id_ = fresh_id(bench, name)
        edits = add_components(bench, new_component(bench, name, node, node_id=id_), first=True)
        yield fix(problem, f"Add the source {shown(id_)}", edits, preferred=name == (fitting[0] if fitting else "webhook"))


def _fitness(node: type[Node], lanes: set[str]) -> tuple[bool, int]:
    """Sources that offer what is wanted first; of those the one that offers nothing much besides."""
    offered = offered_lanes(node)
    fits = not lanes.isdisjoint(offered)
    return not fits, len(offered) if fits else -len(offered)


def multiple_sources(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The source named: one of them, that which is read if no other is."""
    sources = _sources(bench)
    read = [draft for draft in sources if bench.written.edges_from.get(bench.name(draft))]
    for draft in sources[:MANY]:
        preferred = len(read) == 1 and draft is read[0]
        yield _named(bench, problem, draft, f"Begin at {shown(bench.name(draft))}", preferred=preferred)


def source_not_found(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """The id that was meant, or that of a source; or none if there is only one source."""
    sources = _sources(bench)
    yield from replacements(bench, problem)
    for draft in sources[:MANY]:
        if draft.id not in problem.near:
            title = f"Begin at {shown(bench.name(draft))}"
            yield _named(bench, problem, draft, title, preferred=len(sources) == 1 and not problem.near)
    yield fix(problem, 'Remove "source"', bench.remove(problem.path), preferred=False)


def not_a_source(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """One that is a source; or none named."""
    sources = _sources(bench)
    for draft in sources[:MANY]:
        yield _named(bench, problem, draft, f"Begin at {shown(bench.name(draft))}", preferred=len(sources) == 1)
    yield fix(problem, 'Remove "source"', bench.remove(problem.path))


def other_source(bench: Bench, problem: Problem) -> Iterator[Fix | None]:
    """Begin there instead; or without it."""
    draft = bench.draft(problem.path)
    if draft is not None:
        yield _named(bench, problem, draft, f"Begin at {shown(bench.name(draft))} instead", preferred=False)
        yield fix(problem, f"Remove {shown(bench.name(draft))}, with every edge from it", remove_component(bench, draft))


def _sources(bench: Bench) -> list[Draft]:
    drafts = bench.analysis.drafts
    return [draft for draft in drafts if draft.node and draft.node.is_source() and bench.analysis.by_id.get(draft.id) is draft]


def _named(bench: Bench, problem: Problem, draft: Draft, title: str, *, preferred: bool) -> Fix | None:
    name = bench.name(draft)
    edits = bench.set(bench.analysis.base, "source", name, ROOT_KEYS) if name else None
    return fix(problem, title, edits, preferred=preferred)


SOURCE_MAKERS: Final = {
    "empty_file": empty_file,
    "no_source": no_source,
    "multiple_sources": multiple_sources,
    "source_not_found": source_not_found,
    "not_a_source": not_a_source,
    "other_source": other_source,
}
