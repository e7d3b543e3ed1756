"""The order in which a reader follows a pipeline: from its source on, as data flows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.written import Edge, Part, Written
from rrext.pipefile.graph import reached

__all__ = ["Step", "chain_of"]


class Step(msgspec.Struct, frozen=True, eq=False):
    """A component on the way. `via` is the edge over which it was reached; None where a reader begins anew.

    `connected` is false for what the source does not reach.
    """

    part: Part
    via: Edge | None
    connected: bool


def chain_of(analysis: Analysis, written: Written) -> list[Step]:
    """Every component once: the source, then depth-first what data reaches, as in the engine's chain.

    What is only invoked stands right below the first that invokes it, with what its own data reaches. What the source does
    not reach comes last, in the same order among itself. Circles end where they began.
    """
    source = analysis.by_id.get(analysis.loaded.outline.source)
    start = written.parts[source.index] if source is not None and source.index < len(written.parts) else None
    walk = _Walk(written, start)
    if start is not None:
        walk.follow(start)
        walk.follow_all([part for part in written.parts if walk.is_connected(part)])
    walk.follow_all([part for part in written.parts if not any(edge.source in written.by_id for edge in part.edges)])
    walk.follow_all(written.parts)  # only circles are left
    return walk.steps


class _Walk:
    """One reading of one pipeline, which begins at `start`; None: nobody knows where."""

    __slots__ = ("_by_data", "_connected", "_seen", "_written", "steps")

    def __init__(self, written: Written, start: Part | None) -> None:
        self._written = written
        self._seen: set[int] = set()
        self.steps: list[Step] = []
        self._connected: set[str] | None = None if start is None else _reached(written, start)
        # What data reaches stands where it does, whoever else invokes it.
        self._by_data = {edge.holder for edge in written.edges() if edge.kind == "input" and self._is_way(edge)}

    def is_connected(self, part: Part) -> bool:
        """Whether the source reaches a component, if there is a source."""
        return self._connected is None or (part.id in self._connected and self._written.is_first(part))

    def follow_all(self, parts: Sequence[Part]) -> None:
        """Go on from each of some components."""
        for part in parts:
            self.follow(part)

    def follow(self, start: Part) -> None:
        """Go on from a component to all that was not met yet."""
        pending: list[tuple[Part, Edge | None]] = [(start, None)]
        while pending:
            part, via = pending.pop()
            if part.index not in self._seen:
                self._seen.add(part.index)
                self.steps.append(Step(part, via, self.is_connected(part)))
                pending.extend(reversed(self._next(part)))

    def _next(self, part: Part) -> list[tuple[Part, Edge]]:
        """Where to go from a component: to what it invokes, then to what its data reaches."""
        edges = self._written.edges_from.get(part.id, ()) if self._written.is_first(part) else ()
        invoked = [edge for edge in edges if edge.kind == "control" and edge.holder not in self._by_data]
        return [(self._written.parts[edge.holder], edge) for edge in (*invoked, *(e for e in edges if e.kind == "input"))]

    def _is_way(self, edge: Edge) -> bool:
        """Whether a reader comes over an edge: both ends are there, and the source reaches both, or none."""
        sender = self._written.by_id.get(edge.source)
        return sender is not None and self.is_connected(sender) == self.is_connected(self._written.parts[edge.holder])


def _reached(written: Written, start: Part) -> set[str]:
    """The ids that data and control lead to from a component."""
    follows: dict[str, list[str]] = {}
    for edge in written.edges():
        holder = written.parts[edge.holder]
        if holder.id and written.is_first(holder):
            follows.setdefault(edge.source, []).append(holder.id)
    return reached([start.id], follows)
