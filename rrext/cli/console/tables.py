"""Tables of a few columns of text, whose last two wrap to keep to the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from rrext.cli.console.lines import MIN_WRAPPED_WIDTH
from rrext.columns import columns, printable, wrapped

GAP: Final = "  "


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None, bold: bool = False) -> Iterator[str]:
    """The lines of a table whose last two columns may wrap to keep to `width`; None keeps every row on one line.

    If even that does not fit, each row is a list of its cells.
    """
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(heads, *cells, strict=True)]
    if width is not None:
        narrowed = _narrowed(widths, width)
        if narrowed is None:
            yield from _lists(cells, width, bold)
            return
        widths = narrowed
    head = _line(heads, widths)
    yield f"\x1b[1m{head}\x1b[0m" if bold else head
    for row in cells:
        parts = [[cell] if width is None else wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        yield from (_line(line, widths) for line in zip_longest(*parts, fillvalue=""))


def _narrowed(widths: list[int], width: int) -> list[int] | None:
    """The widths with the last two reduced if necessary; None if they would be unreadable."""
    *fixed, one, other = widths
    room = width - sum(fixed) - len(GAP) * (len(widths) - 1)
    if one + other <= room:
        return widths
    if room < 2 * MIN_WRAPPED_WIDTH:
        return None
    one = min(one, max(room // 2, room - other))
    return [*fixed, one, min(other, room - one)]


def _lists(rows: list[list[str]], width: int, bold: bool) -> Iterator[str]:
    for name, *rest in rows:
        yield f"\x1b[1m{name}\x1b[0m" if bold else name
        for cell in rest:
            yield from (f"  {line}" for line in wrapped(cell, width - 2) if line)


def _line(cells: Sequence[str], widths: list[int]) -> str:
    padded = (cell + " " * (size - columns(cell)) for cell, size in zip(cells, widths, strict=True))
    return GAP.join(padded).rstrip()
