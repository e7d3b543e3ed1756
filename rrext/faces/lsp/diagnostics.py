"""Problems as LSP diagnostics with links to the manual, and their way to the client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.page import readable
from rrext.editor.text import Text
from rrext.limits import DEFAULTS
from rrext.pipefile.text.problems import Problem, Severity, Span, related_places
from rrext.pipefile.text.source import SourceMap

if TYPE_CHECKING:
    from rrext.faces.lsp.documents import Document, State
    from rrext.faces.lsp.protocol import PipeProtocol


Finder: TypeAlias = Callable[[str, Text, Analysis], Iterable[types.Diagnostic]]
"""A source of further diagnostics of a document, from its URI, text and analysis."""

SOURCE: Final = "rrext"

_SEVERITIES: Final[dict[Severity, int]] = {
    "error": types.DiagnosticSeverity.Error.value,
    "warning": types.DiagnosticSeverity.Warning.value,
    "information": types.DiagnosticSeverity.Information.value,
}
_UNNECESSARY: Final = types.DiagnosticTag.Unnecessary.value
_UNUSED: Final = frozenset(
    {"not_connected", "beside_profile", "profile_not_selected", "response_key_unread", "unknown_config_key"}
)
"""Codes of parts without effect; editors show these parts faded."""


class DiagnosticSupport(msgspec.Struct, frozen=True):
    """The features of diagnostics that a client supports."""

    versions: bool = True
    related: bool = False
    links: bool = False
    unused: bool = False


def diagnostic_support(client: types.ClientCapabilities) -> DiagnosticSupport:
    """The support that a client's capabilities state."""
    document = client.text_document
    said = (document.publish_diagnostics if document is not None else None) or types.PublishDiagnosticsClientCapabilities()
    return DiagnosticSupport(
        versions=said.version_support is not False,
        related=bool(said.related_information),
        links=bool(said.code_description_support),
        unused=said.tag_support is not None and types.DiagnosticTag.Unnecessary in said.tag_support.value_set,
    )


def as_diagnostics(
    problems: Iterable[Problem], where: SourceMap, text: Text, uri: str, manual: Manual, support: DiagnosticSupport
) -> list[dict[str, Any]]:
    """The diagnostics of a document as plain data, in the order of its problems.

    A keystroke may produce a thousand, and pygls' objects would cost more than the analysis.
    """
    return [_diagnostic(problem, where, text, uri, manual, support) for problem in problems]


def as_told(message: str) -> str:
    """The message of a problem, shortened and with escapes for invisible characters: it may quote the file."""
    return readable(message, DEFAULTS.max_error_text)


def _diagnostic(
    problem: Problem, where: SourceMap, text: Text, uri: str, manual: Manual, support: DiagnosticSupport
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "range": _range(text, where.span_of(problem)),
        "severity": _SEVERITIES[problem.severity],
        "code": problem.code,
        "source": SOURCE,
        "message": as_told(problem.message),
    }
    if support.links and (href := manual.link(problem.code)) is not None:
        found["codeDescription"] = {"href": href}
    if support.unused and problem.code in _UNUSED:
        found["tags"] = [_UNNECESSARY]
    if problem.related:
        places = [(_range(text, span), as_told(other["message"])) for other, span in related_places(problem, where)]
        if support.related:
            found["relatedInformation"] = [
                {"location": {"uri": uri, "range": place}, "message": message} for place, message in places
            ]
        else:
            found["message"] += "".join(f"\n(line {place['start']['line'] + 1}) {message}" for place, message in places)
    return found


def _range(text: Text, span: Span) -> dict[str, Any]:
    (line, character), (end_line, end_character) = text.position(span[0]), text.position(span[1])
    return {"start": {"line": line, "character": character}, "end": {"line": end_line, "character": end_character}}


class DiagnosticPublisher:
    """Sends diagnostics to one client, in the form that it supports.

    Each analysed state is published, even without changes, so the client knows that the positions belong to its version.
    """

    def __init__(self, protocol: PipeProtocol, manual: Manual) -> None:
        self.support = DiagnosticSupport()
        self.finders: list[Finder] = []
        self._protocol = protocol
        self._manual = manual

    def publish(self, document: Document, state: State, analysis: Analysis) -> None:
        """Send the diagnostics of one state."""
        params: dict[str, Any] = {"uri": document.uri}
        if self.support.versions and state.version is not None:
            params["version"] = state.version
        found = as_diagnostics(analysis.problems, analysis.map, state.text, document.uri, self._manual, self.support)
        for finder in self.finders:
            found += [self._protocol.plain(other) for other in finder(document.uri, state.text, analysis)]
        params["diagnostics"] = found
        self._protocol.send_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def publish_again(self, document: Document) -> None:
        """Send the diagnostics of an unchanged document again, because finders have new ones."""
        state = document.state
        if state.analysis is not None:
            self.publish(document, state, state.analysis)

    def retract(self, document: Document) -> None:
        """Remove all diagnostics of a closed document."""
        self._protocol.send_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, {"uri": document.uri, "diagnostics": []})


_ROW: Final = re.compile(r"\| `(\w+)` \|")


class Manual:
    """The lines of protocol.md that explain each code. Without the file there are no links."""

    def __init__(self, path: Path | None = None) -> None:
        """Find the file in the package (in a wheel) or beside it (in a checkout)."""
        package = Path(__file__).resolve().parents[2]
        candidates = [path] if path is not None else [package / "protocol.md", package.parent / "protocol.md"]
        found = next((candidate for candidate in candidates if candidate.is_file()), None)
        self._uri = None if found is None else found.as_uri()
        lines = () if found is None else found.read_text(encoding="utf-8").split("\n")
        self._lines = {match[1]: number for number, line in enumerate(lines, 1) if (match := _ROW.match(line)) is not None}

    def link(self, code: str) -> str | None:
        """The URI of the line about a code, or None."""
        line = self._lines.get(code)
        return None if line is None else f"{self._uri}#L{line}"

    def __repr__(self) -> str:
        return f"<Manual {self._uri}, {len(self._lines)} codes>"
