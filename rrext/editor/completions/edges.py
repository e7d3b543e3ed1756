"""Offers for edges: ids, lanes, class types, and complete edges; the best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from rrext.editor.analysis import WrittenComponent, text_at
from rrext.editor.completions.context import CompletionContext, CursorComponent
from rrext.editor.completions.offer import Offer, Stop, Template, inside_quotes, literal
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.shape import EDGE_KEYS, EDGE_TOOLS
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


NAME_KEYS: Final = {kind: keys[0] for kind, keys in EDGE_KEYS.items()}
"""The key of an edge's lane or class type, by kind."""


def target_of(component: CursorComponent) -> EdgeTarget:
    """The component around the cursor, as the target of an edge."""
    return EdgeTarget(component.node, component.index, component.id)


def edge_template(name_key: str, name: str, source: str, *, braces: bool = True) -> Template:
    """A complete edge, with its values as stops."""
    inner: Template = (
        f'{literal(name_key)}: "',
        Stop(inside_quotes(name)),
        '", "from": "',
        Stop(inside_quotes(source)),
        '"',
    )
    return ("{ ", *inner, " }") if braces else inner


def edge_values(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Iterator[Offer]:
    """The values after a key of an edge."""
    _, place, key = component.parts
    if key == "from":
        yield from _sources(context, component, kind, component.text(kind, place, NAME_KEYS[kind]))
    elif key == NAME_KEYS[kind]:
        source = _node_of(context, component.text(kind, place, "from"))
        yield from _names(component, kind, place, source)


def edge_keys(context: CompletionContext, component: CursorComponent, kind: EdgeKind) -> Iterator[Offer]:
    """The keys of an edge; for an empty one, also complete edges."""
    present = component.keys(*component.parts)
    for rank, key in enumerate(EDGE_KEYS[kind]):
        if key not in present:
            value = _begun(context, component, kind, key)
            about = ("key", "edge", key)
            yield Offer(key, "key", (literal(key),), rank=rank - 10, about=about, value=('"', Stop(value), '"'))
    if kind == "control" and EDGE_TOOLS not in present and component.node is not None and component.node.tools:
        value = ("[", Stop(), "]")
        yield Offer(EDGE_TOOLS, "key", (literal(EDGE_TOOLS),), rank=0, about=("key", "edge", EDGE_TOOLS), value=value)
    if not present and context.gap.colon == "none":
        yield from edge_snippets(context, component, kind, braces=False)


def edge_snippets(
    context: CompletionContext, component: CursorComponent, kind: EdgeKind, *, braces: bool = True
) -> Iterator[Offer]:
    """One edge for each way to connect the component; missing ones come first."""
    there = {(text_at(edge, NAME_KEYS[kind]), text_at(edge, "from")) for edge in component.items(kind)}
    found = list(possible_edges(context, kind, target_of(component)))
    for fit in found:
        rank = 5 if (fit.name, fit.source) in there else fit.wanted
        yield _edge_snippet(fit, rank, braces=braces)
    if not found:
        label = f'"{NAME_KEYS[kind]}": …, "from": …'
        template = edge_template(NAME_KEYS[kind], "", "", braces=braces)
        yield Offer(label, "snippet", template, "a new edge", about=("key", "component", kind))


def _edge_snippet(fit: PossibleEdge, rank: int, *, braces: bool) -> Offer:
    verb = "sends" if fit.kind == "input" else "invokes as"
    return Offer(
        f"{fit.source} → {fit.name}",
        "snippet",
        edge_template(NAME_KEYS[fit.kind], fit.name, fit.source, braces=braces),
        f"{fit.source} {verb} {fit.name}",
        about=("lane", fit.name) if fit.kind == "input" else ("key", "edge", "classType"),
        rank=rank,
        finds=f"{fit.source} {fit.name}",
    )


def _sources(context: CompletionContext, component: CursorComponent, kind: EdgeKind, name: str) -> Iterator[Offer]:
    for peer in source_candidates(context, kind, target_of(component), name):
        other = peer.component
        detail = " · ".join(text for text in (other.provider, peer.why) if text)
        about = ("provider", other.provider)
        yield Offer(other.id, "node", (literal(other.id),), detail, about, rank=peer.fit)


def _names(component: CursorComponent, kind: EdgeKind, place: str, source: type[Node] | None) -> Iterator[Offer]:
    """The lanes or class types of an edge; those that both ends have come first."""
    node, name_key = component.node, NAME_KEYS[kind]
    from_id = component.text(kind, place, "from")
    sender, receiver = from_id or "the other end", component.id or "this node"
    if kind == "input":
        sent, taken = None if source is None else offered_lanes(source), None if node is None else accepted_lanes(node)
        ends = ((sender, "sends it", "does not send it", sent), (receiver, "accepts it", "does not accept it", taken))
    else:
        sent = None if source is None else invoked_types(source, dict.fromkeys((*source.invoke, "tool")))
        taken = None if node is None else served_types(node)
        ends = (
            (receiver, "serves as it", "does not serve as it", taken),
            (sender, "invokes it", "does not invoke it", sent),
        )
    there = {text_at(edge, name_key) for edge in component.items(kind) if from_id and text_at(edge, "from") == from_id}
    fitting = names_between(kind, source, node)
    for name in dict.fromkeys((*fitting, *(taken or ()), *(sent or ()))):
        detail = "; ".join(f"{who} {yes if name in known else no}" for who, yes, no, known in ends if known is not None)
        rank = (0 if name in fitting else 2) + (name in there)
        is_lane = kind == "input"
        about = ("lane", name) if is_lane else ("key", "edge", "classType")
        yield Offer(name, "lane" if is_lane else "class_type", (literal(name),), detail, about, rank)


def _begun(context: CompletionContext, component: CursorComponent, kind: EdgeKind, key: str) -> str:
    """The most likely value of a key of an edge, given its other key."""
    place = component.parts[1]
    other = component.text(kind, place, NAME_KEYS[kind] if key == "from" else "from")
    for fit in possible_edges(context, kind, target_of(component)):
        if not other or other == (fit.name if key == "from" else fit.source):
            return inside_quotes(fit.source if key == "from" else fit.name)
    return ""


def _node_of(context: CompletionContext, node_id: str) -> type[Node] | None:
    other = context.written.by_id.get(node_id)
    return None if other is None else context.node(other)
