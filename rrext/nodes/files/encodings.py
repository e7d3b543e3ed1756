"""Text and bytes of files: the encodings that the file tools know, and how a piece of a file becomes text."""

from __future__ import annotations

import binascii
import codecs
from typing import Final

from rrext.errors import InvalidArguments, ToolError, fold

BASE64: Final = "base64"
ENCODINGS: Final = (
    "utf-8",
    "ascii",
    "latin-1",
    "cp1252",
    "utf-16-le",
    "utf-16-be",
    "shift_jis",
    "euc_jp",
    "euc_kr",
    "big5",
    "gb18030",
    BASE64,
)
"""Encodings whose text can be read from any character on: none keeps a state between characters or starts with a mark."""

_BY_FOLDED: Final = {fold(name): name for name in ENCODINGS}


def known_encoding(name: str) -> str:
    """The name in `ENCODINGS` for a caller's spelling (`UTF8`, `utf_8`). Raises `InvalidArguments`."""
    found = _BY_FOLDED.get(fold(name))
    if found is None:
        raise InvalidArguments.at("/input/encoding", f"is not one of {', '.join(ENCODINGS)}")
    return found


def decode(data: bytes, encoding: str, *, path: str, offset: int = 0, is_end: bool = True) -> tuple[str, int]:
    """Decode a piece of a file; return the text and the number of bytes it took.

    Unless `is_end`, a character that is cut off at the end is left out. Raises `ToolError` for bytes that are no text
    in this encoding; `path` and `offset` are for its message.
    """
    if encoding == BASE64:
        return binascii.b2a_base64(data, newline=False).decode("ascii"), len(data)
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(data, final=is_end)
    except UnicodeDecodeError as error:
        raise ToolError(
            f'"{path}" is not {encoding} text: byte {offset + error.start} does not fit',
            code="wrong_encoding",
            hint='Read it with another "encoding"; "base64" fits every file.',
        ) from error
    return text, len(data) - len(decoder.getstate()[0])


def encode(text: str, encoding: str) -> bytes:
    """Encode a text. Raises `ToolError` for characters that the encoding lacks."""
    if encoding == BASE64:
        try:
            return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise ToolError("content is not base64", code="wrong_encoding") from error
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"content cannot be written as {encoding}: character {error.start} does not fit",
            code="wrong_encoding",
            hint='"utf-8" holds every text.',
        ) from error
