"""Offers for edges: ids, lanes, class types, and whole edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rrext.editor.completions.fitting import End, Fit, fits, invoked_types, names_between, peers
from rrext.editor.completions.here import Here, Scene
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.parts import KINDS
from rrext.editor.completions.template import Stop, Template, inside_quotes, literal
from rrext.editor.spot import EdgeKind
from rrext.nodes.base.node import Node
from rrext.nodes.base.ports import accepted_lanes, offered_lanes, served_types
from rrext.pipefile.shape import EDGE_KEYS

__all__ = ["NAME_KEYS", "edge_keys", "edge_template", "edge_values", "whole_edges"]

NAME_KEYS: Final = {kind: EDGE_KEYS[kind][0] for kind in KINDS}
"""The key that says what an edge is for."""


def end_of(here: Here) -> End:
    """The component in which the cursor is, as the end of an edge."""
    return End(here.node, here.index, here.id)


def edge_template(name_key: str, name: str, source: str, *, braces: bool = True) -> Template:
    """A whole edge, with its parts as stops."""
    inner: Template = (
        f'{literal(name_key)}: "',
        Stop(inside_quotes(name)),
        '", "from": "',
        Stop(inside_quotes(source)),
        '"',
    )
    return ("{ ", *inner, " }") if braces else inner


def edge_values(scene: Scene, here: Here, kind: EdgeKind) -> Iterator[Offer]:
    """What may stand after a key of an edge."""
    _, place, key = here.parts
    if key == "from":
        yield from _sources(scene, here, kind, here.text(kind, place, NAME_KEYS[kind]))
    elif key == NAME_KEYS[kind]:
        source = _node_of(scene, here.text(kind, place, "from"))
        yield from _lanes(here, place, source) if kind == "input" else _class_types(here, place, source)


def edge_keys(scene: Scene, here: Here, kind: EdgeKind) -> Iterator[Offer]:
    """The keys of an edge; of an empty one, also whole edges."""
    present = here.keys(*here.parts)
    for rank, key in enumerate(EDGE_KEYS[kind]):
        if key not in present:
            value = _begun(scene, here, kind, key)
            about = ("key", "edge", key)
            yield Offer(key, "key", (literal(key),), rank=rank - 10, about=about, value=('"', Stop(value), '"'))
    if not present and scene.gap.colon == "none":
        yield from whole_edges(scene, here, kind, braces=False)


def whole_edges(scene: Scene, here: Here, kind: EdgeKind, *, braces: bool = True) -> Iterator[Offer]:
    """An edge for each way to connect the component, those that are not there yet first."""
    there = {(_text(edge, NAME_KEYS[kind]), _text(edge, "from")) for edge in here.items(kind)}
    found = list(fits(scene, kind, end_of(here)))
    for fit in found:
        rank = 5 if (fit.name, fit.source) in there else fit.wanted
        yield _whole_edge(fit, rank, braces=braces)
    if not found:
        label = f'"{NAME_KEYS[kind]}": …, "from": …'
        template = edge_template(NAME_KEYS[kind], "", "", braces=braces)
        yield Offer(label, "snippet", template, "a new edge", about=("key", "component", kind))


def _whole_edge(fit: Fit, rank: int, *, braces: bool) -> Offer:
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


def _sources(scene: Scene, here: Here, kind: EdgeKind, name: str) -> Iterator[Offer]:
    for peer in peers(scene, kind, end_of(here), name):
        part = peer.part
        detail = " · ".join(text for text in (part.provider, peer.terms.why) if text)
        about = ("provider", part.provider)
        yield Offer(part.id, "node", (literal(part.id),), detail, about, rank=peer.terms.fit)


def _lanes(here: Here, place: str, source: type[Node] | None) -> Iterator[Offer]:
    fitting = names_between("input", source, here.node)
    offered = None if source is None else offered_lanes(source)
    accepted = None if here.node is None else accepted_lanes(here.node)
    from_id, to_id = here.text("input", place, "from"), here.id
    taken = {_text(edge, "lane") for edge in here.items("input") if _text(edge, "from") == from_id} if from_id else set()
    for lane in dict.fromkeys((*fitting, *(accepted or ()), *(offered or ()))):
        sides = (
            _side(from_id or "the other end", "sends it", "does not send it", lane, offered),
            _side(to_id or "this node", "accepts it", "does not accept it", lane, accepted),
        )
        rank = (0 if lane in fitting else 2) + (lane in taken)
        yield Offer(lane, "lane", (literal(lane),), "; ".join(side for side in sides if side), ("lane", lane), rank)


def _class_types(here: Here, place: str, source: type[Node] | None) -> Iterator[Offer]:
    fitting = names_between("control", source, here.node)
    served = None if here.node is None else served_types(here.node)
    invoked = None if source is None else invoked_types(source, dict.fromkeys((*source.invoke, "tool")))
    from_id, to_id = here.text("control", place, "from"), here.id
    for name in dict.fromkeys((*fitting, *(served or ()), *(invoked or ()))):
        sides = (
            _side(to_id or "this node", "serves as it", "does not serve as it", name, served),
            _side(from_id or "the other end", "invokes it", "does not invoke it", name, invoked),
        )
        detail = "; ".join(side for side in sides if side)
        rank = 0 if name in fitting else 2
        yield Offer(name, "class_type", (literal(name),), detail, ("key", "edge", "classType"), rank)


def _side(who: str, yes: str, no: str, name: str, known: tuple[str, ...] | None) -> str:
    """What one end of an edge says to a lane or class type; nothing if it is not known."""
    if known is None:
        return ""
    return f"{who} {yes if name in known else no}"


def _begun(scene: Scene, here: Here, kind: EdgeKind, key: str) -> str:
    """What a key of an edge most likely says, given its other key."""
    place = here.parts[1]
    other = here.text(kind, place, NAME_KEYS[kind] if key == "from" else "from")
    for fit in fits(scene, kind, end_of(here)):
        if not other or other == (fit.name if key == "from" else fit.source):
            return inside_quotes(fit.source if key == "from" else fit.name)
    return ""


def _node_of(scene: Scene, node_id: str) -> type[Node] | None:
    part = scene.file.by_id.get(node_id)
    return None if part is None else scene.node(part)


def _text(edge: object, key: str) -> str:
    value = edge.get(key) if isinstance(edge, dict) else None
    return value if isinstance(value, str) else ""
