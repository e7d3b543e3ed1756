"""Conversion of a document from bytes to pieces of Markdown. The module opens no network connection.

Plain text, Markdown, source code and CSV are read by rrext itself, which keeps them exactly as they are; everything else
is kreuzberg's. OCR, language models and caches of kreuzberg stay off: some would download, some would write files.

HTML comes to the parser without its head, which would come into the text, and repaired: elements are closed where a
browser would close them, and not nested too deeply. The parser takes `<p>` for a child of an unclosed `<p>` before it,
and silently drops the content of more than 64 nested elements: pages with many such paragraphs, and newsletters with
tables in tables, lost most of their text. Of an e-mail come the headers, the text that its reader would see, and the
texts of its attachments.
"""

from __future__ import annotations

import contextlib
import csv
import email
import email.policy
import html
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from email.message import EmailMessage, Message, MIMEPart
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from rrext.charsets import decoded
from rrext.errors import ToolError
from rrext.nodes.documents import formats
from rrext.nodes.documents.detection import decode, detected, kind_of
from rrext.nodes.documents.embedded_images import image_type_of, images_of
from rrext.nodes.documents.formats import PDF, cut_tables, table_of
from rrext.nodes.documents.records import (
    DocumentImage,
    DocumentPiece,
    DocumentRequest,
    ParsedDocument,
    corrupt,
    empty,
    encrypted,
    too_large,
)
from rrext.nodes.documents.workbook import read_workbook

if TYPE_CHECKING:
    from kreuzberg import ExtractionConfig, ExtractionResult


PAGE_END: Final = "\f"
"""What stands between the pages of a PDF document, behind a blank line: the page break of ASCII."""

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
    if request.images and (picture := image_type_of(data)):
        return ParsedDocument(mime_type=picture, pieces=[], images=[DocumentImage(picture, data)])
    kind = kind_of(data, request.name, request.mime_type, max_unpacked=request.max_unpacked)
    pieces, metadata = _pieces(kind, data, request)
    images: list[DocumentImage] = []
    if request.images:
        images, unread = images_of(data, kind, request)
        if unread:
            told = f"{unread} of its pictures are of kinds that cannot be read"
            metadata["warnings"] = [*metadata.get("warnings", ()), told]
    characters = sum(len(piece.content) for piece in pieces)
    if characters > request.max_characters:
        raise too_large(
            f"It has {characters:,} characters, and {request.max_characters:,} are allowed (maxCharacters)",
            hint='Raise "maxCharacters" of the node, or send it in parts.',
        )
    if (
        kind in _WITH_PICTURES
        and not (request.allow_empty or images)
        and not any(piece.content.strip(_NOTHING) for piece in pieces)
    ):
        raise empty("There is no text in it" + ": pages that are pictures are not read" * (kind == formats.PDF))
    return ParsedDocument(mime_type=kind, pieces=pieces, metadata=metadata, images=images)


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
        return read(inner, replace(request, name=name, mime_type=mime_type, allow_empty=True, nesting=nesting, images=False))

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


LONGEST_DETAIL: Final = 200
"""Characters of the parser's message in an error."""

_BLANK_PAGE: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj "
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
_PASSWORD: Final = re.compile("password|encrypt", re.IGNORECASE)
_LIMIT: Final = re.compile("security limit|exceeds? (the )?(limit|maximum)|too large|compression ratio", re.IGNORECASE)


class Extracted(msgspec.Struct, frozen=True):
    """Markdown (of a PDF: its text, page by page), and the metadata under kreuzberg's names."""

    text: str
    metadata: dict[str, Any]


def warm_up() -> None:
    """Load all of the library, which takes longer than most documents; its PDF reader is loaded by reading a PDF."""
    _config("markdown")
    with contextlib.suppress(ToolError):
        extract(_BLANK_PAGE, PDF)


def extract(data: bytes, mime_type: str) -> Extracted:
    """Extract the text and metadata of a document. Raises `ToolError`: corrupt, encrypted or too large."""
    import kreuzberg

    # kreuzberg's Markdown of a PDF guesses at structure: wrapped lines became lists, and tables one line of words.
    config = _config("plain" if mime_type == PDF else "markdown")
    try:
        result = kreuzberg.extract_bytes_sync(data, mime_type, config)
    except kreuzberg.KreuzbergError as error:
        raise _explained(str(error)) from None
    text = _joined(result, mime_type)
    metadata: dict[str, Any] = dict(result.metadata)
    metadata["warnings"] = [str(warning.message) for warning in result.processing_warnings]
    return Extracted(_clean(text), metadata)


@cache
def _config(output_format: str) -> ExtractionConfig:
    import kreuzberg

    return kreuzberg.ExtractionConfig(
        output_format=output_format,
        use_cache=False,  # a cache would keep texts of documents in a folder of its own
        enable_quality_processing=False,
        pages=kreuzberg.PageConfig(extract_pages=True) if output_format == "plain" else None,
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),  # documents run in parallel in processes
    )


def _joined(result: ExtractionResult, mime_type: str) -> str:
    if mime_type == PDF and result.pages:
        return f"\n\n{PAGE_END}".join(page["content"].replace(PAGE_END, "\n") for page in result.pages)
    return result.content


