"""`Window`: a part of a text, of whole lines, in which a pattern is searched; and `windows`, the parts of a long text.

A hit is within one line. A document takes as much memory as a window of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rrext.nodes.text_search.pattern import Pattern, Span

OVERLAP: Final = 4096
"""Bytes that a hit has at most that crosses the end of a window within a line longer than the window."""
LINE: Final = 500
"""Characters of a line that an answer shows."""
BATCH: Final = 10_000
"""Hits that are found at once to be counted."""

Loaded = tuple[bytes, int, int, int]
"""Bytes of a text, the byte at which they begin in it, and the characters and the newlines before them."""


class Window:
    """Bytes of a text, and which of them are searched. The bytes around it are shown, and hold the ends of its last hits."""

    __slots__ = ("_counted", "_end", "_first", "_stop", "base", "data", "size")

    def __init__(self, loaded: Loaded, size: int, reached: int, length: int) -> None:
        """At most `length` bytes from the byte `reached` on, of a text of `size` bytes."""
        self.data, self.base, characters, lines = loaded
        self.size = size
        self._counted = (0, characters, lines)
        self._first = first = self._character(reached - self.base)
        self._end = self._stop = end = size - self.base
        if end - first > length:
            end = self.data.rfind(b"\n", first, first + length) + 1
            if not end:
                end = self._character(first + length)
                line_end = self.data.find(b"\n", end, end + OVERLAP)
                last = line_end + 1 if line_end >= 0 else self._character(min(len(self.data), end + OVERLAP))
                self._end, self._stop = end, last
            else:
                self._end = self._stop = end

    @property
    def reached(self) -> int:
        """The byte of the text from which the search goes on."""
        return self.base + self._first

    @property
    def is_last(self) -> bool:
        """Whether the text ends here."""
        return self.base + self._end >= self.size

    def spans(self, pattern: Pattern, most: int) -> list[Span]:
        """The next hits in the window, at most `most`, as places in `data`."""
        data, end, stop = self.data, self._end, self._stop
        if self._first > end:
            return []
        found = pattern.spans(data, self._first, stop, most)
        behind = end if stop > end or data[end - 1 : end] == b"\n" else end + 1  # at the end of a text a hit may be empty
        is_full = len(found) == most
        while found and found[-1][0] >= behind:
            del found[-1]
            is_full = False
        self._first = end
        if found:
            self.go_on_behind(found[-1])
            if not is_full and self._first < end:
                self._first = end
        return found

    def go_on_behind(self, hit: Span) -> None:
        """Search next what is behind a hit."""
        start, end = hit
        if end == start:
            end += 1
            while end < len(self.data) and self.data[end] & 0xC0 == 0x80:
                end += 1
        self._first = end

    def count(self, pattern: Pattern) -> int:
        """The number of the hits from here on."""
        if self._stop == self._end:
            counted = pattern.count(self.data, self._first, self._stop)
            if counted is not None:
                self._first = self._end
                return counted
        total = 0
        while found := len(self.spans(pattern, BATCH)):
            total += found
            if found < BATCH:
                break
        return total

    def _character(self, at: int) -> int:
        """The beginning of the character at a place."""
        while 0 < at < len(self.data) and self.data[at] & 0xC0 == 0x80:
            at -= 1
        return at

    def spot(self, at: int, *, is_plain: bool) -> tuple[int, int]:
        """The character and the line, from 0, of a place in `data`. Places are asked from left to right.

        `is_plain`: each character of the text is a byte.
        """
        data = self.data
        last, characters, lines = self._counted
        characters += at - last if is_plain else len(data[last:at].decode())
        lines += data.count(b"\n", last, at)
        self._counted = (at, characters, lines)
        return characters, lines

    def line(self, start: int, end: int) -> str:
        """The line of a hit, of a long one the part around it."""
        data = self.data
        line_start = data.rfind(b"\n", 0, start) + 1
        line_end = data.find(b"\n", end)
        if 0 <= line_end <= line_start + LINE and (line_start or not self.base):
            return data[line_start:line_end].decode().removesuffix("\r")
        reach = 4 * LINE
        hit = data[start : min(end, start + reach)].decode(errors="ignore")
        line_start = data.rfind(b"\n", max(0, start - reach), start) + 1 or max(0, start - reach)
        line_end = data.find(b"\n", end, end + reach)
        if line_end < 0:
            line_end = min(len(data), end + reach)
        before = data[line_start:start].decode(errors="ignore")
        after = data[end:line_end].decode(errors="ignore").removesuffix("\r")
        room = max(0, LINE - len(hit))
        kept = before[max(0, len(before) - max(room // 2, room - len(after))) :] if room else ""
        shown = f"{kept}{hit}{after}"[:LINE]
        is_begun = len(kept) < len(before) or (self.base + line_start > 0 and data[line_start - 1 : line_start] != b"\n")
        is_cut = len(kept) + (end - start and len(hit)) + len(after) > LINE or not self._ends(line_end)
        return f"{'…' if is_begun else ''}{shown}{'…' if is_cut else ''}"

    def _ends(self, at: int) -> bool:
        return self.data[at : at + 1] == b"\n" or self.base + at >= self.size

    def context(self, start: int, end: int, count: int) -> tuple[list[str], list[str]]:
        """So many lines before the line of a hit and after it, as far as they are loaded."""
        before: list[str] = []
        edge = self.data.rfind(b"\n", 0, start) + 1
        while len(before) < count and edge > 0:
            above = self.data.rfind(b"\n", 0, edge - 1) + 1
            before.append(self._shown(above, edge - 1))
            edge = above
        after: list[str] = []
        edge = self.data.find(b"\n", end) + 1
        while len(after) < count and 0 < edge < len(self.data):
            below = self.data.find(b"\n", edge)
            after.append(self._shown(edge, below if below >= 0 else len(self.data)))
            edge = below + 1
        return before[::-1], after

    def _shown(self, start: int, end: int) -> str:
        text = self.data[start : min(end, start + 4 * LINE + 4)].decode(errors="ignore").removesuffix("\r")
        return text if len(text) <= LINE else f"{text[:LINE]}…"


def windows(load: Callable[[int, int], Loaded], size: int, begin: int, pattern: Pattern, context: int = 0) -> Iterator[Window]:
    """The windows of a text of `size` bytes from the byte `begin` on, each searched before the next one is loaded.

    `load(start, stop)` gives the bytes from `start` on, or from a place before it, to `stop`: so many that the line of a hit
    can be shown, and `context` lines around it.
    """
    margin = (context + 1) * (4 * LINE + 4)
    while begin <= size > 0:
        stop = min(size, begin + pattern.window + OVERLAP + margin)
        window = Window(load(max(0, begin - margin - 4), stop), size, begin, pattern.window)
        yield window
        if window.is_last:
            return
        begin = window.reached
