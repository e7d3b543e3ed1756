"""A connection in the process of a DuckDB database: its transaction and its statement."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb

from rrext.errors import ToolError
from rrext.nodes.databases.failure import Failure
from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.duckdb.instance import DuckdbInstance, ParsedStatement, sentence
from rrext.nodes.sql.duckdb.messages import (
    Answer,
    Ok,
    Request,
    SqlCommit,
    SqlFetch,
    SqlLoad,
    SqlOpen,
    SqlRollback,
    SqlRows,
    SqlRun,
    is_committing,
    is_over,
)
from rrext.nodes.sql.duckdb.rows import ExactRows, ResultRows, needs_exact
from rrext.nodes.sql.duckdb.values import parameters
from rrext.nodes.sql.gate.placeholders import split_at_placeholders

_ABORTED: Final = "Current transaction is aborted"
_TYPED: Final = (str, list, dict, float)
"""Types of JSON values that fit several database types, so that the statement's expected type decides."""


class DuckdbSession:
    """A connection. Its requests run one after the other; only `interrupt` may run meanwhile."""

    def __init__(self, instance: DuckdbInstance) -> None:
        self._instance = instance
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._number: int | None = None  # of the current request
        self._is_stopped = False  # whether it was interrupted
        self._in_transaction = False
        self._reads_only = False
        self._traces = False  # whether a statement of the transaction left some
        self._has_failed = False  # whether a statement of the transaction failed
        self._parsed: ParsedStatement | None = None
        self._rows: ResultRows | None = None

    def do(self, number: int, request: Request) -> Answer | None:
        """Carry out a request; None if it has no answer. Raises DuckDB's errors and rrext's."""
        if self._connection is None:
            self._connection = self._instance.connection()
        with self._lock:
            self._number, self._is_stopped = number, False
        try:
            answer = self._done(self._connection, request)
        except BaseException:
            self._has_failed = True
            self._let_go()
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
                self._let_go()
                if self._in_transaction:
                    self._in_transaction = False
                    self._send(connection, "ROLLBACK")
                return Ok() if request.is_answered else None
            case SqlCommit():
                self._commit(connection)
            case SqlLoad():
                self._instance.load(request.tables)
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
        self._let_go()
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
        self._let_go()
        if request.begin:
            self._begin(connection, read_only=request.begin == "read")
        count = len(request.params)
        known = self._instance.known(request.sql)
        if count and (known is None or known.count != count):
            split_at_placeholders(request.sql, DUCKDB, count)
        parsed = self._parsed = known or self._instance.parsed(connection, request.sql)
        parsed.count = count
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
            self._let_go()
        columns, types = (first.columns, first.types) if first is not None else (None, [])
        return SqlRows(columns, types, taken, is_last, changed, parsed.writes, parsed.leaves_traces)

    def _let_go(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()

    def interrupt(self, number: int | None = None) -> None:
        """Make one request fail soon, if it is still running; any request with None."""
        with self._lock:
            if self._number is None or number not in (None, self._number) or self._connection is None:
                return
            self._is_stopped = True
            self._connection.interrupt()

    def close(self) -> None:
        """Roll back and close the connection."""
        self._let_go()
        connection, self._connection = self._connection, None
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
        return Failure("statement", "out of memory: a value is too large", _MORE_MEMORY)
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
            return Failure("statement", message, _MORE_MEMORY)
        case duckdb.TransactionException() if "read-only" in message:
            return Failure("read_only", message)
        case duckdb.TransactionException() if "onflict" in message:
            return Failure("locked", message, "Another transaction changed the same rows: roll back and begin anew.")
        case duckdb.TransactionException() if _ABORTED in message:
            return Failure("statement", message, "A statement in this transaction failed: roll it back.")
    return Failure("statement", message)


_MORE_MEMORY: Final = 'The operator may raise "memory_limit" in the settings of the node.'
