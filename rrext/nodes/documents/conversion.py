"""Conversion of a document from bytes to pieces of Markdown. The module opens no network connection.

Plain text, Markdown, source code and CSV are read by rrext itself, which keeps them exactly as they are; everything
else is kreuzberg's. OCR, language models and caches of kreuzberg stay off: some would download, some would write files.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Final

from msgspec.structs import replace

from rrext.nodes.documents import formats
from rrext.nodes.documents.extraction import extract
from rrext.nodes.documents.html_repair import flattened, without_head
from rrext.nodes.documents.limits import LONGEST_CELL, MAX_NESTING
from rrext.nodes.documents.mail import read_mail
from rrext.nodes.documents.metadata import facts_of, front_matter_title
from rrext.nodes.documents.mime_type import kind_of
from rrext.nodes.documents.plain import decode
from rrext.nodes.documents.records import DocumentPiece, DocumentRequest, ParsedDocument, corrupt, empty, too_large
from rrext.nodes.documents.slides import speaker_notes
from rrext.nodes.documents.tables import cut_tables, table_of

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile('"[^"]*"')
_NOTHING: Final = " \t\n\f|:-#*>"
"""The rest of a document of empty paragraphs and cells."""
_SCANS_ARE_NOT_READ: Final = "Pages that are pictures are not read: there is no OCR here."


def read(data: bytes, request: DocumentRequest) -> ParsedDocument:
    """Read the text, tables and metadata of a document. Raises `ToolError` with the reason."""
    if not data and not request.allow_empty:
        raise empty("The file has no bytes")
    kind = kind_of(data, request.name, request.mime_type, max_unpacked=request.max_unpacked)
    pieces, metadata = _pieces(kind, data, request)
    characters = sum(len(piece.content) for piece in pieces)
    if characters > request.max_characters:
        raise too_large(
            f"It has {characters:,} characters, and {request.max_characters:,} are allowed (maxCharacters)",
            hint='Raise "maxCharacters" of the node, or send it in parts.',
        )
    if not request.allow_empty and not any(piece.content.strip(_NOTHING) for piece in pieces):
        raise empty("There is no text in it", hint=_SCANS_ARE_NOT_READ if kind == formats.PDF else None)
    return ParsedDocument(mime_type=kind, pieces=pieces, metadata=metadata)


def _pieces(kind: str, data: bytes, request: DocumentRequest) -> tuple[list[DocumentPiece], dict[str, Any]]:
    match kind:
        case formats.MARKDOWN:
            text = _unix(decode(data, request.mime_type))
            return cut_tables(text), front_matter_title(text)
        case formats.CSV | formats.TSV:
            return _rows(_unix(decode(data, request.mime_type)), kind), {}
        case formats.HTML:
            text, title = without_head(decode(data, request.mime_type, is_html=True))
            markdown, metadata = _extracted(flattened(text).encode("utf-8"), kind)
            return cut_tables(markdown), {**facts_of({"title": title}), **metadata}
        case formats.PPTX:
            markdown, metadata = _extracted(data, kind)
            return cut_tables(markdown + speaker_notes(data)), metadata
        case formats.PDF:
            markdown, metadata = _extracted(data, kind)
            return [DocumentPiece("text", markdown)] if markdown else [], metadata
        case formats.EML:
            return _mail(data, request)
        case formats.DOCX | formats.XLSX | formats.ODT | formats.EPUB | formats.RTF:
            markdown, metadata = _extracted(data, kind)
            return cut_tables(markdown), metadata
        case _:
            text = _unix(decode(data, request.mime_type))
            return ([DocumentPiece("text", text)] if text else []), {}


def _mail(data: bytes, request: DocumentRequest) -> tuple[list[DocumentPiece], dict[str, Any]]:
    def attached(inner: bytes, name: str, mime_type: str) -> ParsedDocument:
        nesting = request.nesting + (1 if name else 0)
        if nesting > MAX_NESTING:
            raise too_large(f"it is deeper than {MAX_NESTING} attachments in each other")
        return read(inner, replace(request, name=name, mime_type=mime_type, allow_empty=True, nesting=nesting))

    pieces, metadata = read_mail(data, attached)
    return pieces, facts_of(metadata)


def _extracted(data: bytes, kind: str) -> tuple[str, dict[str, Any]]:
    result = extract(data, kind)
    return result.text, facts_of(result.metadata)


def _rows(text: str, kind: str) -> list[DocumentPiece]:
    csv.field_size_limit(LONGEST_CELL)
    delimiter = "\t" if kind == formats.TSV else _delimiter(text)
    try:
        table = table_of(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise corrupt(f"It is no CSV: {error}") from None
    return [DocumentPiece("table", table)] if table else []


def _delimiter(text: str) -> str:
    """The delimiter of the fields: the most frequent of four in the first line, outside of quotes."""
    first = _QUOTED.sub("", text.partition("\n")[0])
    return max(_DELIMITERS, key=first.count)


def _unix(text: str) -> str:
    """The text with line ends as `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
