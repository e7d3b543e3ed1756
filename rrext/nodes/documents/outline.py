"""Sections of Markdown: a cut before every heading, and the headings above each piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rrext.nodes.documents.boundaries import LOOKAHEAD

LONGEST_TITLE: Final = 200
"""Characters of a heading that are kept; more is no heading, and would stand in every chunk below it."""

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)([^\n]*)")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_CLOSING: Final = re.compile(r"[ \t]+#+[ \t]*$")
assert LONGEST_TITLE < LOOKAHEAD


class Outline:
    """Follows a Markdown text piece by piece. `headings` are those above the end of what was passed."""

    def __init__(self) -> None:
        self._fence = ""
        self._is_line_begin = True
        self._stack: list[tuple[int, str]] = []

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings above the current position, the highest first."""
        return tuple(title for _, title in self._stack)

    def section_end(self, window: str, limit: int) -> int:
        """The end of the first section of the window, up to `limit`; 0 if it goes on. Headings in a row are one section."""
        fence, has_text = self._fence, not self._is_line_begin and bool(window[: window.find("\n")].strip())
        for begin, end in self._lines(window, limit):
            line = window[begin:end]
            if not fence and _HEADING.match(line):
                if has_text:
                    return begin
                continue
            fence = _after(fence, line)
            has_text = has_text or bool(line.strip())
        return 0

    def advance(self, window: str, cut: int) -> None:
        """Advance by `cut` characters. The window shows the text after them, in case a heading is cut."""
        for begin, end in self._lines(window, cut - 1):
            line = window[begin:end]
            heading = None if self._fence else _HEADING.match(line)
            if heading is not None:
                self._enter(len(heading[1]), _CLOSING.sub("", heading[2])[:LONGEST_TITLE].strip())
            else:
                self._fence = _after(self._fence, line)
        if cut:
            self._is_line_begin = window[cut - 1] == "\n"

    def copy(self) -> Outline:
        """Make another outline at the same position."""
        other = Outline()
        other._fence, other._is_line_begin, other._stack = self._fence, self._is_line_begin, list(self._stack)
        return other

    def _lines(self, window: str, last: int) -> Iterator[tuple[int, int]]:
        """Begin and end of each line that begins in the window, up to `last`; of a long line, only the relevant part."""
        begin = 0 if self._is_line_begin else window.find("\n") + 1
        if begin == 0 and not self._is_line_begin:
            return
        while begin <= last and begin < len(window):
            end = window.find("\n", begin)
            end = len(window) if end < 0 else end
            yield begin, min(end, begin + LOOKAHEAD)
            begin = end + 1

    def _enter(self, level: int, title: str) -> None:
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._stack.append((level, title))


def _after(fence: str, line: str) -> str:
    """The fence that is open after a line: its mark, or "" for none."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1] == fence else fence
