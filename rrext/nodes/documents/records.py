"""Requests and answers of a process that reads documents, in frames of `rrext.nodes.child.worker`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rrext.errors import ToolError
from rrext.nodes.child.process import Cancel, ChildRequest


class DocumentPiece(msgspec.Struct, frozen=True, array_like=True):
    """Text or a whole table of a document, both Markdown unless the document is plain text."""

    kind: Literal["text", "table"]
    content: str


class DocumentImage(msgspec.Struct, frozen=True, array_like=True):
    """A picture in a document."""

    mime_type: str
    data: bytes


class ParsedDocument(msgspec.Struct, frozen=True):
    """A parsed document: its pieces in reading order, its metadata, its true MIME type, and its pictures if they are wanted."""

    mime_type: str
    pieces: list[DocumentPiece]
    metadata: dict[str, Any] = {}
    images: list[DocumentImage] = []


class DocumentRequest(msgspec.Struct, frozen=True):
    """The name, declared type and limits of a document to read.

    `charset` is that of texts which neither are UTF-8 nor say theirs; empty: it is detected. `timeout` is in seconds. `nesting`
    is how many mails it is attached to, one in the other. `images` says whether pictures are wanted.
    """

    name: str = ""
    mime_type: str = ""
    max_characters: int = 10_000_000
    max_unpacked: int = 256 * 1024 * 1024
    allow_empty: bool = False
    timeout: float = 60.0
    charset: str = ""
    nesting: int = 0
    images: bool = False
    max_images: int = 1000


class ReaderSettings(msgspec.Struct, frozen=True):
    """The first message to the process: the bytes of address space that it may have."""

    memory: int


class LoadParser(ChildRequest, frozen=True, tag=True):
    """Load the parser, confined, before the first document comes."""

    begins = True
    patience = 0.0


class ReadDocument(ChildRequest, frozen=True, tag=True):
    """Read a document. The answer is a `ParsedDocument`."""

    data: bytes
    request: DocumentRequest

    patience = 0.0


Message = LoadParser | ReadDocument | Cancel
"""A message of the server. The process is killed for a cancelled call, so it never acts on `Cancel`."""


def corrupt(message: str, *, hint: str | None = None) -> ToolError:
    """The error for damaged data."""
    return ToolError(message, code="document_corrupt", hint=hint)


def unknown_charset(message: str) -> ToolError:
    """The error for a text whose charset nobody names and its bytes do not show."""
    return ToolError(message, code="document_charset")


def encrypted(message: str) -> ToolError:
    """The error for a document that needs a password."""
    return ToolError(message, code="document_encrypted", hint="Save it without a password and send it again.")


def unsupported(message: str, *, hint: str | None = None) -> ToolError:
    """The error for a format that rrext cannot read."""
    return ToolError(message, code="document_unsupported", hint=hint)


def too_large(message: str, *, hint: str | None = None) -> ToolError:
    """The error for a document beyond a named limit."""
    return ToolError(message, code="document_too_large", hint=hint)


def empty(message: str, *, hint: str | None = None) -> ToolError:
    """The error for a document without text."""
    return ToolError(message, code="document_empty", hint=hint)
