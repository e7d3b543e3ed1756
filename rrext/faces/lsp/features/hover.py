"""Hover requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.editor.hover import hover_at
from rrext.editor.page import Page
from rrext.faces.lsp.positions import as_range, offset_of

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer


def register(server: PipeServer) -> None:
    """Let a server answer hovers."""

    async def hover(params: types.HoverParams) -> types.Hover | None:
        _, text, analysis = await server.look(params.text_document.uri)
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
