"""The charset that the bytes of a text show.

A text in a wrong charset is mostly a text too, of other letters, and each detector alone is wrong for one text of ten that were
tried. Two that are built on other grounds are seldom wrong together: chardet compares pairs of bytes with those of languages,
chardetng (that of Firefox) rates each letter by its neighbours. So a charset is taken if both read the same text.
"""

from __future__ import annotations

import codecs
import re
from io import BytesIO
from typing import Final
from unicodedata import category

from rrext.charsets import codec_of, known, marked

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
