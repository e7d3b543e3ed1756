"""PostgreSQL as a backend of the SQL nodes: psycopg 3 for connections and values, libpq for statements.

Importing this imports psycopg.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader

from rrext.errors import ToolError
from rrext.nodes.postgres import (
    PostgresSettings,
    confined_parameters,
    connection_failure,
    connection_parameters,
    driver_sentence,
)
from rrext.nodes.sql.backend import Backend, Cursor, Failure, FailureKind
from rrext.nodes.sql.libpq import CANCEL_TIMEOUT, ResultStream, ask, settle, tell
from rrext.nodes.sql.placeholders import split_at_placeholders
from rrext.nodes.sql.postgres_schema import read_schema

if TYPE_CHECKING:
    from rrext.nodes.sql.schema import Schema

__all__ = ["PostgresBackend"]

ANSWER_TIMEOUT: Final = 10.0
"""Seconds for the server to answer what takes it no time: begin, rollback, reset. Longer means that it is gone."""

KNOWN_FORMS: Final = (
    "SET LOCAL standard_conforming_strings = on; SET LOCAL DateStyle = 'ISO'; SET LOCAL IntervalStyle = 'iso_8601'; "
    "SET LOCAL bytea_output = 'hex'"
)
"""The gate and the placeholders read literals as the SQL standard has them; so must the server, whatever its settings say.
The others are how values are written that we read."""

AS_TEXT: Final = (
    *("interval", "timetz", "inet", "cidr", "uuid", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
"""Types whose values stay as PostgreSQL writes them: Python's own would lose something, as months of an interval."""

OR_TEXT: Final = ("date", "time", "timestamp", "timestamptz")
"""Types with values that Python's own cannot hold (`infinity`, years before 1 and after 9999): those stay texts."""

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
"""Beginnings of the server's error codes, and what they mean."""

_ABORTED: Final = "25P02"
_LOST: Final = "The next call connects anew. A transaction that was open is rolled back."

log: Final = logging.getLogger("rrext.sql")


class PostgresBackend(Backend):
    """One PostgreSQL database."""

    dialect: ClassVar[str] = "postgres"

    __slots__ = ("_begin_reading", "_begin_writing", "_parameters")

    def __init__(
        self, settings: PostgresSettings, *, statement_timeout: float, path: Callable[[str], str], confined: bool
    ) -> None:
        """`statement_timeout` is in seconds, 0 for none. `path` makes paths of settings absolute, and refuses those outside
        of the root of a `confined` node. Raises `Unavailable` for settings that cannot be used."""
        self._parameters: dict[str, Any] = confined_parameters(connection_parameters(settings), path=path, confined=confined)
        limit = f"SET LOCAL statement_timeout = {round(statement_timeout * 1000)}; {KNOWN_FORMS}"
        # The query takes the transaction's snapshot: from then on nothing can make it a writing one any more.
        self._begin_reading = f"BEGIN READ ONLY; {limit}; SELECT 1".encode()
        self._begin_writing = f"BEGIN READ WRITE; {limit}".encode()

    def connect(self, *, read_only: bool) -> psycopg.Connection[Any]:
        # A server's standby, or a pooler, may forget prepared statements; ours are sent once anyway.
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise connection_failure(error, self._parameters) from None
        _register_types(connection)
        return connection

    def begin(self, connection: Any, *, read_only: bool) -> None:
        self._await_cleaning(connection)
        ask(connection, self._begin_reading if read_only else self._begin_writing, ANSWER_TIMEOUT)

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
        """Lets the server forget settings, roles, temporary tables, locks and channels of the session. It does so at once;
        the next call looks whether it did, so that this one need not wait for it."""
        tell(connection, b"DISCARD ALL")
        return True

    def _await_cleaning(self, connection: Any) -> None:
        if connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            settle(connection, ANSWER_TIMEOUT)
        except psycopg.Error as error:  # as when the session was left with a limit that ends this too
            connection.pgconn.finish()
            raise psycopg.OperationalError("the connection could not be cleaned") from error

    def run(self, connection: Any, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        if params:
            split_at_placeholders(sql, self.dialect, len(params))
        return ResultStream(connection, sql, params)

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

    def read_schema(self, connection: Any) -> Schema:
        return read_schema(connection, self._parameters["dbname"])

    def __repr__(self) -> str:
        return f"<PostgresBackend {self._parameters['host']}:{self._parameters['port']}>"


def _kind_of(code: str) -> FailureKind:
    for beginning, kind in _KINDS:
        if code.startswith(beginning):
            return kind
    return "statement"


def _register_types(connection: psycopg.Connection[Any]) -> None:
    adapters = connection.adapters
    set_json_loads(partial(json.loads, parse_float=Decimal), connection)
    for name in AS_TEXT:
        adapters.register_loader(name, TextLoader)
    for name in OR_TEXT:
        own: type[Any] = adapters.get_loader(adapters.types[name].oid, 0)  # type: ignore[assignment]

        class OrText(Loader):
            """The driver's own loader, and the server's text where that has no value for it."""

            _own = own

            def __init__(self, oid: int, context: Any = None) -> None:
                super().__init__(oid, context)
                self._load = self._own(oid, context).load

            def load(self, data: Any) -> Any:
                try:
                    return self._load(data)
                except psycopg.DataError:
                    return bytes(data).decode()

        adapters.register_loader(name, OrText)
