"""The order in which nodes are placed: each after its predecessors, branch by branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rrext.picture.picture import Picture


class Order(msgspec.Struct, frozen=True):
    """All nodes, each after its feeders and invokers; edges that close a circle are omitted.

    For each node, `feeders` and `invokers` hold the nodes that send it data and that may invoke it; `fed` and `invoked` are the
    reverse.
    """

    nodes: tuple[int, ...]
    feeders: list[list[int]]
    invokers: list[list[int]]
    fed: list[list[int]]
    invoked: list[list[int]]


def ordered(picture: Picture) -> Order:
    """The order of a picture's nodes: the source first, invoked nodes before fed ones."""
    count = len(picture.nodes)
    behind: list[list[int]] = [[] for _ in range(count)]
    for edge in sorted(picture.edges, key=lambda edge: (edge.kind, edge.target)):
        if edge.target not in behind[edge.source]:
            behind[edge.source].append(edge.target)
    roots = _roots(picture)
    back = _leading_back(behind, roots)
    found = Order((), *([[] for _ in range(count)] for _ in range(4)))
    for edge in picture.edges:
        if (edge.source, edge.target) not in back:
            before, after = (found.feeders, found.fed) if edge.kind == "data" else (found.invokers, found.invoked)
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
    nodes = _sorted(behind, back, roots)
    return Order(nodes, found.feeders, found.invokers, found.fed, found.invoked)


def _roots(picture: Picture) -> list[int]:
    """The starts of walks: the source, then nodes without incoming edges, then unvisited ones."""
    nodes = range(len(picture.nodes))
    led_to = {edge.target for edge in picture.edges if edge.source != edge.target}
    source = (node for node in nodes if picture.nodes[node].role == "source")
    return list(dict.fromkeys((*source, *(node for node in nodes if node not in led_to), *nodes)))


def _leading_back(behind: Sequence[Sequence[int]], roots: Iterable[int]) -> set[tuple[int, int]]:
    """The edges that close circles on walks from the roots."""
    back: set[tuple[int, int]] = set()
    seen: set[int] = set()
    for root in roots:
        if root in seen:
            continue
        way = {root: iter(behind[root])}  # an ordered set of the nodes from the root to here
        seen.add(root)
        while way:
            node = next(reversed(way))
            for other in way[node]:
                if other in way:
                    back.add((node, other))
                elif other not in seen:
                    seen.add(other)
                    way[other] = iter(behind[other])
                    break
            else:
                del way[node]
    return back


def _sorted(behind: Sequence[Sequence[int]], back: set[tuple[int, int]], roots: Sequence[int]) -> tuple[int, ...]:
    """The nodes in topological order, each followed at once by its successors that are ready."""
    missing = [0] * len(behind)
    for node, others in enumerate(behind):
        for other in others:
            missing[other] += (node, other) not in back
    ready = [node for node in reversed(roots) if not missing[node]]
    found: list[int] = []
    while ready:
        node = ready.pop()
        found.append(node)
        for other in reversed(behind[node]):
            if (node, other) not in back:
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
    return tuple(found)
