"""Insertion and removal of complete components and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rrext.editor.analysis import member, text_of
from rrext.editor.fixes.fix import FixContext
from rrext.editor.formatting import Edits, joined
from rrext.editor.schemas import example_of, fields_of, schemas_at
from rrext.nodes.base.node import Node, accepted_lanes
from rrext.pipefile.shape import COMPONENT_KEYS
from rrext.pipefile.spec import ComponentSpec, EdgeKind
from rrext.pipefile.text.problems import below


def fresh_id(context: FixContext, provider: str, taken: Sequence[str] = ()) -> str:
    """An unused id in the usual form: `webhook_1`."""
    written = context.written
    used = {*written.by_id, *context.analysis.by_id, *written.edges_from, text_of(written.source), *taken}
    provider = provider if provider and "${" not in provider else "node"
    number = 1
    while f"{provider}_{number}" in used:
        number += 1
    return f"{provider}_{number}"


def edge_of(kind: EdgeKind, name: str, source: str) -> dict[str, str]:
    """An edge as it stands in a file."""
    return {"lane" if kind == "input" else "classType": name, "from": source}


def new_component(
    context: FixContext,
    provider: str,
    node: type[Node],
    *,
    node_id: str = "",
    inputs: Sequence[dict[str, str]] = (),
    controls: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    """A component as it stands in a file, with its required settings."""
    component: dict[str, Any] = {
        "id": node_id or fresh_id(context, provider),
        "provider": provider,
        "config": _settings(context, node),
    }
    if inputs:
        component["input"] = list(inputs)
    if controls:
        component["control"] = list(controls)
    return component


def _settings(context: FixContext, node: type[Node]) -> dict[str, Any]:
    if node.is_source():
        return {"mode": "Source", "type": node.provider}
    schema = context.known_nodes.schema(node)
    if schema is None:
        return {}
    given = node.profiles.get(node.default_profile or "", {})
    fields = fields_of(schema, schemas_at(schema, ()))
    return {field.name: example_of(schema, field.schemas) for field in fields if field.required and field.name not in given}


def response_for(context: FixContext, lanes: Sequence[str]) -> tuple[str, type[Node]] | None:
    """The response node for lanes: a node for exactly these lanes, or a node for all lanes."""
    names = [f"response_{lanes[0]}"] if len(lanes) == 1 else []
    for provider in (*names, "response"):
        node = context.known_nodes.node(provider)
        if node is not None and set(lanes) <= set(accepted_lanes(node)):
            return provider, node
    return None


# edits


def add_components(context: FixContext, *components: dict[str, Any], first: bool = False) -> Edits:
    """Insert components at the end of the list, or at its beginning."""
    listed = context.at("components")
    if listed is None:
        holder = context.find(context.analysis.base)
        style = context.layout.style

        def write(margin: str) -> str:
            if not style.wide:
                return style.flat(list(components))
            inner = margin + style.indent
            lines = (style.newline + inner + style.block(component, inner) for component in components)
            return "[" + ",".join(lines) + style.newline + margin + "]"

        return None if holder is None else context.layout.add_member(holder, "components", write)
    return context.layout.add_elements(listed, components, 0 if first else None, wide=context.layout.style.wide)


def add_edges(context: FixContext, draft: ComponentSpec, kind: EdgeKind, edges: Sequence[dict[str, str]]) -> Edits:
    """Insert edges that end at a component; existing ones are not repeated."""
    holder = context.find(draft.path)
    listed = None if holder is None else member(holder, kind)
    if listed is None or listed.kind == "null":
        return context.set(draft.path, kind, list(edges), COMPONENT_KEYS)
    missing = [edge for edge in edges if all(child.value != edge for child in listed.children)]
    return context.layout.add_elements(listed, missing) if missing else ()


def remove_edge(context: FixContext, path: str) -> Edits:
    """Remove an edge; also its list, if the list has no other edge and no comment."""
    return _without_edges(context, path.rpartition("/")[0], [int(path.rpartition("/")[2])])


def _without_edges(context: FixContext, path: str, places: Sequence[int]) -> Edits:
    listed = context.find(path)
    if listed is None or listed.kind != "array":
        return None
    if len(places) == len(listed.children) and context.layout.is_bare(listed):
        return context.remove(path)
    return context.layout.remove(listed, places)


def remove_component(context: FixContext, draft: ComponentSpec) -> Edits:
    """Remove a component and every edge from it."""
    return joined(context.remove(draft.path), *_without_edges_from(context, draft))


def _without_edges_from(context: FixContext, draft: ComponentSpec) -> Iterator[Edits]:
    part = context.part(draft)
    if part is None or not context.written.is_first(part):
        return
    places: dict[str, list[int]] = {}
    for edge in context.written.edges_from.get(part.id, ()):
        if edge.holder != draft.index:
            path = below(context.analysis.base, "components", edge.holder, edge.kind)
            places.setdefault(path, []).append(edge.index)
    for path, indexes in places.items():
        yield _without_edges(context, path, indexes)
