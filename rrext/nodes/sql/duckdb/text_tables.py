"""Tables that stand in texts, as Markdown or JSON, made into Parquet files with the types that their values have.

A type is taken only if every value of the column is one of it and stays what it is: `007`, `+49 30`, `1,234.50`, `31.12.2026`
and numbers of more digits than any type has are texts, as is a column in which one cell differs. An empty cell is NULL.

| values | type |
|---|---|
| whole numbers | BIGINT; DECIMAL(n, 0) from 19 digits on |
| numbers with a point | DECIMAL; DOUBLE from 16 digits on if each is a double exactly |
| numbers with an exponent, NaN, Infinity | DOUBLE |
| true and false in any case | BOOLEAN |
| ISO 8601 | DATE, TIMESTAMP, TIMESTAMP WITH TIME ZONE; TIME with seconds |
| values of JSON that are nested, or of several kinds | JSON |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import zip_longest
from math import isfinite
from typing import Any, Final, Literal

import msgspec

from rrext.errors import ToolError
from rrext.nodes.databases.cells import EXACT_DIGITS

TextForm = Literal["markdown", "json"]

MOST_COLUMNS: Final = 2000
"""Columns of a table: DuckDB takes 20 seconds to make one of 16,384, which is what a sheet may have."""
MOST_CELLS: Final = 50_000_000
"""Cells of a table, those that its rows leave out included: a few long rows among many short ones would fill the memory."""
LONGEST_COLUMN: Final = 128
"""Characters of the name of a column: as many as a model is shown."""
DIGITS: Final = 38
"""Digits of the longest DECIMAL."""
BIGINT_DIGITS: Final = 18
"""Digits that each BIGINT may have."""

Column = Sequence[str | None]


class TextTable(msgspec.Struct):
    """The columns of a table: names, types, and cells as texts that DuckDB casts to the types; None is NULL."""

    names: list[str]
    types: list[str]
    columns: list[Column]


def no_table(why: str) -> ToolError:
    """The error for a text that is no table, with the reason."""
    return ToolError(f"It is no table: {why}", code="no_table")


def write_parquet(connection: Any, source: str, form: TextForm, target: str) -> None:
    """Write the table in the text file `source` to the file `target`. Raises `ToolError` (`no_table`) and DuckDB's errors."""
    with open(source, encoding="utf-8", newline="") as file:
        table = (markdown_table if form == "markdown" else json_table)(file.read())
    connection.execute(f"COPY ({rows_of(table, f'{target}.csv')}) TO {_text(target)} (FORMAT parquet)")


