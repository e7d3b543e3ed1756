"""Diagnostics of open documents for the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.text import Text
from rrext.faces.lsp.diagnostics import DiagnosticSupport, as_diagnostics, diagnostic_support

if TYPE_CHECKING:
    from rrext.faces.lsp.documents import Document, State
    from rrext.faces.lsp.manual import Manual
    from rrext.faces.lsp.protocol import PipeProtocol

Finder: TypeAlias = Callable[[str, Text, Analysis], Iterable[types.Diagnostic]]
"""A source of further diagnostics of a document, from its URI, text and analysis."""


class DiagnosticPublisher:
    """Sends diagnostics to one client, in the form that it supports.

    Each analysed state is published, even without changes, so the client knows that the positions belong to its version.
    """

    def __init__(self, protocol: PipeProtocol, manual: Manual) -> None:
        self.support = DiagnosticSupport()
        self.finders: list[Finder] = []
        self._protocol = protocol
        self._manual = manual

    def introduce(self, client: types.ClientCapabilities) -> None:
        """Read the client's capabilities."""
        self.support = diagnostic_support(client)

    def publish(self, document: Document, state: State, analysis: Analysis) -> None:
        """Send the diagnostics of one state."""
        params: dict[str, Any] = {"uri": document.uri}
        if self.support.versions and state.version is not None:
            params["version"] = state.version
        found = as_diagnostics(analysis.problems, analysis.map, state.text, document.uri, self._manual, self.support)
        for finder in self.finders:
            found += [self._protocol.plain(other) for other in finder(document.uri, state.text, analysis)]
        params["diagnostics"] = found
        self._protocol.tell(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def publish_again(self, document: Document) -> None:
        """Send the diagnostics of an unchanged document again, because finders have new ones."""
        state = document.state
        if state.analysis is not None:
            self.publish(document, state, state.analysis)

    def retract(self, document: Document) -> None:
        """Remove all diagnostics of a closed document."""
        self._protocol.tell(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, {"uri": document.uri, "diagnostics": []})
