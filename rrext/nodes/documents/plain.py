"""Text files: whether bytes are text, and their decoding."""

from __future__ import annotations

import re
from typing import Final

from rrext.charsets import NAME_IT, decoded, known, marked, named
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.documents.detection import detected, utf_16
from rrext.nodes.documents.records import corrupt, unknown_charset

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
    told = _told(data, is_html=is_html)
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


def _told(data: bytes, *, is_html: bool) -> str | None:
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
