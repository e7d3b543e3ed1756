"""What an editor makes of positions and edits, the slow and obvious way: over a list of the units that it counts in.

The rules are those of the protocol, as JavaScript's editors have them: lines end with CR, LF or CRLF; what is outside of a line
or of the text means its nearest end, and an end never is inside of a line's end.
"""

from __future__ import annotations

from rrext.editor.text import Position, Unit


def units_of(text: str, unit: Unit) -> list[bytes]:
    """The text as a list of its units: bytes, halves of UTF-16, or code points."""
    encoding, width = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[unit]
    data = text.encode(encoding, "surrogatepass")
    return [data[i : i + width] for i in range(0, len(data), width)]


def text_of(units: list[bytes], unit: Unit) -> str:
    encoding = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[unit]
    return b"".join(units).decode(encoding, "surrogatepass")


class NaiveText:
    """A client's view of a document."""

    def __init__(self, text: str, unit: Unit) -> None:
        self.unit: Unit = unit
        self.units = units_of(text, unit)

    @property
    def text(self) -> str:
        return text_of(self.units, self.unit)

    def lines(self) -> list[tuple[int, int]]:
        """Start and end of each line in units; line ends belong to no line."""
        found, start, i = [], 0, 0
        while i < len(self.units):
            width = self._line_end_at(i)
            if width:
                found.append((start, i))
                start = i + width
            i += width or 1
        return [*found, (start, len(self.units))]

    def _line_end_at(self, i: int) -> int:
        one, two = (text_of(self.units[i : i + n], self.unit) if self._is_ascii(i, n) else "" for n in (1, 2))
        if two == "\r\n":
            return 2
        return 1 if one in ("\r", "\n") else 0

    def _is_ascii(self, i: int, n: int) -> bool:
        return all(unit[0] < 128 and not any(unit[1:]) for unit in self.units[i : i + n])

    def index(self, place: Position) -> int:
        """Where a place is in the list of units."""
        line, character = place
        lines = self.lines()
        if line < 0:
            return 0
        if line >= len(lines):
            return len(self.units)
        start, end = lines[line]
        return min(start + max(character, 0), end)

    def place(self, index: int) -> Position:
        """The place of an index that is inside of a line."""
        for number, (start, end) in enumerate(self.lines()):
            if start <= index <= end:
                return number, index - start
        raise AssertionError("inside of a line's end")

    def replace(self, start: Position, end: Position, new: str) -> None:
        first, last = sorted((self.index(start), self.index(end)))
        self.units[first:last] = units_of(new, self.unit)
