"""The problems that a pipeline may have if it is loaded in part: each makes one component unavailable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rrext.limits import MAX_MISSING_REASONS
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problem

ABSENT: Final = frozenset(
    {
        *("unknown_provider", "foreign_provider", "provider_unavailable", "node_unavailable"),
        *("unresolved_variable", "variable_not_allowed"),
    }
)
"""Codes of a node or a value that is missing here."""
_OF_ONE_NODE: Final = ABSENT | {"invalid_config", "missing_file", "tool_undescribed"}


def is_excusable(problem: Problem, component: str) -> bool:
    """Whether a problem concerns only the node or the settings of the component at a pointer."""
    in_component = problem.path.startswith(f"{component}/")
    return in_component and (problem.code in _OF_ONE_NODE or problem.path.startswith(below(component, "config") + "/"))


def missing_of(problems: Iterable[Problem]) -> str:
    """Say in sentences what a component with these problems is missing."""
    first = sorted(problems, key=lambda problem: not problem.path.endswith("/provider"))
    reasons = list(dict.fromkeys(problem.message for problem in first))
    more = len(reasons) - MAX_MISSING_REASONS
    return " ".join([*reasons[:MAX_MISSING_REASONS], *([f"(and {more} more)"] if more > 0 else [])])
