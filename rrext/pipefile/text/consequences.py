"""The consequences of a parse error, which nobody can mend before it is mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rrext.pipefile.text.problems import Problem
from rrext.pipefile.text.source import SourceMap

_STRUCTURAL: Final = frozenset(
    {
        *("unclosed", "unexpected_closer", "trailing_text", "missing_bracket", "missing_brace", "expected_key"),
        *(
            "expected_value",
            "expected_colon",
            "unexpected_text",
            "unterminated_string",
            "unterminated_comment",
            "unquoted_text",
        ),
    }
)
"""Errors after which the text means something else than its author does."""
_LITERAL: Final = frozenset({"single_quotes", "invalid_escape", "control_character", "not_finite", "not_utf8", "wrapped"})
"""Errors of one token, whatever stands around it."""
_ON_THEIR_OWN: Final = frozenset(
    {
        *("unknown_provider", "foreign_provider", "provider_unavailable", "unknown_key", "misplaced_key", "wrong_type"),
        "missing_key",
        *("unresolved_variable", "variable_not_allowed", "variable_in_name", "variable_in_project_id", "invalid_version"),
        *("profile_not_found", "beside_profile", "profile_not_selected", "unknown_config_key", "invalid_config"),
    }
)
"""Problems that depend on one value alone."""


def without_consequences(syntax: Sequence[Problem], others: Iterable[Problem], where: SourceMap) -> Iterator[Problem]:
    """The problems of a text without the consequences of its first structural error: later errors of the structure, and
    problems of what does not stand complete in the lines before it. An error behind the components touches none of them.

    `syntax` has the parse errors in the order in which they were found.
    """
    first = next((place for place, problem in enumerate(syntax) if _is_structural(problem)), None)
    if first is None or (syntax[first].code == "unclosed" and first == len(syntax) - 1):  # what lacks is the end of the text
        yield from syntax
        yield from others
        return
    cause = syntax[first]
    at = where.span_of(cause)[0]
    line, _ = where.position(at)
    yield from syntax[: first + 1]
    for problem in syntax[first + 1 :]:
        if problem.code in _LITERAL and where.position(where.span_of(problem)[0])[0] != line:
            yield problem
    begin = where.offset(line, 1)
    components = where.find("/components") or where.find("/pipeline/components")
    is_behind = components is not None and components.kind == "array" and components.end <= at
    for problem in others:
        is_known = problem.code in _ON_THEIR_OWN and where.nearest(problem.path).end < begin
        if is_behind or is_known or problem.span is not None:
            yield problem


def _is_structural(problem: Problem) -> bool:
    return problem.code in _STRUCTURAL and not problem.near
