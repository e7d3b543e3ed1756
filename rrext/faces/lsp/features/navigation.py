"""Requests about ids: definition, references, highlights and rename."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from rrext.editor.names import Name, Names, NotRenamed
from rrext.editor.text import Text
from rrext.faces.lsp.positions import as_range, offset_of, workspace_edit

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

_REFUSED: Final = types.LSPErrorCodes.RequestFailed.value


def register(server: PipeServer) -> None:
    """Let a server answer requests about ids."""
    feature = _Navigation(server)
    server.answer(types.TEXT_DOCUMENT_DEFINITION, feature.definition)
    server.answer(types.TEXT_DOCUMENT_REFERENCES, feature.references)
    server.answer(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, feature.highlights)
    server.answer(types.TEXT_DOCUMENT_PREPARE_RENAME, feature.prepare)
    server.answer(types.TEXT_DOCUMENT_RENAME, feature.rename)


class _Navigation:
    """The answers of one server."""

    def __init__(self, server: PipeServer) -> None:
        self._server = server

    async def definition(self, params: types.DefinitionParams) -> list[types.LocationLink] | types.Location | None:
        """The component of an id, or of the tool that a reference means."""
        uri = params.text_document.uri
        text, names, name = await self._look(uri, params.position)
        name = name or names.of_tool(offset_of(text, params.position))
        declared = None if name is None else names.declaration(name)
        if name is None or declared is None or declared.component is None:
            return None
        if not get_capability(self._server.client_capabilities, "text_document.definition.link_support", False):
            return types.Location(uri, as_range(text, declared.span))
        located = names.written.components[declared.component].located
        whole, own = as_range(text, (located.start, located.end)), as_range(text, declared.span)
        return [types.LocationLink(uri, whole, own, as_range(text, name.span))]

    async def references(self, params: types.ReferenceParams) -> list[types.Location] | None:
        """All occurrences that name the same component."""
        uri = params.text_document.uri
        text, names, name = await self._look(uri, params.position)
        if name is None:
            return None
        declared = names.declaration(name) if not params.context.include_declaration else None
        places = [place for place in names.meaning(name) if place is not declared]
        return [types.Location(uri, as_range(text, place.span)) for place in places]

    async def highlights(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        """The same occurrences; the declaration counts as written, others as read."""
        text, names, name = await self._look(params.text_document.uri, params.position)
        if name is None:
            return None
        write, read = types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read
        return [
            types.DocumentHighlight(as_range(text, place.span), write if place.use == "id" else read)
            for place in names.meaning(name)
        ]

    async def prepare(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        """The id to rename; None if there is none. Raises with the reason if it cannot be renamed."""
        text, names, name = await self._look(params.text_document.uri, params.position)
        if name is None:
            return None
        try:
            names.check_renameable(name)
        except NotRenamed as error:
            raise JsonRpcException(str(error), _REFUSED) from None
        return types.PrepareRenamePlaceholder(as_range(text, name.span), name.value)

    async def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        """The edits that give a component another id."""
        uri = params.text_document.uri
        version = self._server.documents.get(uri).state.version  # of the text that is looked at
        text, names, name = await self._look(uri, params.position)
        if name is None:
            raise JsonRpcException("Only the ids of components can be renamed, and there is none here.", _REFUSED)
        try:
            edits = names.renamed(name, params.new_name)
        except NotRenamed as error:
            raise JsonRpcException(str(error), _REFUSED) from None
        return workspace_edit(self._server.client_capabilities, uri, version, text, edits)

    async def _look(self, uri: str, position: types.Position) -> tuple[Text, Names, Name | None]:
        _, text, analysis = await self._server.look(uri)
        names = Names(analysis)
        return text, names, names.at(offset_of(text, position))
