"""Tables, columns and keys of a MySQL database, in two queries over its information schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.sql.schema import Column, ForeignKey, Schema, SqlTable

if TYPE_CHECKING:
    from pymysql import Connection

COLUMNS: Final = """
SELECT t.TABLE_NAME, t.TABLE_TYPE LIKE '%VIEW', c.COLUMN_NAME, c.COLUMN_TYPE
FROM information_schema.TABLES t JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_TYPE <> 'SEQUENCE'
ORDER BY t.TABLE_NAME, c.ORDINAL_POSITION"""

KEYS: Final = """
SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME,
  IF(REFERENCED_TABLE_SCHEMA = DATABASE(), REFERENCED_TABLE_NAME,
     CONCAT(REFERENCED_TABLE_SCHEMA, '.', REFERENCED_TABLE_NAME)), REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = DATABASE() AND (CONSTRAINT_NAME = 'PRIMARY' OR REFERENCED_TABLE_NAME IS NOT NULL)
ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION"""


def read_schema(raw: Connection[Any], database: str | None) -> Schema:
    """The tables and views of the database that the connection uses."""
    columns: dict[str, list[Column]] = {}
    views: set[str] = set()
    primary: dict[str, list[str]] = {}
    foreign: dict[str, dict[str, tuple[str, list[str], list[str]]]] = {}
    with raw.cursor() as cursor:
        cursor.execute(COLUMNS)
        for table, is_view, column, kind in cursor.fetchall():
            columns.setdefault(table, []).append(Column(column, kind))
            if is_view:
                views.add(table)
        cursor.execute(KEYS)
        for table, constraint, column, other, reference in cursor.fetchall():
            if other is None:
                primary.setdefault(table, []).append(column)
            else:
                _, own, references = foreign.setdefault(table, {}).setdefault(constraint, (other, [], []))
                own.append(column)
                references.append(reference)
    keys = {
        table: tuple(ForeignKey(tuple(own), other, tuple(references)) for other, own, references in found.values())
        for table, found in foreign.items()
    }
    tables = {
        name: SqlTable(name, tuple(found), tuple(primary.get(name, ())), keys.get(name, ()), name in views)
        for name, found in columns.items()
    }
    return Schema(database or "", tables)
