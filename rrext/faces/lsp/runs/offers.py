"""Runnable actions: code lenses above lines, and code actions at the cursor for editors without lenses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.call_writing import tool_words, written_line
from rrext.editor.outline.lenses import Action, Lens, lenses_of
from rrext.editor.text import Text
from rrext.errors import RrextError
from rrext.faces.lsp.positions import as_range
from rrext.faces.lsp.runs.deployments import folder_of
from rrext.faces.lsp.runs.files import MOST_COUNTED, FileCounter
from rrext.faces.lsp.runs.questions import WRITE, workspace_edit
from rrext.pipefile.shape import Draft
from rrext.pipefile.text.problems import Span

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

__all__ = ["RUN", "Offers"]

COMMANDS: Final[dict[Action, str]] = {
    "run_tool": "rrext.runTool",
    "send_file": "rrext.sendFile",
    "chat": "rrext.chat",
    "show_graph": "rrext.showGraph",
}
RUN: Final = "rrext.run"
"""The kind of these code actions."""


class Offers:
    """Lenses and code actions of one server."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server
        server.answer(types.TEXT_DOCUMENT_CODE_LENS, self._lenses, types.CodeLensOptions(resolve_provider=False))
        server.action_sources.append(self.actions)

    async def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        _, text, analysis = await self._server.look(uri)
        found = lenses_of(analysis)
        sent = [lens.call.paths for lens in found if lens.call is not None and lens.call.kind == "send"]
        numbers: dict[tuple[str, ...], int | None] = {}
        if sent and self._server.options.trusted:
            numbers = await asyncio.get_running_loop().run_in_executor(None, _counted, sent, folder_of(uri))
        return [types.CodeLens(as_range(text, lens.span), self._command(uri, lens, numbers)) for lens in found]

    def _command(self, uri: str, lens: Lens, numbers: dict[tuple[str, ...], int | None]) -> types.Command:
        if not lens.runs:
            return types.Command(f"◇ {lens.title}", COMMANDS[lens.action], arguments=[{"uri": uri, **lens.arguments}])
        if not self._server.options.trusted:
            return types.Command(f"▷ {lens.title} (not trusted)", "rrext.explainTrust")
        title = f"▶ {lens.title}"
        if lens.call is not None and lens.call.kind == "send":
            title += _files(numbers.get(lens.call.paths))
        return types.Command(title, COMMANDS[lens.action], arguments=[{"uri": uri, **lens.arguments}])

    def actions(self, params: types.CodeActionParams, text: Text, span: Span, analysis: Analysis) -> Iterator[types.CodeAction]:
        """The runnable actions at the cursor or selection, only on an explicit request."""
        asked = params.context
        if asked.trigger_kind == types.CodeActionTriggerKind.Automatic or not _wants(asked.only):
            return
        uri, is_trusted = params.text_document.uri, self._server.options.trusted
        calls = [lens for lens in lenses_of(analysis) if lens.call is not None and _touches(lens.span, span)]
        for lens in calls if is_trusted else ():
            yield _run(lens.title, COMMANDS[lens.action], {"uri": uri, **lens.arguments})
        draft = None if calls else analysis.component_at(span[0])
        if draft is None or draft.node is None:
            return
        for name, spec in draft.node.tools.items():
            schema = _schema(draft, name) if spec.static else {}
            if is_trusted and not schema.get("required"):
                yield _run(f"Run tool {name}", COMMANDS["run_tool"], {"uri": uri, "node": draft.id, "tool": name})
            else:  # the user must type its input
                yield self._writing(uri, text, analysis, draft, name, schema)

    def _writing(
        self, uri: str, text: Text, analysis: Analysis, draft: Draft, tool: str, schema: dict[str, Any]
    ) -> types.CodeAction:
        edit = written_line(analysis, draft, tool_words(tool, schema))
        document = self._server.documents.find(uri)
        version = None if document is None else document.state.version
        change = workspace_edit(self._server.client_capabilities, uri, version, text, [edit])
        return types.CodeAction(f"{WRITE} for {tool}", kind=RUN, edit=change)


def _run(title: str, command: str, arguments: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(title, kind=RUN, command=types.Command(title, command, arguments=[arguments]))


def _wants(only: Any) -> bool:
    """Whether a client's filter of action kinds includes ours."""
    return only is None or any(kind == RUN or RUN.startswith(f"{kind}.") or kind == "" for kind in only)


def _touches(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _schema(draft: Draft, tool: str) -> dict[str, Any]:
    assert draft.node is not None
    try:
        return draft.node.tools[tool].describe(None)["inputSchema"]
    except RrextError:
        return {}


def _counted(sent: Iterable[tuple[str, ...]], folder: str | None) -> dict[tuple[str, ...], int | None]:
    """The number of files of each list of paths. Blocks."""
    passing = FileCounter(folder)
    return {paths: passing.count(paths) for paths in set(sent)}


def _files(number: int | None) -> str:
    if number is None:
        return ""
    if number > MOST_COUNTED:
        return f" (more than {MOST_COUNTED} files)"
    return f" ({number} file{'s' if number != 1 else ''})"
