"""The process of a DuckDB database: `python -m rrext.nodes.sql.duckdb.worker DOOR`.

DOOR is the descriptor of a socket through which the sockets of connections come, each with its number; `messages` has the
requests on them. The standard input brings the `DuckdbSettings`, and then interrupts. When the server closes it, or is
killed, running statements are interrupted, open transactions are rolled back, the database is closed, and this process
ends.

It has the instance with its start, its restrictions and the tables of its files, and for each connection a session with its
transaction and its statement.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Final

import duckdb
import msgspec

from rrext.errors import InternalError, ResultTooLarge, RrextError, ToolError
from rrext.limits import DEFAULTS
from rrext.nodes.child.worker import begin, ending_within, receive
from rrext.nodes.databases.cells import json_rows, rows_within, size_of
from rrext.nodes.databases.failure import Failure
from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.duckdb.instance import (
    MORE_MEMORY,
    DuckdbInstance,
    InstanceConnection,
    ParsedStatement,
    limit_memory,
    sentence,
)
from rrext.nodes.sql.duckdb.messages import (
    Answer,
    Control,
    DuckdbSettings,
    Interrupt,
    Ok,
    Refused,
    Request,
    SqlCommit,
    SqlCopy,
    SqlFailed,
    SqlFetch,
    SqlLoad,
    SqlOpen,
    SqlPrepare,
    SqlProgress,
    SqlRollback,
    SqlRows,
    SqlRun,
    is_committing,
    is_over,
    message_frame,
)
from rrext.nodes.sql.duckdb.values import converter, exact_type, parameters
from rrext.nodes.sql.lexer import split_at_placeholders

LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""

NOBODYS: Final = 0
"""The number of a request that cannot be interrupted."""


class DuckdbWorker:
    """Serves connections, each on a thread of its own, until the server is gone."""

    def __init__(self, instance: DuckdbInstance, door: socket.socket, copies: str = "") -> None:
        """`copies` is a folder that is removed when the server is gone, as it may have been killed."""
        self._instance = instance
        self._copies = copies
        self._door = door
        self._sessions: dict[int, DuckdbSession] = {}
        self._threads: dict[int, threading.Thread] = {}

    def serve(self, control: BinaryIO) -> None:
        """Take connections and interrupt them until the other end closes; then roll back open transactions and close the
        database."""
        threading.Thread(target=self._take, name="rrext-duckdb-door", daemon=True).start()
        decoder = msgspec.msgpack.Decoder(Control)
        while (received := receive(control)) is not None:
            message = decoder.decode(received[1])
            session = self._sessions.get(message.connection)
            if session is None:
                continue
            if isinstance(message, Interrupt):
                session.interrupt(message.request)
            else:
                session.tell_progress(message.request)
        if self._copies:
            shutil.rmtree(self._copies, ignore_errors=True)
        with ending_within(LEAVING_TIMEOUT):
            for session in list(self._sessions.values()):
                session.interrupt()
            for thread in list(self._threads.values()):
                thread.join()
            self._instance.close()

    def _take(self) -> None:
        """Accept connections."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._door, 8, 1)
            if not descriptors:
                return
            number = int.from_bytes(data, "little")
            link = socket.socket(fileno=descriptors[0])
            thread = threading.Thread(target=self._attend, args=(number, link), name=f"rrext-duckdb-{number}", daemon=True)
            self._threads[number] = thread
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: the server sees that the connection ends
                link.close()

    def _attend(self, number: int, link: socket.socket) -> None:
        """Serve one connection until the server closes it."""
        session = self._sessions[number] = DuckdbSession(self._instance, partial(_answered, link))
        decoder = msgspec.json.Decoder(Request)
        with suppress(OSError), link, link.makefile("rb") as requests:  # the server may be gone before its answer
            while (received := receive(requests)) is not None:
                call, data = received
                request = decoder.decode(data)
                answer = _answered(link, call, _answer(session, call, request))
                if answer is not None and is_committing(request, answer):
                    _answered(link, call, _answer(session, NOBODYS, SqlCommit()))
                session.rest()
        del self._sessions[number], self._threads[number]
        with suppress(Exception):
            session.close()


def _answer(session: DuckdbSession, number: int, request: Request) -> Answer | None:
    try:
        return session.do(number, request)
    except RrextError as error:
        return _failed(error)
    except BaseException as error:
        failure = failure_of(error)
        if failure is not None:
            return Refused(failure.kind, failure.message, failure.hint)
        traceback.print_exc()
        return _failed(InternalError("DuckDB failed; the server's log has it"))


