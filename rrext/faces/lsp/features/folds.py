"""Folding ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.editor.outline.folds import Fold, FoldKind, by_lines, folds_of, limited
from rrext.editor.text import Text
from rrext.faces.lsp.limits import MAX_FOLDS
from rrext.faces.lsp.positions import as_position

if TYPE_CHECKING:
    from rrext.faces.lsp.server import PipeServer

_KINDS: Final[dict[FoldKind, types.FoldingRangeKind | None]] = {
    "brackets": None,
    "comment": types.FoldingRangeKind.Comment,
}


def register(server: PipeServer) -> None:
    """Let a server answer folding ranges."""

    async def folding(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        _, text, analysis = await server.look(params.text_document.uri)
        can = server.client_capabilities
        lines_only = get_capability(can, "text_document.folding_range.line_folding_only", False)
        labels = get_capability(can, "text_document.folding_range.folding_range.collapsed_text", False)
        most = get_capability(can, "text_document.folding_range.range_limit", None)
        folds = folds_of(analysis)
        folds = by_lines(folds) if lines_only else folds
        folds = limited(folds, MAX_FOLDS if most is None else most)
        return [_range(fold, text, lines_only=bool(lines_only), labels=bool(labels)) for fold in folds]

    server.answer(types.TEXT_DOCUMENT_FOLDING_RANGE, folding)


def _range(fold: Fold, text: Text, *, lines_only: bool, labels: bool) -> types.FoldingRange:
    kind, label = _KINDS[fold.kind], (fold.label or None) if labels else None
    if lines_only or fold.kind != "brackets":  # without columns, a comment folds behind its first line
        return types.FoldingRange(*fold.lines, kind=kind, collapsed_text=label)
    start, end = as_position(text, fold.span[0]), as_position(text, fold.span[1])
    return types.FoldingRange(start.line, end.line, start.character, end.character, kind, label)
