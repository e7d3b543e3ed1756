"""Answers at a position of a document: completion, hover, definition, references, highlights and renaming; its symbols, and its
links to files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.uris import to_fs_path

from rrext.columns import cut, one_line
from rrext.editor.completions.completion import TRIGGERS, Completer, Completion
from rrext.editor.completions.offer import CompletionItem, Indent, Kind, as_plain, as_snippet, has_stops
from rrext.editor.hover import hover_at
from rrext.editor.outline import Name, Names, NotRenamed, Symbol, SymbolKind, symbols_of
from rrext.editor.page import Page
from rrext.editor.text import Text
from rrext.editor.workspace_files import WorkspaceFiles, links_of
from rrext.faces.lsp.documents import as_position, as_range, offset_of, workspace_edit
from rrext.faces.lsp.params import Identifier, SyncPosition, read
from rrext.faces.lsp.runs.engine import folder_of

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


MAX_OFFER_WIDTH: Final = 200
"""Columns of a text in the list of offers."""

T = TypeVar("T")

BY_SIGN: Final = types.CompletionTriggerKind.TriggerCharacter.value

_KINDS: Final[dict[Kind, types.CompletionItemKind]] = {
    "provider": types.CompletionItemKind.Class,
    "node": types.CompletionItemKind.Reference,
    "lane": types.CompletionItemKind.Interface,
    "class_type": types.CompletionItemKind.Interface,
    "key": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.Value,
    "profile": types.CompletionItemKind.EnumMember,
    "tool": types.CompletionItemKind.Function,
    "variable": types.CompletionItemKind.Variable,
    "snippet": types.CompletionItemKind.Snippet,
    "file": types.CompletionItemKind.File,
    "folder": types.CompletionItemKind.Folder,
    "name": types.CompletionItemKind.Value,
}


class CompletionTrigger(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why a client requests completions."""

    trigger_kind: int
    trigger_character: str | None = None


class CompletionParams(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/completion`"""

    text_document: Identifier
    position: SyncPosition
    context: CompletionTrigger | None = None


class ItemSupport(msgspec.Struct, frozen=True):
    """A client's support for items. `adjusts`: it indents the lines of an item itself, if told so."""

    snippets: bool
    adjusts: bool

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities) -> ItemSupport:
        """The support that the capabilities state."""
        item = "text_document.completion.completion_item"
        modes = get_capability(capabilities, f"{item}.insert_text_mode_support.value_set", None) or ()
        return cls(
            bool(get_capability(capabilities, f"{item}.snippet_support", False)),
            types.InsertTextMode.AdjustIndentation in modes,
        )


def register_completion(server: PipeServer) -> None:
    """Let a server answer completions. One thread computes them, because that may import the code of every node."""
    completer = Completer()
    thread = ThreadPoolExecutor(1, thread_name_prefix="rrext-completion")

    async def run(work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work, *args)

    async def complete(params: Any) -> dict[str, Any]:
        asked = read(params, CompletionParams)
        _, text, analysis = await server.analysis_of(asked.text_document.uri)
        support = ItemSupport.of(server.client_capabilities)
        trigger = (
            asked.context.trigger_character if asked.context is not None and asked.context.trigger_kind == BY_SIGN else None
        )
        offset = text.offset(asked.position.line, asked.position.character)

        files = workspace_files(server, asked.text_document.uri)

        def answer() -> dict[str, Any]:
            return _listing(completer.complete(analysis, offset, trigger, files), text, support)

        return await run(answer)

    async def resolve(item: types.CompletionItem) -> types.CompletionItem:
        about = item.data
        if isinstance(about, list) and all(isinstance(part, str) for part in about):
            page = await run(completer.explain, tuple(about), server.surroundings().catalog)
            kinds = "text_document.completion.completion_item.documentation_format"
            if page is not None:
                formats = get_capability(server.client_capabilities, kinds, None)
                found = as_markup(page, formats)
                item.documentation = found if formats else found.value  # a client that names no format expects plain text
        return item

    async def close() -> None:
        thread.shutdown(wait=False, cancel_futures=True)

    options = types.CompletionOptions(trigger_characters=list(TRIGGERS), resolve_provider=True)
    server.answer(types.TEXT_DOCUMENT_COMPLETION, complete, options)  # so that the capabilities name it
    server.protocol.raw[types.TEXT_DOCUMENT_COMPLETION] = complete
    server.answer(types.COMPLETION_ITEM_RESOLVE, resolve)
    server.when_closing(close)


def _listing(completion: Completion, text: Text, support: ItemSupport) -> dict[str, Any]:
    """The list as plain data, because objects of the protocol cost more than the rest of the answer."""
    places: dict[int, dict[str, int]] = {}

    def place(offset: int) -> dict[str, int]:
        if offset not in places:
            position = as_position(text, offset)
            places[offset] = {"line": position.line, "character": position.character}
        return places[offset]

    items = [_item(item, number, completion.indent, support, place) for number, item in enumerate(completion.items)]
    return {"isIncomplete": completion.cut, "items": items}


def _item(
    item: CompletionItem, number: int, indent: Indent, support: ItemSupport, place: Callable[[int], dict[str, int]]
) -> dict[str, Any]:
    offer = item.offer
    as_is = Indent("", indent.unit) if support.adjusts else indent
    snippet = support.snippets and has_stops(item.template)
    written = as_snippet(item.template, as_is) if snippet else as_plain(item.template, as_is)
    found: dict[str, Any] = {
        "label": cut(one_line(offer.label), MAX_OFFER_WIDTH),
        "kind": _KINDS[offer.kind].value,
        "sortText": f"{number:04}",
        "filterText": item.finds,
        "textEdit": {"range": {"start": place(item.start), "end": place(item.end)}, "newText": written},
        "data": list(offer.about),
    }
    if offer.detail:
        found["detail"] = cut(one_line(offer.detail), MAX_OFFER_WIDTH)
    if snippet:
        found["insertTextFormat"] = types.InsertTextFormat.Snippet.value
    if "\n" in written and support.adjusts:
        found["insertTextMode"] = types.InsertTextMode.AdjustIndentation.value
    if item.before:
        found["additionalTextEdits"] = [
            {"range": {"start": place(edit.start), "end": place(edit.end)}, "newText": edit.text} for edit in item.before
        ]
    return found


def register_hover(server: PipeServer) -> None:
    """Let a server answer hovers."""

    async def hover(params: types.HoverParams) -> types.Hover | None:
        _, text, analysis = await server.analysis_of(params.text_document.uri)
        found = hover_at(analysis, offset_of(text, params.position))
        if found is None:
            return None
        kinds = get_capability(server.client_capabilities, "text_document.hover.content_format", None)
        return types.Hover(as_markup(found.page, kinds), as_range(text, found.span))

    server.answer(types.TEXT_DOCUMENT_HOVER, hover)


def as_markup(page: Page, kinds: Sequence[types.MarkupKind] | None) -> types.MarkupContent:
    """A page in the first format that a client supports; plain text if it names none."""
    for kind in kinds or ():
        if kind == types.MarkupKind.Markdown:
            return types.MarkupContent(types.MarkupKind.Markdown, page.markdown())
        if kind == types.MarkupKind.PlainText:
            break
    return types.MarkupContent(types.MarkupKind.PlainText, page.plain())


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


_SYMBOL_KINDS: Final[dict[SymbolKind, types.SymbolKind]] = {
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
        _SYMBOL_KINDS[symbol.kind],
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
