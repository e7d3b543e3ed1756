"""Document symbols: the outline of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types

from rrext.editor.outline import Symbol, SymbolKind, symbols_of
from rrext.editor.text import Text
from rrext.faces.lsp.positions import as_range

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

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


def register(server: PipeServer) -> None:
    """Let a server answer document symbols."""

    async def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        _, text, analysis = await server.look(params.text_document.uri)
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
