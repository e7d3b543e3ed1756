"""Problems as diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lsprotocol import types

from rrext.bridges.lsp.manual import Manual
from rrext.bridges.lsp.places import as_range
from rrext.editor.text import Text
from rrext.engine.located import related_places
from rrext.engine.problems import Problem, Severity
from rrext.engine.source import SourceMap

__all__ = ["SOURCE", "as_diagnostics"]

SOURCE: Final = "rrext"

_SEVERITIES: Final[dict[Severity, types.DiagnosticSeverity]] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
}
_UNUSED: Final = frozenset(
    {"not_connected", "beside_profile", "profile_not_selected", "response_key_unread", "unknown_config_key"}
)
"""What has no effect: editors show it faded."""


def as_diagnostics(
    problems: Iterable[Problem], where: SourceMap, text: Text, uri: str, manual: Manual
) -> list[types.Diagnostic]:
    """The diagnostics of a document, in the order of its problems."""
    return [_diagnostic(problem, where, text, uri, manual) for problem in problems]


def _diagnostic(problem: Problem, where: SourceMap, text: Text, uri: str, manual: Manual) -> types.Diagnostic:
    related = [
        types.DiagnosticRelatedInformation(types.Location(uri, as_range(text, span)), other["message"])
        for other, span in related_places(problem, where)
    ]
    href = manual.link(problem.code)
    return types.Diagnostic(
        range=as_range(text, where.span_of(problem)),
        message=problem.message,
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        code_description=types.CodeDescription(href) if href is not None else None,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if problem.code in _UNUSED else None,
        related_information=related or None,
    )