def _clean(text: str) -> str:
    """Line ends as `\n`, and no null characters, which databases refuse."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _explained(message: str) -> ToolError:
    """The failure for an error of kreuzberg, without the repetitions in its message."""
    parts = list(dict.fromkeys(part.strip() for part in message.split(": ")))
    detail = ": ".join(parts[1:] if parts[0] == "ParsingError" else parts)[:LONGEST_DETAIL]
    if _PASSWORD.search(message):
        return encrypted("It is protected by a password")
    if _LIMIT.search(message):
        return too_large(f"It is too large when unpacked: {detail}")
    return corrupt(f"It is damaged or cut off: {detail}")


DEEPEST: Final = 48
"""Elements in each other that are kept; the tags of deeper ones go, their text stays."""

_MARK: Final = re.compile(r"<!--|<(/?)([a-zA-Z][a-zA-Z0-9]{0,31})(?=[\s/>])[^<>]*>")
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
_UNSEEN: Final = {
    "": re.compile("-->"),  # end of a comment
    "script": re.compile(r"</script[^<>]*>", re.IGNORECASE),
    "style": re.compile(r"</style[^<>]*>", re.IGNORECASE),
}
"""Invisible content of a page -> its end."""

_INLINE: Final = frozenset(
    "a abbr b big cite code em font i kbd label mark q s samp small span strike strong sub sup tt u var".split()  # noqa: SIM905
)
_BLOCKS: Final = """
    address article aside blockquote center dir div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre
    section table ul
    """.split()  # noqa: SIM905 – a table, read as words
_PARAGRAPH: Final = (frozenset({"p"}), frozenset({"table", "td", "th", "li", "dd", "div", "section", "article", "button"}))
_CLOSES: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    **dict.fromkeys(_BLOCKS, _PARAGRAPH),
    "a": (frozenset({"a"}), frozenset({"table", "td", "th"})),
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "dir"})),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl"}))),
    **dict.fromkeys(("td", "th"), (frozenset({"td", "th"}), frozenset({"tr", "table"}))),
    "tr": (frozenset({"tr"}), frozenset({"table", "thead", "tbody", "tfoot"})),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (frozenset({"thead", "tbody", "tfoot"}), frozenset({"table"}))),
    "option": (frozenset({"option"}), frozenset({"select", "optgroup"})),
}
"""Element -> elements of which it closes the innermost open one, unless one of the others stands between them."""


def flattened(page: str) -> str:
    """Add the missing end tags of a page, and remove the tags of elements that are nested too deeply."""
    return _Flattener(page).run()


class _Flattener:
    """Goes through the tags of one page once. No more than `DEEPEST` elements are ever open, so this takes linear time."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._at = 0
        self._out: list[str] = []
        self._is_apart = False  # whether there was no text since the last line break
        self._open: list[str] = []
        self._dropped: dict[str, int] = {}  # dropped tags within the innermost open element, by name

    def run(self) -> str:
        page = self._page
        while (mark := _MARK.search(page, self._at)) is not None:
            text = page[self._at : mark.start()]
            self._out.append(text)
            self._is_apart = self._is_apart and not text.strip()
            self._at = mark.end()
            name = (mark[2] or "").lower()
            if mark[1]:
                self._close(name, mark[0])
            else:
                self._begin(name, mark[0], is_empty=name in _VOID or mark[0].endswith("/>"))
        self._out.append(page[self._at :])
        return "".join(self._out)

    def _begin(self, name: str, tag: str, *, is_empty: bool) -> None:
        if name in _UNSEEN:
            end = _UNSEEN[name].search(self._page, self._at)
            self._at = end.end() if end else len(self._page)
            return
        ended, between = _CLOSES.get(name, ((), ()))
        for depth in range(len(self._open) - 1, -1, -1):
            if self._open[depth] in ended:
                self._end(depth)
                break
            if self._open[depth] in between:
                break
        if is_empty:
            self._out.append(tag)
        elif len(self._open) < DEEPEST:
            self._out.append(tag)
            self._open.append(name)
        else:
            self._dropped[name] = self._dropped.get(name, 0) + 1
            self._part(name)

    def _close(self, name: str, tag: str) -> None:
        if self._dropped.get(name):
            self._dropped[name] -= 1
            self._part(name)
        elif name in self._open:
            self._end(len(self._open) - 1 - self._open[::-1].index(name))
        else:
            self._out.append(tag)

    def _end(self, depth: int) -> None:
        """Close the element at a depth and all elements in it."""
        self._out += [f"</{name}>" for name in reversed(self._open[depth:])]
        del self._open[depth:]
        self._dropped.clear()

    def _part(self, name: str) -> None:
        """Keep the text around a tag that is taken out of it, unless the tag is only formatting."""
        if name not in _INLINE and not self._is_apart:
            self._out.append("<br>")
            self._is_apart = True


