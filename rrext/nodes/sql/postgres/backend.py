"""PostgreSQL as a backend of the SQL nodes: psycopg 3 for connections and values, libpq for statements.

Importing this imports psycopg.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Final

import psycopg
from psycopg.pq import TransactionStatus

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.postgres import (
    PostgresSettings,
    confined_parameters,
    connection_failure,
    connection_parameters,
    driver_sentence,
)
from rrext.nodes.sql.backend import Backend, Cursor
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.gate.inspection import refusal
from rrext.nodes.sql.gate.lexer import tokens
from rrext.nodes.sql.gate.placeholders import check_placeholders
from rrext.nodes.sql.gate.tokens import STRING
from rrext.nodes.sql.limits import CANCEL_TIMEOUT
from rrext.nodes.sql.postgres.connection import PostgresConnection, adapters
from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.postgres.libpq import ask, settle, tell
from rrext.nodes.sql.postgres.params import encoded, needs_type
from rrext.nodes.sql.postgres.reading_role import ReadingRole
from rrext.nodes.sql.postgres.rows import ResultStream
from rrext.nodes.sql.postgres.schema import read_functions, read_schema
from rrext.nodes.sql.postgres.types import ParameterType, PostgresTypes
from rrext.nodes.sql.schema import Schema

ANSWER_TIMEOUT: Final = 10.0
"""Seconds for the server to answer quick statements: begin, rollback, reset. After that it counts as gone."""

_KINDS: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("57014", "cancelled"),
    ("55P03", "locked"),
    ("40P01", "locked"),
    ("25006", "read_only"),
    ("42601", "syntax"),
    ("57P0", "lost"),
    ("25P03", "lost"),
    ("57P05", "lost"),
    ("08", "lost"),
)
"""Prefixes of the server's error codes, and their kinds of failure."""

NOT_THERE: Final = frozenset({"42P01", "42883", "42704"})
"""The error codes of a missing table, function and type."""

DENIED: Final = "42501"
"""The error code of a missing privilege."""

_ABORTED: Final = "25P02"
_LOST: Final = "The next call connects anew. A transaction that was open is rolled back."

log: Final = logging.getLogger("rrext.sql")


