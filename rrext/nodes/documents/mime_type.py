"""The MIME type of a document: by its first bytes, by the declared type, by the file's extension.

What cannot be mistaken wins: a PDF, an Office file or RTF is one whatever it is called. Text has no such mark, so it is
text only if the type or the extension allows it, and the finer of both says which. A file that is called PDF and holds
text is corrupt: mostly it is the error page of a download.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from io import BytesIO
from typing import Final

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
)
from rrext.nodes.documents.plain import looks_like_text
from rrext.nodes.documents.records import corrupt, encrypted, too_large, unsupported
from rrext.nodes.documents.strategies import is_code

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
