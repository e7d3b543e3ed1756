"""The schema of a DuckDB database, from its own catalog functions.

DuckDB only imitates PostgreSQL's catalog tables, so three statements over DuckDB's own functions read the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from rrext.nodes.sql.backend import Cursor
from rrext.nodes.sql.schema import Schema, schema_of

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
    columns = [(_name(schema, table), is_view, column, kind) for schema, table, column, kind, is_view in _rows(run(_COLUMNS))]
    keys = [
        (_name(schema, table), kind == "PRIMARY KEY", names, _name(schema, other), references)
        for schema, table, kind, names, other, references in _rows(run(_KEYS))
    ]
    ((database,),) = _rows(run("SELECT current_database()"))
    return schema_of(database, columns, keys)


def _name(schema: str, table: str) -> str:
    return table if schema == "main" else f"{schema}.{table}"


def _rows(cursor: Cursor) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(1000):
        yield from rows