class PostgresBackend(Backend):
    """One PostgreSQL database."""

    dialect: ClassVar[SqlDialect] = POSTGRES

    def __init__(
        self, settings: PostgresSettings, *, statement_timeout: float, path: Callable[[str], str], confined: bool
    ) -> None:
        """`statement_timeout` is in seconds, 0 for none. `path` makes paths of settings absolute, and refuses those outside
        of the root of a `confined` node. Raises `Unavailable` for settings that cannot be used."""
        self._parameters: dict[str, Any] = confined_parameters(connection_parameters(settings), path=path, confined=confined)
        self._types = PostgresTypes()
        self._reader = ReadingRole()
        # Should rrext be killed, the server ends its statements. All other settings of the session are the caller's.
        limit = f"; SET LOCAL statement_timeout = {round(statement_timeout * 1000)}" if statement_timeout else ""
        self._begin_reading = f"BEGIN READ ONLY{limit}; ".encode()
        self._begin_writing = f"BEGIN READ WRITE{limit}".encode()

    def connect(self, *, read_only: bool) -> PostgresConnection:
        # A server's standby, or a pooler, may drop prepared statements; rrext sends each of its own once anyway.
        try:
            return PostgresConnection.connect(**self._parameters, autocommit=True, prepare_threshold=None, context=adapters())
        except psycopg.Error as error:
            raise connection_failure(error, self._parameters) from None

    def begin(self, connection: Any, *, read_only: bool) -> None:
        self._await_cleaning(connection)
        if not read_only:
            ask(connection, self._begin_writing, ANSWER_TIMEOUT)
            return
        # The query takes the transaction's snapshot: from then on the transaction cannot become a writing one.
        ask(connection, self._begin_reading + self._reader.setup(connection) + b"SELECT 1", ANSWER_TIMEOUT)

    def commit(self, connection: Any) -> None:
        if connection.pgconn.transaction_status == TransactionStatus.INERROR:
            # The server would answer COMMIT with a rollback, and call that a success.
            raise ToolError(
                "The transaction cannot be committed: a statement in it failed",
                code="transaction_aborted",
                hint="Roll it back, and begin another one.",
            )
        ask(connection, b"COMMIT")

    def rollback(self, connection: Any) -> None:
        ask(connection, b"ROLLBACK", ANSWER_TIMEOUT)

    def in_transaction(self, connection: Any) -> bool:
        status = connection.pgconn.transaction_status
        return status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def is_clean(self, connection: Any) -> bool:
        """Let the server reset settings, roles, temporary tables, locks and channels of the session. Does not wait for the
        answer: the next call checks it."""
        tell(connection, b"DISCARD ALL")
        return True

    def _await_cleaning(self, connection: Any) -> None:
        if connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            settle(connection, ANSWER_TIMEOUT)
        except psycopg.Error as error:  # as when the session still has a limit that ends this statement too
            connection.pgconn.finish()
            raise psycopg.OperationalError("the connection could not be cleaned") from error

    def run(self, connection: Any, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        text = _encoded(sql)
        if params:
            check_placeholders(sql, self.dialect, len(params))
        if read_only and "\\" in sql and connection.pgconn.parameter_status(b"standard_conforming_strings") == b"off":
            _check_backslashes(sql)
        is_narrow = read_only and self._reader.prepare(connection, sql)
        try:
            return self._started(connection, sql, text, params)
        except psycopg.Error as error:
            if params:
                self._types.forget()
            if is_narrow and error.sqlstate in NOT_THERE:
                raise self._reader.refusal() from error
            if error.sqlstate != DENIED or not read_only or not self._reader.is_another:
                raise
            return self._as_user(connection, sql, text, params, error)

    def _started(self, connection: PostgresConnection, sql: str, text: bytes, params: Sequence[Any]) -> ResultStream:
        values = self._bound(connection, sql, text, params) if params else ()
        return ResultStream(connection, text, values, self._types)

    def _as_user(
        self, connection: PostgresConnection, sql: str, text: bytes, params: Sequence[Any], denied: psycopg.Error
    ) -> ResultStream:
        """Run a statement again that the reading role was denied something of the system, as a setting or a view."""
        ask(connection, b"ROLLBACK; " + self._begin_reading + b"SELECT 1", ANSWER_TIMEOUT)
        try:
            self._reader.prepare(connection, sql, is_denied=True)
            return self._started(connection, sql, text, params)
        except (ToolError, psycopg.Error) as error:
            if isinstance(error, psycopg.Error) and error.sqlstate not in NOT_THERE:
                raise
            raise denied from None

    def _bound(
        self, connection: PostgresConnection, sql: str, text: bytes, params: Sequence[Any]
    ) -> list[tuple[bytes | None, int]]:
        expected: Sequence[ParameterType | None] = ()
        if any(map(needs_type, params)):  # the server infers the types of other texts itself
            expected = self._types.parameters(connection, sql, text)
        try:
            pairs = zip_longest(params, expected)
            return [encoded(value, kind, f"/input/params/{place}") for place, (value, kind) in enumerate(pairs)]
        except RecursionError:
            raise InvalidArguments.at("/input/params", "has lists or objects too deep in each other") from None

    def cancel(self, connection: Any) -> None:
        try:
            connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        except psycopg.Error:
            log.debug("a statement could not be cancelled", exc_info=True)

    def failure(self, error: Exception) -> Failure | None:
        if not isinstance(error, psycopg.Error):
            return None
        code = error.sqlstate or ""
        if not code and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            reason = driver_sentence(error).removeprefix("consuming input failed: ")
            return Failure("lost", reason, _LOST)
        kind, message = _kind_of(code), driver_sentence(error)
        if message.startswith("bind message supplies"):
            return Failure("syntax", "the statement has placeholders, but there are no params")
        if kind == "cancelled" and "statement timeout" in message:
            kind = "timeout"
        elif kind == "cancelled" and "lock timeout" in message:
            kind = "locked"
        position = error.diag.statement_position
        if position and kind in ("syntax", "statement"):
            message += f" (at character {position})"
        hint = error.diag.message_hint
        if code == _ABORTED:
            hint = "A statement in this transaction failed: roll it back."
        elif kind == "lost":
            hint = _LOST
        return Failure(kind, message, hint)

    def functions(self, connection: Any) -> frozenset[str]:
        return read_functions(connection)

    def read_schema(self, connection: Any) -> Schema:
        self._reader.as_user(connection)  # the user owns the tables that it creates
        return read_schema(connection, self._parameters["dbname"])


def _check_backslashes(sql: str) -> None:
    """Refuse a statement that this server reads otherwise than the gate did: one with a backslash in a plain literal."""
    found = list(tokens(sql, POSTGRES))
    ends = [*(token.start for token in found[1:]), len(sql)]
    for token, end in zip(found, ends, strict=True):
        if token.kind == STRING and sql[token.start] == "'" and "\\" in sql[token.start : end]:
            raise refusal(
                "by standard_conforming_strings = off, which this server has, a backslash may end a literal here",
                hint="Write the literal as E'…', with the backslash twice, or pass the value as a parameter.",
            )


def _encoded(sql: str) -> bytes:
    if "\0" in sql:  # libpq would take it for the end of the statement
        raise InvalidArguments.at("/input/sql", "has a NUL character in it, which PostgreSQL cannot hold")
    try:
        return sql.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments.at("/input/sql", f"is no text: {error.reason} at {error.start}") from None


def _kind_of(code: str) -> FailureKind:
    for beginning, kind in _KINDS:
        if code.startswith(beginning):
            return kind
    return "statement"
