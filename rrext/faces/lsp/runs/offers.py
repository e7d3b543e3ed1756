"""Runnable actions: code lenses above lines, and code actions at the cursor for editors without lenses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types

from rrext.editor.analysis import Analysis
from rrext.editor.outline import Action, Lens, lenses_of
from rrext.editor.text import Text
from rrext.faces.lsp.positions import as_range
from rrext.pipefile.text.problems import Span

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

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
        return [types.CodeLens(as_range(text, lens.span), self._command(uri, lens)) for lens in lenses_of(analysis)]

    def _command(self, uri: str, lens: Lens) -> types.Command:
        if lens.runs and not self._server.options.trusted:
            return types.Command(f"▷ {lens.title} (not trusted)", "rrext.explainTrust")
        sign = "▶" if lens.runs else "◇"
        return types.Command(f"{sign} {lens.title}", COMMANDS[lens.action], arguments=[{"uri": uri, **lens.arguments}])

    def actions(self, params: types.CodeActionParams, text: Text, span: Span, analysis: Analysis) -> Iterator[types.CodeAction]:
        """The runnable actions at the cursor or selection, only on an explicit request."""
        asked = params.context
        is_automatic = asked.trigger_kind == types.CodeActionTriggerKind.Automatic
        if is_automatic or not self._server.options.trusted or not wants(asked.only, RUN):
            return
        uri = params.text_document.uri
        comments = [lens for lens in lenses_of(analysis) if lens.is_comment and _touches(lens.span, span)]
        for lens in comments:
            yield _run(lens.title, COMMANDS[lens.action], {"uri": uri, **lens.arguments})
        draft = None if comments else analysis.component_at(span[0])
        if draft is not None and draft.node is not None:
            for name in draft.node.tools:
                yield _run(f"Run tool {name}", COMMANDS["run_tool"], {"uri": uri, "node": draft.id, "tool": name})


def _run(title: str, command: str, arguments: dict[str, Any]) -> types.CodeAction:
    return types.CodeAction(title, kind=RUN, command=types.Command(title, command, arguments=[arguments]))


def wants(only: Sequence[str] | None, kind: str) -> bool:
    """Whether a client's filter of action kinds includes this kind."""
    names = None if only is None else [str(getattr(name, "value", name)) for name in only]
    return names is None or any(name in ("", kind) or kind.startswith(f"{name}.") for name in names)


def _touches(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