_META: Final = re.compile(r"<(?:meta|link|base)\b[^<>]*>", re.IGNORECASE)
_TITLE_END: Final = re.compile(r"</title\s{0,9}>", re.IGNORECASE)
_TITLE_ELEMENT: Final = re.compile(r"<title\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD: Final = re.compile(r"<head\b[^<>]{0,500}>", re.IGNORECASE)
_HEAD_END: Final = re.compile(r"</head\s{0,9}>", re.IGNORECASE)


def without_head(page: str) -> tuple[str, str]:
    """Return the page without the content of its head, and its title, "" if it has none."""
    title = ""
    begin = _TITLE_ELEMENT.search(page)
    end = _TITLE_END.search(page, begin.end()) if begin else None
    if begin and end:
        title = " ".join(html.unescape(page[begin.end() : end.start()]).split())
        page = page[: begin.start()] + page[end.end() :]
    begin = _HEAD.search(page)
    end = _HEAD_END.search(page, begin.end()) if begin else None
    if begin and end:
        page = page[: begin.end()] + page[end.start() :]
    return _META.sub("", page), title


MAX_ATTACHMENTS: Final = 100
"""Attachments of one mail that are read; the others are named in a warning."""

Attached = Callable[[bytes, str, str], ParsedDocument]
"""(bytes, name, MIME type) → an attached document, or without a name the mail's own text. Raises `ToolError`."""

_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")
_HEADERS_END: Final = re.compile(rb"\r?\n\r?\n")


def read_mail(data: bytes, read_attached: Attached) -> tuple[list[DocumentPiece], dict[str, Any]]:
    """The pieces of a mail, each attachment below a heading with its name, and its facts.

    An attachment that cannot be read does not fail the mail: it is named under `warnings`.
    """
    message = email.message_from_string(_with_read_headers(data), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    if not message.keys():
        raise corrupt("It should be an e-mail, but has no headers")
    headers = [(name, value) for name in _HEADERS if (value := _header(message, name))]
    pieces = [DocumentPiece("text", "".join(f"**{name}**: {value}\n\n" for name, value in headers))]
    body = message.get_body(("plain", "html"))
    if body is not None:
        pieces += read_attached(_bytes(body), "", _type(body)).pieces
    metadata: dict[str, Any] = {"created": _header(message, "Date"), "subject": _header(message, "Subject")}
    metadata |= {"from": _header(message, "From"), "to": _addresses(message, "To"), "cc": _addresses(message, "Cc")}
    names, warnings = [], []
    for number, part in enumerate(_attachments(message, body), 1):
        name = " ".join(_readable(part.get_filename() or f"part {number}").split())
        names.append(name)
        if number > MAX_ATTACHMENTS:
            warnings.append(f'The attachment "{name}" was not read: there are more than {MAX_ATTACHMENTS}')
            continue
        try:
            attached = read_attached(_bytes(part), name, _type(part))
        except ToolError as error:
            warnings.append(f'The attachment "{name}" was not read: {error.message}')
        else:
            pieces += [DocumentPiece("text", f"\n\n## {name}\n\n"), *attached.pieces]
            warnings += [f"{name}: {warning}" for warning in attached.metadata.get("warnings", ())]
    return pieces, {**metadata, "attachments": names, "warnings": warnings}


def _with_read_headers(data: bytes) -> str:
    """A mail as the parser takes it: its headers are text, and other bytes that are not ASCII are escaped.

    Headers should be ASCII. Some programs write them in a charset that nobody names: where it does not show, `?` is a byte.
    """
    found = _HEADERS_END.search(data)
    end = len(data) if found is None else found.start()
    headers, rest = data[:end], data[end:].decode("ascii", "surrogateescape")
    for charset in ("utf-8", detected(headers) or "ascii"):
        try:
            return decoded(headers, charset) + rest
        except UnicodeError:
            continue
    return headers.decode("ascii", "replace").replace("\ufffd", "?") + rest


def _attachments(message: MIMEPart, body: MIMEPart | None) -> Iterator[MIMEPart]:
    """The attachments: all parts except the body and its alternatives."""
    if not message.is_multipart():
        if body is None:
            yield message
        return
    if message.get_content_maintype() != "multipart":
        yield message  # a forwarded mail alone
        return
    for part in message.iter_attachments():
        assert isinstance(part, MIMEPart)
        if part.get_content_maintype() == "multipart":
            yield from _attachments(part, part.get_body(("plain", "html")))
        else:
            yield part


def _bytes(part: MIMEPart) -> bytes:
    inner = part.get_payload()
    if isinstance(inner, list):  # of messages: a forwarded mail, or the parts of a report on delivery
        return b"\n".join(message.as_bytes() for message in inner if isinstance(message, Message))
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _type(part: MIMEPart) -> str:
    charset = part.get_content_charset()
    return part.get_content_type() + (f"; charset={charset}" if charset else "")


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(_readable(str(message.get(name, ""))).split())


def _readable(text: str) -> str:
    """The text of a header; the parser has a mark for each byte that it could not read, which says nothing to people."""
    return text.replace("\ufffd", "?")


def _addresses(message: EmailMessage, name: str) -> list[str]:
    header = message.get(name)
    return [str(address.addr_spec) for address in getattr(header, "addresses", ())]
