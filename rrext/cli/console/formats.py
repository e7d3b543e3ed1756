"""Output formats of rows: aligned tables, or a list of cells where a table does not fit, for people; CSV, JSON or Markdown for
programs and documents.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from rrext.cli.console.lines import terminal_width
from rrext.columns import columns, cut, one_line, printable

_SPECIAL: Final = re.compile('[,"\\r\\n]').search
decoded_rows: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode
"""The rows of a JSON text, each an object."""
raw_rows: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""The same, each undecoded."""


class RowsOutput(Protocol):
    """Where a form writes: stdout, or a file."""

    is_terminal: bool

    def write(self, data: bytes) -> None:
        """Write bytes."""
        ...

    def write_line(self, line: bytes) -> None:
        """Write a line."""
        ...


class Format:
    """A writer for the rows of one statement. `rows` takes the JSON text of a list of objects with equal members."""

    streams: bool = False
    """Whether rows are written as they come, so that large results need no memory."""

    def __init__(self, results: RowsOutput, *, follows: bool = False) -> None:
        """`follows`: the output has rows of an earlier statement."""
        self._results = results
        self._gap = "\n" if follows else ""
        self.has_written = False

    def rows(self, encoded: bytes, most: int | None) -> int:
        """Take rows, at most `most`; returns how many there were."""
        raise NotImplementedError

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        """Finish after the last row. `names` are the columns."""
        raise NotImplementedError

    def plan(self, plan: Any) -> None:
        """Write a plan instead of rows: its lines as the database draws them, else JSON."""
        lines = plan.rstrip("\n").split("\n") if isinstance(plan, str) else plan
        if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
            self._lines(map(printable, lines))
        else:
            self._lines([msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()])

    def _lines(self, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        self._results.write((self._gap + text).encode("utf-8", "replace"))
        self._gap, self.has_written = "", True


class Csv(Format):
    """RFC 4180, with line feeds: NULL is an empty field and an empty text `""`; nested values are JSON, bytes base64."""

    streams = True

    def __init__(self, results: RowsOutput, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._has_head = False

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = decoded_rows(encoded)
        if rows:
            self._head(rows[0])
        self._lines(",".join(map(_field, row.values())) for row in rows[:most])
        return len(rows)

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        self._head(names)

    def _head(self, names: Iterable[str]) -> None:
        if not self._has_head:
            self._has_head = True
            self._lines([",".join(map(_field, names))])


class Json(Format):
    """An array of objects, one row per line, as the node gave them."""

    streams = True

    def __init__(self, results: RowsOutput, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._before = b"[\n"

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = raw_rows(encoded)
        if kept := rows[:most]:
            self._results.write(self._before + b",\n".join(map(bytes, kept)))
            self._before = b",\n"
        return len(rows)

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        self._results.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")

    def plan(self, plan: Any) -> None:
        self._results.write_line(msgspec.json.encode(plan))


class TableFormat(Format):
    """Aligned columns within the terminal's width, or each row as a list of its cells."""

    is_expanded = False
    """Whether each row is a list of its cells, at any width."""

    def __init__(self, results: RowsOutput, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._rows: list[list[Any]] = []

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = decoded_rows(encoded)
        self._rows += [[*row.values()] for row in rows[:most]]
        return len(rows)

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        is_terminal = self._results.is_terminal
        styled = is_terminal and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ
        if self.is_expanded:
            self._lines(records(names, self._rows, styled=styled))
            return
        width = terminal_width() if is_terminal else None
        lines, is_cut = grid(names, self._rows, self._right(names, types), width=width, styled=styled)
        self._lines(lines)
        if is_cut:
            print("rrext: values that end in … are cut; --csv, --json and \\x at a prompt show them whole", file=sys.stderr)

    def _right(self, names: Sequence[str], types: Sequence[str | None]) -> list[bool]:
        kinds = types or [None] * len(names)
        return [is_number_column(kind, [row[place] for row in self._rows]) for place, kind in enumerate(kinds)]


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


class Markdown(TableFormat):
    """A table of GitHub-flavoured Markdown; numbers are right-aligned, `|` is escaped."""

    def end(self, names: Sequence[str], types: Sequence[str | None]) -> None:
        rules = ["--:" if is_right else "---" for is_right in self._right(names, types)]
        rows = (map(_markdown_cell, row) for row in self._rows)
        self._lines(f"| {' | '.join(line)} |" for line in [map(_markdown_cell, names), rules, *rows])


class Records(TableFormat):
    """Each row as a list of its cells."""

    is_expanded = True


FORMATS: Final[dict[str, type[Format]]] = {"table": TableFormat, "csv": Csv, "json": Json, "md": Markdown}


def _field(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is int:
        return str(value)
    text = value if isinstance(value, str) else nested_text(value)
    return text if text and not _SPECIAL(text) else f'"{text.replace(chr(34), chr(34) * 2)}"'


def nested_text(value: Any) -> str:
    """A cell that is no text, as text: bytes in base64, all else as JSON."""
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return value["base64"]
    return msgspec.json.encode(value).decode()


def _markdown_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else nested_text(value)
    return " ".join(text.split("\n")).replace("\r", "").replace("\\", "\\\\").replace("|", "\\|")
