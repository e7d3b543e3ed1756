"""Output formats of rows: tables for people; CSV, JSON or Markdown for programs and documents."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from rrext.cli.grid import grid, is_number_column, records
from rrext.cli.output import Results
from rrext.cli.terminal import terminal_width
from rrext.columns import printable

_SPECIAL: Final = re.compile('[,"\\r\\n]').search
_OBJECTS: Final = msgspec.json.Decoder(list[dict[str, Any]])
_RAW: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Format:
    """A writer for the rows of one statement. `rows` takes the JSON text of a list of objects with equal members."""

    streams: bool = False
    """Whether rows are written as they come, so that large results need no memory."""

    def __init__(self, results: Results, *, follows: bool = False) -> None:
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

    def __init__(self, results: Results, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._has_head = False

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = _OBJECTS.decode(encoded)
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

    def __init__(self, results: Results, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._before = b"[\n"

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = _RAW.decode(encoded)
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

    def __init__(self, results: Results, *, follows: bool = False) -> None:
        super().__init__(results, follows=follows)
        self._rows: list[list[Any]] = []

    def rows(self, encoded: bytes, most: int | None) -> int:
        rows = _OBJECTS.decode(encoded)
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
    text = value if isinstance(value, str) else _nested(value)
    return text if text and not _SPECIAL(text) else f'"{text.replace(chr(34), chr(34) * 2)}"'


def _nested(value: Any) -> str:
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return value["base64"]
    return msgspec.json.encode(value).decode()


def _markdown_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else _nested(value)
    return " ".join(text.split("\n")).replace("\r", "").replace("\\", "\\\\").replace("|", "\\|")
