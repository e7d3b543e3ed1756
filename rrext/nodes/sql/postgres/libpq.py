"""The node's own statements on a PostgreSQL connection, over its libpq. Importing this imports psycopg."""

from __future__ import annotations

import fcntl
import select
import struct
import termios
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from rrext.errors import ResultTooLarge
from rrext.nodes.sql.limits import LARGEST_CHUNK, POSTGRES_CHUNK


def ask(connection: Connection[Any], text: bytes, timeout: float | None = None) -> None:
    """Run internal statements without results, such as `BEGIN`, in one round trip.

    Raises the driver's errors, and `psycopg.OperationalError` if there is no answer within `timeout` seconds.
    """
    connection.pgconn.send_query(text)
    settle(connection, timeout)


def tell(connection: Connection[Any], text: bytes) -> None:
    """Send internal statements without waiting; `settle` waits, before any other statement is sent."""
    connection.pgconn.send_query(text)
    connection.pgconn.flush()


def settle(connection: Connection[Any], timeout: float | None = None) -> None:
    """Wait until the server has finished the statements of `tell`. Raises the errors of `ask`."""
    pgconn = connection.pgconn
    failed: Any = None
    while (result := next_result(pgconn, timeout)[0]) is not None:
        if result.error_message and failed is None:
            failed = result
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")


def rows_of(connection: Connection[Any], text: bytes, *values: bytes) -> list[list[str | None]]:
    """The few rows of an internal query, as texts; `values` are those of `$1`, `$2`, ….

    Ends a failed transaction first: it accepts no query.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status == TransactionStatus.INERROR:
        ask(connection, b"ROLLBACK")
    pgconn.send_query_params(text, values or None)
    rows: list[list[str | None]] = []
    failed: Any = None
    while (result := next_result(pgconn)[0]) is not None:
        if result.error_message:
            failed = result
        for row in range(result.ntuples):
            cells = (result.get_value(row, column) for column in range(result.nfields))
            rows.append([None if cell is None else cell.decode() for cell in cells])
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")
    return rows


def described(connection: Connection[Any], text: bytes) -> tuple[int, ...] | None:
    """The type numbers that the server infers for the parameters of a statement; None if it cannot.

    One round trip, after which the open transaction is unchanged: failures stay behind a savepoint.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status != TransactionStatus.INTRANS:
        return None
    pgconn.enter_pipeline_mode()
    pgconn.send_query_params(b"SAVEPOINT rrext", None)
    pgconn.send_prepare(b"", text)
    pgconn.send_describe_prepared(b"")
    pgconn.pipeline_sync()
    pgconn.send_query_params(b"ROLLBACK TO SAVEPOINT rrext", None)
    pgconn.send_query_params(b"RELEASE SAVEPOINT rrext", None)
    pgconn.pipeline_sync()
    answers: list[PGresult] = []
    ends = 0
    while ends < 2:
        result, _ = next_result(pgconn)
        if result is not None:
            answers.append(result)
            ends += result.status == ExecStatus.PIPELINE_SYNC
        elif pgconn.status != ConnStatus.OK:
            raise OperationalError("the server closed the connection")
    pgconn.exit_pipeline_mode()
    shown = answers[2]  # after the answers to SAVEPOINT and to the parsing
    if shown.status != ExecStatus.COMMAND_OK:
        return None
    return tuple(shown.param_type(at) for at in range(shown.nparams))


def next_result(pgconn: PGconn, timeout: float | None = None) -> tuple[PGresult | None, int]:
    """Wait for the next result of the server; None when the statement is over. Other threads run meanwhile.

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
                raise too_large_chunk(arrived)
            pgconn.consume_input()
            reads += 1
    return pgconn.get_result(), reads


def _waiting(socket: int) -> int:
    """The number of bytes that have arrived and are not read yet."""
    found = fcntl.ioctl(socket, termios.FIONREAD, bytes(4))
    return struct.unpack("i", found)[0]


def too_large_chunk(size: int) -> ResultTooLarge:
    return too_large(f"{POSTGRES_CHUNK} rows or fewer have", size, LARGEST_CHUNK, "LARGEST_CHUNK")


def too_large(what: str, size: int, maximum: int, limit: str) -> ResultTooLarge:
    return ResultTooLarge(
        f"{what} {size:,} bytes: {limit} is {maximum:,}",
        hint="Ask for fewer large columns, for parts of them with substring(), or for fewer rows.",
        data={"limit": limit, "maximum": maximum, "size": size},
    )
