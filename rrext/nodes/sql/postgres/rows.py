"""Statements on a PostgreSQL connection, and their rows a chunk at a time, over the connection's libpq.

psycopg's own cursors either hold a whole result in memory, or declare a cursor in the server, which costs two more round
trips, plans the query differently, and does not take every statement. Importing this imports psycopg.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from psycopg import NotSupportedError, capabilities
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from rrext.limits import DEFAULTS
from rrext.nodes.sql.limits import CANCEL_TIMEOUT, LARGEST_CHUNK, POSTGRES_CHUNK
from rrext.nodes.sql.postgres.connection import PostgresConnection, loader_of
from rrext.nodes.sql.postgres.libpq import next_result, too_large, too_large_chunk
from rrext.nodes.sql.postgres.types import PostgresTypes

LARGEST_ROW: Final = 2 * DEFAULTS.max_result
"""Bytes of a row as the server writes it; one that is larger cannot be sent on, and is not even read into Python's values,
which would stop everything else in the process for seconds. Twice, as bytes are written as twice as many digits."""
POSTGRES_DRAINED: Final = 16
"""Chunks that are read and dropped before an unwanted statement is cancelled: a cancel opens another connection."""

DEFINES_NOTHING: Final = frozenset({b"INSERT", b"UPDATE", b"DELETE", b"MERGE"})
"""Commands without rows that change no table and no type."""


class ResultStream:
    """A statement and its rows: the part of a DBAPI cursor that rrext uses. One statement only, of any kind but `COPY`."""

    def __init__(
        self, connection: PostgresConnection, text: bytes, values: Sequence[tuple[bytes | None, int]], types: PostgresTypes
    ) -> None:
        """`values` are the parameters, each with the number of its type."""
        self._connection = connection
        self._types = types
        self._columns: list[tuple[int, int]] = []
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._rows: Sequence[Sequence[Any]] = ()
        self._taken = 0
        self._is_over = False
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        connection.notices.clear()
        if values:
            texts, oids = zip(*values, strict=True)
            self._pgconn.send_query_params(text, texts, param_types=oids)
        else:
            self._pgconn.send_query_params(text, None)
        if capabilities.has_stream_chunked():
            self._pgconn.set_chunked_rows_mode(POSTGRES_CHUNK)
        else:
            self._pgconn.set_single_row_mode()
        self._read(is_first=True)

    @property
    def types(self) -> Sequence[str | None]:
        return self._types.names(self._connection, self._columns)

    @property
    def warnings(self) -> Sequence[str]:
        return self._connection.notices.texts

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        """Fetch at most `size` rows; none at the end."""
        if self._taken >= len(self._rows):
            self._read()
        rows = self._rows[self._taken : self._taken + size]
        self._taken += len(rows)
        return rows

    def close(self) -> None:
        """End the statement. A statement with many rows left is cancelled, which fails the transaction as any cancel does."""
        if self._is_over:
            return
        read: Callable[[], None] = self._drop
        for _ in range(POSTGRES_DRAINED):
            read()
            if self._is_over:
                return
        self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        while not self._is_over:
            read()

    def _drop(self) -> None:
        result, _ = next_result(self._pgconn)
        self._is_over = result is None

    def _read(self, *, is_first: bool = False) -> None:
        """Take the next chunk, or at the end the statement's number of rows. Raises the server's error."""
        if self._is_over:
            self._rows, self._taken = (), 0
            return
        result, reads = next_result(self._pgconn)
        if result is None:
            self._end()
            return
        if reads > 1:
            self._check_rows(result)
        status = result.status
        if result.command_tuples is not None:  # the last chunk has the number; the empty result after it does not
            self.rowcount = result.command_tuples
        if status in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
            if is_first:
                self.description = [(_name(result, at),) for at in range(result.nfields)]
                self._columns = [(result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
                loaders = [loader_of(*column) for column in self._columns]
                self._transformer.set_loader_types(loaders, Format.TEXT)
            self._transformer.set_pgresult(result, set_loaders=False)
            self._rows, self._taken = self._transformer.load_rows(0, result.ntuples, tuple), 0
        if status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY):
            if status == ExecStatus.COMMAND_OK and (result.command_status or b"").split(b" ")[0] not in DEFINES_NOTHING:
                self._types.forget()
            self._end(keep_rows=True)
        elif status not in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE):
            self._fail(result)

    def _check_rows(self, result: PGresult) -> None:
        """Raise `ResultTooLarge` before values are made of too large a row, or of too many."""
        total = 0
        for row in range(result.ntuples):
            size = sum(len(result.get_value(row, column) or b"") for column in range(result.nfields))
            total += size
            if size > LARGEST_ROW or total > LARGEST_CHUNK:
                self._is_over = True
                self._pgconn.finish()  # the connection would keep as much memory for later statements
                if size > LARGEST_ROW:
                    raise too_large("A row has", size, LARGEST_ROW, "LARGEST_ROW")
                raise too_large_chunk(total)

    def _end(self, *, keep_rows: bool = False) -> None:
        while not self._is_over:
            self._drop()
        if not keep_rows:
            self._rows, self._taken = (), 0

    def _fail(self, result: PGresult) -> None:
        if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
            self._is_over = True
            self._pgconn.finish()  # the one way out of COPY that loses no time over its data
            raise NotSupportedError("COPY from or to the client is not possible here")
        self._end()
        raise error_from_result(result, encoding="utf-8")


def _name(result: PGresult, column: int) -> str:
    return (result.fname(column) or b"?column?").decode("utf-8", "replace")
