"""The most frequent words of a large store: they distinguish no chunks, and ranking all their chunks takes long."""

from __future__ import annotations

import time
from typing import Any, Final

from psycopg import Connection

from rrext.nodes.vectors.limits import FREQUENT_FROM, FREQUENT_LOOK, FREQUENT_SHARE
from rrext.nodes.vectors.postgres.table import StoreTable
from rrext.nodes.vectors.postgres.words import SIMPLE

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
