"""Statements on a PostgreSQL connection, a chunk of rows at a time, over the connection's libpq.

psycopg's own cursors either hold a whole result in memory, or declare a cursor in the server, which costs two more round
trips, plans the query differently, and does not take every statement. Importing this imports psycopg.
"""

from __future__ import annotations

import fcntl
import json
import select
import struct
import termios
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from psycopg import DataError, NotSupportedError, OperationalError, capabilities
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from rrext.errors import InvalidArguments, ResultTooLarge
from rrext.limits import DEFAULTS

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

__all__ = ["CHUNK", "ResultStream", "ask", "settle", "tell"]

CHUNK: Final = 64
"""Rows that the server's answer is cut into: large enough that their number costs nothing, small enough for wide rows."""

LARGEST_CHUNK: Final = 256 * 1024 * 1024
"""Bytes of such a piece, which libpq holds in memory: rows of 4 MB."""

LARGEST_ROW: Final = 2 * DEFAULTS.max_result
"""Bytes of a row as the server writes it; one that is larger cannot be sent on, and is not even read into Python's values,
which would stop everything else in the process for seconds. Twice, as bytes are written as twice as many digits."""

DRAINED: Final = 16
"""Chunks that are read and dropped before a statement whose rows nobody wants is cancelled: cancelling connects anew."""

CANCEL_TIMEOUT: Final = 5.0
"""Seconds for the connection that carries a cancel."""


def ask(connection: Connection[Any], text: bytes, timeout: float | None = None) -> None:
    """Run statements of our own without results, as `BEGIN`, in one round trip.

    Raises what the driver raises, and `psycopg.OperationalError` if there is no answer within `timeout` seconds.
    """
    connection.pgconn.send_query(text)
    settle(connection, timeout)


def tell(connection: Connection[Any], text: bytes) -> None:
    """Send such statements and wait for nothing: `settle` does that, before anything else is sent."""
    connection.pgconn.send_query(text)
    connection.pgconn.flush()


def settle(connection: Connection[Any], timeout: float | None = None) -> None:
    """Wait until the server has done what it was told. Raises as `ask` does."""
    pgconn = connection.pgconn
    failed: Any = None
    while (result := _next_result(pgconn, timeout)[0]) is not None:
        if result.error_message and failed is None:
            failed = result
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")


def _next_result(pgconn: PGconn, timeout: float | None = None) -> tuple[PGresult | None, int]:
    """Wait until the server has answered further; None when the statement is over. Other threads run meanwhile.

    Also how often something was read: 0 or 1 times, unless there was more than fits into libpq's buffer. Raises
    `ResultTooLarge` for more bytes than `LARGEST_CHUNK`, if it sees them: while libpq reads a large row, more may come unseen.
    """
    until = None if timeout is None else monotonic() + timeout
    poll: select.poll | None = None
    arrived = reads = 0
    while (unsent := pgconn.flush()) or pgconn.is_busy():
        if poll is None:
            poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        ready = poll.poll(None if until is None else max(0.0, until - monotonic()) * 1000)
        if not ready and until is not None:
            pgconn.finish()
            raise OperationalError(f"the server did not answer within {timeout:g} s")
        if ready and ready[0][1] & ~select.POLLOUT:
            arrived += _waiting(pgconn.socket)
            if arrived > LARGEST_CHUNK:
                pgconn.finish()
                raise _chunk_too_large(arrived)
            pgconn.consume_input()
            reads += 1
    return pgconn.get_result(), reads


def _waiting(socket: int) -> int:
    """Bytes that have arrived and are not read yet."""
    found = fcntl.ioctl(socket, termios.FIONREAD, bytes(4))
    return struct.unpack("i", found)[0]


def _chunk_too_large(size: int) -> ResultTooLarge:
    return _too_large(f"{CHUNK} rows or fewer have", size, LARGEST_CHUNK, "LARGEST_CHUNK")


def _too_large(what: str, size: int, maximum: int, limit: str) -> ResultTooLarge:
    return ResultTooLarge(
        f"{what} {size:,} bytes: {limit} is {maximum:,}",
        hint="Ask for fewer large columns, for parts of them with substring(), or for fewer rows.",
        data={"limit": limit, "maximum": maximum, "size": size},
    )


