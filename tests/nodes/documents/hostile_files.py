"""Files that nobody would write: bombs, loops and depths, each with the MIME type that it claims."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from docx import Document
from openpyxl import Workbook

from rrext.nodes.documents.formats import CSV, DOCX, EML, HTML, MARKDOWN, PDF, XLSX

__all__ = ["BENIGN_ENDS", "MIB", "pdf_of", "pdf_that_unpacks_to", "plain_docx", "plain_xlsx", "with_part"]

MIB = 1024 * 1024
_WORD = b'<?xml version="1.0"?>%b<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
_SHEET = b'<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def plain_docx(*paragraphs: str) -> bytes:
    """A Word file of some paragraphs."""
    document: Any = Document()
    for text in paragraphs:
        document.add_paragraph(text)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def plain_xlsx() -> bytes:
    """An Excel file of one cell."""
    book: Any = Workbook()
    book.active.append(("cell",))
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def with_part(office: bytes, name: str, content: bytes) -> bytes:
    """An Office file with another content of one of its parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(office)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            if member.filename != name:
                target.writestr(member, source.read(member.filename))
        target.writestr(name, content)
    return out.getvalue()


def pdf_of(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1; the first is the catalog."""
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"xref\n0 %d\n0000000000 65535 f \n%btrailer << /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1, table, len(objects) + 1, len(out),
    )  # fmt: skip
    return bytes(out)


def pdf_that_unpacks_to(size: int) -> bytes:
    """A page that draws one word again and again, so many bytes of commands, packed a thousandfold."""
    command = b"BT /F1 12 Tf 72 720 Td (otter) Tj ET\n"
    drawing = zlib.compress(command * (size // len(command)), 9)
    return pdf_of(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )


def _looping_pdf() -> bytes:
    return pdf_of(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 100000000 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9999999 9999999] /Contents 4 0 R >>",
        b"<< /Length 4 0 R >>\nstream\nBT ET\nendstream",
    )


def _laughing_docx() -> bytes:
    entities = b"".join(b'<!ENTITY l%d "%b">' % (n, (b"&l%d;" % (n - 1) if n else b"ha") * 10) for n in range(12))
    begin = _WORD % (b"<!DOCTYPE w [" + entities + b"]>")
    return with_part(plain_docx(), "word/document.xml", begin + b"<w:p><w:r><w:t>&l11;</w:t></w:r></w:p></w:body></w:document>")


def _deep_docx() -> bytes:
    depth = 100_000
    cells = b"<w:tbl><w:tr><w:tc>" * depth + b"</w:tc></w:tr></w:tbl>" * depth
    return with_part(plain_docx(), "word/document.xml", _WORD % b"" + cells + b"</w:body></w:document>")


def _wide_xlsx() -> bytes:
    rows = b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    sheet = _SHEET + b'<dimension ref="A1:XFD1048576"/><sheetData>' + rows + b"</sheetData></worksheet>"
    return with_part(plain_xlsx(), "xl/worksheets/sheet1.xml", sheet)


BENIGN_ENDS: dict[str, Callable[[], tuple[bytes, str]]] = {
    "pages that hold themselves": lambda: (_looping_pdf(), PDF),
    "entities of entities": lambda: (_laughing_docx(), DOCX),
    "tables in tables, a hundred thousand deep": lambda: (_deep_docx(), DOCX),
    "a sheet of all cells there can be": lambda: (_wide_xlsx(), XLSX),
    "divisions in divisions": lambda: (b"<div>" * 200_000 + b"otter", HTML),
    "tables in bold in italics": lambda: (b"<b><i><table><tr><td>" * 50_000 + b"otter", HTML),
    "links that never end": lambda: (b"<a href='" * 200_000 + b"otter", HTML),
    "titles that never end": lambda: (b"<title>" * 200_000 + b"otter", HTML),
    "metas that never end": lambda: (b"<meta " * 200_000 + b"otter", HTML),
    "half a million columns": lambda: (b"a," * 500_000, CSV),
    "brackets": lambda: (b"[" * 100_000, MARKDOWN),
    "a table of rules": lambda: (b"|-|\n" * 200_000, MARKDOWN),
    "characters that no text can hold": lambda: (
        b"Subject: \xff\nTo: \xff <\xff@b>\nCc: =?unicode_escape?q?=5Cud800?=\n\n\xff",
        EML,
    ),
    "parts in parts": lambda: (
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000)),
        EML,
    ),
    "a mail of parts": lambda: (b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\n" * 5_000, EML),
}
"""Hostile files that come to an end soon, as text or as a failure: name → bytes and claimed type."""
