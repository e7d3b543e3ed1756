"""`PgVectorStore`: a vector store in a table of a PostgreSQL server, which any number of processes may use at once, and the
statements of its searches: by vectors, by words in the form of PostgreSQL's text search, and by both.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Final, TypeVar

import msgspec
import psycopg
from pgvector import Vector
from psycopg import Connection, sql

from rrext.errors import ToolError
from rrext.nodes.vectors.postgres.connection_pool import (
    FULL_PRECISION,
    ConnectionPool,
    as_vector,
    is_missing_table,
    is_passing,
    knows_vectors,
    learn_vectors,
    prepare,
)
from rrext.nodes.vectors.postgres.table import FORM, IndexBuilder, StoreTable
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    SIMPLE,
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
    candidates,
    require_space,
)
from rrext.nodes.vectors.words import asked_words, former_words, stored_words
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

    def space(self, ctx: ToolContext, owner: str = NOBODYS) -> VectorSpace | None:
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


FREQUENT_SHARE: Final = 0.05
"""The share of all chunks from which a word is one of these."""

FREQUENT_FROM: Final = 10_000
"""Chunks from which frequent words are left out. In a small store, a word in a tenth of the chunks may be the right one."""

FREQUENT_LOOK: Final = 60.0
"""Seconds between two queries of them: the server counts again when a tenth of a table has changed."""

COLUMNS: Final = sql.SQL("object_id, chunk_id, content, node_id, parent, extra::text, owner::text")
"""The columns of a chunk, for `chunk_of`."""

IN_BOUNDS: Final = """jsonb_path_exists((extra -> {key}::text)::jsonb, '$ ? (@.type() == "number"
    && ($gte == null || @ >= $gte) && ($gt == null || @ > $gt) && ($lte == null || @ <= $lte) && ($lt == null || @ < $lt))',
    {bounds}::jsonb)"""
"""Whether a number of the metadata, or one of a list there, which the path opens, is within all bounds that are not null."""

NEAR: Final = sql.SQL("coalesce(embedding <=> %(vector)b::vector, 1)")
"""The distance of a chunk. A zero vector counts as at a right angle."""

DENSE: Final = """
SELECT *, 1 - distance FROM (
    SELECT {columns}, {near} AS distance FROM {table} WHERE {scope} ORDER BY {order} LIMIT %(top_k)s
) AS found ORDER BY distance, object_id, chunk_id
"""

RANKED: Final = """(
    SELECT owner, object_id, chunk_id, whole, rank + CASE WHEN whole THEN
        greatest(0, max(rank) FILTER (WHERE NOT whole) OVER () - min(rank) FILTER (WHERE whole) OVER ()) ELSE 0 END AS rank
    FROM (
        SELECT owner, object_id, chunk_id, words @@ {whole} AS whole, ts_rank(words, {query}, 1) AS rank FROM {table}
        WHERE words @@ {query} AND {scope} ORDER BY whole DESC, rank DESC, object_id, chunk_id LIMIT %(candidates)s
    ) AS hits
)"""
"""Chunks with any of the words. Those with the `whole` of them come first: `ts_rank` alone would prefer a repetition."""

KEYWORD_SEARCH: Final = """
SELECT {columns}, rank FROM {ranked} AS ranked JOIN {table} USING (owner, object_id, chunk_id)
ORDER BY whole DESC, rank DESC, object_id, chunk_id
"""

HYBRID: Final = """
WITH near AS MATERIALIZED (
    SELECT owner, object_id, chunk_id, {near} AS distance FROM {table} WHERE {scope} ORDER BY {order} LIMIT %(candidates)s
), ranked AS MATERIALIZED {ranked}, best AS MATERIALIZED (
    SELECT rank * greatest(1, cardinality(lexemes))
        / greatest(1, (SELECT count(*) FROM unnest(words) WHERE lexeme = ANY (lexemes))) AS rank
    FROM (SELECT * FROM ranked ORDER BY whole DESC, rank DESC, object_id, chunk_id LIMIT 1) AS first
    JOIN {table} USING (owner, object_id, chunk_id) CROSS JOIN (SELECT {lexemes} AS lexemes) AS asked
), worded AS MATERIALIZED (
    SELECT owner, object_id, chunk_id, {near} AS distance, coalesce(ranked.rank / nullif(best.rank, 0), 0) AS relevance
    FROM ranked CROSS JOIN best JOIN {table} USING (owner, object_id, chunk_id)
), fused AS (
    SELECT owner, object_id, chunk_id,
        (greatest(1 - coalesce(n.distance, w.distance), 0) + coalesce(w.relevance, 0)) / 2 AS score
    FROM near AS n FULL JOIN worded AS w USING (owner, object_id, chunk_id)
    ORDER BY score DESC, object_id, chunk_id LIMIT %(top_k)s
)
SELECT {columns}, (SELECT count(*) FROM near), (SELECT max(distance) FROM near), score
FROM fused JOIN {table} USING (owner, object_id, chunk_id) ORDER BY score DESC, object_id, chunk_id
"""
"""`best` is the rank that a chunk with all of the words would have, if the first one with its share of them is a measure."""

ASKED: Final = """(
    SELECT CASE language WHEN 'simple' THEN {words}::text::tsquery ELSE to_tsquery(language::regconfig, {words}::text) END
    FROM {book} WHERE name = %(name)s
)"""
"""Words searched for, in the language of the table's index."""

