"""Bytes that are text: whether they are, and what they say, whatever wrote them."""

from __future__ import annotations

import codecs
import re
from typing import Final

from rrext.nodes.documents.records import corrupt

__all__ = ["decode", "looks_like_text"]

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PROBE: Final = 65_536
"""Bytes that are looked at to tell text from other things."""
_BINARY: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_CHARSET: Final = re.compile(rb"""charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_CHARSET_BEGIN: Final = 2048
"""Where an HTML page has to declare its encoding; the standard says the first 1024 bytes."""


def looks_like_text(data: bytes) -> bool:
    """Whether there is no byte that no text has: control characters other than space, line and page ends."""
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return True
    return _BINARY.search(data, 0, _PROBE) is None


def decode(data: bytes, declared: str = "", *, is_html: bool = False) -> str:
    """The text: by its byte order mark, by the declared charset, as UTF-8, or else as Windows-1252, in this order.

    `declared` is a MIME type with parameters. Raises `ToolError` for bytes that are no text in the encoding that they
    claim, and for those that no encoding here explains.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data, encoding)
    named = _named(declared.encode("utf-8", "replace")) or (_named(data[:_CHARSET_BEGIN]) if is_html else None)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if named is not None and named != "utf-8":
        return _strictly(data, named)
    if _BINARY.search(data) is None:
        return data.decode("cp1252", "replace")  # what is neither UTF-8 nor declared is mostly this
    raise corrupt("It is no text: it has bytes that no text has")


def _named(text: bytes) -> str | None:
    found = _CHARSET.search(text)
    if found is None:
        return None
    try:
        codec = codecs.lookup(found[1].decode("ascii"))
    except LookupError:
        return None
    return codec.name if codec._is_text_encoding else None


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError:
        raise corrupt(f"It is no text in {encoding}, which it claims to be") from None