def rows_of(table: TextTable, rows: str) -> str:
    """Write the cells of a table to the file `rows`; the statement that reads it with the types of the table."""
    longest = 0
    with open(rows, "w", encoding="utf-8", newline="") as file:
        for cells in zip(*table.columns, strict=True):
            line = ",".join(_NULL if cell is None else '"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"
            longest = max(longest, len(line))
            file.write(line)
    cells = ", ".join(
        f"CAST(c{number} AS {kind}) AS {quoted(name)}"
        for number, (name, kind) in enumerate(zip(table.names, table.types, strict=True))
    )
    return f"SELECT {cells} FROM {rows_reader(rows, len(table.names), longest)}"


def rows_reader(rows: str, width: int, longest: int) -> str:
    """The call that reads lines of CSV from the file `rows` as columns of texts, c0, c1, …; `longest` is the number of
    characters of a line at most. NULL without quotes is none."""
    most = max(2 * 2**20, 4 * longest)  # bytes of UTF-8
    texts = ", ".join(f"c{number}: 'VARCHAR'" for number in range(width))
    return (
        f"read_csv({_text(rows)}, columns = {{{texts}}}, header = false, auto_detect = false, parallel = false, delim = ',', "
        f"quote = '\"', escape = '\"', nullstr = '{_NULL}', allow_quoted_nulls = false, new_line = '\\n', "
        f"max_line_size = {most}, buffer_size = {4 * most})"
    )


_NULL: Final = "NULL"


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# Markdown

_RULE: Final = re.compile(r"[ |:-]*-[ |:-]*")
_BETWEEN: Final = re.compile(r"(?<!\\)\|")


def markdown_table(text: str) -> TextTable:
    """The table of a Markdown text: its first line has the names. Rows may have any number of cells."""
    lines = [line for line in text.split("\n") if line.lstrip().startswith("|")]
    if not lines:
        raise no_table("there are no lines of a table")
    if len(lines) > 1 and _RULE.fullmatch(lines[1].strip()):
        del lines[1]
    head, *rows = map(_cells, lines)
    width = max(map(len, (head, *rows)))
    check_size(width, len(rows))
    found = list(zip_longest(*rows))
    columns: list[Column] = [*found, *([(None,) * len(rows)] * (width - len(found)))]
    names = names_of([*head, *([None] * (width - len(head)))])
    return TextTable(names, [type_of([cell for cell in column if cell is not None]) for column in columns], columns)


def _cells(line: str) -> list[str | None]:
    if "\\|" in line:
        cells = [cell.replace("\\|", "|").strip() or None for cell in _BETWEEN.split(line.strip())]
    else:
        cells = [cell.strip() or None for cell in line.strip().split("|")]
    return cells[1:-1] if cells[-1] is None else cells[1:]


def check_size(width: int, rows: int) -> None:
    """Raises `ToolError` (`no_table`) for a table that is too large."""
    if width > MOST_COLUMNS:
        raise no_table(f"it has {width:,} columns, and {MOST_COLUMNS:,} are possible")
    if width * rows > MOST_CELLS:
        raise no_table(f"it has {width * rows:,} cells, and {MOST_CELLS:,} are possible")


def names_of(given: Iterable[str | None]) -> list[str]:
    """Different names for columns, whatever the case; a column without a name gets its number."""
    names: list[str] = []
    taken: set[str] = set()
    for number, name in enumerate(given, 1):
        plain = name = (name or "").replace("\0", " ").strip()[:LONGEST_COLUMN] or f"column_{number}"
        again = 2
        while name.casefold() in taken:
            name = f"{plain}_{again}"
            again += 1
        taken.add(name.casefold())
        names.append(name)
    return names


# JSON

Rows = list[dict[str, msgspec.Raw]]


def json_table(text: str) -> TextTable:
    """The table of a JSON text: a list of objects, an object with one such list, or lines of objects."""
    data = text.removeprefix("\ufeff").encode()
    rows = _rows(data)
    given = list(dict.fromkeys(name for row in rows for name in row))
    if not given:
        raise no_table("its objects have no keys" if rows else "it has no objects")
    check_size(len(given), len(rows))
    made = [_column([row.get(name) for row in rows]) for name in given]
    return TextTable(names_of(given), [kind for kind, _ in made], [column for _, column in made])


def _rows(data: bytes) -> Rows:
    try:
        found = msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2 or not all(line.lstrip().startswith(b"{") for line in lines):
            raise no_table(f"it is no JSON: {error}") from None
        return [_decoded(line, dict[str, msgspec.Raw]) for line in lines]
    begin = bytes(found).lstrip()[:1]
    if begin == b"[":
        return _objects(found)
    if begin != b"{":
        raise no_table("it is a single value")
    lists = {name: raw for name, raw in _decoded(data, dict[str, msgspec.Raw]).items() if bytes(raw).lstrip()[:1] == b"["}
    if len(lists) != 1:
        raise no_table(f"it is an object with {len(lists)} lists, and one is expected")
    ((name, raw),) = lists.items()
    try:
        return _objects(raw)
    except ToolError:
        raise no_table(f'"{name[:LONGEST_COLUMN]}" is no list of objects') from None


def _objects(raw: msgspec.Raw) -> Rows:
    try:
        return _decoded(bytes(raw), Rows)
    except ToolError:
        raise no_table("it is no list of objects") from None


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise no_table(f"it has something else than objects: {error}") from None


def _column(raws: Sequence[msgspec.Raw | None]) -> tuple[str, Column]:
    """The type and the cells of the values under one key."""
    texts = [None if raw is None else bytes(raw).strip().decode() for raw in raws]
    texts = [None if text == "null" else text for text in texts]
    values = [text for text in texts if text is not None]
    kinds = {_KINDS.get(text[0], "number") for text in values}
    if kinds == {"number"}:
        return type_of(values), texts
    if kinds == {"boolean"}:
        return "BOOLEAN", texts
    if kinds <= {"text"}:
        said: list[str | None] = [None if text is None else msgspec.json.decode(text, type=str) for text in texts]
        return moment_of([text for text in said if text is not None]) or "VARCHAR", said
    return "JSON", texts


_KINDS: Final = {'"': "text", "t": "boolean", "f": "boolean", "{": "nested", "[": "nested"}

# types

_INTEGER: Final = re.compile(rf"-?(?:0|[1-9]\d{{0,{DIGITS - 1}}})", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?P<whole>0|[1-9]\d{0,400})?(?:\.(?P<part>\d{1,400}))?(?P<power>[eE][-+]?\d{1,3})?", re.ASCII)
_NO_NUMBER: Final = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})
_DAY: Final = r"\d{4}-\d\d-\d\d"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_MOMENT: Final = rf"{_DAY}[ T](?:{_CLOCK}|\d\d:\d\d)"
_MOMENTS: Final[Sequence[tuple[str, re.Pattern[str], Callable[[str], object]]]] = (
    ("DATE", re.compile(_DAY, re.ASCII), date.fromisoformat),
    ("TIMESTAMP", re.compile(_MOMENT, re.ASCII), datetime.fromisoformat),
    ("TIMESTAMP WITH TIME ZONE", re.compile(rf"{_MOMENT}(?:Z|[-+]\d\d:\d\d)", re.ASCII), datetime.fromisoformat),
    ("TIME", re.compile(_CLOCK, re.ASCII), time.fromisoformat),
)


