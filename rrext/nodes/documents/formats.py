"""The MIME types of the documents that can be read."""

from __future__ import annotations

from typing import Final

_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
PDF: Final = "application/pdf"
DOCX: Final = _OFFICE + "wordprocessingml.document"
XLSX: Final = _OFFICE + "spreadsheetml.sheet"
PPTX: Final = _OFFICE + "presentationml.presentation"
ODT: Final = "application/vnd.oasis.opendocument.text"
EPUB: Final = "application/epub+zip"
RTF: Final = "application/rtf"
HTML: Final = "text/html"
EML: Final = "message/rfc822"
MARKDOWN: Final = "text/markdown"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"
TEXT: Final = "text/plain"
