"""The fix of several problems at once: in rounds, because one error may hide another."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Final

from rrext.editor.analysis import Analysis, analyse
from rrext.editor.edits import Edit, applied
from rrext.editor.fixes.changes import Changes
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix
from rrext.editor.fixes.table import SYNTAX_MAKERS, fixes_for
from rrext.editor.known_nodes import KnownNodes
from rrext.pipefile.text.problems import Problem

MAX_FIX_ROUNDS: Final = 50
"""Rounds of fixing everything; errors behind more rounds are left for the next invocation."""

_WITHOUT_LOSS: Final = frozenset(
    {
        *SYNTAX_MAKERS,
        "duplicate_key",
        "duplicate_edge",
        "invalid_version",
        "misplaced_key",
    }
)
_NAMES: Final = frozenset(
    {
        "unknown_key",
        "unknown_provider",
        "unknown_config_key",
        "profile_not_found",
        "from_not_found",
        "unknown_lane",
        "lane_not_offered",
        "lane_not_accepted",
        "class_type_not_served",
        "source_not_found",
    }
)


def is_safe(problem: Problem) -> bool:
    """Whether "fix all" includes a problem: broken text, and names with a near match.

    Of these it takes the preferred fix, if there is one: the only name that can have been mistyped so, or that is possible
    there. It removes nothing that somebody wrote, except duplicate edges, and values of duplicate keys that hold no others.
    """
    code = problem.code
    if code in ("trailing_text", "unexpected_text") and not problem.near:
        return False
    if code in _WITHOUT_LOSS:
        return True
    return code in _NAMES and bool(problem.near)


def fix_all_edits(
    analysis: Analysis, wanted: Callable[[Problem], bool], known_nodes: KnownNodes | None = None
) -> tuple[Edit, ...]:
    """The edits that fix all wanted problems by their preferred fixes, as far as no round leaves more errors.

    The document is analysed after each round; no code of it runs.
    """
    known_nodes = KnownNodes(analysis.settings.catalog) if known_nodes is None else known_nodes
    changes, context = Changes(analysis.text), FixContext(analysis, known_nodes)
    seen = {analysis.text}
    for _ in range(MAX_FIX_ROUNDS):
        edits, context = _round(context, wanted)
        if context.text in seen:
            break
        changes.add(edits)
        seen.add(context.text)
    return changes.edits()


def fixes_any(analysis: Analysis, wanted: Callable[[Problem], bool], known_nodes: KnownNodes) -> bool:
    """Whether `fix_all_edits` has any edits, which its first round decides."""
    return _round(FixContext(analysis, known_nodes), wanted)[1].text != analysis.text


def _round(context: FixContext, wanted: Callable[[Problem], bool]) -> tuple[tuple[Edit, ...], FixContext]:
    """The edits of one round, and the document after it: the same one if no fix is left."""
    found = (_preferred(context, problem) for problem in context.analysis.problems if wanted(problem))
    chosen = [fix for fix in found if fix is not None]
    if not chosen:
        return (), context
    around, before = context.analysis.settings, context.mistakes
    fewer = any(fix.problem.span is not None for fix in chosen) and before < around.limits.max_problems
    for edits, most in ((_apart(chosen), before - fewer), (chosen[0].edits, before)):
        after = FixContext(analyse(applied(context.text, edits), around), context.known_nodes)
        if after.mistakes <= most:
            return edits, after
    return (), context


def _preferred(context: FixContext, problem: Problem) -> Fix | None:
    found = fixes_for(context, problem, tried=False)
    return found[0] if found and found[0].preferred else None


def _apart(fixes: list[Fix]) -> tuple[Edit, ...]:
    """The edits of all fixes that do not touch those of an earlier fix."""
    found: list[Edit] = []
    for fix in fixes:
        if all(_is_free(found, edit) for edit in fix.edits):
            for edit in fix.edits:
                insort(found, edit)
    return tuple(found)


def _is_free(taken: list[Edit], edit: Edit) -> bool:
    """Whether an edit touches none of `taken`, which are sorted and disjoint."""
    place = bisect_right(taken, edit)
    before, after = taken[place - 1 : place], taken[place : place + 1]
    return all(other.end < edit.start for other in before) and all(edit.end < other.start for other in after)
