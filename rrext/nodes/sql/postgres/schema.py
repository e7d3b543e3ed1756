"""Tables, columns and keys of a PostgreSQL database, and its own functions, in queries over its catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.schema import Schema, schema_of

if TYPE_CHECKING:
    from psycopg import Connection

_NAME: Final = "CASE WHEN pg_table_is_visible({0}.oid) THEN {0}.relname ELSE {0}n.nspname || '.' || {0}.relname END"

COLUMNS: Final = f"""
SELECT {_NAME.format("c")}, c.relkind IN ('v', 'm'), a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_class c JOIN pg_namespace cn ON cn.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
AND cn.nspname <> 'information_schema' AND cn.nspname !~ '^pg_'
AND has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')
ORDER BY pg_table_is_visible(c.oid) DESC, 1, a.attnum"""
"""Every table that the user may do something with, but the parts of partitioned ones."""

KEYS: Final = f"""
SELECT {_NAME.format("c")}, k.contype = 'p',
  ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, i)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i),
  {_NAME.format("f")},
  ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, i)
        JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace
WHERE k.contype IN ('p', 'f') ORDER BY k.conname"""


FUNCTIONS: Final = """
WITH own AS (
  SELECT proname AS name, pronamespace = 'pg_catalog'::regnamespace AND oid < 16384 AND prokind <> 'p'
    AND provolatile <> 'v' AND proacl IS NULL AND prorettype <> 'void'::regtype
    AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[] AS reads
  FROM pg_catalog.pg_proc
  UNION ALL
  SELECT typname, true FROM pg_catalog.pg_type
  WHERE typnamespace = 'pg_catalog'::regnamespace AND oid < 16384 AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A')
SELECT name FROM own GROUP BY name HAVING pg_catalog.bool_and(reads)"""
"""Functions of the server itself that it marks immutable or stable, and types, which are called as `inet('::1')`.

A name counts only if all functions of that name, in every schema, are so: what a user made may be marked wrongly. Functions
whose right to EXECUTE is restricted read files and settings of the server, those without a result are called for an effect,
and those that take a `cstring` read values of any type by its number, and so run functions of users."""


def read_functions(connection: Connection[Any]) -> frozenset[str]:
    """Functions that only compute or look, by the catalog, without the server's own that do more all the same."""
    with connection.cursor() as cursor:
        found = cursor.execute(FUNCTIONS.encode()).fetchall()
    return frozenset(name for (name,) in found) - (POSTGRES.attributes or frozenset())


def read_schema(connection: Connection[Any], database: str) -> Schema:
    """Read the tables that the user may see. Names outside of the default schemas have their schema as a prefix."""
    with connection.cursor() as cursor:
        columns = cursor.execute(COLUMNS.encode()).fetchall()
        keys = cursor.execute(KEYS.encode()).fetchall()
    return schema_of(database, columns, keys)
