"""A grid of character cells for lines and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rrext.columns import columns
from rrext.picture.picture import Kind

UP, RIGHT, DOWN, LEFT = 1, 2, 4, 8

_CORNERS: Final = {
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴",
    UP | RIGHT | DOWN | LEFT: "┼",
}
_GLYPHS: Final[dict[Kind, dict[int, str]]] = {
    "data": {**_CORNERS, UP: "│", DOWN: "│", UP | DOWN: "│", LEFT: "─", RIGHT: "─", LEFT | RIGHT: "─"},
    "control": {**_CORNERS, UP: "┆", DOWN: "┆", UP | DOWN: "┆", LEFT: "┄", RIGHT: "┄", LEFT | RIGHT: "┄"},
}


class Canvas:
    """A grid of cells; each has a text, usually one character, and a style. Later drawings cover earlier ones."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._texts = [[" "] * width for _ in range(height)]
        self._styles = [[""] * width for _ in range(height)]
        self._lines: dict[tuple[int, int], tuple[int, Kind]] = {}

    def line(self, x1: int, y1: int, x2: int, y2: int, kind: Kind) -> None:
        """Draw a straight line to the right or down. Lines that meet are joined, lines that cross form a cross."""
        if y1 == y2:
            for x in range(x1, x2 + 1):
                self._join(x, y1, (LEFT if x > x1 else 0) | (RIGHT if x < x2 else 0), kind)
        else:
            for y in range(y1, y2 + 1):
                self._join(x1, y, (UP if y > y1 else 0) | (DOWN if y < y2 else 0), kind)

    def _join(self, x: int, y: int, ways: int, kind: Kind) -> None:
        before = self._lines.get((x, y))
        if before is not None:
            ways |= before[0]
        self._lines[x, y] = (ways, kind)
        self._texts[y][x] = _GLYPHS[kind][ways]
        self._styles[y][x] = kind

    def sign(self, x: int, y: int, signs: str, style: str = "") -> None:
        """Write characters that take one cell each."""
        self._texts[y][x : x + len(signs)] = signs
        self._styles[y][x : x + len(signs)] = [style] * len(signs)

    def write(self, x: int, y: int, text: str, style: str = "") -> None:
        """Write a text without control characters, each character in as many cells as its width."""
        if text.isascii():
            self.sign(x, y, text, style)
            return
        texts, styles = self._texts[y], self._styles[y]
        for char in text:
            wide = columns(char)
            if wide == 0:  # it combines with the character before it
                texts[x - 1] += char
            else:
                texts[x : x + wide] = [char] + [""] * (wide - 1)
                styles[x : x + wide] = [style] * wide
                x += wide

    def rows(self) -> Iterator[str]:
        """The rows as text, without trailing blanks."""
        return ("".join(texts).rstrip() for texts in self._texts)

    def styled_rows(self) -> Iterator[list[tuple[str, str]]]:
        """The rows as pieces of (style, text)."""
        for texts, styles in zip(self._texts, self._styles, strict=True):
            pieces: list[tuple[str, str]] = []
            for text, style in zip(texts, styles, strict=True):
                if pieces and pieces[-1][0] == style:
                    pieces[-1] = (style, pieces[-1][1] + text)
                else:
                    pieces.append((style, text))
            yield pieces