def _answered(link: socket.socket, number: int, answer: Answer | None) -> Answer | None:
    """Send an answer and return it. An answer that cannot be encoded is sent as a failure."""
    if answer is None:
        return None
    try:
        data = message_frame(number, answer)
    except UnicodeEncodeError:
        answer = Refused("statement", "a text has a character that is none (a lone surrogate)")
        data = message_frame(number, answer)
    except MemoryError:
        answer = Refused("statement", "out of memory: the rows are too large")
        data = message_frame(number, answer)
    link.sendall(data)
    if isinstance(answer, Refused) and answer.kind == "lost":
        os._exit(1)  # DuckDB refuses everything until it is opened anew
    return answer


def _failed(error: RrextError) -> SqlFailed:
    return SqlFailed(error.code, error.message, error.hint, dict(error.data))


def main() -> None:
    """Serve one database until the server is gone."""
    control, _, settings = begin(DuckdbSettings)
    door = socket.socket(fileno=int(sys.argv[1]))
    DuckdbWorker(DuckdbInstance(settings, limit_memory), door, settings.copies).serve(control)
    os._exit(0)  # an ordinary exit would print the driver's complaints


_ABORTED: Final = "Current transaction is aborted"
_TYPED: Final = (str, list, dict, float)
"""Types of JSON values that fit several database types, so that the statement's expected type decides."""


