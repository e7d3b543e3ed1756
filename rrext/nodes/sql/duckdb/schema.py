"""The schema of a DuckDB database, from its own catalog functions.

DuckDB only imitates PostgreSQL's catalog tables, so three statements over DuckDB's own functions read the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rrext.nodes.sql.backend import Cursor
from rrext.nodes.sql.schema import Column, ForeignKey, Schema, SqlTable

_COLUMNS: Final = """
SELECT schema_name, table_name, column_name, data_type, table_oid IN (SELECT view_oid FROM duckdb_views())
FROM duckdb_columns() WHERE database_name = current_database() AND NOT internal
ORDER BY schema_name <> 'main', schema_name, table_name, column_index
"""
_KEYS: Final = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY constraint_index
"""


def read_schema(run: Callable[[str], Cursor]) -> Schema:
    """Tables and views of the database, from statements that `run` runs."""
    columns: dict[str, list[Column]] = {}
    views: set[str] = set()
    for schema, table, column, kind, is_view in _rows(run(_COLUMNS)):
        name = _name(schema, table)
        columns.setdefault(name, []).append(Column(column, kind))
        if is_view:
            views.add(name)
    primary: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, list[ForeignKey]] = {}
    for schema, table, kind, names, other, references in _rows(run(_KEYS)):
        name = _name(schema, table)
        if kind == "PRIMARY KEY":
            primary[name] = tuple(names)
        else:
            foreign.setdefault(name, []).append(ForeignKey(tuple(names), _name(schema, other), tuple(references)))
    tables = {
        name: SqlTable(name, tuple(found), primary.get(name, ()), tuple(foreign.get(name, ())), name in views)
        for name, found in columns.items()
    }
    ((database,),) = _rows(run("SELECT current_database()"))
    return Schema(database, tables)


def _name(schema: str, table: str) -> str:
    return table if schema == "main" else f"{schema}.{table}"


def _rows(cursor: Cursor) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(1000):
        yield from rows