class ResultStream:
    """A statement and its rows: the part of a DBAPI cursor that rrext uses. One statement only, of any kind but `COPY`."""

    __slots__ = ("_chunk", "_connection", "_is_over", "_pgconn", "_rows", "_taken", "_transformer", "description", "rowcount")

    def __init__(self, connection: Connection[Any], sql: str, params: Sequence[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._rows: Sequence[Sequence[Any]] = ()
        self._taken = 0
        self._is_over = False
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._send(_encoded(sql), params)
        if capabilities.has_stream_chunked():
            self._pgconn.set_chunked_rows_mode(CHUNK)
        else:
            self._pgconn.set_single_row_mode()
        self._read(is_first=True)

    def _send(self, text: bytes, params: Sequence[Any]) -> None:
        if not params:
            self._pgconn.send_query_params(text, None)
            return
        given = [_bindable(value) for value in params]
        try:
            values = self._transformer.dump_sequence(given, [PyFormat.AUTO] * len(given))
        except DataError as error:  # as for a NUL in a text, which PostgreSQL cannot hold
            raise InvalidArguments.at("/input/params", str(error)) from None
        types, formats = self._transformer.types, self._transformer.formats
        self._pgconn.send_query_params(text, values, param_types=types, param_formats=formats)

    @property
    def types(self) -> Sequence[str | None]:
        return [None for _ in self.description or ()]

    @property
    def warnings(self) -> Sequence[str]:
        return ()

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        """The next rows, at most `size`; none at the end."""
        if self._taken >= len(self._rows):
            self._read()
        rows = self._rows[self._taken : self._taken + size]
        self._taken += len(rows)
        return rows

    def close(self) -> None:
        """End the statement. One with many rows left is cancelled, which fails the transaction as any cancel does."""
        if self._is_over:
            return
        read: Callable[[], None] = self._drop
        for _ in range(DRAINED):
            read()
            if self._is_over:
                return
        self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        while not self._is_over:
            read()

    def _drop(self) -> None:
        result, _ = _next_result(self._pgconn)
        self._is_over = result is None

    def _read(self, *, is_first: bool = False) -> None:
        """Take the next chunk; at the end of the statement, its number of rows. Raises the server's error."""
        if self._is_over:
            self._rows, self._taken = (), 0
            return
        result, reads = _next_result(self._pgconn)
        if result is None:
            self._end()
            return
        if reads > 1:
            self._check_rows(result)
        status = result.status
        if result.command_tuples is not None:  # the last chunk tells it; the empty result after it does not
            self.rowcount = result.command_tuples
        if status in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
            if is_first:
                self.description = [(_name(result, at), result.ftype(at)) for at in range(result.nfields)]
            self._transformer.set_pgresult(result, set_loaders=is_first)
            self._rows, self._taken = self._transformer.load_rows(0, result.ntuples, tuple), 0
        if status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY):
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
                self._pgconn.finish()  # it would keep as much memory for the next statements
                if size > LARGEST_ROW:
                    raise _too_large("A row has", size, LARGEST_ROW, "LARGEST_ROW")
                raise _chunk_too_large(total)

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

    def __repr__(self) -> str:
        return f"<ResultStream {'over' if self._is_over else 'open'}>"


def _name(result: PGresult, column: int) -> str:
    return (result.fname(column) or b"?column?").decode("utf-8", "replace")


def _encoded(sql: str) -> bytes:
    if "\0" in sql:  # libpq would take it for the end of the statement
        raise InvalidArguments.at("/input/sql", "has a NUL character in it, which PostgreSQL cannot hold")
    try:
        return sql.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments.at("/input/sql", f"is no text: {error.reason} at {error.start}") from None


def _bindable(value: Any) -> Any:
    """A list is an array; an object, and a list with objects in it, is JSON."""
    if isinstance(value, dict) or (isinstance(value, list) and any(_is_nested(entry) for entry in value)):
        return json.dumps(value, ensure_ascii=False)
    return value


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(_is_nested(entry) for entry in value))
