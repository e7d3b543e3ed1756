"""The statements of searches: by vectors, by words in the form of PostgreSQL's text search, and both at once; and the words
that are too frequent to search by.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import msgspec
from pgvector import Vector
from psycopg import Connection, sql

from rrext.nodes.vectors.postgres.connection_pool import FULL_PRECISION, as_vector
from rrext.nodes.vectors.postgres.table import StoreTable
from rrext.nodes.vectors.store import SIMPLE, Chunk, Hit, Scope, Search, candidates
from rrext.nodes.vectors.words import asked_words, former_words, stored_words

FREQUENT_SHARE: Final = 0.05
"""The share of all chunks from which a word is one of these."""

FREQUENT_FROM: Final = 10_000
"""Chunks from which frequent words are left out. In a small store, a word in a tenth of the chunks may be the right one."""

FREQUENT_LOOK: Final = 60.0
"""Seconds between two queries of them: the server counts again when a tenth of a table has changed."""

COLUMNS: Final = sql.SQL("object_id, chunk_id, content, node_id, parent, extra::text, owner::text")
"""The columns of a chunk, for `chunk_of`."""

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

KEYWORD: Final = """
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
    parts: list[sql.Composable] = []
    values: dict[str, Any] = {}
    if scope.owner is not None:
        parts.append(sql.SQL("owner = %(owner)s"))
        values["owner"] = scope.owner
    if scope.object_ids is not None:
        parts.append(sql.SQL("object_id = ANY(%(object_ids)s)"))
        values["object_ids"] = list(scope.object_ids)
    if scope.node_id is not None:
        parts.append(sql.SQL("node_id = %(node_id)s"))
        values["node_id"] = scope.node_id
    if scope.parent is not None:
        parts.append(sql.SQL("parent = %(parent)s"))
        values["parent"] = scope.parent
    if scope.prefix is not None and scope.below is not None:
        parts.append(sql.SQL("(parent = %(prefix)s OR (parent >= %(below)s AND parent < %(beyond)s))"))
        # Paths that begin with "/a/" sort between "/a/" and "/a0": "0" is the next character after "/".
        values |= {"prefix": scope.prefix, "below": scope.below, "beyond": scope.below[:-1] + "0"}
    return (sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")), values


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
    statement = sql.SQL(KEYWORD).format(columns=COLUMNS, ranked=_ranked(table, where), table=table.quoted)
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
