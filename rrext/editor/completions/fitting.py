"""Which components an edge could come from, and as what: those that fit first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rrext.editor.completions.here import Scene
from rrext.editor.completions.parts import Part
from rrext.editor.spot import EdgeKind
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node
from rrext.nodes.base.ports import accepted_lanes, offered_lanes, served_types
from rrext.pipefile.graph import reached

__all__ = ["End", "Fit", "Peer", "best", "fits", "invoked_types", "names_between", "nearest_of_each", "peers"]

FITS, PERHAPS, NOT, CIRCLE = range(4)


class End(msgspec.Struct, frozen=True):
    """The component that an edge leads to: its node, if that is known, its place in the file and its id."""

    node: type[Node] | None
    index: int
    id: str = ""


class Terms(msgspec.Struct, frozen=True):
    """What a node can be to the end of an edge. `names` are the lanes or class types that fit; `why` is it in words.

    `fit` is one of `FITS`, `PERHAPS`, `NOT` and `CIRCLE`; `wanted` is 0 if the node asks for such an edge, 1 if it allows it.
    """

    fit: int
    names: tuple[str, ...]
    why: str
    wanted: int


class Peer(msgspec.Struct, frozen=True):
    """A component that an edge could come from."""

    part: Part
    terms: Terms


class Fit(msgspec.Struct, frozen=True):
    """An edge that could be added."""

    kind: EdgeKind
    name: str
    source: str
    wanted: int = 0


def invoked_types(node: type[Node], served: Iterable[str]) -> tuple[str, ...]:
    """As which of these class types a node invokes others. What is bound to a source can be called, so it has tools."""
    return tuple(name for name in served if name in node.invoke or (node.is_source() and name == "tool"))


def names_between(kind: EdgeKind, source: type[Node] | None, end: type[Node] | None) -> tuple[str, ...]:
    """The lanes or class types that both ends have; of an end that is not known, all that the other has."""
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


def peers(scene: Scene, kind: EdgeKind, end: End, name: str = "", among: Iterable[Part] | None = None) -> list[Peer]:
    """The components from which an edge of a kind could come, best first; with a `name`, for that lane or class type.

    They are the others in the pipeline, or `among` them, the nearest first.
    """
    behind = _behind(scene, kind, end.id)
    known: dict[type[Node] | None, Terms] = {}
    found: list[Peer] = []
    for part in _nearest(scene, end.index) if among is None else among:
        node = scene.node(part)
        terms = known.get(node)
        if terms is None:
            terms = known[node] = _terms(node, kind, end.node, name)
        if part.id in behind:
            terms = msgspec.structs.replace(terms, fit=CIRCLE, why="would make a circle")
        found.append(Peer(part, terms))
    return sorted(found, key=lambda peer: (peer.terms.fit, peer.terms.wanted))


def fits(scene: Scene, kind: EdgeKind, end: End, among: Iterable[Part] | None = None) -> Iterator[Fit]:
    """The edges of a kind that could lead to a component, best first."""
    for peer in peers(scene, kind, end, among=among):
        if peer.terms.fit == FITS:
            for name in peer.terms.names:
                yield Fit(kind, name, peer.part.id, peer.terms.wanted)


def best(scene: Scene, end: End, kind: EdgeKind | None = None, among: Iterable[Part] | None = None) -> Fit | None:
    """The edge that a component most likely needs: of somebody who asks for one like it, else where data comes from."""
    if end.node is None:
        return None
    control = next(fits(scene, "control", end, among), None) if kind != "input" and served_types(end.node) else None
    if control is not None and (kind == "control" or control.wanted == 0):
        return control
    data = next(fits(scene, "input", end, among), None) if kind != "control" and accepted_lanes(end.node) else None
    return data or control


def nearest_of_each(scene: Scene, index: int) -> list[Part]:
    """The nearest component of each node: what a component that nothing leads to yet needs to look at."""
    found: dict[str, Part] = {}
    for part in _nearest(scene, index):
        found.setdefault(part.provider, part)
    return list(found.values())


def _nearest(scene: Scene, index: int) -> Iterator[Part]:
    """The other components: upwards from a place in the file, as pipelines are written downwards, then those below it."""
    yield from (part for part in reversed(scene.others) if part.index < index)
    yield from (part for part in scene.others if part.index >= index)


def _behind(scene: Scene, kind: EdgeKind, node_id: str) -> set[str]:
    """The ids that edges of a kind lead to from a component: one back from there would close a circle."""
    if not node_id:
        return set()
    follows: dict[str, list[str]] = {}
    for part in scene.file.all:
        for edge in part.edges:
            if edge.kind == kind:
                follows.setdefault(edge.source, []).append(part.id)
    return reached([node_id], follows)


def _terms(node: type[Node] | None, kind: EdgeKind, end: type[Node] | None, name: str) -> Terms:
    names = names_between(kind, node, end)
    fitting = tuple(each for each in names if each == name) if name else names
    wanted = 0 if kind == "input" or (node is not None and any(each in node.invoke for each in fitting)) else 1
    if node is None:
        return Terms(PERHAPS, fitting, "", wanted)
    verb = "sends" if kind == "input" else "invokes"
    if fitting:
        return Terms(FITS, fitting, f"{verb} {', '.join(fitting)}", wanted)
    has = offered_lanes(node) if kind == "input" else invoked_types(node, dict.fromkeys((*node.invoke, "tool")))
    if not has:
        return Terms(NOT, (), f"{verb} nothing", wanted)
    return Terms(NOT, (), f"{verb} {f'no {name}, ' if name else ''}only {', '.join(has)}", wanted)
