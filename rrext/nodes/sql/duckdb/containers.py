"""Files that hold several tables: workbooks of Excel and OpenDocument, databases of SQLite and of DuckDB.

Each table is read whole, by a connection of its own that can read the file, and its rows go on to the database that is asked.
The values of SQLite and of a sheet decide the types of their columns, as those of a CSV file do: a column of dates in ISO 8601
is a DATE, one of several kinds a VARCHAR.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from time import monotonic
from typing import Any, Final, NamedTuple

from rrext.errors import ToolError, Unavailable
from rrext.nodes.sql.duckdb.endings import DUCKDBS, WORKBOOKS, ending_of
from rrext.nodes.sql.duckdb.text_tables import (
    Column,
    TextTable,
    check_size,
    moment_of,
    names_of,
    quoted,
    rows_of,
    type_of,
)

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for a process that writes a SQLite database."""

VIEWS_TIMEOUT: Final = 5.0
"""Seconds that the views of one SQLite database may take together, as a view may be endless."""
VIEW_STEPS: Final = 100_000
"""Steps of SQLite's machine between looks at the clock: a millisecond."""

_OWN_TABLES: Final = """
SELECT name, type = 'view' FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'create virtual%'
ORDER BY type, name"""
_OF_FILES: Final = re.compile(r"[./\\*?:]")
_HELD: Final = "rrext_held"
_DUCKDB_TABLES: Final = f"""
SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = '{_HELD}' AND NOT internal ORDER BY ALL"""


class HeldTable(NamedTuple):
    """A table or view of a file: a relation of `loader`, or the problem of a view that cannot be read."""

    name: str
    relation: Any
    is_view: bool = False
    problem: str | None = None


def relations(loader: Any, file: str, folder: str) -> Iterator[HeldTable]:
    """The tables and views of a file, each to be read before the next one is asked for. `folder` is for rows on their way.
    Raises `Unavailable` for a file that is damaged, and DuckDB's errors.

    DuckDB would take names with a point or a slash for those of files: they have `_` there.
    """
    taken: set[str] = set()
    for held in _relations(loader, file, folder):
        plain = name = _OF_FILES.sub("_", held.name)
        again = 2
        while name.casefold() in taken:
            name = f"{plain}_{again}"
            again += 1
        taken.add(name.casefold())
        yield held._replace(name=name)


def _relations(loader: Any, file: str, folder: str) -> Iterator[HeldTable]:
    ending = ending_of(file)
    if ending in DUCKDBS:
        loader.execute(f"ATTACH '{file.replace(chr(39), chr(39) * 2)}' AS {_HELD} (READ_ONLY)")
        for schema, name in loader.execute(_DUCKDB_TABLES).fetchall():
            relation = loader.sql(f"FROM {_HELD}.{quoted(schema)}.{quoted(name)}")
            yield HeldTable(name if schema == "main" else f"{schema}.{name}", relation)
        loader.execute(f"DETACH {_HELD}")
        return
    try:
        for name, table, is_view in _of_workbook(file) if ending in WORKBOOKS else _of_sqlite(file):
            if isinstance(table, str):
                yield HeldTable(name, None, is_view, table)
            else:
                yield HeldTable(name, loader.sql(rows_of(table, os.path.join(folder, "rows.csv"))), is_view)
    except (sqlite3.Error, ToolError) as error:
        raise Unavailable(error.message if isinstance(error, ToolError) else str(error)) from error


def first_alone(file: str, names: Sequence[str]) -> str | None:
    """The table that the name of the file means too: the first sheet of a workbook, the only table of a database. `names` are
    those of its tables."""
    return names[0] if names and (ending_of(file) in WORKBOOKS or len(names) == 1) else None