LEXEMES: Final = """(
    SELECT CASE language WHEN 'simple' THEN %(telling)s::text[]
        ELSE tsvector_to_array(to_tsvector(language::regconfig, array_to_string(%(telling)s::text[], ' '))) END
    FROM {book} WHERE name = %(name)s
)"""
"""The same words as a list."""


def found(connection: Connection[Any], table: StoreTable, search: Search, frequent: Collection[str] = ()) -> list[Hit]:
    """At most `top_k` hits, best first. Raises the driver's errors. `frequent` words are ignored beside other words.

    An index leads to the nearest vectors, but ends early where few are in the scope, and knows none without direction:
    where that could show, all vectors of the scope are compared.
    """
    where, values = condition(search.scope)
    wanted = search.top_k if search.mode != "hybrid" else candidates(search.top_k)
    values |= {"top_k": search.top_k, "candidates": wanted, "name": table.name}
    values["telling"] = telling_words(search.text, frequent) if search.mode != "dense" else []
    values["words"] = any_of(search.text, values["telling"])
    values["whole"] = all_of(search.text) if search.mode != "dense" else ""
    vector = None if search.vector is None or search.mode == "keyword" else as_vector(search.vector)
    values["vector"] = vector
    if search.mode == "keyword":
        return _keyword(connection, table, where, values) if values["words"] else []
    look = _dense if search.mode == "dense" else _hybrid
    if vector is not None:
        hits, compared, farthest = look(connection, table, where, values, _by_index(vector))
        if compared == wanted and farthest <= 1:
            return hits
    return look(connection, table, where, values, NEAR)[0]


def condition(scope: Scope) -> tuple[sql.Composable, dict[str, Any]]:
    """A scope as SQL, and the values of its parameters."""
    parts: list[sql.Composable] = [sql.SQL("owner = %(owner)s")]
    values: dict[str, Any] = {"owner": scope.owner}
    if scope.object_ids is not None:
        parts.append(sql.SQL("object_id = ANY(%(object_ids)s)"))
        values["object_ids"] = list(scope.object_ids)
    if scope.node_id is not None:
        parts.append(sql.SQL("node_id = %(node_id)s"))
        values["node_id"] = scope.node_id
    if scope.parents:
        parts.append(sql.SQL("parent = ANY(%(parents)s)"))
        values["parents"] = list(scope.parents)
    ways: list[sql.Composable] = []
    for n, (prefix, below) in enumerate(scope.folders):
        names = [f"{name}{n}" for name in ("prefix", "below", "beyond")]
        ways.append(sql.SQL("parent = {} OR (parent >= {} AND parent < {})").format(*map(sql.Placeholder, names)))
        # Paths that begin with "/a/" sort between "/a/" and "/a0": "0" is the next character after "/".
        values |= dict(zip(names, (prefix, below, below[:-1] + "0"), strict=True))
    if ways:
        parts.append(sql.SQL("({})").format(sql.SQL(" OR ").join(ways)))
    for n, match in enumerate(scope.metadata):
        key, one_of, bounds = (f"{name}{n}" for name in ("key", "one_of", "bounds"))
        if match.values is not None:  # a value is in the metadata itself, or in a list
            parts.append(sql.SQL("extra::jsonb @> ANY({}::text[]::jsonb[])").format(sql.Placeholder(one_of)))
            wanted = [int(value) if isinstance(value, float) and value.is_integer() else value for value in match.values]
            values[one_of] = [_json({match.key: has}) for value in wanted for has in (value, [value])]
        if match.bounds:
            parts.append(sql.SQL(IN_BOUNDS).format(key=sql.Placeholder(key), bounds=sql.Placeholder(bounds)))
            values |= {key: match.key, bounds: _json(dict.fromkeys(("gte", "gt", "lte", "lt")) | match.bounds)}
    return sql.SQL(" AND ").join(parts), values


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def chunk_of(row: tuple[Any, ...]) -> Chunk:
    """Make the chunk of a row that begins with `COLUMNS`."""
    object_id, chunk_id, content, node_id, parent, extra, owner = row[:7]
    return Chunk(object_id, chunk_id, content, node_id, parent, msgspec.json.decode(extra) if extra else {}, owner)


