"""Failures of runs as diagnostics at the failed component, until it succeeds or is edited, or the document is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.outline import source_of
from rrext.editor.text import Text
from rrext.errors import RrextError
from rrext.faces.lsp.positions import as_range
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Span

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

SOURCE: Final = "rrext run"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a run: a tool, `send` or `chat`."""

    kind: str
    node: str = ""
    tool: str = ""


class _Mark(msgspec.Struct, frozen=True):
    """A failure. `component` is the text of its component at that time."""

    work: Work
    code: str
    message: str
    node: str
    component: str


_Key: TypeAlias = tuple[str, str, str]
"""Kind of work, node, tool."""


class Marks:
    """The failures on display, the latest of each tool of each node."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        self._marks: dict[str, dict[_Key, _Mark]] = {}
        server.publisher.finders.append(self._found)
        server.on_document_closed.append(lambda uri: self._marks.pop(uri, None))

    def add(self, uri: str, analysis: Analysis, work: Work, error: RrextError) -> None:
        """Mark a failed run of a document; `analysis` belongs to its text."""
        if self._server.documents.find(uri) is None:
            return
        node = _node_of(analysis, work, error.data.get("nodeId"))
        message = error.message if error.hint is None or error.hint in error.message else f"{error.message}\n{error.hint}"
        mark = _Mark(work, error.code, message, node, _component(analysis, node))
        self._marks.setdefault(uri, {})[work.kind, node, work.tool] = mark
        self._server.publish_again(uri)

    def remove(self, uri: str, analysis: Analysis, work: Work) -> None:
        """Remove the mark of a work that succeeded."""
        key = work.kind, _node_of(analysis, work, None), work.tool
        if self._marks.get(uri, {}).pop(key, None) is not None:
            self._server.publish_again(uri)

    def _found(self, uri: str, text: Text, analysis: Analysis) -> Iterator[types.Diagnostic]:
        marks = self._marks.get(uri, {})
        for key, mark in list(marks.items()):
            if _component(analysis, mark.node) != mark.component:
                del marks[key]
                continue
            href = self._server.manual.link(mark.code)
            yield types.Diagnostic(
                as_range(text, _place(analysis, mark)),
                mark.message,
                severity=types.DiagnosticSeverity.Error,
                code=mark.code,
                code_description=None if href is None else types.CodeDescription(href),
                source=SOURCE,
            )


def _node_of(analysis: Analysis, work: Work, named: Any) -> str:
    """The component of a run: the component that its failure names, else the called component."""
    if isinstance(named, str) and named in analysis.by_id:
        return named
    if work.node or work.kind != "tool":
        source = source_of(analysis, work.kind)
        return work.node or (analysis.loaded.outline.source if source is None else source.id)
    chain = {node_id: place for place, node_id in enumerate(analysis.loaded.outline.chain)}
    owners = [draft.id for draft in analysis.drafts if draft.node is not None and work.tool in draft.node.tools]
    return min(owners, key=lambda owner: chain.get(owner, len(chain)), default="")


def _component(analysis: Analysis, node: str) -> str:
    draft = analysis.by_id.get(node)
    located = None if draft is None else analysis.map.find(draft.path)
    return "" if located is None else analysis.text[located.start : located.end]


def _place(analysis: Analysis, mark: _Mark) -> Span:
    """The span of the component's id."""
    draft = analysis.by_id.get(mark.node)
    if draft is not None:
        return analysis.map.span(below(draft.path, "id"))
    start, _ = analysis.map.span(analysis.base)
    return start, start + 1
