"""The statements that page through a store and count its content."""

from __future__ import annotations

from typing import Any, Final

from psycopg import Connection, sql

from rrext.nodes.vectors.postgres.search import COLUMNS, chunk_of, condition
from rrext.nodes.vectors.postgres.table import StoreTable
from rrext.nodes.vectors.store import ChunkPage, Listing, ObjectVersion, Scope, StoredObject, StoreStats, VectorSpace

KEYWORD: Final = "ts_rank"

# The total has a row of its own, so that a page beyond the end has it too.
OBJECTS: Final = """
WITH objects AS (SELECT parent, object_id, count(*) FROM {table} WHERE {scope} GROUP BY parent, object_id)
SELECT total.*, page.* FROM (SELECT count(*) FROM objects) AS total
LEFT JOIN (SELECT * FROM objects WHERE (parent, object_id) > (%(after_parent)s, %(after_object)s)
    ORDER BY parent, object_id OFFSET %(offset)s LIMIT %(limit)s) AS page ON true
ORDER BY parent, object_id
"""

CHUNKS: Final = """
SELECT total.*, page.* FROM (SELECT count(*) FROM {table} WHERE {scope}) AS total
LEFT JOIN (SELECT {columns} FROM {table} WHERE {scope} AND chunk_id > %(after)s
    ORDER BY chunk_id OFFSET %(offset)s LIMIT %(limit)s) AS page ON true ORDER BY chunk_id
"""

COUNTS: Final = """
SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT object_id FROM {table} WHERE {scope}) AS objects),
    (SELECT count(*) FROM (SELECT DISTINCT parent FROM {table} WHERE {scope}) AS parents),
    pg_total_relation_size(%(name)s) FROM {table} WHERE {scope}
"""

SIGNED: Final = """
SELECT object_id, count(*), CASE WHEN count(signature) = count(*) AND min(signature) = max(signature) THEN min(signature) END
FROM (SELECT object_id, CASE WHEN json_typeof(extra -> 'signature') = 'string' THEN extra ->> 'signature' END AS signature
    FROM {table} WHERE {scope}) AS signed GROUP BY object_id
"""

SIZE: Final = "SELECT coalesce(pg_total_relation_size(to_regclass(%s)), 0)"

VERSIONS: Final = "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"


def objects_page(
    connection: Connection[Any], table: StoreTable, scope: Scope, offset: int, limit: int, after: tuple[str, str]
) -> Listing:
    """The objects from `offset` behind `after` on, by the code points of their paths. Raises the driver's errors."""
    where, values = condition(scope)
    statement = sql.SQL(OBJECTS).format(table=table.quoted, scope=where)
    values |= {"offset": offset, "limit": limit, "after_parent": after[0], "after_object": after[1]}
    rows = connection.execute(statement, values).fetchall()
    return Listing([StoredObject(*row[1:]) for row in rows if row[1] is not None], rows[0][0])


def chunks_page(connection: Connection[Any], table: StoreTable, scope: Scope, offset: int, limit: int, after: int) -> ChunkPage:
    """The chunks of an object from `offset` behind the number `after` on. Raises the driver's errors."""
    where, values = condition(scope)
    statement = sql.SQL(CHUNKS).format(table=table.quoted, columns=COLUMNS, scope=where)
    rows = connection.execute(statement, values | {"offset": offset, "limit": limit, "after": after}).fetchall()
    return ChunkPage([chunk_of(row[1:]) for row in rows if row[1] is not None], rows[0][0])


def versions_of(connection: Connection[Any], table: StoreTable, scope: Scope) -> list[ObjectVersion]:
    """The versions of those objects that exist. Raises the driver's errors."""
    where, values = condition(scope)
    statement = sql.SQL(SIGNED).format(table=table.quoted, scope=where)
    return [ObjectVersion(*row) for row in connection.execute(statement, values)]


def counted(
    connection: Connection[Any], table: StoreTable, space: VectorSpace | None, scope: Scope, *, index: str
) -> StoreStats:
    """Count the content of an owner in one statement. `disk_bytes` includes the indexes. Raises the driver's errors."""
    versions = connection.execute(VERSIONS).fetchone() or (None, None)
    details = {"server": versions[0], "pgvector": versions[1], "index": index}
    if space is None:
        (size,) = connection.execute(SIZE, (table.full_name,)).fetchone() or (0,)
        return StoreStats(0, 0, 0, None, size, KEYWORD, details)
    where, values = condition(scope)
    statement = sql.SQL(COUNTS).format(table=table.quoted, scope=where)
    row = connection.execute(statement, values | {"name": table.full_name}).fetchone()
    chunks, objects, parents, size = row or (0, 0, 0, 0)
    return StoreStats(chunks, objects, parents, space, size, KEYWORD, details)
