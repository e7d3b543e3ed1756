"""Offers for components: provider names, ids, keys, complete components with a fitting edge, and values that are the same in
every pipeline.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.edges import NAME_KEYS, EdgeTarget, PossibleEdge, best, edge_template, nearest_of_each
from rrext.editor.completions.offer import Offer, Stop, Template, Wrapping, block, inside_quotes, literal
from rrext.editor.completions.settings import required_settings
from rrext.editor.known_nodes import KnownNode
from rrext.nodes.base.node import accepted_lanes, served_types
from rrext.pipefile.shape import COMPONENT_KEYS, ROOT_KEYS, VERSION
from rrext.pipefile.spec import EdgeKind

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


TEXT: Final[Template] = ('"', Stop(), '"')
_IN_ORDER: Final = ("id", "provider", "config", "input", "control")


def root_keys(context: CompletionContext) -> Iterator[Offer]:
    """The missing keys of the pipeline."""
    present = context.keys()
    for rank, key in enumerate(ROOT_KEYS):
        if key not in present:
            about = ("key", "pipeline", key)
            yield Offer(key, "key", (literal(key),), "", about, rank, value=_root_value(context, key))


def root_values(context: CompletionContext, key: str) -> Iterator[Offer]:
    """Predictable values of the pipeline's own keys, except `source`."""
    about = ("key", "pipeline", key)
    if key == "version":
        yield Offer(str(VERSION), "value", (str(VERSION),), "the only version", about)
    elif key == "project_id":
        new = str(uuid.uuid4())
        yield Offer(new, "value", (literal(new),), "a new id", about, finds=f"new {new}")
    elif key == "components":
        yield Offer("[ ]", "value", ("[", Stop(), "]"), "a list of components", about, finds="[")


def component_keys(context: CompletionContext, component: CursorComponent) -> Iterator[Offer]:
    """The missing keys of a component; edges that its node cannot have come last."""
    present = component.keys()
    for rank, key in enumerate((*_IN_ORDER, *(key for key in COMPONENT_KEYS if key not in _IN_ORDER))):
        if key in present:
            continue
        senseless = (key == "input" or key == "control") and component.node is not None and not _names(component, key)
        detail = f"{component.provider} takes none" if senseless else ""
        value = _component_value(context, component, key)
        yield Offer(key, "key", (literal(key),), detail, ("key", "component", key), 90 if senseless else rank - 10, value=value)


def component_values(context: CompletionContext, component: CursorComponent, key: str) -> Iterator[Offer]:
    """Values of a component's keys that are lists or objects."""
    if key in ("input", "control", "ui"):
        label = "{ }" if key == "ui" else "[ ]"
        yield Offer(label, "value", _component_value(context, component, key), "", ("key", "component", key), finds=label[0])


def _names(component: CursorComponent, kind: str) -> tuple[str, ...]:
    assert component.node is not None
    return accepted_lanes(component.node) if kind == "input" else served_types(component.node)


def _root_value(context: CompletionContext, key: str) -> Template:
    if key == "components":
        return ("[\n\t", Stop(), "\n]")
    if key == "version":
        return (str(VERSION),)
    if key == "project_id":
        return (f'"{uuid.uuid4()}"',)
    if key == "source":
        nodes = ((other, context.node(other)) for other in context.written.components)
        first = next((other.id for other, node in nodes if other.id and node is not None and node.is_source()), "")
        return ('"', Stop(inside_quotes(first)), '"')
    return TEXT


def _component_value(context: CompletionContext, component: CursorComponent, key: str) -> Template:
    if key == "id":
        return ('"', Stop(inside_quotes(free_id(context, component.provider or "node", own=component))), '"')
    if key == "config":
        return required_settings(context, component.node)
    if key == "input" or key == "control":
        return _edges(context, component, key)
    return ("{", Stop(), "}") if key == "ui" else TEXT


def _edges(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Template:
    fit = best(context, EdgeTarget(component.node, component.index, component.id), kind)
    name, source = ("", "") if fit is None else (fit.name, fit.source)
    return ("[", *edge_template(NAME_KEYS[kind], name, source), "]")
