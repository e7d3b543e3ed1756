"""The MIME type of a document, by its first bytes, by the declared type, by the file's extension; and the charset that the
bytes of a text show.

What cannot be mistaken wins: a PDF, an Office file or RTF is one whatever it is called. Text has no such mark, so it is
text only if the type or the extension allows it, and the finer of both says which. A file that is called PDF and holds
text is corrupt: mostly it is the error page of a download.

A text in a wrong charset is mostly a text too, of other letters, and each detector alone is wrong for one text of ten
that were tried. Two that are built on other grounds are seldom wrong together: chardet compares pairs of bytes with those
of languages, chardetng (that of Firefox) rates each letter by its neighbours. So a charset is taken if both read the same
text.
"""

from __future__ import annotations

import codecs
import os
import re
import zipfile
import zlib
from io import BytesIO
from typing import Final
from unicodedata import category

from rrext.charsets import NAME_IT, codec_of, decoded, known, marked, named
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.documents.formats import (
    CSV,
    DOCX,
    EML,
    EPUB,
    HTML,
    MARKDOWN,
    ODT,
    PDF,
    PPTX,
    RTF,
    TEXT,
    TSV,
    XLSX,
    is_code,
)
from rrext.nodes.documents.records import corrupt, encrypted, too_large, unknown_charset, unsupported

CHARSET_SAMPLE: Final = 65_536
"""Bytes of a text in which its charset is looked for; more show nothing else."""

FEWEST_BYTES: Final = 32
"""Bytes, of lines that are not ASCII alone, which show a charset: of shorter texts one of twenty was read wrongly."""

_BREAKS: Final = " \n\r,.\u3000\u3001\u3002\uff0c"
_CONTROL: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd\ufeff]")
_ESCAPE: Final = b"\x1b$"
"""How texts begin to be Japanese in the charset of Japanese mail (ISO-2022-JP), which writes all in ASCII."""


def load_detectors() -> list[str]:
    """Import the detectors, which load libraries from beside them and of the system, while that may be read. Returns their
    folders, from which they read more as they need it.
    """
    try:
        import chardet
        import chardetng_py
    except ImportError:
        return []
    return [chardet.__path__[0], chardetng_py.__path__[0]]


def detected(data: bytes) -> str | None:
    """The charset that bytes show which are not UTF-8, or are it by accident; None if they show none or several."""
    if marked(data) is not None or b"\0" in data[:CHARSET_SAMPLE]:
        return marked(data) or utf_16(data[:CHARSET_SAMPLE])
    try:
        from chardet import detect
        from chardetng_py import detect as detect_as_browsers_do
    except ImportError:
        return None
    if _ESCAPE in data:
        sample = data[:CHARSET_SAMPLE]
    else:
        sample = _telling_lines(data)
        if len(sample) < FEWEST_BYTES:
            return None
    charsets = (detect(sample, compat_names=False)["encoding"], detect_as_browsers_do(sample))
    first, second = (None if charset is None else known(charset) for charset in charsets)
    if first is None or second is None:
        return None
    text = _readable(sample, first)
    return first if text is not None and text == _readable(sample, second) else None


def _telling_lines(data: bytes) -> bytes:
    """The first lines that are not ASCII alone."""
    found = bytearray()
    for line in BytesIO(data):  # not all lines of a large file at once
        if len(found) >= CHARSET_SAMPLE:
            break
        if not line.isascii():
            found += line[: CHARSET_SAMPLE - len(found)]
    return bytes(found)


