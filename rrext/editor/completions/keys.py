"""Offers for the keys of a pipeline and of a component, and for values that are the same in every pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

from rrext.editor.completions.candidate_edges import EdgeTarget, best
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.edges import NAME_KEYS, edge_template
from rrext.editor.completions.nodes import free_id
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.section import required_settings
from rrext.editor.completions.template import Stop, Template, inside_quotes, literal
from rrext.nodes.base.node import accepted_lanes, served_types
from rrext.pipefile.shape import COMPONENT_KEYS, ROOT_KEYS, VERSION
from rrext.pipefile.spec import EdgeKind

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
