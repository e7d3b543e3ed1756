"""Document symbols: the outline of a pipeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.editor.outline.symbols import Symbol, SymbolKind, symbols_of
from rrext.editor.text import Text
from rrext.faces.lsp.positions import as_range

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

_KINDS: Final[dict[SymbolKind, tuple[types.SymbolKind, types.SymbolKind]]] = {
    "source": (types.SymbolKind.Event, types.SymbolKind.Constructor),
    "node": (types.SymbolKind.Function, types.SymbolKind.Function),
    "helper": (types.SymbolKind.Interface, types.SymbolKind.Interface),
    "response": (types.SymbolKind.Struct, types.SymbolKind.Class),
    "unknown": (types.SymbolKind.Object, types.SymbolKind.Module),
    "edge": (types.SymbolKind.Operator, types.SymbolKind.Field),
    "settings": (types.SymbolKind.Namespace, types.SymbolKind.Namespace),
    "text": (types.SymbolKind.String, types.SymbolKind.String),
    "number": (types.SymbolKind.Number, types.SymbolKind.Number),
    "boolean": (types.SymbolKind.Boolean, types.SymbolKind.Boolean),
    "array": (types.SymbolKind.Array, types.SymbolKind.Array),
    "object": (types.SymbolKind.Object, types.SymbolKind.Module),
    "null": (types.SymbolKind.Null, types.SymbolKind.Constant),
}
"""The kind of each symbol, and a substitute for clients that do not know it."""
_FIRST_KINDS: Final = frozenset(kind for kind in types.SymbolKind if kind <= types.SymbolKind.Array)
"""The kinds of the protocol's first version, which every client knows."""


def register(server: PipeServer) -> None:
    """Let a server answer document symbols."""

    async def symbols(
        params: types.DocumentSymbolParams,
    ) -> Sequence[types.DocumentSymbol] | Sequence[types.SymbolInformation]:
        uri = params.text_document.uri
        _, text, analysis = await server.look(uri)
        can = server.client_capabilities
        kinds = get_capability(can, "text_document.document_symbol.symbol_kind.value_set", None) or _FIRST_KINDS
        found = symbols_of(analysis)
        if get_capability(can, "text_document.document_symbol.hierarchical_document_symbol_support", False):
            return [_nested(symbol, text, kinds) for symbol in found]
        return [information for symbol in found for information in _flat(symbol, "", uri, text, kinds)]

    server.answer(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols)


def _nested(symbol: Symbol, text: Text, kinds: Collection[types.SymbolKind]) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        symbol.name,
        _kind(symbol, kinds),
        as_range(text, symbol.span),
        as_range(text, symbol.name_span),
        symbol.detail or None,
        children=[_nested(child, text, kinds) for child in symbol.children],
    )


def _flat(
    symbol: Symbol, inside: str, uri: str, text: Text, kinds: Collection[types.SymbolKind]
) -> Iterator[types.SymbolInformation]:
    """A symbol and its descendants, each with the symbol that contains it."""
    location = types.Location(uri, as_range(text, symbol.span))
    yield types.SymbolInformation(location, symbol.name, _kind(symbol, kinds), container_name=inside or None)
    for child in symbol.children:
        yield from _flat(child, symbol.name, uri, text, kinds)


def _kind(symbol: Symbol, kinds: Collection[types.SymbolKind]) -> types.SymbolKind:
    kind, instead = _KINDS[symbol.kind]
    return kind if kind in kinds else instead
