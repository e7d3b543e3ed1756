"""The fixes of each problem code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rrext.editor.fixes import (
    brackets,
    config,
    connections,
    edges,
    literals,
    punctuation,
    responses,
    shape,
    sources,
    variables,
)
from rrext.editor.fixes.context import FixContext
from rrext.editor.fixes.fix import Fix, Maker, replacements
from rrext.pipefile.text.problems import Problem

SYNTAX_MAKERS: Final[Mapping[str, Maker]] = {
    "missing_bracket": brackets.missing_bracket,
    "missing_brace": brackets.missing_brace,
    "unclosed": brackets.unclosed,
    "unexpected_closer": brackets.unexpected_closer,
    "trailing_text": brackets.trailing_text,
    "unterminated_comment": brackets.unterminated_comment,
    "wrapped": brackets.wrapped,
    "expected_comma": punctuation.expected_comma,
    "extra_comma": punctuation.extra_comma,
    "expected_colon": punctuation.expected_colon,
    "expected_value": punctuation.expected_value,
    "expected_key": punctuation.expected_key,
    "unterminated_string": literals.unterminated_string,
    "single_quotes": literals.single_quotes,
    "unquoted_text": literals.unquoted_text,
    "invalid_escape": literals.invalid_escape,
    "control_character": literals.control_character,
    "invalid_number": literals.invalid_number,
    "not_finite": literals.not_finite,
    "unexpected_text": literals.unexpected_text,
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
    "literal_secret": variables.literal_secret,
    "unresolved_variable": variables.wrong_variable,
    "variable_not_allowed": variables.wrong_variable,
    "variable_in_project_id": variables.variable_in_project_id,
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
    "not_connected": connections.not_connected,
    "invoke_missing": connections.invoke_missing,
    "invoke_excess": connections.invoke_excess,
    "no_response": responses.no_response,
    "output_unread": responses.output_unread,
    "source_unread": responses.source_unread,
    "response_key_unread": responses.response_key_unread,
    "empty_file": sources.empty_file,
    "no_source": sources.no_source,
    "multiple_sources": sources.multiple_sources,
    "source_not_found": sources.source_not_found,
    "not_a_source": sources.not_a_source,
    "other_source": sources.other_source,
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
    "package_not_offered": "the operator of a server decides",
    "provider_unavailable": "the fix is an installation, not an edit",
    "foreign_provider": "no node of rrext is meant by it",
    "duplicate_reference": "the author decides which name is meant",
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
