"""The page of an edge: its lane, or its class type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rrext.editor.pages.node import listed, slot_text
from rrext.editor.pages.page import Code, Inline, Item, Page, inlines_of
from rrext.editor.pages.vocabulary import LANE_TEXTS
from rrext.editor.written_pipeline import WrittenComponent, WrittenEdge, WrittenPipeline
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types


def lane_page(written: WrittenPipeline, edge: WrittenEdge) -> Page:
    """The page of a data edge: the payload of its lane, the sender and the receiver, and other nodes with the lane."""
    lane = edge.name
    page = Page().title("Lane ", Code(lane))
    page.text(*(["Carries ", *inlines_of(LANE_TEXTS[lane]), "."] if lane in LANE_TEXTS else ["There is no such lane."]))
    items: list[Item] = []
    sender = written.by_id.get(edge.source)
    if sender is not None:
        items.append((0, _lanes_of(written, sender, sends=True)))
    items.append((0, _lanes_of(written, written.components[edge.holder], sends=False)))
    items += _others(written, "offered here by ", offered_lanes, lane)
    items += _others(written, "accepted here by ", accepted_lanes, lane)
    return page.items(items)


def class_type_page(written: WrittenPipeline, edge: WrittenEdge) -> Page:
    """The page of a control edge: the class type, the requirements of the invoking node, the class types of the invoked
    node."""
    kind = edge.name
    holder, invoker = written.components[edge.holder], written.by_id.get(edge.source)
    page = Page().title("Invoked as ", Code(kind))
    node = None if invoker is None else written.node_of(invoker)
    if invoker is not None and node is not None:
        if kind in node.invoke:
            page.text(*_name(invoker), " invokes ", Code(kind), *slot_text(node.invoke[kind]))
        elif node.is_source():
            page.text("Bound to the source ", *_name(invoker), ", its tools can be called by clients.")
        else:
            wanted = tuple(node.invoke)
            page.text(*_name(invoker), " does not invoke it: it invokes ", *(listed(wanted) if wanted else ["nothing"]), ".")
    own = written.node_of(holder)
    if own is not None:
        served = served_types(own)
        page.text(*_name(holder), " serves as ", *(listed(served) if served else ["nothing"]), ".")
    return page.items(_others(written, "served here by ", served_types, kind))


def _lanes_of(written: WrittenPipeline, component: WrittenComponent, *, sends: bool) -> list[Inline]:
    node = written.node_of(component)
    if node is None:
        return [*_name(component), " is no node that is known here"]
    lanes = offered_lanes(node) if sends else accepted_lanes(node)
    return [*_name(component), " offers " if sends else " accepts ", *(listed(lanes) if lanes else ["no lane"])]


def _others(written: WrittenPipeline, text: str, names: Callable[[type[Node]], Sequence[str]], name: str) -> list[Item]:
    """The item with the components whose node has a name among its `names`."""
    nodes = ((component, written.node_of(component)) for component in written.components)
    having = [component for component, node in nodes if node is not None and name in names(node)]
    ids = [component.id for component in having if component.id and written.is_first(component)]
    return [(0, [text, *listed(ids)])] if ids else []


def _name(component: WrittenComponent) -> list[Inline]:
    return [Code(component.id)] if component.id else [f"component {component.index + 1}"]
