"""The width of text on a terminal, and the removal of characters that a terminal would obey."""

from __future__ import annotations


def columns(text: str) -> int:
    """The number of terminal columns of a text without control characters."""
    return len(text) if text.isascii() else sum(map(_width, text))


def printable(text: str) -> str:
    """The text with a visible character in place of each control character; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else " " if char == "\t" else "�" for char in text)


def one_line(text: str) -> str:
    """The text with a visible character in place of each control character and line break."""
    return text if text.isprintable() else printable(text).replace("\n", "�")


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
