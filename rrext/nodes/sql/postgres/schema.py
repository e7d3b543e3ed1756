"""Tables, columns and keys of a PostgreSQL database, and its own functions, in queries over its catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.schema import Schema, schema_of

if TYPE_CHECKING:
    from psycopg import Connection

_NAME: Final = """CASE WHEN pg_catalog.pg_table_is_visible({0}.oid) THEN {0}.relname
  ELSE {0}n.nspname OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) {0}.relname END"""
_IS: Final = "OPERATOR(pg_catalog.=)"
"""Users may have operators and functions of the same names, and the path of the session, which the names in the answer follow,
may lead to them: everything is called by its full name here."""

COLUMNS: Final = f"""
SELECT {_NAME.format("c")}, c.relkind {_IS} ANY ('{{v,m}}'), a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace cn ON cn.oid {_IS} c.relnamespace
LEFT JOIN pg_catalog.pg_attribute a
  ON a.attrelid {_IS} c.oid AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2 AND NOT a.attisdropped
WHERE c.relkind {_IS} ANY ('{{r,p,v,m,f}}') AND NOT c.relispartition
AND cn.nspname OPERATOR(pg_catalog.<>) 'information_schema' AND cn.nspname OPERATOR(pg_catalog.!~) '^pg_'
AND pg_catalog.has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')
ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC, 1, a.attnum"""
"""Every table that the user may do something with, but the parts of partitioned ones."""

_COLUMNS_OF: Final = f"""ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(k.{{0}}) WITH ORDINALITY u(n, i)
    JOIN pg_catalog.pg_attribute a ON a.attrelid {_IS} k.{{1}} AND a.attnum {_IS} u.n ORDER BY u.i)"""
KEYS: Final = f"""
SELECT {_NAME.format("c")}, k.contype {_IS} 'p', {_COLUMNS_OF.format("conkey", "conrelid")},
  {_NAME.format("f")}, {_COLUMNS_OF.format("confkey", "confrelid")}
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid {_IS} k.conrelid
JOIN pg_catalog.pg_namespace cn ON cn.oid {_IS} c.relnamespace
LEFT JOIN pg_catalog.pg_class f ON f.oid {_IS} k.confrelid LEFT JOIN pg_catalog.pg_namespace fn ON fn.oid {_IS} f.relnamespace
WHERE k.contype {_IS} ANY ('{{p,f}}') ORDER BY k.conname"""


FUNCTIONS: Final = """
WITH own AS (
  SELECT proname AS name, pronamespace::regnamespace::text IN ('pg_catalog', 'information_schema') AND oid < 16384
    AND prokind <> 'p' AND provolatile <> 'v' AND proacl IS NULL AND prorettype <> 'void'::regtype
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
        cursor.execute("SET LOCAL search_path = pg_catalog")  # operators of users may stand in the path before the system's
        found = cursor.execute(FUNCTIONS.encode()).fetchall()
    return frozenset(name for (name,) in found) - (POSTGRES.attributes or frozenset())


def read_schema(connection: Connection[Any], database: str) -> Schema:
    """Read the tables that the user may see. Names outside of the default schemas have their schema as a prefix."""
    with connection.cursor() as cursor:
        columns = cursor.execute(COLUMNS.encode()).fetchall()
        keys = cursor.execute(KEYS.encode()).fetchall()
    return schema_of(database, columns, keys)
