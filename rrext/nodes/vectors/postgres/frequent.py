"""The words that are all over a large store: they tell no chunk from another, and ranking all their chunks takes long."""

from __future__ import annotations

import time
from typing import Any, Final

from psycopg import Connection

from rrext.nodes.vectors.postgres.table import Table
from rrext.nodes.vectors.postgres.words import SIMPLE

FREQUENT: Final = 0.05
"""The share of all chunks from which a word is one of these."""
MANY_CHUNKS: Final = 10_000
"""Chunks from which it matters. In a small store, a word that is in a tenth of the chunks may be what was asked for."""
LOOK_AGAIN: Final = 60.0
"""Seconds between two looks: the server counts anew when a tenth of a table has changed."""

WORDS: Final = """
SELECT array_agg(word) FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) AS one (word, share)
WHERE schemaname = %s AND tablename = %s AND attname = 'words' AND word IS NOT NULL AND share >= %s
    AND (SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)) >= %s
"""


class FrequentWords:
    """The frequent words of a table, as the server counted them last; none before it did.

    A language with stop words of its own needs no others.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._look_at = 0.0
        self._words: frozenset[str] = frozenset()

    def words(self, connection: Connection[Any]) -> frozenset[str]:
        """The words, looked up once in a while. Raises the driver's errors."""
        if self._table.language == SIMPLE and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_AGAIN
            table = self._table
            row = connection.execute(WORDS, (table.schema, table.name, FREQUENT, table.full_name, MANY_CHUNKS)).fetchone()
            self._words = frozenset(row[0] or ()) if row else frozenset()
        return self._words
