"""Text files: whether bytes are text, and their decoding."""

from __future__ import annotations

import codecs
import re
from typing import Final

from rrext.nodes.documents.limits import CHARSET_BEGIN, TEXT_PROBE
from rrext.nodes.documents.records import corrupt

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_CHARSET: Final = re.compile(rb"""charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_IN_ASCII: Final = ("iso2022", "hz")
"""Charsets that use bytes of ASCII alone, so that each of their texts is also valid UTF-8 with another meaning."""
_NO_CHARSET: Final = ("unicode-escape", "unicode_escape")
"""Python's own codecs, whose results no text can hold."""


def looks_like_text(data: bytes) -> bool:
    """Whether the bytes have no control characters other than spaces, line ends and page ends."""
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return True
    return _BINARY.search(data, 0, TEXT_PROBE) is None


def decode(data: bytes, declared: str = "", *, is_html: bool = False) -> str:
    """The text: by its byte order mark, as UTF-8, by the declared charset, or else as Windows-1252, in this order.

    Valid UTF-8 is never an accident, so it overrides the declared encoding; but for charsets that write all in ASCII, as
    Japanese mail does. `declared` is a MIME type with parameters. Raises `ToolError` for bytes that are no text in the
    encoding that they claim, for those that no encoding here explains, and for null characters, which no database takes.
    """
    text = _decoded(data, declared, is_html=is_html)
    if "\0" in text:
        raise corrupt("It is no text: it has null characters")
    return text


def _decoded(data: bytes, declared: str, *, is_html: bool) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data, encoding)
    named = _named(declared.encode("utf-8", "replace")) or (_named(data[:CHARSET_BEGIN]) if is_html else None)
    if named is not None and named.startswith(_IN_ASCII):
        return _strictly(data, named)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if named is not None and named != "utf-8":
        return _strictly(data, named)
    if _BINARY.search(data) is None:
        return data.decode("cp1252", "replace")  # bytes that are neither UTF-8 nor declared are mostly this
    raise corrupt("It is no text: it has bytes that no text has")


def _named(text: bytes) -> str | None:
    found = _CHARSET.search(text)
    if found is None:
        return None
    try:
        codec = codecs.lookup(found[1].decode("ascii"))
    except LookupError:
        return None
    return codec.name if codec._is_text_encoding and not codec.name.endswith(_NO_CHARSET) else None


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError:
        raise corrupt(f"It is no text in {encoding}, which it claims to be") from None
