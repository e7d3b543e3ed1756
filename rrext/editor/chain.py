"""The order in which a reader follows a pipeline: from its source on, as data flows."""

from __future__ import annotations

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.written import Edge, Part, Written
from rrext.engine.graph import reached

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
    walk = _Walk(written)
    source = analysis.by_id.get(analysis.loaded.outline.source)
    if source is not None and source.index < len(written.parts):
        walk.follow(written.parts[source.index], connected=True)
    for part in written.parts:
        if not any(edge.source in written.by_id for edge in part.edges):
            walk.follow(part, connected=source is None)
    for part in written.parts:  # only circles are left
        walk.follow(part, connected=source is None)
    return walk.steps


class _Walk:
    """One reading of one pipeline."""

    __slots__ = ("_seen", "_written", "steps")

    def __init__(self, written: Written) -> None:
        self._written = written
        self._seen: set[int] = set()
        self.steps: list[Step] = []

    def follow(self, start: Part, *, connected: bool) -> None:
        """Go on from a component to all that was not met yet."""
        by_data = self._reached_by_data(start)
        pending: list[tuple[Part, Edge | None]] = [(start, None)]
        while pending:
            part, via = pending.pop()
            if part.index in self._seen:
                continue
            self._seen.add(part.index)
            self.steps.append(Step(part, via, connected))
            pending.extend(reversed(self._next(part, by_data)))

    def _next(self, part: Part, by_data: set[str]) -> list[tuple[Part, Edge | None]]:
        """Where to go from a component: to what it invokes, then to what its data reaches."""
        written = self._written
        edges = written.edges_from.get(part.id, ()) if written.is_first(part) else ()
        found = [(written.parts[edge.holder], edge) for edge in edges]
        invoked = [(other, edge) for other, edge in found if edge.kind == "control" and other.id not in by_data]
        return [*invoked, *((other, edge) for other, edge in found if edge.kind == "input")]

    def _reached_by_data(self, start: Part) -> set[str]:
        """The ids that data reaches from a component: they stand where it does, whoever else invokes them."""
        follows: dict[str, list[str]] = {}
        for edge in self._written.edges():
            holder = self._written.parts[edge.holder]
            if edge.kind == "input" and holder.id:
                follows.setdefault(edge.source, []).append(holder.id)
        return reached([start.id], follows) if start.id else set()
