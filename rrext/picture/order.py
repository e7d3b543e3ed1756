"""In which order the nodes of a picture are placed: each after those that lead to it, branch by branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rrext.picture.picture import Picture

__all__ = ["Order", "ordered"]


class Order(msgspec.Struct, frozen=True):
    """All nodes, each after its feeders and invokers; edges that lead back in a circle are left out.

    `feeders` and `invokers` have, for each node, those that send it data and those that may invoke it; `fed` and
    `invoked` the other way round.
    """

    nodes: tuple[int, ...]
    feeders: list[list[int]]
    invokers: list[list[int]]
    fed: list[list[int]]
    invoked: list[list[int]]


def ordered(picture: Picture) -> Order:
    """The order of a picture's nodes: the source first, and what may be invoked before what is fed."""
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
    """Where walks begin: at the source, then at what nothing leads to, then wherever nobody has been."""
    nodes = range(len(picture.nodes))
    led_to = {edge.target for edge in picture.edges if edge.source != edge.target}
    source = (node for node in nodes if picture.nodes[node].role == "source")
    return list(dict.fromkeys((*source, *(node for node in nodes if node not in led_to), *nodes)))


def _leading_back(behind: Sequence[Sequence[int]], roots: Iterable[int]) -> set[tuple[int, int]]:
    """The edges that lead a walk from the roots back to where it is; without them there are no circles."""
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
    """The nodes, each as soon as all before it are there, and then at once what is behind it."""
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
