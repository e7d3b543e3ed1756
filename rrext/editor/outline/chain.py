"""The reading order of a pipeline: from its source, along the data."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.written_pipeline import WrittenComponent, WrittenEdge, WrittenPipeline
from rrext.pipefile.graph import reached


class ChainStep(msgspec.Struct, frozen=True, eq=False):
    """A component in reading order. `via` is the edge over which it was reached; None at the start of a new walk.

    `connected` is false for a component that the source does not reach.
    """

    component: WrittenComponent
    via: WrittenEdge | None
    connected: bool


def chain_of(analysis: Analysis, written: WrittenPipeline) -> list[ChainStep]:
    """Every component once: the source, then the components that data reaches, depth-first, as in the engine's chain.

    A component that is only invoked follows its first invoker, with the components that its own data reaches. Unreachable
    components come last, in the same order. Circles end at their start.
    """
    source = analysis.by_id.get(analysis.loaded.outline.source)
    start = written.components[source.index] if source is not None and source.index < len(written.components) else None
    walk = _Walk(written, start)
    if start is not None:
        walk.follow(start)
        walk.follow_all([component for component in written.components if walk.is_connected(component)])
    walk.follow_all(
        [component for component in written.components if not any(edge.source in written.by_id for edge in component.edges)]
    )
    walk.follow_all(written.components)  # only circles remain
    return walk.steps


class _Walk:
    """One walk over one pipeline from `start`; None: the source is unknown."""

    def __init__(self, written: WrittenPipeline, start: WrittenComponent | None) -> None:
        self._written = written
        self._seen: set[int] = set()
        self.steps: list[ChainStep] = []
        self._connected: set[str] | None = None if start is None else _reached(written, start)
        # Data edges take precedence over control edges.
        self._by_data = {edge.holder for edge in written.edges() if edge.kind == "input" and self._is_way(edge)}

    def is_connected(self, component: WrittenComponent) -> bool:
        """Whether the source reaches a component; true if there is no source."""
        return self._connected is None or (component.id in self._connected and self._written.is_first(component))

    def follow_all(self, components: Sequence[WrittenComponent]) -> None:
        """Walk from each of several components."""
        for component in components:
            self.follow(component)

    def follow(self, start: WrittenComponent) -> None:
        """Walk from a component to all unvisited ones."""
        pending: list[tuple[WrittenComponent, WrittenEdge | None]] = [(start, None)]
        while pending:
            component, via = pending.pop()
            if component.index not in self._seen:
                self._seen.add(component.index)
                self.steps.append(ChainStep(component, via, self.is_connected(component)))
                pending.extend(reversed(self._next(component)))

    def _next(self, component: WrittenComponent) -> list[tuple[WrittenComponent, WrittenEdge]]:
        """The next components: first the components that this component invokes, then the receivers of its data."""
        edges = self._written.edges_from.get(component.id, ()) if self._written.is_first(component) else ()
        invoked = [edge for edge in edges if edge.kind == "control" and edge.holder not in self._by_data]
        return [(self._written.components[edge.holder], edge) for edge in (*invoked, *(e for e in edges if e.kind == "input"))]

    def _is_way(self, edge: WrittenEdge) -> bool:
        """Whether the walk uses an edge: both ends exist, and the source reaches both, or neither."""
        sender = self._written.by_id.get(edge.source)
        return sender is not None and self.is_connected(sender) == self.is_connected(self._written.components[edge.holder])


def _reached(written: WrittenPipeline, start: WrittenComponent) -> set[str]:
    """The ids that data and control edges reach from a component."""
    follows: dict[str, list[str]] = {}
    for edge in written.edges():
        holder = written.components[edge.holder]
        if holder.id and written.is_first(holder):
            follows.setdefault(edge.source, []).append(holder.id)
    return reached([start.id], follows)
