"""Counts the changes of a statement for Ladybug, which does not: elements before and after, and targets of SET."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rrext.nodes.graph.effects import Effects

NODES: Final = "MATCH (n) RETURN count(n)"
RELATIONSHIPS: Final = "MATCH ()-[r]->() RETURN count(r)"

Run: TypeAlias = "Callable[[str, Mapping[str, Any]], list[Any]]"
"""Runs a statement with parameters and returns all its rows."""


class Tally:
    """Counts of one statement. Made before the statement runs, in the same transaction; call `counters` after it."""

    def __init__(self, effects: Effects, run: Run, params: Mapping[str, Any]) -> None:
        self._effects = effects
        self._run = run
        self._changed = 0
        self._before = (0, 0)
        # Elements that a statement both creates and deletes do not show in the numbers.
        if not effects.are_countable or (effects.creates and effects.deletes):
            return
        if effects.finding is not None:
            self._changed = self._found(effects.finding, params)
        if effects.creates or effects.deletes:
            self._before = self._elements()

    def counters(self) -> dict[str, int] | None:
        """The numbers of created and deleted nodes and relationships, and of changed elements, without those that are
        0. None if it cannot be told."""
        effects = self._effects
        if not effects.are_countable or (effects.creates and effects.deletes):
            return None
        found = {"elements_changed": self._changed}
        if effects.creates or effects.deletes:
            done = "deleted" if effects.deletes else "created"
            for kind, before, after in zip(("nodes", "relationships"), self._before, self._elements(), strict=True):
                found[f"{kind}_{done}"] = abs(after - before)
        return {name: count for name, count in found.items() if count}

    def _elements(self) -> tuple[int, int]:
        [[nodes]] = self._run(NODES, {})
        [[relationships]] = self._run(RELATIONSHIPS, {}) if self._effects.links else [[0]]
        return nodes, relationships

    def _found(self, finding: str, params: Mapping[str, Any]) -> int:
        """The number of elements to change, each counted once, even if several variables name it."""
        names = ["`" + name.replace("`", "``") + "`" for name in self._effects.targets]
        given = {name: value for name, value in params.items() if name in self._effects.parameters}
        if len(names) == 1:
            [[count]] = self._run(f"{finding}\nRETURN count(DISTINCT {names[0]})", given)
            return count
        rows = self._run(f"{finding}\nRETURN DISTINCT {', '.join(f'id({name})' for name in names)}", given)
        return len({(key["table"], key["offset"]) for row in rows for key in row if key is not None})
