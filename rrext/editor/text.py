"""A document's text with positions in the units of the editor, and edits of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec

MARK_STEP: Final = 512
"""Characters. In a longer line, the units before every so many characters are counted once and kept."""

Unit: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
Position: TypeAlias = tuple[int, int]
"""Line and character, both from 0; characters count in the text's unit."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Text:
    """An immutable text; `changed` gives the next one.

    A line ends with CR, LF or both (Language Server Protocol 3.17, text documents); a form feed or U+2028 is an ordinary
    character. `unit` defines a character: a byte of UTF-8, a unit of UTF-16, or a code point.
    """

    def __init__(self, content: str, unit: Unit = "utf-16", *, starts: list[int] | None = None) -> None:
        self.content = content
        self.unit: Unit = unit
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(content))] if starts is None else starts
        self._marks: dict[int, list[int]] = {}

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; the nearest one if the position is outside the line or the text.

        A position inside a character (between the halves of an emoji) counts as the position before it.
        """
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.content)
        start, end = self._bounds(line)
        character = max(character, 0)
        if self.unit == "utf-32" or self.content.isascii():
            return min(start + character, end)
        if end - start > MARK_STEP:
            marks = self._marks_of(line)
            passed = bisect_right(marks, character) - 1
            start, character = min(start + passed * MARK_STEP, end), character - marks[passed]
        return start + _points(self.content[start : min(end, start + MARK_STEP)], character, self.unit)

    def position(self, offset: int) -> Position:
        """The position of an offset; inside a line end, the position before it."""
        content = self.content
        offset = min(max(offset, 0), len(content))
        line = bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        if offset > start and content[offset - 1] == "\r":  # the line end is CR LF, else a new line would begin here
            offset -= 1
        if self.unit == "utf-32" or content.isascii():
            return line, offset - start
        if offset - start <= MARK_STEP:
            return line, _units(content[start:offset], self.unit)
        rest = (offset - start) % MARK_STEP
        return line, self._marks_of(line)[(offset - start) // MARK_STEP] + _units(content[offset - rest : offset], self.unit)

    def edited(self, start: Position, end: Position, new: str) -> Text:
        """The text with `new` between two positions, as in the editor.

        An editor that counts in UTF-16 may cut a character in two; its half stays until another edit completes it.
        """
        if start > end:
            start, end = end, start
        first, last = self.offset(*start), self.offset(*end)
        if self.unit == "utf-16" and not self.content.isascii():
            head, tail = self._half_before(first, start), self._half_after(last, end)
            return self.changed(first, last + bool(tail), f"{head}{new}{tail}")
        return self.changed(first, last, new)

    def _half_before(self, offset: int, place: Position) -> str:
        """The first half of the character at an offset, if the position cuts it."""
        return _halves(self.content[offset])[0] if self._is_cut(offset, place) else ""

    def _half_after(self, offset: int, place: Position) -> str:
        return _halves(self.content[offset])[1] if self._is_cut(offset, place) else ""

    def _is_cut(self, offset: int, place: Position) -> bool:
        if offset >= len(self.content) or self.content[offset] <= "\uffff":
            return False
        line, character = self.position(offset)
        return (line, character + 1) == place

    def changed(self, start: int, end: int, new: str) -> Text:
        """The text with `new` between two offsets."""
        if start > end:
            start, end = end, start
        content = self.content[:start] + new + self.content[end:]
        if not content.isascii() and _may_join(content, start, start + len(new)):
            joined = _joined(content)
            if len(joined) != len(content):
                return Text(joined, self.unit)
        return Text(content, self.unit, starts=self._starts_after(start, end, new, content))

    def _bounds(self, line: int) -> tuple[int, int]:
        starts, content = self._starts, self.content
        start = starts[line]
        if line + 1 == len(starts):
            return start, len(content)
        end = starts[line + 1] - 1
        if content[end] == "\n" and end > start and content[end - 1] == "\r":
            end -= 1
        return start, end

    def _marks_of(self, line: int) -> list[int]:
        """The units before each `MARK_STEP`th character of a line."""
        marks = self._marks.get(line)
        if marks is None:
            start, end = self._bounds(line)
            pieces = (self.content[at : min(at + MARK_STEP, end)] for at in range(start, end, MARK_STEP))
            marks = self._marks[line] = [0, *accumulate(_units(piece, self.unit) for piece in pieces)]
        return marks

    def _starts_after(self, start: int, end: int, new: str, content: str) -> list[int]:
        """The line starts after a change; only the affected lines are scanned."""
        starts = self._starts
        first = bisect_right(starts, max(start - 1, 0)) - 1  # from the line before, because CR and LF may now be adjacent
        beyond = bisect_right(starts, end)
        shift = len(new) - (end - start)
        stop = starts[beyond] + shift if beyond < len(starts) else len(content)
        found = [match.end() for match in _LINE_END.finditer(content, starts[first], stop)]
        return [*starts[: first + 1], *found, *(other + shift for other in starts[beyond + 1 :])]

    def __repr__(self) -> str:
        return f"<Text of {len(self.content)} characters in {len(self._starts)} lines, {self.unit}>"


def _units(piece: str, unit: Unit) -> int:
    """The number of units of a text."""
    if unit == "utf-8":
        return len(piece.encode("utf-8", "surrogatepass"))
    return len(piece.encode("utf-16-le", "surrogatepass")) // 2


def _points(line: str, units: int, unit: Unit) -> int:
    """The number of whole characters of a line that fit into `units`."""
    if unit == "utf-8":
        raw = line.encode("utf-8", "surrogatepass")
        if units >= len(raw):
            return len(line)
        while raw[units] & 0xC0 == 0x80:
            units -= 1
        return len(raw[:units].decode("utf-8", "surrogatepass"))
    raw = line.encode("utf-16-le", "surrogatepass")
    if 2 * units >= len(raw):
        return len(line)
    count = len(raw[: 2 * units].decode("utf-16-le", "surrogatepass"))
    return count - 1 if _units(line[:count], unit) > units else count


def _halves(character: str) -> tuple[str, str]:
    """The two UTF-16 surrogates of a character."""
    code = ord(character) - 0x10000
    return chr(0xD800 + (code >> 10)), chr(0xDC00 + (code & 0x3FF))


def _may_join(content: str, start: int, end: int) -> bool:
    """Whether surrogates stand in or around a span; only there can an edit have joined two of them."""
    return _SURROGATE.search(content, max(start - 1, 0), min(end + 1, len(content))) is not None


def _joined(content: str) -> str:
    """The text with each pair of surrogates joined into one character."""
    return content.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Edit(msgspec.Struct, frozen=True, order=True):
    """A replacement: `text` in place of the span between two offsets of the old text."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits, which do not overlap; of two at one offset the first comes first."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])