class DuckdbSession:
    """A connection. Its requests run one after the other; only `interrupt` may run meanwhile."""

    def __init__(
        self, instance: DuckdbInstance, tell: Callable[[int, SqlProgress], object] = lambda number, progress: None
    ) -> None:
        """`tell` sends the progress of a request."""
        self._instance = instance
        self._tell = tell
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._made: InstanceConnection | None = None
        self._number: int | None = None  # of the current request
        self._is_stopped = False  # whether it was interrupted
        self._others: Sequence[duckdb.DuckDBPyConnection] = ()  # that work for it
        self._in_transaction = False
        self._reads_only = False
        self._traces = False  # whether a statement of the transaction left some
        self._has_failed = False  # whether a statement of the transaction failed
        self._parsed: ParsedStatement | None = None
        self._rows: ResultRows | None = None

    def do(self, number: int, request: Request) -> Answer | None:
        """Carry out a request; None if it has no answer. Raises DuckDB's errors and rrext's."""
        if self._made is None or (not self._in_transaction and self._instance.is_former(self._made)):
            self.close()
            self._made = self._instance.connection()
            self._connection = self._made.cursor
        with self._lock:
            self._number, self._is_stopped = number, False
        try:
            answer = self._done(self._made.cursor, request)
        except BaseException:
            self._has_failed = True
            self._close_rows()
            raise
        finally:
            with self._lock:
                self._number = None
        if self._is_stopped and answer is not None and is_committing(request, answer):
            raise duckdb.InterruptException("Interrupted!")  # at its end, when DuckDB looks no more
        return answer

    def _done(self, connection: duckdb.DuckDBPyConnection, request: Request) -> Answer | None:
        match request:
            case SqlRun():
                return self._run(connection, request)
            case SqlFetch():
                return self._answer(connection, request.size, None)
            case SqlRollback():
                self._close_rows()
                if self._in_transaction:
                    self._in_transaction = False
                    self._send(connection, "ROLLBACK")
                return Ok() if request.is_answered else None
            case SqlCommit():
                self._commit(connection)
            case SqlLoad():
                self._instance.load(request.tables)
            case SqlCopy():
                self._instance.copy(request, self._working)
            case SqlPrepare():
                self._instance.prepare(request)
            case SqlOpen():
                pass
        return Ok()

    def rest(self) -> None:
        """Finish after the answer was sent. A transaction that reads ends with the last row of its statement."""
        if self._in_transaction and self._reads_only and self._rows is None and self._connection is not None:
            self._in_transaction = False
            self._send(self._connection, "ROLLBACK")

    # transactions

    def _send(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        connection.execute(self._instance.parsed(connection, sql).statement)

    def _begin(self, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        self._send(connection, "BEGIN TRANSACTION READ ONLY" if read_only else "BEGIN TRANSACTION")
        self._in_transaction, self._reads_only, self._traces, self._has_failed = True, read_only, False, False

    def _commit(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._close_rows()
        if self._has_failed and self._is_aborted(connection):
            # DuckDB would answer COMMIT with a rollback, and call that a success.
            raise ToolError(
                "The transaction cannot be committed: a statement in it failed",
                code="transaction_aborted",
                hint="Roll it back, and begin another one.",
            )
        self._in_transaction = False  # a failed commit has rolled back
        self._send(connection, "COMMIT")
        if self._traces:
            self._instance.forget()

    def _is_aborted(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Whether the transaction is unusable. Most failures of a statement do that; those of parsing and binding do not."""
        try:
            self._send(connection, "SELECT 1")
        except duckdb.TransactionException as error:
            return _ABORTED in str(error)
        return False

    # statements

    def _run(self, connection: duckdb.DuckDBPyConnection, request: SqlRun) -> SqlRows:
        self._close_rows()
        if request.begin:
            self._begin(connection, read_only=request.begin == "read")
        count = len(request.params)
        known = self._instance.known(request.sql)
        if count and (known is None or known.count != count):
            split_at_placeholders(request.sql, DUCKDB, count)
        parsed = self._parsed = known or self._instance.parsed(connection, request.sql)
        parsed.count = count
        if parsed.kind == "COPY" and self._instance.reads_files:  # the gate refuses it before
            raise duckdb.PermissionException("Permission Error: a database of files writes none")
        if parsed.leaves_traces:
            self._traces = True
            self._instance.forget()
        params = self._parameters(connection, parsed, request)
        self._rows = rows = self._started(connection, parsed, params, nested_as_text=request.nested_as_text)
        changed = connection.rowcount if parsed.counts_changes and rows is None else -1
        if rows is None:
            answer = SqlRows(None, [], [], True, changed, parsed.writes, parsed.leaves_traces)
        else:
            answer = self._answer(connection, request.size, rows)
        if is_over(request, answer) and not answer.writes:
            self._commit(connection)
        return answer

    def _started(
        self, connection: duckdb.DuckDBPyConnection, parsed: ParsedStatement, params: list[Any], *, nested_as_text: bool
    ) -> ResultRows | None:
        """Run the statement until its first rows are there; None if it gives none."""
        names: list[str] = []
        kinds: list[Any] = []
        if parsed.is_exact or (parsed.is_exact is None and not self._reads_only):  # running it twice could change something
            names, kinds, _ = _bound(connection, parsed, params)
            parsed.is_exact = needs_exact(kinds)
        if not parsed.is_exact:
            connection.execute(parsed.statement, params or None)
            if connection.rowcount >= 0 or not parsed.gives_rows:
                return None
            names = [column[0] for column in connection.description or ()]
            kinds = [column[1] for column in connection.description or ()]
            if parsed.kind != "SELECT" or not self._reads_only or not needs_exact(kinds):
                return ResultRows(connection, names, kinds, nested_as_text=nested_as_text)
            connection.abort()  # the rows that it holds ready
            parsed.is_exact = True
        return ExactRows(connection, parsed.statement, params, names, kinds, nested_as_text=nested_as_text)

    def _parameters(self, connection: duckdb.DuckDBPyConnection, parsed: ParsedStatement, request: SqlRun) -> list[Any]:
        if not any(isinstance(value, _TYPED) for value in request.params):
            return parameters(request.params, {})
        if parsed.parameter_types is None:
            parsed.parameter_types = _bound(connection, parsed, None)[2]
        return parameters(request.params, parsed.parameter_types)

    def _answer(self, connection: duckdb.DuckDBPyConnection, size: int, first: ResultRows | None) -> SqlRows:
        rows, parsed = self._rows, self._parsed
        if rows is None or parsed is None:
            return SqlRows(None, [], [], True)
        taken, is_last = rows.read(size)
        changed = len(taken) if parsed.counts_changes else -1
        if is_last:
            self._close_rows()
        columns, types = (first.columns, first.types) if first is not None else (None, [])
        return SqlRows(columns, types, taken, is_last, changed, parsed.writes, parsed.leaves_traces)

    def _close_rows(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()

    def interrupt(self, number: int | None = None) -> None:
        """Make one request fail soon, if it is still running; any request with None."""
        with self._lock:
            if self._number is None or number not in (None, self._number) or self._connection is None:
                return
            self._is_stopped = True
            for connection in self._others or (self._connection,):
                connection.interrupt()

    @contextmanager
    def _working(self, *others: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """A block in which `interrupt` stops other connections. Raises `InterruptException` if that came before."""
        with self._lock:
            if self._is_stopped:
                raise duckdb.InterruptException("Interrupted!")
            self._others = others
        try:
            yield
        finally:
            with self._lock:
                self._others = ()

    def tell_progress(self, number: int) -> None:
        """Tell how far a request is, if it is still running and DuckDB knows it."""
        with self._lock, suppress(OSError):  # the server may be gone
            if self._number != number or self._connection is None:
                return
            percent = self._connection.query_progress()
            if percent >= 0:
                self._tell(number, SqlProgress(percent))  # before the answer: it waits for the lock

    def close(self) -> None:
        """Roll back and close the connection."""
        self._close_rows()
        connection, self._connection, self._made = self._connection, None, None
        if connection is not None:
            connection.close()


def _bound(
    connection: duckdb.DuckDBPyConnection, parsed: ParsedStatement, params: Sequence[Any] | None
) -> tuple[list[str], list[Any], Mapping[str, Any]]:
    """The names and types of a statement's columns, and the types that it says of its parameters if they are not given.
    Nothing is run."""
    try:
        bind: Any = connection._bind  # the driver offers this to its own relations only
        names, kinds, expected, *_ = bind(parsed.statement, values=params or None)
    except (duckdb.Error, AttributeError, TypeError, ValueError):  # the run of the statement will raise its own error
        return [], [], {}
    return list(names), list(kinds), {str(number): kind for number, kind in expected}


def failure_of(error: BaseException) -> Failure | None:
    """The failure of a DuckDB exception; None for any other exception."""
    if isinstance(error, MemoryError):
        return Failure("statement", "out of memory: a value is too large", MORE_MEMORY)
    if not isinstance(error, duckdb.Error):
        return None
    message = sentence(error)
    match error:
        case duckdb.ParserException():
            return Failure("syntax", message)
        case duckdb.InterruptException():
            return Failure("cancelled", message)
        case duckdb.FatalException() | duckdb.ConnectionException():
            return Failure("lost", message)
        case duckdb.OutOfMemoryException():
            return Failure("statement", message, MORE_MEMORY)
        case duckdb.TransactionException() if "read-only" in message:
            return Failure("read_only", message)
        case duckdb.TransactionException() if "onflict" in message:
            return Failure("locked", message, "Another transaction changed the same rows: roll back and begin anew.")
        case duckdb.TransactionException() if _ABORTED in message:
            return Failure("statement", message, "A statement in this transaction failed: roll it back.")
    return Failure("statement", message)


def needs_exact(kinds: Sequence[Any]) -> bool:
    """Whether the driver's Python values would lose something of columns of these types."""
    return any(exact_type(kind) is not None for kind in kinds)


class ResultRows:
    """The rows of a result that a connection has open."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], kinds: Sequence[Any], *, nested_as_text: bool
    ):
        self.columns = list(names)
        self.types: list[str | None] = [str(kind) for kind in kinds]
        converters = [converter(kind) for kind in kinds]
        self._converters = converters if any(converters) else None
        self._nested_as_text = nested_as_text
        self._rows: Iterator[Any] = iter(connection.fetchone, None)

    def read(self, size: int) -> tuple[list[Any], bool]:
        taken = rows_within(self._rows, size)
        is_last = False
        if len(taken) < size:
            ahead = next(self._rows, None)
            if ahead is None:
                is_last = True
            else:  # the rows are large
                self._rows = chain((ahead,), self._rows)
        rows = taken if self._converters is None else [_converted(row, self._converters) for row in taken]
        rows = json_rows(rows, nested_as_text=self._nested_as_text)
        _check_size(rows)
        return rows, is_last

    def close(self) -> None:
        self._rows = iter(())


def _converted(row: Sequence[Any], converters: Sequence[Any]) -> list[Any]:
    return [value if convert is None else convert(value) for value, convert in zip(row, converters, strict=True)]


def _check_size(rows: Sequence[Sequence[Any]]) -> None:
    """Refuse rows that the server would refuse. Raises `ResultTooLarge`."""
    size = size_of(rows)
    if size > DEFAULTS.max_result:
        raise ResultTooLarge.of(size, DEFAULTS.max_result, "The part of the result that was read")


class ExactRows(ResultRows):
    """The rows of a query with columns whose Python values would lose something, such as months of an interval.

    Those columns are read as text, by a query around the unchanged statement; `kinds` are
    the types of its columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        statement: duckdb.Statement,
        params: Sequence[Any],
        names: Sequence[str],
        kinds: Sequence[Any],
        *,
        nested_as_text: bool,
    ) -> None:
        numbered = [f"c{number}" for number in range(len(kinds))]
        exact = [exact_type(kind) for kind in kinds]
        cells = [f"CAST({name} AS {kind})" if kind else name for name, kind in zip(numbered, exact, strict=True)]
        source = f"(\n{_unterminated(statement.query)}\n) AS result({', '.join(numbered)})"
        connection.execute(f"SELECT {', '.join(cells)} FROM {source}", list(params) or None)
        super().__init__(connection, names, kinds, nested_as_text=nested_as_text)


def _unterminated(sql: str) -> str:
    """The statement without the semicolons at its end, which comments may follow."""
    data = sql.encode()
    end = len(data)
    for start, kind in reversed(duckdb.tokenize(sql)):
        if kind == duckdb.token_type.comment:
            continue
        if data[start : start + 1] != b";":
            break
        end = start
    return data[:end].decode()


if __name__ == "__main__":
    main()
