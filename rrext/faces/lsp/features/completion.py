"""Completion and hover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.columns import cut, one_line
from rrext.editor.completions.completion import TRIGGERS, Completer, Completion
from rrext.editor.completions.offer import CompletionItem, Indent, Kind, as_plain, as_snippet, has_stops
from rrext.editor.hover import hover_at
from rrext.editor.page import Page
from rrext.editor.text import Text
from rrext.faces.lsp.documents import as_position, as_range, offset_of
from rrext.faces.lsp.features.navigation import workspace_files
from rrext.faces.lsp.params import Identifier, SyncPosition, read

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
