"""Offers for components: provider names, ids, and whole components with an edge that fits."""

from __future__ import annotations

from collections.abc import Iterator

from rrext.editor.completions.edges import NAME_KEYS, edge_template
from rrext.editor.completions.fitting import End, Fit, best, nearest_of_each
from rrext.editor.completions.here import Here, Scene
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.section import required_settings
from rrext.editor.completions.shelf import Ware
from rrext.editor.completions.template import Frame, Stop, Template, block, inside_quotes, literal
from rrext.nodes.base.ports import served_types

__all__ = ["component_template", "free_id", "node_detail", "provider_names", "source_ids", "suggested_ids", "whole_components"]

SOURCES_FIRST, USUAL, SOURCES_LAST, BROKEN, ALIASES = range(5)


def provider_names(scene: Scene) -> Iterator[Offer]:
    """All providers; sources first as long as there is none, other names of the same last."""
    has_source = _has_source(scene)
    for ware in scene.shelf.wares():
        rank = _rank(ware, has_source)
        yield Offer(ware.name, "provider", (literal(ware.name),), node_detail(ware), ("provider", ware.name), rank)
        for alias in ware.aliases:
            detail = f"another name of {ware.name} · {node_detail(ware)}"
            yield Offer(alias, "provider", (literal(alias),), detail, ("provider", ware.name), ALIASES)


def node_detail(ware: Ware) -> str:
    """A node in a line: its title and what it is for."""
    node = ware.node
    if node is None:
        return ware.reason
    kinds = "source" if node.is_source() else ", ".join(served_types(node))
    return f"{ware.title} · {kinds}" if kinds else ware.title


def suggested_ids(scene: Scene, here: Here) -> Iterator[Offer]:
    """An id that nobody has."""
    node_id = free_id(scene, here.provider or "node", own=here)
    yield Offer(node_id, "name", (literal(node_id),), "a new id", ("key", "component", "id"))


def source_ids(scene: Scene) -> Iterator[Offer]:
    """The components that a pipeline could begin with, then those of which nothing is known, then the others."""
    for part in scene.others:
        node = scene.node(part)
        is_source = part.said or (node is not None and node.is_source())
        rank = 0 if is_source else 1 if node is None else 2
        detail = part.provider if is_source or node is None else f"{part.provider} · no source"
        yield Offer(part.id, "node", (literal(part.id),), detail, ("provider", part.provider), rank)


def whole_components(scene: Scene, index: int) -> Iterator[Offer]:
    """A component for each provider; those first that something in the pipeline can lead to."""
    has_source = _has_source(scene)
    near = nearest_of_each(scene, index)
    for ware in scene.shelf.wares():
        fit = best(scene, End(ware.node, index), among=near)
        rank = _rank(ware, has_source)
        if rank == USUAL and has_source and fit is None:
            rank = SOURCES_LAST
        template = component_template(scene, ware, free_id(scene, ware.name), fit, scene.frame)
        detail = node_detail(ware) if fit is None else f"{node_detail(ware)} · {fit.name} from {fit.source}"
        yield Offer(ware.name, "snippet", template, detail, ("provider", ware.name), rank)


def component_template(scene: Scene, ware: Ware, node_id: str, fit: Fit | None, frame: Frame) -> Template:
    """A component over several lines, with its settings and an edge."""
    members: list[Template] = [
        ('"id": "', Stop(inside_quotes(node_id)), '"'),
        (f'"provider": {literal(ware.name)}',),
        ('"config": ', *required_settings(scene, ware.node)),
    ]
    if fit is not None:
        edge = edge_template(NAME_KEYS[fit.kind], fit.name, fit.source)
        members.append((f"{literal(fit.kind)}: [", *edge, "]"))
    return block(members, frame)


def free_id(scene: Scene, provider: str, own: Here | None = None) -> str:
    """`provider_1`, or with the next number that no component has."""
    index = -1 if own is None else own.index
    known = {part.id for part in scene.file.all if part.index != index}
    number = 1
    while f"{provider}_{number}" in known:
        number += 1
    return f"{provider}_{number}"


def _has_source(scene: Scene) -> bool:
    nodes = (scene.node(part) for part in scene.others)
    return any(node is not None and node.is_source() for node in nodes)


def _rank(ware: Ware, has_source: bool) -> int:
    if ware.node is None:
        return BROKEN
    if not ware.is_source:
        return USUAL
    return SOURCES_LAST if has_source else SOURCES_FIRST
