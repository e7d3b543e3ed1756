"""The fixes of each problem code, and the fix of several problems at once: in rounds, because one error may hide another."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from typing import Final

from rrext.editor.analysis import Analysis, analyse
from rrext.editor.fixes import config, edges, shape, syntax
from rrext.editor.fixes.fix import Changes, Fix, FixContext, Maker, replacements
from rrext.editor.known_nodes import KnownNodes
from rrext.editor.text import Edit, applied
from rrext.pipefile.text.problems import Problem

SYNTAX_MAKERS: Final[Mapping[str, Maker]] = {
    "missing_bracket": syntax.missing_bracket,
    "missing_brace": syntax.missing_brace,
    "unclosed": syntax.unclosed,
    "unexpected_closer": syntax.unexpected_closer,
    "trailing_text": syntax.trailing_text,
    "unterminated_comment": syntax.unterminated_comment,
    "wrapped": syntax.wrapped,
    "expected_comma": syntax.expected_comma,
    "extra_comma": syntax.extra_comma,
    "expected_colon": syntax.expected_colon,
    "expected_value": syntax.expected_value,
    "expected_key": syntax.expected_key,
    "unterminated_string": syntax.unterminated_string,
    "single_quotes": syntax.single_quotes,
    "unquoted_text": syntax.unquoted_text,
    "invalid_escape": syntax.invalid_escape,
    "control_character": syntax.control_character,
    "invalid_number": syntax.invalid_number,
    "not_finite": syntax.not_finite,
    "unexpected_text": syntax.unexpected_text,
}
"""Code of an error in the text → maker of its fixes."""

MAKERS: Final[Mapping[str, Maker]] = {
    **SYNTAX_MAKERS,
    "wrong_type": shape.wrong_type,
    "missing_key": shape.missing_key,
    "unknown_key": shape.unknown_key,
    "invalid_version": shape.invalid_version,
    "duplicate_id": shape.duplicate_id,
    "duplicate_key": shape.duplicate_key,
    "unknown_provider": replacements,
    "literal_secret": config.literal_secret,
    "unresolved_variable": config.wrong_variable,
    "variable_not_allowed": config.wrong_variable,
    "variable_in_project_id": config.variable_in_project_id,
    "misplaced_key": config.misplaced_key,
    "profile_not_found": config.profile_not_found,
    "beside_profile": config.beside_profile,
    "profile_not_selected": config.profile_not_selected,
    "unknown_config_key": config.unknown_config_key,
    "invalid_config": config.invalid_config,
    "from_not_found": edges.from_not_found,
    "unknown_lane": edges.wrong_lane,
    "lane_not_offered": edges.wrong_lane,
    "lane_not_accepted": edges.wrong_lane,
    "duplicate_edge": edges.duplicate_edge,
    "class_type_not_served": edges.class_type_not_served,
    "control_on_invoker": edges.control_on_invoker,
    "cycle": edges.circle,
    "control_cycle": edges.circle,
    "not_connected": edges.not_connected,
    "invoke_missing": edges.invoke_missing,
    "invoke_excess": edges.invoke_excess,
    "no_response": edges.no_response,
    "output_unread": edges.output_unread,
    "source_unread": edges.source_unread,
    "response_key_unread": edges.response_key_unread,
    "empty_file": edges.empty_file,
    "no_source": edges.no_source,
    "multiple_sources": edges.multiple_sources,
    "source_not_found": edges.source_not_found,
    "not_a_source": edges.not_a_source,
    "other_source": edges.other_source,
    "invalid_reference": replacements,
    "reference_not_found": replacements,
}
"""Code → maker of its fixes."""

NO_FIX: Final[Mapping[str, str]] = {
    "not_utf8": "the file does not tell the meaning of the bytes",
    "too_large": "the author decides what to leave out",
    "too_deep": "the author decides what to leave out",
    "too_many_components": "the author decides what to leave out",
    "too_many_problems": "it is about the list of problems, and ends with them",
    "variable_in_name": "the author decides which name is meant",
    "node_unavailable": "the fix is an installation, not an edit",
    "not_permitted": "the operator of a server decides, and an editor's file is not of a client on a network",
    "tool_undescribed": "the mistake is in the code of the node",
    "missing_file": "the author decides which file is meant",
    "caution": "the author decides among the ways that the message names",
    "package_not_offered": "the operator of a server decides",
    "provider_unavailable": "the fix is an installation, not an edit",
    "foreign_provider": "no node of rrext is meant by it",
    "duplicate_reference": "the author decides which name is meant",
    "not_on_cluster": "the operator of a server decides",
    "invalid_resources": "the author decides what the pipeline needs",
    "resources_ignored": "on a cluster they have an effect",
    "cannot_run": "the message of the plan names the cause, which has no position in the file",
}
"""Code → reason why it has no fix."""


def fixes_for(context: FixContext, problem: Problem, *, tried: bool = True) -> list[Fix]:
    """The fixes of a problem, the best first; at most one of them is preferred.

    In a broken text each is `tried`, because the meaning of its edits depends on the text before them in the line.
    """
    maker = MAKERS.get(problem.code)
    found: list[Fix] = []
    for made in maker(context, problem) if maker is not None else ():
        if made is None or any(made.edits == other.edits for other in found):
            continue
        if tried and context.mistakes and len(context.left_after(made.edits)) > context.mistakes:
            continue
        taken = any(other.preferred for other in found)
        found.append(Fix(made.title, made.edits, made.problem, made.preferred and not taken))
    return sorted(found, key=lambda each: not each.preferred)


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
