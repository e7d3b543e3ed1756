"""Reads a drawn picture as a person does: finds the boxes, and follows each line with the finger."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

__all__ = ["Drawing", "Frame"]

CORNERS = "┌┏╔"
FLAT = {"┌": "─╌", "┏": "━", "╔": "═"}
UPRIGHT = {"┌": "│╎", "┏": "┃", "╔": "║"}
RIGHT_CORNER = {"┌": "┐", "┏": "┓", "╔": "╗"}
LOWER_LEFT = {"┌": "└", "┏": "┗", "╔": "╚"}
LOWER_RIGHT = {"┌": "┘", "┏": "┛", "╔": "╝"}
DEPARTS_BELOW, DEPARTS_RIGHT = "┬┯╤", "├┠╟"
ARROWS = {"▼": "data", "▶": "data", "▷": "control"}

UP, RIGHT, DOWN, LEFT = (0, -1), (1, 0), (0, 1), (-1, 0)
WAYS = {
    "│": (UP, DOWN),
    "┆": (UP, DOWN),
    "─": (LEFT, RIGHT),
    "┄": (LEFT, RIGHT),
    "╭": (DOWN, RIGHT),
    "╮": (DOWN, LEFT),
    "╰": (UP, RIGHT),
    "╯": (UP, LEFT),
    "├": (UP, DOWN, RIGHT),
    "┤": (UP, DOWN, LEFT),
    "┬": (LEFT, RIGHT, DOWN),
    "┴": (LEFT, RIGHT, UP),
}

Spot = tuple[int, int]


class Frame:
    """A box: its first and last columns and rows, borders included, and what stands in it."""

    def __init__(self, left: int, top: int, right: int, bottom: int, texts: list[str]) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.texts = texts

    @property
    def name(self) -> str:
        """The first text without a mark."""
        return self.texts[0].removeprefix("✗ ").removeprefix("! ")

    def holds(self, x: int, y: int) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom


class Drawing:
    """The character cells of a text, and what is drawn in them."""

    def __init__(self, text: str) -> None:
        self.cells = [_cells(line) for line in text.splitlines()]
        self.width = max(map(len, self.cells), default=0)
        self.frames = [
            frame for y, row in enumerate(self.cells) for x, cell in enumerate(row) if (frame := self._frame(x, y, cell))
        ]
        self.followed: set[Spot] = set()

    def at(self, x: int, y: int) -> str:
        if not 0 <= y < len(self.cells) or not 0 <= x < len(self.cells[y]):
            return " "
        return self.cells[y][x]

    def _frame(self, left: int, top: int, corner: str) -> Frame | None:
        if corner not in CORNERS or not corner:
            return None
        right = left + 1
        while self.at(right, top) in FLAT[corner] + "▼":
            right += 1
        bottom = top + 1
        while self.at(left, bottom) in UPRIGHT[corner] + "▶▷":
            bottom += 1
        assert self.at(right, top) == RIGHT_CORNER[corner], (left, top)
        assert self.at(left, bottom) == LOWER_LEFT[corner], (left, top)
        assert self.at(right, bottom) == LOWER_RIGHT[corner], (left, top)
        assert all(self.at(x, bottom) in FLAT[corner] + DEPARTS_BELOW for x in range(left + 1, right))
        assert all(self.at(right, y) in UPRIGHT[corner] + DEPARTS_RIGHT for y in range(top + 1, bottom))
        texts = ["".join(self.at(x, y) for x in range(left + 1, right)).strip() for y in range(top + 1, bottom)]
        return Frame(left, top, right, bottom, texts)

    def ends(self, frame: Frame) -> list[tuple[Frame, str, Spot]]:
        """Where the lines that leave a box arrive: the box, the kind of the arrow, and its place."""
        found: list[tuple[Frame, str, Spot]] = []
        below = [(x, frame.bottom, DOWN) for x in range(frame.left, frame.right) if self.at(x, frame.bottom) in DEPARTS_BELOW]
        beside = [
            (frame.right, y, RIGHT) for y in range(frame.top + 1, frame.bottom) if self.at(frame.right, y) in DEPARTS_RIGHT
        ]
        for start in (*below, *beside):
            kind = "data" if start[2] == DOWN else "control"
            for x, y in self._follow(start):
                assert ARROWS[self.at(x, y)] == kind
                (target,) = [other for other in self.frames if other.holds(x, y)]
                found.append((target, kind, (x, y)))
        return found

    def _follow(self, start: tuple[int, int, Spot]) -> list[Spot]:
        """The arrowheads that a line leads to. Crossings are passed straight, at branches every way is taken."""
        arrows: list[Spot] = []
        waiting = [start]
        seen = set(waiting)
        while waiting:
            x, y, way = waiting.pop()
            x, y = x + way[0], y + way[1]
            x = self._behind_name(x, y, way)
            glyph = self.at(x, y)
            self.followed.add((x, y))
            if glyph in ARROWS:
                assert way == (DOWN if glyph == "▼" else RIGHT), (x, y)
                arrows.append((x, y))
                continue
            if glyph == "┼":
                onward = [way]
            else:
                assert glyph in WAYS, f"the line ends at {x}, {y} in {glyph!r}"
                back = (-way[0], -way[1])
                assert back in WAYS[glyph], f"the line breaks at {x}, {y}"
                onward = [other for other in WAYS[glyph] if other != back]
            for other in onward:
                if (x, y, other) not in seen:
                    seen.add((x, y, other))
                    waiting.append((x, y, other))
        return arrows

    def _behind_name(self, x: int, y: int, way: Spot) -> int:
        """A name may stand in a line to the right, between blanks."""
        if way == RIGHT and self.at(x, y) == " ":
            while self.at(x, y) not in "─┄" or self.at(x - 1, y) != " ":
                x += 1
                assert x < self.width, f"no line behind a name in row {y}"
        return x

    def name_in_line(self, x: int, y: int) -> str:
        """The name in the line that arrives at a place on the left of a box."""
        row = "".join(cell or "" for cell in self.cells[y][:x])
        return row.rstrip("─┄").rpartition("─ " if "─ " in row and row.rfind("─ ") > row.rfind("┄ ") else "┄ ")[2].strip()

    def loose_ends(self) -> set[Spot]:
        """The places of lines and arrows outside and on boxes that no box leads to."""
        drawn = {
            (x, y)
            for y, row in enumerate(self.cells)
            for x, cell in enumerate(row)
            if cell and (cell in WAYS or cell in ARROWS or cell == "┼") and not any(frame.holds(x, y) for frame in self.frames)
        }
        arrows = {(x, y) for y, row in enumerate(self.cells) for x, cell in enumerate(row) if cell and cell in ARROWS}
        return (drawn | arrows) - self.followed


def _cells(line: str) -> list[str]:
    cells: list[str] = []
    for char in line:
        if combining(char):
            cells[-1] += char
        else:
            cells += [char, ""] if east_asian_width(char) in "WF" else [char]
    return cells
