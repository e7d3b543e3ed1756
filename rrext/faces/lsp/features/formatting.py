"""Formatting of a document or of some of its lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from rrext.editor.formatting import formatted
from rrext.faces.lsp.positions import as_edits
from rrext.pipefile.text.problems import Span

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

MAX_INDENT: Final = 16
"""Spaces of one level of a formatted document."""

_MODIFIED = types.LSPErrorCodes.ContentModified.value


def register(server: PipeServer) -> None:
    """Let a server format. A thread computes the edits; a text that is not well-formed has none."""

    async def edits(uri: str, options: types.FormattingOptions, lines: tuple[int, int] | None) -> list[types.TextEdit]:
        document = server.documents.get(uri)
        state = document.state
        text = state.text
        within: Span | None = None
        if lines is not None:
            within = (text.offset(lines[0], 0), text.offset(lines[1], len(text.content) * 4))
        indent = " " * min(options.tab_size, MAX_INDENT) if options.insert_spaces else "\t"
        found = await asyncio.to_thread(formatted, text.content, indent, within)
        if document.state is not state:
            raise JsonRpcException(f"{uri} was edited meanwhile", _MODIFIED)
        return as_edits(text, found)

    async def whole(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        return await edits(params.text_document.uri, params.options, None)

    async def some(params: types.DocumentRangeFormattingParams) -> list[types.TextEdit]:
        start, end = params.range.start, params.range.end
        last = end.line - (end.character == 0 and end.line > start.line)  # editors select whole lines so
        return await edits(params.text_document.uri, params.options, (start.line, last))

    server.answer(types.TEXT_DOCUMENT_FORMATTING, whole)
    server.answer(types.TEXT_DOCUMENT_RANGE_FORMATTING, some)
