"""Graph algorithms: reachable nodes, their order, and circles. All are linear in nodes and edges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

N = TypeVar("N")
Follows = Mapping[str, Sequence[str]]
"""Node → the nodes that one of its edges leads to, in file order."""


def chain_order(source: str, order: Mapping[str, int], data: Follows, control: Follows) -> tuple[str, ...]:
    """The chain of a pipeline, without its source. `order` has each node's place in the file.

    First the nodes that data reaches, depth-first; then, in repeated passes through the file, each node that a member of the
    chain (or the source) may invoke, with the nodes that its data reaches.
    """
    chain: dict[str, None] = {source: None}
    # (pass, place in the file): a node that becomes reachable behind the current place is met in the same pass.
    waiting: list[tuple[int, int, str]] = []

    def add(start: str, round_: int, place: int) -> None:
        for node in _depth_first(start, data, chain):
            for served in control.get(node, ()):
                if served not in chain:
                    at = order[served]
                    heappush(waiting, (round_ if at > place else round_ + 1, at, served))

    del chain[source]
    add(source, 0, -1)
    while waiting:
        round_, place, node = heappop(waiting)
        if node not in chain:
            add(node, round_, place)
    chain.pop(source, None)
    return tuple(chain)


def _depth_first(start: str, follows: Follows, seen: dict[str, None]) -> list[str]:
    """Nodes in the order in which a walk first meets them; each is added to `seen`."""
    found: list[str] = []
    pending = [start]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen[node] = None
            found.append(node)
            pending.extend(reversed(follows.get(node, ())))
    return found


def reached(starts: Iterable[str], *follows: Follows) -> set[str]:
    """Everything that is reached from some nodes over any of the edges, the starts included."""
    seen = set(starts)
    pending = list(seen)
    while pending:
        node = pending.pop()
        for edges in follows:
            for other in edges.get(node, ()):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
    return seen


def circles(nodes: Sequence[str], follows: Follows) -> list[list[str]]:
    """One shortest circle for each knot of nodes that all lead to each other, beginning at the knot's first node.

    `[a, b, a]` says that a leads to b and b back to a.
    """
    nodes = _tangled(nodes, follows)
    place = {node: index for index, node in enumerate(nodes)}
    found: list[list[str]] = []
    for knot in _knots(nodes, follows):
        start = min(knot, key=place.__getitem__)
        if len(knot) > 1 or start in follows.get(start, ()):
            found.append(_way_back(start, knot, follows))
    return sorted(found, key=lambda circle: place[circle[0]])


def _tangled(nodes: Sequence[str], follows: Follows) -> list[str]:
    """The nodes that remain after repeated removal of nodes without predecessors: none if there is no circle."""
    leading = dict.fromkeys(nodes, 0)
    for node in leading:
        for other in follows.get(node, ()):
            leading[other] += 1
    free = [node for node, count in leading.items() if not count]
    for node in free:
        for other in follows.get(node, ()):
            leading[other] -= 1
            if not leading[other]:
                free.append(other)
    return [node for node, count in leading.items() if count]


def _way_back(start: str, knot: set[str], follows: Follows) -> list[str]:
    came_from: dict[str, str] = {}
    pending = deque([start])
    while start not in came_from:
        node = pending.popleft()
        for other in follows.get(node, ()):
            if other in knot and other not in came_from:
                came_from[other] = node
                pending.append(other)
    way = [start, came_from[start]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _knots(nodes: Sequence[str], follows: Follows) -> list[set[str]]:
    """Tarjan's strongly connected components, without recursion: a file may string ten thousand nodes together."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    knots: list[set[str]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(follows.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(follows.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    knots.append(_popped(stack, on_stack, node))
    return knots


def _popped(stack: list[str], on_stack: set[str], node: str) -> set[str]:
    knot: set[str] = set()
    while node not in knot:
        other = stack.pop()
        on_stack.discard(other)
        knot.add(other)
    return knot