def _of_sqlite(file: str) -> Iterator[tuple[str, TextTable | str, bool]]:
    from rrext.nodes.sql.sqlite import SqliteBackend  # the one that opens a stranger's file safely

    backend = SqliteBackend(file, create=False, lock_timeout=LOCK_TIMEOUT, foreign_keys=False)
    connection = backend.connect(read_only=True)
    try:
        connection.execute("BEGIN")  # all tables as they were at one moment
        until = monotonic() + VIEWS_TIMEOUT
        for name, is_view in connection.execute(_OWN_TABLES).fetchall():
            connection.set_progress_handler((lambda: monotonic() > until) if is_view else None, VIEW_STEPS)
            try:
                yield name, _of_sqlite_table(connection, name), bool(is_view)
            except (sqlite3.Error, ToolError) as error:  # of a table it says that the file is damaged
                if not is_view:
                    raise
                said = error.message if isinstance(error, ToolError) else str(error)
                late = f"the views take longer than VIEWS_TIMEOUT ({VIEWS_TIMEOUT:g} s)"
                yield name, late if said == "interrupted" else said, True
    finally:
        connection.close()
        backend.close()


def _of_sqlite_table(connection: sqlite3.Connection, name: str) -> TextTable:
    cursor = connection.execute(f"SELECT * FROM {quoted(name)}")
    heads = [column[0] for column in cursor.description]
    (count,) = connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()
    check_size(len(heads), count)
    return _table(heads, list(cursor))


def _of_workbook(file: str) -> Iterator[tuple[str, TextTable, bool]]:
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise Unavailable('A workbook needs the package "python-calamine": pip install "rrext[duckdb]"') from None
    try:
        with CalamineWorkbook.from_path(file) as book:
            for name in book.sheet_names:
                rows = book.get_sheet_by_name(name).to_python()
                filled = [[None if cell == "" else cell for cell in row] for row in rows]
                if any(cell is not None for row in filled for cell in row):
                    heads, *cells = filled
                    yield name, _table([None if head is None else str(head) for head in heads], cells), False
    except CalamineError as error:
        raise Unavailable(f"the workbook cannot be read: {error}") from error


def _table(heads: Iterable[str | None], rows: Sequence[Sequence[Any]]) -> TextTable:
    names = names_of(heads)
    check_size(len(names), len(rows))
    found = [_column(cells) for cells in zip(*rows, strict=True)] or [("VARCHAR", ())] * len(names)
    return TextTable(names, [kind for kind, _ in found], [column for _, column in found])


def _column(cells: Sequence[Any]) -> tuple[str, Column]:
    """The type and the cells, as texts, of the values of one column."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} and kinds:
        return _numbers(cells)
    if kinds == {bool}:
        return "BOOLEAN", _texts(cells)
    if kinds == {bytes}:
        return "BLOB", [None if cell is None else "".join(f"\\x{byte:02X}" for byte in cell) for cell in cells]
    if kinds <= {date, datetime} and kinds:
        is_day = all(cell is None or type(cell) is date or cell.time() == time() for cell in cells)
        days = [cell.date() if isinstance(cell, datetime) and is_day else cell for cell in cells]
        return "DATE" if is_day else "TIMESTAMP", _texts(days)
    if kinds == {time}:
        return "TIME", _texts(cells)
    if kinds == {timedelta}:
        return "INTERVAL", [None if cell is None else f"{cell.total_seconds()} seconds" for cell in cells]
    texts = _texts(cells)
    moment = moment_of([text for text in texts if text is not None]) if kinds == {str} else None
    return moment or "VARCHAR", texts


def _numbers(cells: Sequence[int | float | None]) -> tuple[str, Column]:
    """Numbers: whole ones if each is, though a sheet has doubles alone."""
    is_whole = all(cell is None or (cell == cell and cell not in _ENDLESS and cell == int(cell)) for cell in cells)
    if is_whole:
        texts = [None if cell is None else str(int(cell)) for cell in cells]
        if (kind := type_of([text for text in texts if text is not None])) == "BIGINT":
            return kind, texts
    if all(cell is None or isinstance(cell, int) for cell in cells):
        return "BIGINT", [None if cell is None else str(cell) for cell in cells]  # SQLite's have 64 bits
    return "DOUBLE", [None if cell is None else repr(float(cell)) for cell in cells]


_ENDLESS: Final = (float("inf"), float("-inf"))


def _texts(cells: Sequence[Any]) -> list[str | None]:
    return [None if cell is None else _text(cell) for cell in cells]


def _text(cell: Any) -> str:
    match cell:
        case bytes():
            return cell.hex()
        case bool():
            return str(cell).lower()
        case float():
            return repr(cell)
        case date() | time():
            return cell.isoformat()
    return str(cell)