def _by_index(vector: Vector) -> sql.Composable:
    """The ORDER BY that uses the index, if there is one."""
    size = vector.dimensions()
    if size <= FULL_PRECISION:
        return sql.SQL("embedding <=> %(vector)b::vector")
    half = sql.SQL("halfvec({})").format(sql.Literal(size))
    return sql.SQL("embedding::{half} <=> %(vector)b::vector::{half}").format(half=half)


def _dense(
    connection: Connection[Any], table: StoreTable, where: sql.Composable, values: Mapping[str, Any], order: sql.Composable
) -> tuple[list[Hit], int, float]:
    """Hits, the number of vectors found in this order, and the greatest distance among them."""
    statement = sql.SQL(DENSE).format(columns=COLUMNS, near=NEAR, table=table.quoted, scope=where, order=order)
    rows = connection.execute(statement, values).fetchall()
    return [Hit(chunk_of(row), row[-1]) for row in rows], len(rows), rows[-1][-2] if rows else 0.0


def _ranked(table: StoreTable, where: sql.Composable) -> sql.Composable:
    whole, query = (sql.SQL(ASKED).format(words=sql.Placeholder(name), book=table.book) for name in ("whole", "words"))
    return sql.SQL(RANKED).format(whole=whole, query=query, table=table.quoted, scope=where)


def _keyword(connection: Connection[Any], table: StoreTable, where: sql.Composable, values: Mapping[str, Any]) -> list[Hit]:
    statement = sql.SQL(KEYWORD_SEARCH).format(columns=COLUMNS, ranked=_ranked(table, where), table=table.quoted)
    return [Hit(chunk_of(row), row[-1]) for row in connection.execute(statement, values)]


def _hybrid(
    connection: Connection[Any], table: StoreTable, where: sql.Composable, values: Mapping[str, Any], order: sql.Composable
) -> tuple[list[Hit], int, float]:
    """Hits, the number of vectors found in this order, and the greatest distance among them."""
    statement = sql.SQL(HYBRID).format(
        columns=COLUMNS,
        near=NEAR,
        table=table.quoted,
        scope=where,
        order=order,
        ranked=_ranked(table, where),
        lexemes=sql.SQL(LEXEMES).format(book=table.book),
    )
    rows = connection.execute(statement, values).fetchall()
    hits = [Hit(chunk_of(row), float(row[-1])) for row in rows]
    return hits, rows[0][-3] if rows else 0, (rows[0][-2] or 0.0) if rows else 0.0


WORDS: Final = """
SELECT array_agg(word) FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) AS one (word, share)
WHERE schemaname = %s AND tablename = %s AND attname = 'words' AND word IS NOT NULL AND share >= %s
    AND (SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)) >= %s
"""


class FrequentWords:
    """The frequent words of a table, as the server counted them last; none before its first count.

    A language with stop words of its own needs no others.
    """

    def __init__(self, table: StoreTable) -> None:
        self._table = table
        self._look_at = 0.0
        self._words: frozenset[str] = frozenset()

    def words(self, connection: Connection[Any]) -> frozenset[str]:
        """The words, queried at intervals. Raises the driver's errors."""
        if self._table.language == SIMPLE and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + FREQUENT_LOOK
            table = self._table
            row = connection.execute(
                WORDS, (table.schema, table.name, FREQUENT_SHARE, table.full_name, FREQUENT_FROM)
            ).fetchone()
            self._words = frozenset(row[0] or ()) if row else frozenset()
        return self._words


LAST_PLACE: Final = 16383
"""The last word position that PostgreSQL stores."""


def indexed_words(text: str, language: str) -> str:
    """The words of a text that a table of that language indexes: a tsvector as the server reads it, or else words to
    analyse."""
    words = stored_words(text)
    if language != SIMPLE:
        return " ".join(words)
    # Words beyond the last position share that position; PostgreSQL merges repeated ones.
    places = [*range(1, LAST_PLACE), *repeat(LAST_PLACE, len(words))] if len(words) >= LAST_PLACE else range(1, LAST_PLACE)
    return " ".join([f"'{word}':{place}" for word, place in zip(words, places, strict=False)])


def telling_words(text: str, frequent: Collection[str] = ()) -> list[str]:
    """The words of a question without the frequent ones, if others are left."""
    words = asked_words(text)
    return [word for word in words if word not in frequent] or words


def any_of(text: str, words: Sequence[str]) -> str:
    """A tsquery that finds any of the words of a text; empty if it has none. No text can inject another query.

    It finds the words in the forms that older rows have, too.
    """
    wanted = dict.fromkeys([*words, *former_words(text)])
    return " | ".join(f"'{word}'" for word in wanted)


def all_of(text: str) -> str:
    """A tsquery that finds all words of a text together."""
    return " & ".join(f"'{word}'" for word in asked_words(text))