def type_of(values: Sequence[str]) -> str:
    """The type of a column with these values, which are not NULL."""
    if not values:
        return "VARCHAR"
    if all(map(_INTEGER.fullmatch, values)):
        digits = max(len(value.lstrip("-")) for value in values)
        return "BIGINT" if digits <= BIGINT_DIGITS else f"DECIMAL({digits}, 0)"
    if all(value.lower() in ("true", "false") for value in values):
        return "BOOLEAN"
    return _number_of(values) or moment_of(values) or "VARCHAR"


def _number_of(values: Sequence[str]) -> str | None:
    whole = part = 0
    is_double, is_number = False, False
    for value in values:
        found = _NUMBER.fullmatch(value)
        if found is not None and (found["whole"] or found["part"]):
            is_number = True
            is_double = is_double or found["power"] is not None
            whole, part = max(whole, len(found["whole"] or "")), max(part, len(found["part"] or ""))
        elif value.lower() in _NO_NUMBER:
            is_double = True
        else:
            return None
    if not is_number:
        return None
    decimal = f"DECIMAL({whole + part}, {part})"
    if not is_double and whole + part <= EXACT_DIGITS:
        return decimal
    if all(map(_is_double, values)):
        return "DOUBLE"
    return decimal if not is_double and whole + part <= DIGITS else None


def _is_double(value: str) -> bool:
    """Whether a double has exactly this value, as far as its shortest text tells."""
    double = float(value)
    return value.lower() in _NO_NUMBER or (isfinite(double) and Decimal(repr(double)) == Decimal(value))


def moment_of(values: Sequence[str]) -> str | None:
    """The type of a column of days, times or both, in ISO 8601; None for another one."""
    for kind, form, read in _MOMENTS:
        if values and all(map(form.fullmatch, values)):
            try:
                for value in values:
                    read(value)
            except ValueError:
                return None
            return kind
    return None
