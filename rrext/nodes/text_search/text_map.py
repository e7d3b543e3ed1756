"""`TextMap`: where characters, lines and pages stand in the bytes of a text, so that a range is read without what is before."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

MARK: Final = 16_384
"""Characters between two marks of a text, from which a range is read without what is before it."""


class TextMap(msgspec.Struct, frozen=True):
    """Where things stand in a text: bytes and newlines before each `MARK` characters, and where each page begins."""

    marks: array[int]
    pages: array[int]

    def around(self, start: int, end: int) -> tuple[int, int | None, int]:
        """The bytes between the marks around a range of characters, None at the end, and the character of the first mark."""
        first, last = start // MARK, -(-end // MARK)
        return self.marks[2 * first], self.marks[2 * last] if 2 * last < len(self.marks) else None, first * MARK

    def mark_before(self, byte: int) -> tuple[int, int, int]:
        """The last mark that is not behind a byte: its byte, and the characters and newlines before it."""
        mark = bisect_right(self.marks[::2], byte) - 1
        return self.marks[2 * mark], mark * MARK, self.marks[2 * mark + 1]

    def mark_of_line(self, line: int) -> tuple[int, int]:
        """The character of the last mark that is not behind the beginning of a line, counted from 1; the newlines before it."""
        newlines = self.marks[1::2]
        mark = max(0, bisect_right(newlines, line - 2) - 1) if line > 1 else 0
        return mark * MARK, newlines[mark]


def text_map(marks: bytes, pages: bytes | None) -> TextMap:
    """The map of a text as it is stored."""
    return TextMap(array("Q", marks), array("Q", pages or b""))


def lines_of(text: str) -> int:
    """The number of lines: a last one without its end counts."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def marks_of(text: str) -> Iterator[int]:
    """The bytes and the newlines before each `MARK` characters, one after the other."""
    size = newlines = 0
    for at in range(0, len(text), MARK):
        yield size
        yield newlines
        piece = text[at : at + MARK]
        size += len(piece) if piece.isascii() else len(piece.encode())
        newlines += piece.count("\n")
    if not text:
        yield 0
        yield 0
