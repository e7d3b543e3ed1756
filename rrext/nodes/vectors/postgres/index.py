"""The HNSW index of a store: built beside the calls, once there are so many chunks that comparing all is slow."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from rrext.errors import RrextError
from rrext.nodes.postgres import driver_sentence
from rrext.nodes.vectors.postgres.connections import Connections
from rrext.nodes.vectors.postgres.session import FULL_PRECISION
from rrext.nodes.vectors.postgres.table import INDEXED_SIZE, Table

__all__ = ["IndexBuilder"]

BUILD_LOCK: Final = 0x68
"""The first number of the advisory lock under which one process builds the index of a table; the second is the table's."""
BUILD_MEMORY: Final = "256MB"
"""Room for the graph while it is built: 384 numbers of 100,000 chunks fit; what does not fit takes several times as long."""
CLOSING_WAIT: Final = 10.0
"""Seconds that a store which is closed waits for its builder, whose statement was cancelled."""

log: Final = logging.getLogger("rrext.store_pgvector")

INDEXES: Final = (
    "SELECT i.indexrelid::regclass::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'"
)
LOCK: Final = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"


class IndexBuilder:
    """Builds the index of one table when it has `threshold` chunks (0: never), on a thread and a connection of its own.

    Meanwhile chunks are searched without it and stored as before. What goes wrong is logged, and tried again after
    more chunks came.
    """

    __slots__ = ("_added", "_closed", "_connection", "_connections", "_lock", "_table", "_thread", "_threshold")

    def __init__(self, table: Table, connections: Connections, *, threshold: int) -> None:
        self._table = table
        self._connections = connections
        self._threshold = threshold
        self._added: int | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: Connection[Any] | None = None
        self._closed = False

    def added(self, connection: Connection[Any], chunks: int, size: int) -> None:
        """So many chunks were stored, with vectors of `size` numbers: look whether there are enough now.

        Counting takes time too, so it is done at first, and then after each quarter of the threshold.
        """
        if not self._threshold or size > INDEXED_SIZE:
            return
        with self._lock:
            self._added = None if self._added is None else self._added + chunks
            if self._thread is not None or (self._added is not None and self._added < self._threshold / 4):
                return
            self._added = 0
        if self._is_worthwhile(connection) and not self._indexes(connection).get("valid"):
            self._start(size)

    def state(self, connection: Connection[Any]) -> str:
        """`hnsw`, `building`, or `none`."""
        if self._indexes(connection).get("valid"):
            return "hnsw"
        return "none" if self._thread is None else "building"

    def close(self) -> None:
        """Stop building. What was begun is dropped by whoever builds next."""
        with self._lock:
            self._closed = True
            thread, connection = self._thread, self._connection
        if thread is None:
            return
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.cancel_safe(timeout=CLOSING_WAIT)
        thread.join(CLOSING_WAIT)

    def _is_worthwhile(self, connection: Connection[Any]) -> bool:
        statement = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT %s) AS first_ones").format(self._table.quoted)
        row = connection.execute(statement, (self._threshold,)).fetchone()
        return row is not None and row[0] >= self._threshold

    def _indexes(self, connection: Connection[Any]) -> dict[str, str]:
        """Name of the index that is in use, as `valid`, and of one that was begun and never finished, as `broken`."""
        rows = connection.execute(INDEXES, (self._name,)).fetchall()
        return {"valid" if is_valid else "broken": name for name, is_valid in rows}

    @property
    def _name(self) -> str:
        return self._table.quoted.as_string()

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
            if connection.execute(LOCK, (BUILD_LOCK, self._name)).fetchone() != (True,):
                return  # another process is at it
            found = self._indexes(connection)
            if "broken" in found:  # its name comes from the server, quoted
                connection.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.SQL(found["broken"])))  # pyright: ignore[reportArgumentType]
            if "valid" in found:
                return
            connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(BUILD_MEMORY)))
            connection.execute(
                sql.SQL("CREATE INDEX CONCURRENTLY ON {} USING hnsw ({})").format(self._table.quoted, _indexed(size))
            )
            connection.execute(sql.SQL("ANALYZE {}").format(self._table.quoted))

    def __repr__(self) -> str:
        return f"<IndexBuilder of {self._table!r}>"


def _indexed(size: int) -> sql.Composable:
    """What is indexed, as searches order by it: an index takes 2000 numbers in full precision, more in half of it."""
    if size <= FULL_PRECISION:
        return sql.SQL("embedding vector_cosine_ops")
    return sql.SQL("(embedding::halfvec({})) halfvec_cosine_ops").format(sql.Literal(size))
