"""The ends of edges that a node class has: lanes in, lanes out, and class types for control edges."""

from __future__ import annotations

from rrext.nodes.base.node import Node


def offered_lanes(node: type[Node]) -> tuple[str, ...]:
    """The lanes on which a node may send."""
    return tuple(dict.fromkeys(lane for outs in node.lanes.values() for lane in outs))


def accepted_lanes(node: type[Node]) -> tuple[str, ...]:
    """The lanes on which a node may receive."""
    return tuple(lane for lane in node.lanes if lane != "_source")


def served_types(node: type[Node]) -> tuple[str, ...]:
    """The class types as which a node may be bound by control."""
    return tuple(dict.fromkeys((*node.class_types, *(("tool",) if node.tools or node.has_dynamic_tools else ()))))
