"""The charset of a text, as its mark (BOM), its MIME type or a declaration names it."""

from __future__ import annotations

import codecs
import re
from typing import Final

MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The marks with which a text may begin, and the charsets that they name."""
_NAMED: Final = re.compile(r"""charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_NO_CHARSETS: Final = ("unicode-escape", "raw-unicode-escape", "unicode_escape", "raw_unicode_escape")
"""Python's own codecs, which write programs."""
_AS_BROWSERS_DO: Final = {
    "ascii": "utf-8",
    "shift_jis": "cp932",
    "shift_jis_2004": "cp932",
    "euc_jis_2004": "euc_jp",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
"""Charsets that are read as their supersets, as in the encoding standard of the WHATWG: most texts that name one are in it."""
_OTHER_NAMES: Final = {"windows-874": "cp874"}
"""Names of the WHATWG that Python does not know."""
NAME_IT: Final = 'Name the charset in the MIME type: "text/plain; charset=windows-1252".'
"""What helps a text whose charset is not known."""


def named(mime_type: str) -> str | None:
    """The charset that a MIME type, or a declaration in a page, names; None if it names none that is known here."""
    found = _NAMED.search(mime_type)
    return None if found is None else known(found[1])


def known(name: str) -> str | None:
    """The name by which Python knows a charset; None if it does not."""
    try:
        codec = codecs.lookup(_OTHER_NAMES.get(name.lower(), name))
    except LookupError:
        return None
    return codec.name if codec._is_text_encoding and not codec.name.endswith(_NO_CHARSETS) else None


def codec_of(charset: str) -> str:
    """The codec for texts that say that they are in a charset."""
    return _AS_BROWSERS_DO.get(charset, charset)


def decoded(data: bytes, charset: str) -> str:
    """The text of bytes in a charset, or in the superset that goes by its name. Raises `UnicodeError`."""
    try:
        return data.decode(codec_of(charset))
    except UnicodeError:
        return data.decode(charset)


def marked(data: bytes) -> str | None:
    """The charset that the first bytes of a text name."""
    return next((charset for mark, charset in MARKS if data.startswith(mark)), None)
