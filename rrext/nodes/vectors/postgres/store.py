"""`PgVectorStore`: a vector store in a table of a PostgreSQL server, which any number of processes may use at once, with the
statements that page through it and count its content.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
import psycopg
from psycopg import Connection, sql

from rrext.errors import ToolError
from rrext.nodes.vectors.postgres.connection_pool import (
    ConnectionPool,
    as_vector,
    is_missing_table,
    is_passing,
    knows_vectors,
    learn_vectors,
    prepare,
)
from rrext.nodes.vectors.postgres.search import COLUMNS, FrequentWords, chunk_of, condition, found, indexed_words
from rrext.nodes.vectors.postgres.table import FORM, IndexBuilder, StoreTable
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    Chunk,
    ChunkPage,
    Deleted,
    Hit,
    Listing,
    ObjectVersion,
    Scope,
    Search,
    StoredObject,
    StoreStats,
    VectorSpace,
    require_space,
)
from rrext.tools.context import ToolContext

CHANGE_TRIES: Final = 5
"""Attempts of a change that conflicts with another; at each attempt at least one of the conflicting changes succeeds."""

ROWS_AT_ONCE: Final = 10_000
"""Chunks in one statement."""

T = TypeVar("T")

UPSERT: Final = """
INSERT INTO {table} (owner, object_id, chunk_id, content, node_id, parent, extra, embedding, words)
SELECT owner, object_id, chunk_id, content, node_id, parent, extra::json, embedding,
    CASE book.language WHEN 'simple' THEN worded::tsvector ELSE to_tsvector(book.language::regconfig, worded) END
