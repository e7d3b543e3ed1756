"""Candidate edges: the components from which an edge could come, and its lane or class type; the best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from rrext.editor.completions.context import CompletionContext
from rrext.editor.written_pipeline import WrittenComponent
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.spec import EdgeKind

FITS, PERHAPS, NOT, CIRCLE = range(4)


class EdgeTarget(msgspec.Struct, frozen=True):
    """The component that an edge leads to: its node, if known, its index in the file and its id."""

    node: type[Node] | None
    index: int
    id: str = ""


class SourceCandidate(msgspec.Struct, frozen=True):
    """A component that an edge could come from. `names` are the lanes or class types that fit; `why` is the reason in words.

    `fit` is one of `FITS`, `PERHAPS`, `NOT` and `CIRCLE`; `wanted` is 0 if the node requests such an edge, 1 if it allows it.
    """

    component: WrittenComponent
    fit: int
    names: tuple[str, ...]
    why: str
    wanted: int


_Suitability: TypeAlias = tuple[int, tuple[str, ...], str, int]
"""The `fit`, `names`, `why` and `wanted` of a node."""


class PossibleEdge(msgspec.Struct, frozen=True):
    """An edge that could be added."""

    kind: EdgeKind
    name: str
    source: str
    wanted: int = 0


def invoked_types(node: type[Node], served: Iterable[str]) -> tuple[str, ...]:
    """The class types of `served` that a node invokes. Clients can call nodes bound to a source, so sources invoke tools."""
    return tuple(name for name in served if name in node.invoke or (node.is_source() and name == "tool"))


def names_between(kind: EdgeKind, source: type[Node] | None, end: type[Node] | None) -> tuple[str, ...]:
    """The lanes or class types that both ends have; if one end is unknown, all of the other end."""
    if kind == "input":
        offered = None if source is None else offered_lanes(source)
        accepted = None if end is None else accepted_lanes(end)
        if offered is None or accepted is None:
            return accepted or offered or (LANES if offered is accepted else ())
        return tuple(lane for lane in offered if lane in accepted)
    served = None if end is None else served_types(end)
    if source is None:
        return served or ()
    return tuple(source.invoke) if served is None else invoked_types(source, served)


def source_candidates(
    context: CompletionContext, kind: EdgeKind, end: EdgeTarget, name: str = "", among: Iterable[WrittenComponent] | None = None
) -> list[SourceCandidate]:
    """The components from which an edge of a kind could come, best first; with a `name`, for that lane or class type.

    They are the other components of the pipeline, or those of `among`; the nearest come first.
    """
    behind = context.written.behind(end.id, kind)
    known: dict[type[Node] | None, _Suitability] = {}
    found: list[SourceCandidate] = []
    for component in _nearest(context, end.index) if among is None else among:
        node = context.node(component)
        if node not in known:
            known[node] = _suitability(node, kind, end.node, name)
        fit, names, why, wanted = known[node]
        if component.id in behind:
            fit, why = CIRCLE, "would make a circle"
        found.append(SourceCandidate(component, fit, names, why, wanted))
    return sorted(found, key=lambda peer: (peer.fit, peer.wanted))


def possible_edges(
    context: CompletionContext, kind: EdgeKind, end: EdgeTarget, among: Iterable[WrittenComponent] | None = None
) -> Iterator[PossibleEdge]:
    """The edges of a kind that could lead to a component, best first."""
    for peer in source_candidates(context, kind, end, among=among):
        if peer.fit == FITS:
            for name in peer.names:
                yield PossibleEdge(kind, name, peer.component.id, peer.wanted)


def best(
    context: CompletionContext, end: EdgeTarget, kind: EdgeKind | None = None, among: Iterable[WrittenComponent] | None = None
) -> PossibleEdge | None:
    """The edge that a component most likely needs: from a node that requests it, else from a source of its data."""
    if end.node is None:
        return None
    control = next(possible_edges(context, "control", end, among), None) if kind != "input" and served_types(end.node) else None
    if control is not None and (kind == "control" or control.wanted == 0):
        return control
    data = next(possible_edges(context, "input", end, among), None) if kind != "control" and accepted_lanes(end.node) else None
    return data or control


def nearest_of_each(context: CompletionContext, index: int) -> list[WrittenComponent]:
    """The nearest component of each node type: the candidates for a component without edges."""
    found: dict[str, WrittenComponent] = {}
    for component in _nearest(context, index):
        found.setdefault(component.provider, component)
    return list(found.values())


def _nearest(context: CompletionContext, index: int) -> Iterator[WrittenComponent]:
    """The other components: first those before an index, upwards, then those after it."""
    yield from (component for component in reversed(context.others) if component.index < index)
    yield from (component for component in context.others if component.index >= index)


def _suitability(node: type[Node] | None, kind: EdgeKind, end: type[Node] | None, name: str) -> _Suitability:
    names = names_between(kind, node, end)
    fitting = tuple(each for each in names if each == name) if name else names
    wanted = 0 if kind == "input" or (node is not None and any(each in node.invoke for each in fitting)) else 1
    if node is None:
        return (PERHAPS, fitting, "", wanted)
    verb = "sends" if kind == "input" else "invokes"
    if fitting:
        return (FITS, fitting, f"{verb} {', '.join(fitting)}", wanted)
    has = offered_lanes(node) if kind == "input" else invoked_types(node, dict.fromkeys((*node.invoke, "tool")))
    if not has:
        return (NOT, (), f"{verb} nothing", wanted)
    return (NOT, (), f"{verb} {f'no {name}, ' if name else ''}only {', '.join(has)}", wanted)
