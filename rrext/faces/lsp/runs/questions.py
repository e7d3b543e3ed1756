"""Questions to the user: editors can offer choices, but no input forms."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.editor.edits import Edit
from rrext.editor.new_call_line import tool_words, written_line
from rrext.editor.text import Text
from rrext.faces.lsp.positions import as_edits
from rrext.faces.lsp.runs.errors import InputNeeded, InputWanted

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

log: Final = logging.getLogger("rrext.lsp")

WRITE: Final = "Write a call line"


class UserQuestions:
    """Asks the user to choose, or writes a call line into the document for the user to complete."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server

    async def tool(self, tools: Sequence[dict[str, Any]], where: str) -> dict[str, Any]:
        """The descriptor of the only tool, or of the one that the user chooses. Raises `InputNeeded`."""
        if len(tools) == 1:
            return tools[0]
        if not tools:
            raise InputNeeded("/tool", f"{where} has no tool that can be called")
        names = [tool["name"] for tool in tools]
        twice = {name for name in names if names.count(name) > 1}
        titles = [f"{tool['name']} ({tool['nodeId']})" if tool["name"] in twice else tool["name"] for tool in tools]
        chosen = await self._choose(f"Which tool of {where} is to run?", titles)
        if chosen is None:
            raise InputNeeded("/tool", "no tool was chosen", hint=f"pass `tool`, one of {', '.join(titles)}")
        return tools[titles.index(chosen)]

    async def input(self, uri: str, node: str, tool: dict[str, Any]) -> InputNeeded:
        """Offer to write a call line for a tool with missing input; returns the error that ends the run."""
        name, schema = tool["name"], tool.get("inputSchema", {})
        needed = ", ".join(schema.get("required", ()))
        return await self._offer(uri, node, f"{name} needs input: {needed}.", tool_words(name, schema), "/input", needed)

    async def file(self, uri: str) -> InputNeeded:
        """Offer to write a call line for missing files; returns the error that ends the run."""
        return await self._offer(uri, "", "Which file is to be sent?", "rrext send notes.txt", "/path", "a path, or `text`")

    async def question(self, uri: str) -> InputNeeded:
        """Offer to write a call line for a missing question; returns the error that ends the run."""
        return await self._offer(uri, "", "What is to be asked?", "rrext chat What is this about?", "/question", "a question")

    async def _offer(self, uri: str, node: str, message: str, words: str, path: str, needed: str) -> InputNeeded:
        if await self._choose(message, [WRITE]) == WRITE and await self._write(uri, node, words):
            return InputWanted(path, words)
        hint = f"pass `{path[1:]}`, or write a comment into the document: // {words}"
        return InputNeeded(path, f"is missing: {needed}", hint=hint)

    async def _choose(self, message: str, titles: Sequence[str]) -> str | None:
        actions = [types.MessageActionItem(title) for title in titles]
        asked = types.ShowMessageRequestParams(types.MessageType.Info, message, actions)
        try:
            chosen = await self._server.window_show_message_request_async(asked)
        except JsonRpcException as error:
            log.info("the client asks nobody: %s", error)
            return None
        return chosen.title if chosen is not None and chosen.title in titles else None

    async def _write(self, uri: str, node: str, words: str) -> bool:
        """Insert a call line into a component of the document, or into its source."""
        if not get_capability(self._server.client_capabilities, "workspace.apply_edit", False):
            return False
        document, text, analysis = await self._server.look(uri)
        edit = written_line(analysis, analysis.by_id.get(node or analysis.loaded.outline.source), words)
        change = workspace_edit(self._server.client_capabilities, uri, document.state.version, text, [edit])
        try:
            answer = await self._server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(change, label=WRITE))
        except JsonRpcException as error:
            log.info("the client edits nothing: %s", error)
            return False
        return answer.applied


def workspace_edit(
    client: types.ClientCapabilities, uri: str, version: int | None, text: Text, edits: Sequence[Edit]
) -> types.WorkspaceEdit:
    """Edits of one document, bound to its version if the client supports that."""
    changes = as_edits(text, edits)
    if not get_capability(client, "workspace.workspace_edit.document_changes", False):
        return types.WorkspaceEdit(changes={uri: changes})
    document = types.OptionalVersionedTextDocumentIdentifier(uri, version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, changes)])