FROM unnest(%b::uuid[], %b::text[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[], %b::vector[], %b::text[])
    AS given (owner, object_id, chunk_id, content, node_id, parent, extra, embedding, worded),
    {book} AS book WHERE book.name = %s AND book.model = %s AND book.size = %s AND book.language = %s AND book.form = %s
ON CONFLICT (object_id, chunk_id, owner) DO UPDATE SET content = excluded.content, node_id = excluded.node_id,
    parent = excluded.parent, extra = excluded.extra, embedding = excluded.embedding, words = excluded.words
"""
"""Stores chunks, all or none, if the table still has this model and language; else stores nothing."""

REPLACE: Final = """
DELETE FROM {table} AS old WHERE owner = %s AND object_id = ANY(%s) AND NOT EXISTS (
    SELECT FROM unnest(%s::text[], %s::bigint[]) AS kept (object_id, chunk_id)
    WHERE kept.object_id = old.object_id AND kept.chunk_id = old.chunk_id
)
"""

REPLACED: Final = """
DELETE FROM {table} WHERE owner = %(owner)s AND object_id = %(to)s AND object_id <> %(object_id)s
    AND EXISTS (SELECT FROM {table} WHERE owner = %(owner)s AND object_id = %(object_id)s)
"""
MOVED: Final = """
UPDATE {table} SET object_id = %(to)s, parent = coalesce(%(parent)s::text, parent)
WHERE owner = %(owner)s AND object_id = %(object_id)s
"""

Row = tuple[Chunk, Sequence[float]]
"""A chunk and its vector."""


class _OtherSpaceError(Exception):
    """The table has another space or language than the chunks."""


class PgVectorStore:
    """A `VectorStore` in one table.

    `parameters` are those of the driver's `connect`; `threshold` is the number of chunks from which an index is built,
    0 for never; `shown` names the table as others may read it. Raises `Unavailable` for a table, schema or language that
    cannot be a name.
    """

    def __init__(
        self,
        parameters: dict[str, str],
        *,
        schema: str,
        table: str,
        language: str,
        connections: int,
        threshold: int,
        shown: str | None = None,
    ) -> None:
        self._shown = shown or f"{schema}.{table}"
        self._table = StoreTable(schema, table, language)
        self._frequent = FrequentWords(self._table)
        self._connections = ConnectionPool(parameters, size=connections, prepare=prepare)
        self._builder = IndexBuilder(self._table, self._connections, threshold=threshold)

    def space(self, ctx: ToolContext) -> VectorSpace | None:
        with self._connection(ctx) as connection:
            return self._table.space(connection)

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[float]],
        space: VectorSpace,
        ctx: ToolContext,
        replace: Mapping[str, Collection[int]] | None = None,
        owner: str = NOBODYS,
    ) -> int:
        # In the same order in every process, so that row locks queue up instead of a deadlock.
        rows = sorted(zip(chunks, vectors, strict=True), key=lambda row: (row[0].object_id, row[0].chunk_id, row[0].owner))
        with self._connection(ctx) as connection:
            for _ in range(CHANGE_TRIES):
                removed = self._stored(connection, rows, space, replace or {}, owner, ctx)
                if removed is not None:
                    break
                require_space(self._table.settled(connection), space, doing="These chunks were embedded")
                self._table.create(connection, space)
            else:
                raise ToolError(f"{self._table!r} is dropped as fast as it is created", code="database_conflict")
        self._builder.stored(len(chunks))
        return removed

    def move(self, object_id: str, to: str, parent: str | None, ctx: ToolContext, owner: str = NOBODYS) -> int:
        values = {"object_id": object_id, "to": to, "parent": parent, "owner": owner}

        def change(connection: Connection[Any]) -> int:
            with connection.transaction():
                connection.execute(sql.SQL(REPLACED).format(table=self._table.quoted), values)
                return connection.execute(sql.SQL(MOVED).format(table=self._table.quoted), values).rowcount

        with self._connection(ctx) as connection:
            return self._changed(connection, lambda: change(connection), 0)

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        where, values = condition(scope)
        statement = sql.SQL(
            "WITH gone AS (DELETE FROM {} WHERE {} RETURNING object_id) SELECT object_id, count(*) FROM gone GROUP BY object_id"
        ).format(self._table.quoted, where)
        with self._connection(ctx) as connection:
            rows = self._changed(connection, lambda: connection.execute(statement, values).fetchall(), [])
        return Deleted(sum(row[1] for row in rows), frozenset(row[0] for row in rows))

    def search(self, search: Search, ctx: ToolContext) -> list[Hit]:
        return self._read(lambda connection: self._found(connection, search), [], ctx)

    def list(
        self,
        prefix: str | None,
        offset: int,
        limit: int,
        ctx: ToolContext,
        owner: str = NOBODYS,
        after: tuple[str, str] = FIRST_OBJECT,
    ) -> Listing:
        scope = Scope(prefix=prefix, owner=owner)
        return self._read(
            lambda connection: objects_page(connection, self._table, scope, offset, limit, after), Listing([], 0), ctx
        )

    def get(
        self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str = NOBODYS, after: int = -1
    ) -> ChunkPage:
        scope = Scope(object_ids=(object_id,), owner=owner)
        return self._read(
            lambda connection: chunks_page(connection, self._table, scope, offset, limit, after), ChunkPage([], 0), ctx
        )

    def versions(self, object_ids: Sequence[str], ctx: ToolContext, owner: str = NOBODYS) -> builtins.list[ObjectVersion]:
        scope = Scope(object_ids=tuple(object_ids), owner=owner)
        return self._read(lambda connection: versions_of(connection, self._table, scope), [], ctx)

    def stats(self, ctx: ToolContext, owner: str = NOBODYS) -> StoreStats:
        with self._connection(ctx) as connection:
            space, index = self._table.space(connection), self._builder.state(connection)
            found = counted(connection, self._table, space, Scope(owner=owner), index=index)
        return msgspec.structs.replace(found, details={"table": self._shown, **found.details})

    def close(self) -> None:
        self._builder.close()
        self._connections.close()

    @contextmanager
    def _connection(self, ctx: ToolContext) -> Iterator[Connection[Any]]:
        """A connection for a call; a table of an older version is brought to the present one first."""
        with self._connections.use(ctx) as connection:
            self._table.renew(connection)
            yield connection

    def _found(self, connection: Connection[Any], search: Search) -> builtins.list[Hit]:
        frequent = self._frequent.words(connection) if search.mode != "dense" else ()
        hits = found(connection, self._table, search, frequent)
        if search.vector is not None and search.mode != "keyword":
            self._builder.searched(connection, len(search.vector))
        return hits

    def _read(self, question: Callable[[Connection[Any]], T], nothing: T, ctx: ToolContext) -> T:
        """Run a query; return `nothing` if there is no table, because no chunk was ever stored."""
        with self._connection(ctx) as connection:
            try:
                return question(connection)
            except psycopg.Error as error:
                if is_missing_table(error):
                    return nothing
                raise

    def _changed(self, connection: Connection[Any], change: Callable[[], T], nothing: T) -> T:
        """Make a change, repeated after a conflict; return `nothing` if there is no table."""
        for attempt in range(CHANGE_TRIES):
            try:
                return change()
            except psycopg.Error as error:
                if is_missing_table(error):
                    return nothing
                if not is_passing(error) or attempt == CHANGE_TRIES - 1:
                    raise
        return nothing

    def _stored(
        self,
        connection: Connection[Any],
        rows: Sequence[Row],
        space: VectorSpace,
        replace: Mapping[str, Collection[int]],
        owner: str,
        ctx: ToolContext,
    ) -> int | None:
        """Store and delete in one transaction; return the number of deleted chunks. None if no table has this space."""
        if rows and not knows_vectors(connection):  # or did not when the connection was opened
            learn_vectors(connection)
            if not knows_vectors(connection):
                return None
        try:
            return self._changed(
                connection, lambda: self._transaction(connection, rows, space, replace, owner, ctx), None if rows else 0
            )
        except _OtherSpaceError:
            return None
        except psycopg.errors.UndefinedColumn:
            if self._table.settled(connection) is not None:
                raise
            return None  # the table is no store

    def _transaction(
        self,
        connection: Connection[Any],
        rows: Sequence[Row],
        space: VectorSpace,
        replace: Mapping[str, Collection[int]],
        owner: str,
        ctx: ToolContext,
    ) -> int:
        statement = sql.SQL(UPSERT).format(table=self._table.quoted, book=self._table.book)
        line = (self._table.name, space.model, space.size, self._table.language, FORM)
        with connection.transaction():
            for start in range(0, len(rows), ROWS_AT_ONCE):
                ctx.check()
                some = rows[start : start + ROWS_AT_ONCE]
                if connection.execute(statement, (*_columns(some, self._table.language), *line)).rowcount != len(some):
                    raise _OtherSpaceError
                ctx.progress(start + len(some), len(rows), "chunks sent to the database")
            if not replace:
                return 0
            kept = [(object_id, chunk_id) for object_id, chunk_ids in replace.items() for chunk_id in chunk_ids]
            names = [object_id for object_id, _ in kept], [chunk_id for _, chunk_id in kept]
            return connection.execute(
                sql.SQL(REPLACE).format(table=self._table.quoted), (owner, list(replace), *names)
            ).rowcount


def _columns(rows: Sequence[Row], language: str) -> list[Sequence[Any]]:
    """The parameters of `UPSERT`."""
    return [
        [chunk.owner for chunk, _ in rows],
        [chunk.object_id for chunk, _ in rows],
        [chunk.chunk_id for chunk, _ in rows],
        [chunk.content for chunk, _ in rows],
        [chunk.node_id for chunk, _ in rows],
        [chunk.parent for chunk, _ in rows],
        [msgspec.json.encode(chunk.extra).decode() if chunk.extra else None for chunk, _ in rows],
        [as_vector(vector) for _, vector in rows],
        [indexed_words(chunk.content, language) for chunk, _ in rows],
    ]


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
