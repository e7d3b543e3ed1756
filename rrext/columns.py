"""The width of text on a terminal, and escapes for characters that a terminal would obey or that nobody sees."""

from __future__ import annotations

import re
from typing import Final

_BLANK: Final = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
"""Characters without a shape, such as variation selectors, that Python counts as printable."""


def columns(text: str) -> int:
    """The number of terminal columns of a text without control characters."""
    return len(text) if text.isascii() else sum(map(_width, text))


def printable(text: str) -> str:
    r"""The text with an escape as in JSON, `\u200b`, for each control and invisible character; line breaks stay."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char == "\n" else " " if char == "\t" else _escape(char) for char in text)
    return text if text.isascii() else re.sub(_BLANK, lambda found: _escape(found[0]), text)


def one_line(text: str) -> str:
    """The text with an escape for each control and invisible character and line break."""
    return printable(text).replace("\n", _escape("\n"))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\u{{{ord(char):x}}}"


def cut(text: str, width: int) -> str:
    """The text if it fits into `width` columns, else its beginning with an ellipsis."""
    if columns(text) <= width:
        return text
    used, kept = 1, 0
    while used + (wide := _width(text[kept])) <= width:
        used += wide
        kept += 1
    return text[:kept] + "…"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken between words where possible."""
    lines: list[str] = []
    line, used = "", 0
    for word in text.split():
        while (wide := columns(word)) > width:
            if line:
                lines.append(line)
                line, used = "", 0
            head = _head(word, width)
            lines.append(word[:head])
            word = word[head:]
        if line and used + 1 + wide > width:
            lines.append(line)
            line, used = "", 0
        line = f"{line} {word}" if line else word
        used = columns(line)
    return [*lines, line] if line or not lines else lines


def _head(word: str, width: int) -> int:
    """The number of characters of a word that fit into `width`; at least one."""
    used = 0
    for index, char in enumerate(word):
        used += _width(char)
        if used > width:
            return max(index, 1)
    return len(word)


def _width(char: str) -> int:
    if char < "\x7f":
        return 1
    from unicodedata import category, combining, east_asian_width

    if combining(char) or category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
