"""Tables, columns and keys of a MySQL database, in two queries over its information schema."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.sql.schema import Schema, schema_of

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
    with raw.cursor() as cursor:
        cursor.execute(COLUMNS)
        columns = cursor.fetchall()
        cursor.execute(KEYS)
        parts = [list(group) for _, group in groupby(sorted(cursor.fetchall(), key=itemgetter(0, 1)), key=itemgetter(0, 1))]
    keys = [(rows[0][0], rows[0][3] is None, [row[2] for row in rows], rows[0][3], [row[4] for row in rows]) for rows in parts]
    return schema_of(database or "", columns, keys)
