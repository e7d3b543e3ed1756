"""Conversion between offsets and positions of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsprotocol import types
from pygls.capabilities import get_capability

from rrext.editor.text import Edit, Text
from rrext.pipefile.text.problems import Span


def as_position(text: Text, offset: int) -> types.Position:
    """The position of an offset."""
    line, character = text.position(offset)
    return types.Position(line, character)


def as_range(text: Text, span: Span) -> types.Range:
    """The range of a span."""
    return types.Range(as_position(text, span[0]), as_position(text, span[1]))


def as_edits(text: Text, edits: Iterable[Edit]) -> list[types.TextEdit]:
    """Edits as `TextEdit` objects."""
    return [types.TextEdit(as_range(text, (edit.start, edit.end)), edit.text) for edit in edits]


def offset_of(text: Text, position: types.Position) -> int:
    """The offset of a position; the nearest one for an invalid position."""
    return text.offset(position.line, position.character)


def workspace_edit(
    client: types.ClientCapabilities, uri: str, version: int | None, text: Text, edits: Sequence[Edit]
) -> types.WorkspaceEdit:
    """Edits of one document, bound to its version if the client supports that."""
    changes = as_edits(text, edits)
    if not get_capability(client, "workspace.workspace_edit.document_changes", False):
        return types.WorkspaceEdit(changes={uri: changes})
    document = types.OptionalVersionedTextDocumentIdentifier(uri, version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, changes)])
