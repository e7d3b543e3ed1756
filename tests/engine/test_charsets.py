"""Charsets that are named: by a MIME type, and by that of a text that is sent."""

from __future__ import annotations

import pytest

from rrext.charsets import named
from rrext.engine.flow.intake import Intake
from rrext.errors import InvalidArguments


@pytest.mark.parametrize(
    ("mime_type", "charset"),
    [
        ("text/plain; charset=shift_jis", "shift_jis"),
        ('text/plain; format=flowed; CHARSET="KOI8-R"', "koi8-r"),
        ("text/plain; charset=nonsense", None),
        ("text/plain; charset=unicode_escape", None),
        ("text/plain; charset=base64", None),
        ("text/plain", None),
    ],
)
def test_a_mime_type_names_a_charset_of_text(mime_type: str, charset: str | None) -> None:
    assert named(mime_type) == charset


# -- texts that are sent


def sent(data: bytes, mime_type: str, size: int) -> str:
    """The text that the nodes get of an object, written in pieces."""
    intake = Intake("text", mime_type)
    pieces = [intake.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert intake.end() == []
    return "".join(piece for piece in pieces if piece is not None)


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("図書館は九時に開く。", "shift_jis"),
        ("図書館は九時に開く。", "euc_jp"),
        ("図書館は九時に開く。", "iso-2022-jp"),
        ("図書館は九時に開く。", "utf-16"),
        ("도서관", "euc-kr"),
        ("图书馆", "gb2312"),
        ("Библиотека", "koi8-r"),
        ("café", "iso-8859-1"),
        ("“café”", "windows-1252"),
    ],
)
def test_a_text_is_sent_in_the_charset_that_its_type_names(text: str, charset: str) -> None:
    for size in (1, 7, 1000):
        assert sent(text.encode(charset), f"text/plain; charset={charset}", size) == text


def test_a_named_charset_holds_also_for_bytes_that_would_be_utf_8() -> None:
    assert sent("né".encode(), "text/plain; charset=shift_jis", 1) == "nﾃｩ"
    with pytest.raises(InvalidArguments, match="byte 3 of the object is not cp932, which its MIME type names"):
        sent(b"abc\x81\x20", "text/plain; charset=shift_jis", 2)


def test_a_text_whose_charset_is_not_clear_says_how_to_name_it() -> None:
    with pytest.raises(InvalidArguments, match="byte 3 of the object is not UTF-8") as caught:
        sent("café?".encode("cp1252"), "text/plain", 100)
    assert caught.value.hint is not None
    assert '"text/plain; charset=windows-1252"' in caught.value.hint
