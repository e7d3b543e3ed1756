"""Extraction of one document with kreuzberg: the only module that knows the library's names."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import ToolError
from rrext.nodes.documents.formats import PDF
from rrext.nodes.documents.records import corrupt, encrypted, too_large

if TYPE_CHECKING:
    from kreuzberg import ExtractionConfig, ExtractionResult

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
        return "\n\n".join(page["content"] for page in result.pages)
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
