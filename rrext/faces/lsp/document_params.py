"""The parameters of document notifications, decoded directly, because pygls' objects cost more than the edit itself."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
from pygls.exceptions import JsonRpcInvalidParams

T = TypeVar("T")

_SYNC: Final = re.compile(rb'"method"\s*:\s*"textDocument/did(?:Open|Change)"')
_URI: Final = re.compile(rb'"uri"\s*:\s*("(?:[^"\\]|\\.)*")')


class Item(msgspec.Struct, frozen=True):
    """A document, with its text."""

    uri: str
    text: str
    version: int | None = None


class Identifier(msgspec.Struct, frozen=True):
    """A document."""

    uri: str
    version: int | None = None


class SyncPosition(msgspec.Struct, frozen=True):
    """A position. One outside of the text means its nearest end."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True):
    """Two positions."""

    start: SyncPosition
    end: SyncPosition


class TextChange(msgspec.Struct, frozen=True):
    """`text` in place of a range, or of the whole text."""

    text: str
    range: Range | None = None


class Opened(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didOpen`"""

    text_document: Item


class Changed(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didChange`: changes apply in order."""

    text_document: Identifier
    content_changes: list[TextChange]


class Closed(msgspec.Struct, frozen=True, rename="camel"):
    """`textDocument/didClose`, and the common part of all messages about a document."""

    text_document: Identifier


def uri_in(params: Any) -> str | None:
    """The document of an otherwise unreadable notification, or None."""
    try:
        return read(params, Closed).text_document.uri
    except JsonRpcInvalidParams:
        return None


def document_in(start: bytes) -> str | None:
    """The document of an edit from the first bytes of its message, or None.

    A wrong guess is harmless here, unlike for an id: it only makes the user open the document once more.
    """
    named = _URI.search(start) if _SYNC.search(start) else None
    try:
        return None if named is None else msgspec.json.decode(named[1], type=str)
    except ValueError:
        return None


def read(params: Any, wanted: type[T]) -> T:
    """The parameters of a notification. Raises `JsonRpcInvalidParams` with the misfits."""
    try:
        return msgspec.convert(params, wanted, strict=False)  # some clients send floats as positions
    except msgspec.ValidationError as error:
        raise JsonRpcInvalidParams(str(error)) from None
