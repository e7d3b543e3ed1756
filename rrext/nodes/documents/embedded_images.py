"""The pictures that are in a document: in the archive of an Office file, or on the pages of a PDF."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from hashlib import blake2b
from io import BytesIO
from typing import Final

from rrext.content import media_type_of
from rrext.nodes.documents import formats
from rrext.nodes.documents.records import DocumentImage, DocumentRequest, too_large

IN_ARCHIVES: Final = (formats.DOCX, formats.PPTX, formats.XLSX, formats.ODT, formats.EPUB)
"""Kinds whose pictures are files in an archive."""

OTHERS: Final = ((b"II*\0", "image/tiff"), (b"MM\0*", "image/tiff"), (b"BM", "image/bmp"))
"""First bytes of further kinds of pictures."""

UNREAD: Final = (".emf", ".wmf", ".svg", ".wdp", ".jp2", ".jxr")
"""Extensions of pictures in Office files that no node for pictures reads."""

PREVIEW: Final = "docprops/thumbnail"
"""How the name of the preview of an Office file begins, which shows its first page."""

DEPTH: Final = 4
"""How many groups of a page, one in the other, are looked into."""


def image_type_of(data: bytes) -> str:
    """The MIME type of a picture by its first bytes; empty for anything else."""
    kind = media_type_of(data)
    if kind.startswith("image/"):
        return kind
    return next((mime for begin, mime in OTHERS if data.startswith(begin)), "")


def images_of(data: bytes, kind: str, request: DocumentRequest) -> tuple[list[DocumentImage], int]:
    """The pictures in a document, each once, and how many there are that nothing here reads.

    Raises `ToolError` for more pictures, or larger ones, than the request allows.
    """
    found: list[DocumentImage] = []
    known: set[bytes] = set()
    size = unread = 0
    pictures = _in_archive(data) if kind in IN_ARCHIVES else _in_pdf(data) if kind == formats.PDF else iter(())
    for picture in pictures:
        mime = "" if picture is None else image_type_of(picture)
        if picture is None or not mime:
            unread += 1
            continue
        digest = blake2b(picture, digest_size=16).digest()
        if digest in known:  # a logo on each page
            continue
        known.add(digest)
        size += len(picture)
        if len(found) >= request.max_images:
            raise too_large(f"It has more than {request.max_images:,} pictures (maxImages)")
        if size > request.max_unpacked:
            raise too_large(f"Its pictures have more than {request.max_unpacked:,} bytes (maxUnpacked)")
        found.append(DocumentImage(mime, picture))
    return found, unread


def _in_archive(data: bytes) -> Iterator[bytes | None]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        for member in archive.infolist():
            name = member.filename.lower()
            if name.startswith(PREVIEW):
                continue
            if name.endswith(UNREAD):
                yield None
                continue
            with archive.open(member) as file:
                begin = file.read(16)
                if image_type_of(begin):
                    yield begin + file.read()


def _in_pdf(data: bytes) -> Iterator[bytes | None]:
    """The pictures page by page: JPEGs as they are, all others as PNG."""
    import pypdfium2
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    document = pypdfium2.PdfDocument(data)
    try:
        for page in document:
            for item in page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=DEPTH):
                out = BytesIO()
                try:
                    item.extract(out, fb_format="png")  # pyright: ignore[reportAttributeAccessIssue]
                except (pypdfium2.PdfiumError, OSError, ValueError):
                    yield None
                    continue
                yield out.getvalue()
    finally:
        document.close()


def load_pdf_reader() -> list[str]:
    """Import what finds pictures in PDFs, while that may be read. Returns the folders from which it reads more as needed."""
    try:
        import PIL.Image
        import pypdfium2
        import pypdfium2_raw
    except ImportError:
        return []
    PIL.Image.preinit()
    return [PIL.__path__[0], pypdfium2.__path__[0], pypdfium2_raw.__path__[0]]
