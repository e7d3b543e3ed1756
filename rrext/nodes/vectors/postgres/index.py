"""The HNSW index of a store, built in the background once a comparison of all chunks is slow."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from rrext.errors import RrextError
from rrext.nodes.databases.postgres import driver_sentence
from rrext.nodes.vectors.postgres.connection_pool import ConnectionPool
from rrext.nodes.vectors.postgres.session import FULL_PRECISION
from rrext.nodes.vectors.postgres.table import INDEXED_SIZE, StoreTable

CLOSING_WAIT: Final = 10.0
"""Seconds that `close` of a store waits for the builder of the index after the statement of the builder was cancelled."""
INDEX_LOOK: Final = 30.0
"""Seconds between two counts of the chunks: counting takes time too."""
BUILD_MEMORY: Final = "256MB"
"""Memory for the construction of the graph: 384 numbers of 100,000 chunks fit; larger graphs take several times as long."""

BUILD_LOCK: Final = 0x68
"""The first number of the advisory lock under which one process builds the index of a table; the second is the table's."""

log: Final = logging.getLogger("rrext.store_pgvector")

INDEXES: Final = (
    "SELECT i.indexrelid::regclass::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'"
)
LOCK: Final = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"


class IndexBuilder:
    """Builds the index of one table when it is searched and has `threshold` chunks (0: never).

    It does so on a thread and a connection of its own; meanwhile chunks are searched without it and stored as before. Not
    sooner: a table that is filled first and searched then is filled several times as fast without it. Failures are logged,
    and the index is tried again later.
    """

    def __init__(self, table: StoreTable, connections: ConnectionPool, *, threshold: int) -> None:
        self._table = table
        self._connections = connections
        self._threshold = threshold
        self._look_at = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: Connection[Any] | None = None
        self._closed = False

    def searched(self, connection: Connection[Any], size: int) -> None:
        """Note a search of vectors of `size` numbers: check at intervals whether an index would be worthwhile now."""
        if not self._threshold or size > INDEXED_SIZE or self._thread is not None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + INDEX_LOOK
        if self._is_worthwhile(connection) and not self._indexes(connection).get("valid"):
            self._start(size)

    def stored(self, chunks: int) -> None:
        """Note that chunks were stored: if they are many, the next search checks the index."""
        if chunks >= self._threshold / 4:
            self._look_at = 0.0

    def state(self, connection: Connection[Any]) -> str:
        """`hnsw`, `building`, or `none`."""
        if self._indexes(connection).get("valid"):
            return "hnsw"
        return "none" if self._thread is None else "building"

    def close(self) -> None:
        """Stop building. The next builder drops the unfinished index."""
        with self._lock:
            self._closed = True
            thread, connection = self._thread, self._connection
        give_up = time.monotonic() + CLOSING_WAIT
        while thread is not None and thread.is_alive() and time.monotonic() < give_up:
            if connection is not None:  # a cancel between two statements has no effect: it is sent again
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=1)
            thread.join(0.1)

    def _is_worthwhile(self, connection: Connection[Any]) -> bool:
        statement = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT %s) AS first_ones").format(self._table.quoted)
        row = connection.execute(statement, (self._threshold,)).fetchone()
        return row is not None and row[0] >= self._threshold

    def _indexes(self, connection: Connection[Any]) -> dict[str, str]:
        """The name of the valid index, as `valid`, and of an unfinished one, as `broken`."""
        rows = connection.execute(INDEXES, (self._table.full_name,)).fetchall()
        return {"valid" if is_valid else "broken": name for name, is_valid in rows}

    def _start(self, size: int) -> None:
        with self._lock:
            if self._closed or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, args=(size,), name="rrext-pg-index", daemon=True)
            self._thread.start()

    def _run(self, size: int) -> None:
        try:
            self._build(size)
        except psycopg.Error as error:
            if not self._closed:
                log.warning("The index of %s was not built: %s", self._table, driver_sentence(error))
        except RrextError as error:
            log.warning("The index of %s was not built: %s", self._table, error)
        finally:
            with self._lock:
                self._thread = self._connection = None

    def _build(self, size: int) -> None:
        with self._connections.connect() as connection:
            with self._lock:
                if self._closed:
                    return
                self._connection = connection
            if connection.execute(LOCK, (BUILD_LOCK, self._table.full_name)).fetchone() != (True,):
                return  # another process builds it
            found = self._indexes(connection)
            if "broken" in found:  # the name comes from the server, quoted
                connection.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.SQL(found["broken"])))  # pyright: ignore[reportArgumentType]
            if "valid" in found:
                return
            connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(BUILD_MEMORY)))
            connection.execute(
                sql.SQL("CREATE INDEX CONCURRENTLY ON {} USING hnsw ({})").format(self._table.quoted, _indexed(size)), ()
            )
            connection.execute(sql.SQL("ANALYZE {}").format(self._table.quoted), ())


def _indexed(size: int) -> sql.Composable:
    """The indexed expression, as in searches' ORDER BY: up to 2000 numbers in full precision, more in half of it."""
    if size <= FULL_PRECISION:
        return sql.SQL("embedding vector_cosine_ops")
    return sql.SQL("(embedding::halfvec({})) halfvec_cosine_ops").format(sql.Literal(size))
