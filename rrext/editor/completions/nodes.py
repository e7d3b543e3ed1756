"""Offers for components: provider names, ids, and complete components with a fitting edge."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.editor.completions.candidate_edges import EdgeTarget, PossibleEdge, best, nearest_of_each
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.edges import NAME_KEYS, edge_template
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.section import required_settings
from rrext.editor.completions.template import Stop, Template, Wrapping, block, inside_quotes, literal
from rrext.editor.known_nodes import KnownNode
from rrext.nodes.base.node import served_types

SOURCES_FIRST, USUAL, SOURCES_LAST, BROKEN, ALIASES = range(5)


def provider_names(context: CompletionContext) -> Iterator[Offer]:
    """All providers; sources first until the pipeline has one, aliases last."""
    has_source = _has_source(context)
    for entry in context.known_nodes.entries():
        rank = _rank(entry, has_source)
        yield Offer(entry.name, "provider", (literal(entry.name),), node_detail(entry), ("provider", entry.name), rank)
        for alias in entry.aliases:
            detail = f"another name of {entry.name} · {node_detail(entry)}"
            yield Offer(alias, "provider", (literal(alias),), detail, ("provider", entry.name), ALIASES)


def node_detail(entry: KnownNode) -> str:
    """A node in one line: its title and its role."""
    node = entry.node
    if node is None:
        return entry.reason
    kinds = "source" if node.is_source() else ", ".join(served_types(node))
    return f"{entry.title} · {kinds}" if kinds else entry.title


def suggested_ids(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """An unused id."""
    node_id = free_id(context, component.provider or "node", own=component)
    yield Offer(node_id, "name", (literal(node_id),), "a new id", ("key", "component", "id"))


def source_ids(context: CompletionContext) -> Iterator[Offer]:
    """The components as values of `source`: sources first, then unknown nodes, then the others."""
    for other in context.others:
        node = context.node(other)
        is_source = other.is_marked_source or (node is not None and node.is_source())
        rank = 0 if is_source else 1 if node is None else 2
        detail = other.provider if is_source or node is None else f"{other.provider} · no source"
        yield Offer(other.id, "node", (literal(other.id),), detail, ("provider", other.provider), rank)


def component_snippets(context: CompletionContext, index: int) -> Iterator[Offer]:
    """One component for each provider; those that an edge of the pipeline can reach come first."""
    has_source = _has_source(context)
    near = nearest_of_each(context, index)
    for entry in context.known_nodes.entries():
        fit = best(context, EdgeTarget(entry.node, index), among=near)
        rank = _rank(entry, has_source)
        if rank == USUAL and has_source and fit is None:
            rank = SOURCES_LAST
        template = component_template(context, entry, free_id(context, entry.name), fit, context.wrapping)
        detail = node_detail(entry) if fit is None else f"{node_detail(entry)} · {fit.name} from {fit.source}"
        yield Offer(entry.name, "snippet", template, detail, ("provider", entry.name), rank)


def component_template(
    context: CompletionContext, entry: KnownNode, node_id: str, fit: PossibleEdge | None, wrapping: Wrapping
) -> Template:
    """A component over several lines, with its settings and an edge."""
    members: list[Template] = [
        ('"id": "', Stop(inside_quotes(node_id)), '"'),
        (f'"provider": {literal(entry.name)}',),
        ('"config": ', *required_settings(context, entry.node)),
    ]
    if fit is not None:
        edge = edge_template(NAME_KEYS[fit.kind], fit.name, fit.source)
        members.append((f"{literal(fit.kind)}: [", *edge, "]"))
    return block(members, wrapping)


def free_id(context: CompletionContext, provider: str, own: CursorComponent | None = None) -> str:
    """`provider_1`, or with the next unused number."""
    index = -1 if own is None else own.index
    known = {other.id for other in context.written.components if other.index != index}
    number = 1
    while f"{provider}_{number}" in known:
        number += 1
    return f"{provider}_{number}"


def _has_source(context: CompletionContext) -> bool:
    nodes = (context.node(other) for other in context.others)
    return any(node is not None and node.is_source() for node in nodes)


def _rank(entry: KnownNode, has_source: bool) -> int:
    if entry.node is None:
        return BROKEN
    if not entry.is_source:
        return USUAL
    return SOURCES_LAST if has_source else SOURCES_FIRST