def utf_16(data: bytes) -> str | None:
    """Which of the two orders of UTF-16 bytes have that do not begin with a mark."""
    found = {charset: _readable(data[: len(data) // 2 * 2], charset) for charset in ("utf-16-le", "utf-16-be")}
    breaks = {charset: sum(map(text.count, _BREAKS)) for charset, text in found.items() if text is not None}
    able = [charset for charset, count in breaks.items() if count]
    return able[0] if len(able) == 1 else None


def _readable(sample: bytes, charset: str) -> str | None:
    """The text of a sample, whose last character may be cut; None if it is not in the charset, or not what people write."""
    try:
        text = codecs.getincrementaldecoder(codec_of(charset))().decode(sample)
    except UnicodeError:
        return None
    if _CONTROL.search(text) or any(category(sign) in ("Cn", "Co", "Cs") for sign in set(text)):
        return None
    return text


PDF_BEGIN: Final = 1024
"""Where a PDF's mark may stand at the latest; the format's own reader allows so much before it."""

_EXTENSIONS: Final = {
    ".pdf": PDF,
    ".docx": DOCX,
    ".docm": DOCX,
    ".xlsx": XLSX,
    ".xlsm": XLSX,
    ".pptx": PPTX,
    ".pptm": PPTX,
    ".odt": ODT,
    ".epub": EPUB,
    ".rtf": RTF,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".eml": EML,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".csv": CSV,
    ".tsv": TSV,
    ".tab": TSV,
    ".txt": TEXT,
    ".text": TEXT,
    ".log": TEXT,
    ".json": "application/json",
    ".xml": "application/xml",
    ".doc": "application/msword",
    ".xls": "application/vnd.ms-excel",
    ".ppt": "application/vnd.ms-powerpoint",
    ".zip": "application/zip",
}
_SAME: Final = {"application/xhtml+xml": HTML, "text/x-markdown": MARKDOWN, "text/rtf": RTF, "application/csv": CSV}
_PARTS: Final = (("word/document.xml", DOCX), ("xl/workbook.xml", XLSX), ("ppt/presentation.xml", PPTX))
_BY_NAME: Final = frozenset({ODT, EPUB})
_MARKED: Final = frozenset({PDF, DOCX, XLSX, PPTX, ODT, EPUB, RTF})
_TEXTUAL: Final = frozenset({HTML, EML, MARKDOWN, CSV, TSV, TEXT})

_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE: Final = "EncryptedPackage".encode("utf-16-le")
_WITH_PASSWORD: Final = 0x1
READABLE: Final = "PDF, DOCX, XLSX, PPTX, ODT, EPUB, RTF, HTML, e-mail, Markdown, CSV and plain text can be read."


def kind_of(data: bytes, name: str, declared: str, *, max_unpacked: int) -> str:
    """The MIME type as which to read `data`. Raises `ToolError` with the reason for unreadable documents."""
    wanted = [kind for kind in (_declared(declared), _by_extension(name)) if kind]
    found = _by_content(data, wanted, max_unpacked)
    if found is not None:
        return found
    if not looks_like_text(data, declared):
        _refuse_binary(wanted)
    textual = [kind for kind in wanted if kind not in _MARKED and _is_textual(kind)]
    if wanted and not textual and not is_code(name):  # that of TypeScript is a film's too
        raise corrupt(f"It should be {wanted[0]}, but is text", hint="Look into it: it may be the error page of a download.")
    fine = [kind for kind in textual if kind in _TEXTUAL and kind != TEXT]
    return fine[0] if fine else _guess(data, textual)


def _declared(mime_type: str) -> str | None:
    essence = mime_type.partition(";")[0].strip().lower()
    if essence in ("", "application/octet-stream", "binary/octet-stream") or essence.startswith("lane/"):
        return None
    return _SAME.get(essence, essence)


def _by_extension(name: str) -> str | None:
    return _EXTENSIONS.get(os.path.splitext(name)[1].lower())


def _by_content(data: bytes, wanted: list[str], max_unpacked: int) -> str | None:
    begin = data[:PDF_BEGIN]
    if begin.lstrip().startswith(b"%PDF-") or (PDF in wanted and b"%PDF-" in begin):
        return PDF
    if data.startswith(b"PK\x03\x04"):
        return _in_zip(data, max_unpacked)
    if data.startswith(b"{\\rtf"):
        return RTF
    if data.startswith(_OLD_OFFICE):
        if _ENCRYPTED_PACKAGE in data:
            raise encrypted("This Office file is protected by a password")
        raise unsupported(
            "This is a file of an old Office (.doc, .xls, .ppt or .msg)", hint="Save it as .docx, .xlsx, .pptx or .eml."
        )
    return None


def _in_zip(data: bytes, max_unpacked: int) -> str:
    """The type of an Office file, OpenDocument or EPUB. Reads all of it once, to check that it is complete."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if unpacked > max_unpacked:
                raise too_large(f"It unpacks to {unpacked:,} bytes, and {max_unpacked:,} are allowed (maxUnpacked)")
            if any(member.flag_bits & _WITH_PASSWORD for member in members):
                raise encrypted("This file is protected by a password")
            kind = _packed_kind(archive)
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise corrupt(f"It is a ZIP archive that cannot be unpacked, perhaps cut off: {error}") from None
    if broken is not None:
        raise corrupt(f'Its part "{broken[:100]}" is damaged')
    return kind


def _packed_kind(archive: zipfile.ZipFile) -> str:
    names = set(archive.namelist())
    for part, kind in _PARTS:
        if part in names:
            return kind
    if "mimetype" in names:
        with archive.open("mimetype") as file:
            kind = file.read(100).decode("ascii", "replace").strip()
        if kind in _BY_NAME:
            return kind
        raise unsupported(f"Documents of type {kind} cannot be read", hint=READABLE)
    raise unsupported("This is a ZIP archive, and no document", hint="Unpack it and send the files inside.")


def _is_textual(kind: str) -> bool:
    main, _, sub = kind.partition("/")
    if main in ("text", "message") or kind in _TEXTUAL or sub.endswith("+xml"):
        return True
    return main == "application" and (sub.endswith(("json", "xml", "yaml", "+text")) or sub in _TEXT_APPLICATIONS)


_TEXT_APPLICATIONS: Final = frozenset(
    {"javascript", "x-javascript", "x-sh", "x-shellscript", "x-tex", "x-latex", "toml", "sql", "x-python", "x-subrip"}
)


def _refuse_binary(wanted: list[str]) -> None:
    for kind in wanted:
        if kind in _MARKED:
            raise corrupt(f"It should be {kind}, but does not begin like one")
        if _is_textual(kind):
            raise corrupt(f"It should be {kind}, but is no text")
    what = f"Files of type {wanted[0]}" if wanted else "Files of this kind"
    raise unsupported(f"{what} cannot be read", hint=READABLE)


def _guess(data: bytes, textual: list[str]) -> str:
    """Guess the type of a text without a declared one."""
    begin = data[:PDF_BEGIN].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not textual and begin.startswith((b"<!doctype html", b"<html")):
        return HTML
    return textual[0] if textual else TEXT


TEXT_PROBE: Final = 65_536
"""Bytes that are inspected to distinguish text from other data."""

CHARSET_BEGIN: Final = 2048
"""Bytes in which an HTML page has to declare its encoding, according to the standard."""

_BINARY: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_DECLARED: Final = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([A-Za-z0-9_.:-]{1,40})""")
_WIDE: Final = ("utf-16", "utf-32")
"""Charsets whose texts have bytes of control characters."""

_IN_ASCII: Final = ("iso2022", "hz")
"""Charsets that use bytes of ASCII alone, so that each of their texts is also valid UTF-8 with another meaning."""


def looks_like_text(data: bytes, declared: str = "") -> bool:
    """Whether the bytes have no control characters other than spaces, line ends and page ends, or are UTF-16 or UTF-32."""
    begin = data[:TEXT_PROBE]
    if (named(declared) or "").startswith(_WIDE):
        return True
    return marked(begin) is not None or _BINARY.search(begin) is None or (b"\0" in begin and utf_16(begin) is not None)


def decode(data: bytes, declared: str = "", *, fallback: str = "", is_html: bool = False) -> str:
    """The text: by its byte order mark, by the charset of the MIME type `declared`, as UTF-8, by what a page or XML says in its
    first lines, as `fallback`, or in the charset that its bytes show, in this order.

    Raises `ToolError` for bytes that are no text in the charset that they claim, for those whose charset is not clear, and for
    null characters, which no database takes. No character stands for bytes that could not be read.
    """
    text = _decoded(data, declared, fallback, is_html=is_html)
    if "\0" in text:
        raise corrupt("It is no text: it has null characters")
    return text


def _decoded(data: bytes, declared: str, fallback: str, *, is_html: bool) -> str:
    charset = marked(data) or named(declared)
    if charset is not None:
        return _strictly(data, charset)
    told = _declared_charset(data, is_html=is_html)
    if told is not None and told.startswith(_IN_ASCII):
        return _strictly(data, told)
    shown = detected(data) if b"\0" in data or b"\x1b$" in data else None
    if shown is None and _is_utf_8(data):
        return data.decode("utf-8")
    charset = shown or (told if told != "utf-8" else None) or known(fallback)
    if charset is not None:
        return _strictly(data, charset)
    if _BINARY.search(data) is not None:
        raise corrupt("It is no text: it has bytes that no text has")
    charset = detected(data)
    try:
        if charset is not None:
            return decoded(data, charset)
    except UnicodeError:
        pass
    missing = missing_packages("docs", "chardet", "chardetng_py")
    why = f"its charset is not looked for: {missing}" if missing else "its bytes do not tell which charset it is in"
    raise unknown_charset(f'It is not UTF-8, and {why}. {NAME_IT} Or set "charset" of the node')  # a lane shows no hint


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _declared_charset(data: bytes, *, is_html: bool) -> str | None:
    """The charset that a page or XML names at its begin."""
    found = _DECLARED.match(data.lstrip()[:CHARSET_BEGIN])
    if found is not None:
        return known(found[1].decode("ascii"))
    return named(data[:CHARSET_BEGIN].decode("latin-1")) if is_html else None


def _strictly(data: bytes, charset: str) -> str:
    try:
        return decoded(data, charset)
    except UnicodeError:
        raise corrupt(f"It is no text in {charset}, which it claims to be") from None
