"""Tables of servers as the process of DuckDB makes them, of lines of CSV that the server's process wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import duckdb

from rrext.nodes.sql.duckdb.copied_columns import NUMERIC, CopiedColumn
from rrext.nodes.sql.duckdb.messages import CopiedTable
from rrext.nodes.sql.duckdb.text_tables import DIGITS, quoted, rows_reader

_OF_CALENDAR: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


def copy_table(loader: duckdb.DuckDBPyConnection, table: CopiedTable, take: Callable[[Any], object]) -> None:
    """Give the rows of a table to `take`, as a relation of `loader` with the types of the columns. Raises DuckDB's errors.

    It is called a second time if a value does not fit its type: that column has texts then.
    """
    columns = _decided(loader, table)
    try:
        take(loader.sql(_selection(table, columns)))
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise
    except duckdb.Error:
        fitting = _fitting(loader, table, columns)
        if fitting == columns:
            raise
        take(loader.sql(_selection(table, fitting)))


def _reader(table: CopiedTable) -> str:
    return rows_reader(table.file, len(table.columns), table.longest)


def _selection(table: CopiedTable, columns: Sequence[CopiedColumn]) -> str:
    cells = (f"{_cell(f'c{number}', column)} AS {quoted(column.name)}" for number, column in enumerate(columns))
    return f"SELECT {', '.join(cells)} FROM {_reader(table)}"


def _cell(text: str, column: CopiedColumn) -> str:
    return f"unhex({text})" if column.kind == "BLOB" else f"CAST({_text(text, column)} AS {column.kind})"


def _text(text: str, column: CopiedColumn) -> str:
    """What is cast to the type of the column."""
    if column.kind.removesuffix("[]") in _OF_CALENDAR:  # DuckDB reads another time, which is told as another one still
        text = f"replace(replace({text}, 'infinity', '?'), ' BC', '?')"
    match column.form:
        case "hex":
            return f"decode(unhex({text}))"
        case "list":
            return f"CAST(CAST({text} AS JSON) AS VARCHAR[])"
    return text


def _decided(loader: duckdb.DuckDBPyConnection, table: CopiedTable) -> list[CopiedColumn]:
    """The columns, with the digits of those whose type the values decide."""
    open_ones = [number for number, column in enumerate(table.columns) if column.kind == NUMERIC]
    columns = list(table.columns)
    if not open_ones:
        return columns
    sizes = ", ".join(
        f"max(length(ltrim(split_part(c{number}, '.', 1), '-'))), max(length(split_part(c{number}, '.', 2)))"
        for number in open_ones
    )
    found = loader.sql(f"SELECT {sizes} FROM {_reader(table)}").fetchall()[0]
    for number, whole, part in zip(open_ones, found[::2], found[1::2], strict=True):
        digits = (whole or 1) + (part or 0)
        kind = f"DECIMAL({digits}, {part or 0})" if digits <= DIGITS else "VARCHAR"
        columns[number] = CopiedColumn(columns[number].name, kind)
    return columns


def _fitting(loader: duckdb.DuckDBPyConnection, table: CopiedTable, columns: Sequence[CopiedColumn]) -> list[CopiedColumn]:
    """The columns, as texts where a value does not fit the type."""
    checks = ", ".join(f"coalesce(bool_or({_misfit(f'c{number}', column)}), false)" for number, column in enumerate(columns))
    found = loader.sql(f"SELECT {checks} FROM {_reader(table)}").fetchall()[0]
    return [
        CopiedColumn(column.name, *(("JSON", "text") if column.form == "list" else ("VARCHAR", column.form)))
        if misfits
        else column
        for misfits, column in zip(found, columns, strict=True)
    ]


def _misfit(text: str, column: CopiedColumn) -> str:
    if column.kind == "BLOB":
        return "false"
    given = _text(text, column)
    if column.form == "list":  # an element that does not fit would be NULL
        return f"list_count({given}) <> list_count(TRY_CAST({given} AS {column.kind}))"
    return f"{text} IS NOT NULL AND TRY_CAST({given} AS {column.kind}) IS NULL"
