"""Diagnostics for the client: pushed, or on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.text import Text
from rrext.faces.lsp.diagnostics import DiagnosticSupport, as_diagnostics, diagnostic_support
from rrext.faces.lsp.message_encoding import encoded_own

if TYPE_CHECKING:
    from rrext.faces.lsp.documents import Document, State
    from rrext.faces.lsp.manual import Manual
    from rrext.faces.lsp.protocol import PipeProtocol

Finder: TypeAlias = Callable[[str, Text, Analysis], Iterable[types.Diagnostic]]
"""A source of further diagnostics of a document, from its URI, text and analysis."""

REFRESH: Final = types.WORKSPACE_DIAGNOSTIC_REFRESH


class DiagnosticPublisher:
    """Sends diagnostics to one client, in the form that it supports.

    Each analysed state is published, even without changes, so the client knows that the positions belong to its version.
    """

    def __init__(self, protocol: PipeProtocol, manual: Manual) -> None:
        self.support = DiagnosticSupport()
        self.finders: list[Finder] = []
        self._protocol = protocol
        self._manual = manual

    def introduce(self, client: types.ClientCapabilities) -> bool:
        """Read the client's capabilities; returns whether it pulls diagnostics."""
        self.support = diagnostic_support(client)
        return self.support.pulled

    def publish(self, document: Document, state: State, analysis: Analysis) -> None:
        """Send the diagnostics of one state, unless the client pulls them."""
        if self.support.pulled:
            return
        params: dict[str, Any] = {"uri": document.uri}
        if self.support.versions and state.version is not None:
            params["version"] = state.version
        params["diagnostics"] = self._found(document, state, analysis)
        self._protocol.tell(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def publish_again(self, document: Document) -> None:
        """Send the diagnostics of an unchanged document again, because finders have new ones."""
        state = document.state
        if self.support.pulled:
            self._protocol.send_request(REFRESH)
        elif state.analysis is not None:
            self.publish(document, state, state.analysis)

    def retract(self, document: Document) -> None:
        """Remove all diagnostics of a closed document."""
        if not self.support.pulled:
            self._protocol.tell(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, {"uri": document.uri, "diagnostics": []})

    def report(self, document: Document, state: State, analysis: Analysis, known: str | None) -> dict[str, Any]:
        """The answer to a pull request; `known` is the id of the client's last report."""
        found = self._found(document, state, analysis)
        digest = blake2b(encoded_own({"items": found}), digest_size=16).hexdigest()
        if digest == known:
            return {"kind": types.DocumentDiagnosticReportKind.Unchanged.value, "resultId": digest}
        return {"kind": types.DocumentDiagnosticReportKind.Full.value, "resultId": digest, "items": found}

    def _found(self, document: Document, state: State, analysis: Analysis) -> list[Any]:
        problems, uri = analysis.problems, document.uri
        found = as_diagnostics(problems, analysis.map, state.text, uri, self._manual, self.support)
        for finder in self.finders:
            found += [self._protocol.plain(other) for other in finder(uri, state.text, analysis)]
        return found
