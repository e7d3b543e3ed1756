"""Plans as readable lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

SHOWN: Final = ("Details", "EstimatedRows", "Rows", "DbHits", "Time")
"""The fields of an operator to show; plans that the server draws as text are shown unchanged."""


def plan_lines(plan: Any) -> list[str]:
    """The lines of a plan: its text, or for a Bolt server a line for each operator, above the operators that feed it."""
    if isinstance(plan, str):
        return plan.rstrip().split("\n")
    return list(_operators(plan, 0)) if isinstance(plan, Mapping) else [str(plan)]


def _operators(plan: Mapping[str, Any], depth: int) -> Iterator[str]:
    arguments = plan.get("args") or {}
    drawn = arguments.get("string-representation")
    if depth == 0 and isinstance(drawn, str):
        yield from drawn.rstrip().split("\n")
        return
    told = [f"{name}: {arguments[name]}" for name in SHOWN if name in arguments]
    told += [f"{name}: {plan[name]}" for name in ("rows", "dbHits") if name in plan and name.capitalize() not in arguments]
    yield f"{'  ' * depth}+ {plan.get('operatorType', '')}{' (' + ', '.join(told) + ')' if told else ''}"
    for child in plan.get("children") or ():
        yield from _operators(child, depth + 1)
