"""Definition, references, highlights, renaming, document symbols, and links to files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.uris import to_fs_path

from rrext.editor.outline import Name, Names, NotRenamed, Symbol, SymbolKind, symbols_of
from rrext.editor.text import Text
from rrext.editor.workspace_files import WorkspaceFiles, links_of
from rrext.faces.lsp.documents import as_range, offset_of, workspace_edit
from rrext.faces.lsp.runs.engine import folder_of

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


_REFUSED: Final = types.LSPErrorCodes.RequestFailed.value


def register_navigation(server: PipeServer) -> None:
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
        text, names, name = await self._names_at(uri, params.position)
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
        text, names, name = await self._names_at(uri, params.position)
        if name is None:
            return None
        declared = names.declaration(name) if not params.context.include_declaration else None
        places = [place for place in names.meaning(name) if place is not declared]
        return [types.Location(uri, as_range(text, place.span)) for place in places]

    async def highlights(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        """The same occurrences; the declaration counts as written, others as read."""
        text, names, name = await self._names_at(params.text_document.uri, params.position)
        if name is None:
            return None
        write, read = types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read
        return [
            types.DocumentHighlight(as_range(text, place.span), write if place.use == "id" else read)
            for place in names.meaning(name)
        ]

    async def prepare(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        """The id to rename; None if there is none. Raises with the reason if it cannot be renamed."""
        text, names, name = await self._names_at(params.text_document.uri, params.position)
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
        text, names, name = await self._names_at(uri, params.position)
        if name is None:
            raise JsonRpcException("Only the ids of components can be renamed, and there is none here.", _REFUSED)
        try:
            edits = names.renamed(name, params.new_name)
        except NotRenamed as error:
            raise JsonRpcException(str(error), _REFUSED) from None
        return workspace_edit(self._server.client_capabilities, uri, version, text, edits)

    async def _names_at(self, uri: str, position: types.Position) -> tuple[Text, Names, Name | None]:
        _, text, analysis = await self._server.analysis_of(uri)
        names = Names(analysis)
        return text, names, names.at(offset_of(text, position))


_KINDS: Final[dict[SymbolKind, types.SymbolKind]] = {
    "source": types.SymbolKind.Constructor,
    "node": types.SymbolKind.Function,
    "helper": types.SymbolKind.Interface,
    "response": types.SymbolKind.Class,
    "unknown": types.SymbolKind.Module,
    "edge": types.SymbolKind.Field,
    "settings": types.SymbolKind.Namespace,
    "text": types.SymbolKind.String,
    "number": types.SymbolKind.Number,
    "boolean": types.SymbolKind.Boolean,
    "array": types.SymbolKind.Array,
    "object": types.SymbolKind.Property,
    "null": types.SymbolKind.Constant,
}
"""The kind of each symbol, among those of the protocol's first version, which every client knows."""


def register_symbols(server: PipeServer) -> None:
    """Let a server answer document symbols."""

    async def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        _, text, analysis = await server.analysis_of(params.text_document.uri)
        return [_nested(symbol, text) for symbol in symbols_of(analysis)]

    server.answer(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols)


def _nested(symbol: Symbol, text: Text) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        symbol.name,
        _KINDS[symbol.kind],
        as_range(text, symbol.span),
        as_range(text, symbol.name_span),
        symbol.detail or None,
        children=[_nested(child, text) for child in symbol.children],
    )


def register_links(server: PipeServer) -> None:
    """Let a server answer links."""

    async def links(params: types.DocumentLinkParams) -> list[types.DocumentLink]:
        uri = params.text_document.uri
        _, text, analysis = await server.analysis_of(uri)
        files = workspace_files(server, uri)
        if files is None:
            return []
        found = await asyncio.to_thread(lambda: list(links_of(analysis, files)))
        return [types.DocumentLink(as_range(text, span), Path(path).as_uri()) for span, path in found]

    server.answer(types.TEXT_DOCUMENT_DOCUMENT_LINK, links, types.DocumentLinkOptions(resolve_provider=False))


def workspace_files(server: PipeServer, uri: str) -> WorkspaceFiles | None:
    """The files that a document may name: below the root of the options, or else in the folders of the workspace, or in its
    own folder if there are none. None for a document without a file."""
    folder = folder_of(uri)
    if folder is None:
        return None
    root = server.options.root
    if root is not None:
        return WorkspaceFiles(root, [root])
    return WorkspaceFiles(folder, workspace_folders(server) or [folder])


def workspace_folders(server: PipeServer) -> list[str]:
    """The folders of the client's workspace that are in the file system."""
    workspace = server.workspace
    uris = list(workspace.folders) or ([workspace.root_uri] if workspace.root_uri else [])
    paths = (to_fs_path(uri) for uri in uris if uri.startswith("file:"))
    return [path for path in paths if path]
