"""Rows as an aligned table, or as a list of cells for each row where a table does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from rrext.columns import columns, cut, one_line

MIN_COLUMN_WIDTH: Final = 8
"""The minimal width of a readable column; below it, rows are lists."""

NULL: Final = "NULL"
GAP: Final = 3
_NUMERIC: Final = re.compile(r"(?i)(?:tiny|small|medium|big|huge|u)*int|integer|numeric|decimal|real|float|double|money|serial")

_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


def shown(value: Any) -> str:
    """A value in one line: text unchanged, all else as JSON; control characters become visible."""
    if value is None:
        return NULL
    if isinstance(value, str):
        return one_line(value.replace("\r\n", "↵").replace("\n", "↵"))
    return one_line(msgspec.json.encode(value).decode())


def is_number_column(kind: str | None, values: Sequence[Any]) -> bool:
    """Whether a column holds numbers, by its type or else its values."""
    if kind is not None and _NUMERIC.match(kind):
        return True
    found = {type(value) for value in values if value is not None}
    return bool(found) and found <= {int, float}


def grid(
    heads: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[bool], *, width: int | None, styled: bool
) -> tuple[Iterator[str], bool]:
    """The lines of a table, and whether values are cut to `width`: those end in `…`.

    If `width` is too small, the lines are those of `records`.
    """
    cells = [[shown(value) for value in row] for row in rows]
    titles = [one_line(head) for head in heads]
    widths = [max(map(columns, column)) for column in zip(titles, *cells, strict=True)]
    narrowed = widths if width is None else _narrowed(widths, width)
    if narrowed is None:
        return records(heads, rows, styled=styled), False
    return _lines(titles, rows, cells, right, narrowed, styled=styled), narrowed != widths


def _lines(
    titles: Sequence[str],
    rows: Sequence[Sequence[Any]],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    widths: Sequence[int],
    *,
    styled: bool,
) -> Iterator[str]:
    head = " | ".join(_padded(cut(title, size), size, is_right=False) for title, size in zip(titles, widths, strict=True))
    yield f"{_BOLD}{head.rstrip()}{_PLAIN}" if styled else head.rstrip()
    yield "-+-".join("-" * size for size in widths)
    for row, texts in zip(rows, cells, strict=True):
        parts = [
            _cell(cut(text, size), size, is_right=is_right, is_dim=styled and value is None)
            for value, text, size, is_right in zip(row, texts, widths, right, strict=True)
        ]
        yield " | ".join(parts).rstrip()


def records(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, styled: bool) -> Iterator[str]:
    """Each row as lines `column | value`, uncut."""
    titles = [one_line(head) for head in heads]
    size = max(map(columns, titles), default=0)
    for number, row in enumerate(rows, 1):
        head = f"-[ {number} ]" + "-" * max(0, size - len(str(number)) - 3)
        yield f"{_BOLD}{head}{_PLAIN}" if styled else head
        for title, value in zip(titles, row, strict=True):
            text = shown(value)
            yield f"{_padded(title, size, is_right=False)} | {_DIM + text + _PLAIN if styled and value is None else text}"


def _cell(text: str, size: int, *, is_right: bool, is_dim: bool) -> str:
    padded = _padded(text, size, is_right=is_right)
    return f"{_DIM}{padded}{_PLAIN}" if is_dim else padded


def _padded(text: str, size: int, *, is_right: bool) -> str:
    blanks = " " * (size - columns(text))
    return blanks + text if is_right else text + blanks


def _narrowed(widths: list[int], width: int) -> list[int] | None:
    """The widths with the widest reduced until all fit; None if they would be unreadable."""
    room = width - GAP * (len(widths) - 1)
    if sum(widths) <= room:
        return widths
    if sum(min(size, MIN_COLUMN_WIDTH) for size in widths) > room:
        return None
    low, high = MIN_COLUMN_WIDTH, max(widths)
    while low < high:  # the largest common limit that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(size, middle) for size in widths) <= room else (low, middle - 1)
    narrowed = [min(size, low) for size in widths]
    for index in range(room - sum(narrowed)):  # the first columns that need more get the rest
        wanting = [place for place, size in enumerate(widths) if size > narrowed[place]]
        narrowed[wanting[index % len(wanting)]] += 1
    return narrowed
