"""Conversion of a document from bytes to pieces of Markdown. The module opens no network connection.

Plain text, Markdown, source code and CSV are read by rrext itself, which keeps them exactly as they are; everything
else is kreuzberg's. OCR, language models and caches of kreuzberg stay off: some would download, some would write files.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final
from xml.etree import ElementTree

from msgspec.structs import replace

from rrext.nodes.documents import formats
from rrext.nodes.documents.extraction import extract
from rrext.nodes.documents.html_repair import flattened, without_head
from rrext.nodes.documents.mail import read_mail
from rrext.nodes.documents.mime_type import kind_of
from rrext.nodes.documents.plain import decode
from rrext.nodes.documents.records import DocumentPiece, DocumentRequest, ParsedDocument, corrupt, empty, too_large
from rrext.nodes.documents.tables import cut_tables, table_of
from rrext.nodes.documents.workbook import read_workbook

MAX_NESTING: Final = 4
"""Mails in mails; a forwarded thread has two or three."""
# conversion.py, of metadata
LONGEST_FACT: Final = 1000
"""Characters of one value. Each chunk carries them all, and the file's author chose them; longer ones end in `…`."""
MOST_NAMES: Final = 50
"""Names in a list, as recipients; of more, the first ones are kept and `…` says so."""
FRONT_MATTER: Final = 4096
"""Characters of a Markdown file in which its front matter ends."""
LONGEST_CELL: Final = 16 * 1024 * 1024
"""Characters of one field of a CSV file; the standard library's own limit is 128 KiB."""

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile('"[^"]*"')
_NOTHING: Final = " \t\n\f|:-#*>"
"""The rest of a document of empty paragraphs and cells."""
_WITH_PICTURES: Final = (
    formats.HTML, formats.PPTX, formats.PDF, formats.EML, formats.DOCX, formats.XLSX, formats.ODT, formats.EPUB, formats.RTF,
)  # fmt: skip
"""Kinds that may say something without any text."""


def read(data: bytes, request: DocumentRequest) -> ParsedDocument:
    """Read the text, tables and metadata of a document; an empty file of any type has none.

    Raises `ToolError` with the reason.
    """
    if not data or data.isspace():
        return ParsedDocument(mime_type=formats.TEXT, pieces=[])
    kind = kind_of(data, request.name, request.mime_type, max_unpacked=request.max_unpacked)
    pieces, metadata = _pieces(kind, data, request)
    characters = sum(len(piece.content) for piece in pieces)
    if characters > request.max_characters:
        raise too_large(
            f"It has {characters:,} characters, and {request.max_characters:,} are allowed (maxCharacters)",
            hint='Raise "maxCharacters" of the node, or send it in parts.',
        )
    if kind in _WITH_PICTURES and not request.allow_empty and not any(piece.content.strip(_NOTHING) for piece in pieces):
        raise empty("There is no text in it" + ": pages that are pictures are not read" * (kind == formats.PDF))
    return ParsedDocument(mime_type=kind, pieces=pieces, metadata=metadata)


def _pieces(kind: str, data: bytes, request: DocumentRequest) -> tuple[list[DocumentPiece], dict[str, Any]]:
    match kind:
        case formats.MARKDOWN:
            text = _unix(decode(data, request.mime_type, fallback=request.charset))
            return cut_tables(text), front_matter_title(text)
        case formats.CSV | formats.TSV:
            return _rows(_unix(decode(data, request.mime_type, fallback=request.charset)), kind), {}
        case formats.HTML:
            text, title = without_head(decode(data, request.mime_type, fallback=request.charset, is_html=True))
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
        case formats.XLSX:
            pieces, metadata = read_workbook(data, request.max_characters)
            return pieces, facts_of(metadata)
        case formats.DOCX | formats.ODT | formats.EPUB | formats.RTF:
            markdown, metadata = _extracted(data, kind)
            return cut_tables(markdown), metadata
        case _:
            text = _unix(decode(data, request.mime_type, fallback=request.charset))
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


_PART: Final = re.compile(r"ppt/notesSlides/notesSlide(\d{1,6})\.xml")
_DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SHEET: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"


def speaker_notes(data: bytes) -> str:
    """The notes of a PPTX file as Markdown, in the order of their files; "" if there are none. Raises `ToolError`."""
    texts: list[str] = []
    with zipfile.ZipFile(BytesIO(data)) as archive:
        parts = sorted((int(found[1]), name) for name in archive.namelist() if (found := _PART.fullmatch(name)))
        for _, name in parts:
            try:
                root = ElementTree.fromstring(archive.read(name))
            except ElementTree.ParseError as error:
                raise corrupt(f'Its part "{name}" is damaged: {error}') from None
            if text := _body(root):
                texts.append(text)
    return "".join(f"\n## Notes\n\n{text}\n" for text in texts)


def _body(root: ElementTree.Element) -> str:
    """The paragraphs of the notes' own shape; others hold the slide's number and picture."""
    for shape in root.iter(f"{_SHEET}sp"):
        place = shape.find(f".//{_SHEET}ph")
        if place is not None and place.get("type") == "body":
            paragraphs = ("".join(run.text or "" for run in p.iter(f"{_DRAWING}t")) for p in shape.iter(f"{_DRAWING}p"))
            return "\n\n".join(text for text in paragraphs if text.strip())
    return ""


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("title",),
    "author": ("authors", "author"),
    "subject": ("subject",),
    "keywords": ("keywords",),
    "created": ("created_at", "created"),
    "modified": ("modified_at",),
    "language": ("language",),
    "pages": ("page_count",),
    "sheets": ("sheet_names",),
    "from": ("from",),
    "to": ("to",),
    "cc": ("cc",),
    "attachments": ("attachments",),
    "warnings": ("warnings",),
}
"""Metadata key of chunks -> the parser's keys for it, best first."""
_JOINED: Final = frozenset({"author", "keywords", "language"})
"""Keys whose lists become one text."""
_TITLE: Final = re.compile(r"^title:[ \t]*(\S[^\n]*)$", re.MULTILINE)


def facts_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a parser as texts, numbers and lists of texts, under our keys. Empty values are left out."""
    facts: dict[str, Any] = {}
    for name, sources in _NAMES.items():
        for source in sources:
            value = _value(metadata.get(source))
            if name in _JOINED and isinstance(value, list):
                value = _shortened(", ".join(value))
            if value not in (None, "", [], 0):
                facts[name] = value
                break
    return facts


def front_matter_title(markdown: str) -> dict[str, Any]:
    """`{title}` if a Markdown file begins with front matter that has one."""
    if not markdown.startswith("---\n"):
        return {}
    end = markdown.find("\n---", 3, FRONT_MATTER)
    found = _TITLE.search(markdown, 4, max(end, 4))
    return {"title": _shortened(found[1].strip().strip("\"'"))} if found else {}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _shortened(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        texts = [_shortened(str(item)) for item in value[:MOST_NAMES]]
        return [*texts, "…"] if len(value) > MOST_NAMES else texts
    return None


def _shortened(text: str) -> str:
    """The text within its limit, and without characters that JSON or a database refuses: undecodable bytes of mails, nulls."""
    text = text[: LONGEST_FACT + 1].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return text if len(text) <= LONGEST_FACT else text[: LONGEST_FACT - 1] + "…"
