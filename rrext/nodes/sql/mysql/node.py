"""MySQL and MariaDB as a backend of the SQL nodes, over PyMySQL."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.cells import JsonDocument, bytes_in, json_document
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.sql.backend import Backend, Cursor
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.gate.placeholders import split_at_placeholders
from rrext.nodes.sql.limits import CANCEL_TIMEOUT
from rrext.nodes.sql.mysql.dialect import MYSQL
from rrext.nodes.sql.mysql.rows import MysqlRows
from rrext.nodes.sql.mysql.schema import read_schema
from rrext.nodes.sql.mysql.settings import MysqlSettings, connection_options
from rrext.nodes.sql.mysql.types import DECIMALS, MysqlTypes
from rrext.nodes.sql.node import SqlNode
from rrext.nodes.sql.schema import Schema

if TYPE_CHECKING:
    from ssl import SSLContext

    import pymysql

SPARE_TIME: Final = 30.0
"""Seconds beyond the statement timeout without a message from the server, which then counts as gone."""


RESET_CONNECTION: Final = 0x1F
"""The protocol's command that resets a session completely; PyMySQL has no name for it."""

_CODES: Final[dict[int, FailureKind]] = {
    **dict.fromkeys((1064, 1149, 1065), "syntax"),
    **dict.fromkeys((1969, 3024), "timeout"),
    1317: "cancelled",
    1792: "read_only",
    **dict.fromkeys((1205, 1213, 3572), "locked"),
    **dict.fromkeys((0, 1053, 1927, 2006, 2013, 2014, 2055, 4031), "lost"),
}
"""The server's and the driver's error numbers, and their kinds of failure."""

_HINTS: Final = {
    1044: "Check the node's user and database.",
    1045: "Check the node's user and password.",
    1049: "Check the node's database: it has to exist.",
    1130: "The server lets nobody in from this machine.",
    1698: "Check the node's user and password.",
    2059: "The server wants a way to log in that is not possible here: see sslmode.",
    2026: 'Check the node\'s sslmode and sslrootcert: "prefer" also connects without TLS, "require" only with it.',
}
"""Refusals of a running server, with a hint that a person can act on."""

_LOST: Final = "The next call connects anew. A transaction that was open is rolled back."
_USE: Final = re.compile(r"\buse\b", re.IGNORECASE)

_DEFINES: Final = re.compile(r"\b(?:alter|create|drop|rename)\b", re.IGNORECASE)

log: Final = logging.getLogger("rrext.sql")


class MysqlConnection:
    """A connection with the state of its session."""

    def __init__(self, raw: pymysql.Connection[Any], fresh: str, *, read_only: bool) -> None:
        self.raw = raw
        self.fresh = fresh
        """The statement that sets up a session."""
        self.read_only = read_only
        self.is_changed = False
        """Whether a reset would not make the session what it was when it began."""

    def close(self) -> None:
        """Close the connection, even if rows are unread or it is broken."""
        import pymysql

        with suppress(pymysql.MySQLError):  # the connection is closed already
            self.raw.close()


class MysqlBackend(Backend):
    """One MySQL or MariaDB database. Making it imports PyMySQL.

    Its readers are sessions of their own, as MariaDB commits a read-only transaction for DDL before it looks at it: the
    restrictions of a session hold after that too.
    """

    dialect: ClassVar[SqlDialect] = MYSQL
    separate_readers: ClassVar[bool] = True
    statements_may_commit: ClassVar[bool] = True

    def __init__(self, options: dict[str, Any], *, statement_timeout: float, preferred: SSLContext | None = None) -> None:
        """`options` are those of `pymysql.connect` for the server's address and the user, `preferred` a context of TLS."""
        from pymysql.constants import FIELD_TYPE
        from pymysql.converters import conversions

        own: dict[int, Any] = {FIELD_TYPE.BIT: _bits, FIELD_TYPE.TIME: str, FIELD_TYPE.JSON: _json}
        own |= dict.fromkeys(DECIMALS, str)
        self._types = MysqlTypes()
        self._timeout = statement_timeout
        self._preferred = preferred
        self._options: dict[str, Any] = {
            "charset": "utf8mb4",
            "autocommit": True,
            "local_infile": False,
            "program_name": "rrext",
            "conv": {**conversions, **own},
            **options,
        }

    def connect(self, *, read_only: bool) -> MysqlConnection:
        import pymysql

        silence = self._timeout + SPARE_TIME if self._timeout else None
        try:
            raw = self._raw(read_timeout=silence)
        except (pymysql.MySQLError, OSError, UnicodeError, RuntimeError) as error:
            raise self._unreachable(error) from None
        with raw.cursor() as cursor:
            cursor.execute("SELECT @@sql_mode, VERSION(), @@init_connect")
            row: Any = cursor.fetchone()
            connection = MysqlConnection(raw, self._fresh(row[0], row[1], read_only=read_only), read_only=read_only)
            connection.is_changed = bool(row[2])  # the server runs these statements for a new session alone
            cursor.execute(connection.fresh)
        return connection

    def _raw(self, **more: Any) -> pymysql.Connection[Any]:
        """Connect. A preferred TLS has one context for all connections: the driver's own reads certificates each time."""
        import pymysql

        raw: Any = pymysql.connect(**{**self._options, **more}, defer_connect=True)
        if self._preferred is not None:
            raw.ssl, raw.ctx = True, self._preferred
        raw.connect()
        return raw

    def _fresh(self, modes: str, version: str, *, read_only: bool) -> str:
        is_mariadb = "mariadb" in version.lower()
        only = f"{'tx' if is_mariadb else 'transaction'}_read_only={int(read_only)}"
        # The server's own modes, set again: a call may have changed those of the session.
        settings = [f"sql_mode='{modes}'", only, "autocommit=1"]
        if self._timeout:
            settings.append(
                f"max_statement_time={self._timeout:.3f}" if is_mariadb else f"max_execution_time={self._timeout * 1000:.0f}"
            )
        return ", ".join(["SET NAMES utf8mb4", *(f"SESSION {setting}" for setting in settings)])

    def begin(self, connection: Any, *, read_only: bool) -> None:
        connection.raw.query("START TRANSACTION READ ONLY" if read_only else "START TRANSACTION READ WRITE")

    def commit(self, connection: Any) -> None:
        connection.raw.query("COMMIT")

    def rollback(self, connection: Any) -> None:
        connection.raw.query("ROLLBACK")

    def in_transaction(self, connection: Any) -> bool:
        from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS

        return connection.raw.open and bool(connection.raw.server_status & SERVER_STATUS_IN_TRANS)

    def is_clean(self, connection: Any) -> bool:
        """Reset variables, temporary tables, locks and prepared statements of the session: three short round trips."""
        if connection.is_changed:
            return False
        raw = connection.raw
        raw._execute_command(RESET_CONNECTION, b"")
        raw._read_ok_packet()
        if self._options["database"]:  # a reset takes the character set of the server for that of the database
            raw.select_db(self._options["database"])
        raw.query(connection.fresh)
        return True

    def run(self, connection: Any, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        import pymysql

        text = _bound(connection.raw, sql, params)
        if not connection.read_only:
            if _USE.search(text):
                connection.is_changed = True
            if _DEFINES.search(text):
                self._types.forget()
        try:
            return MysqlRows(connection.raw, text, self._types, lambda: self.cancel(connection))
        except pymysql.MySQLError as error:
            if not connection.read_only and self._kind_of(error) != "lost":
                # An error does not say whether the transaction is over, as after a deadlock: an empty command does.
                with suppress(pymysql.MySQLError):
                    connection.raw.query("DO 0")
            raise

    def cancel(self, connection: Any) -> None:
        import pymysql

        try:
            other = self._raw(connect_timeout=CANCEL_TIMEOUT, read_timeout=CANCEL_TIMEOUT)
        except (pymysql.MySQLError, OSError):
            log.debug("no connection to cancel a statement", exc_info=True)
            return
        try:
            other.query(f"KILL QUERY {int(connection.raw.thread_id())}")
        except pymysql.MySQLError:
            log.debug("a statement could not be cancelled", exc_info=True)
        finally:
            other.close()

    def failure(self, error: Exception) -> Failure | None:
        import pymysql

        if not isinstance(error, pymysql.MySQLError):
            return None
        kind = self._kind_of(error)
        message = _sentence(error) or "the connection is closed"
        return Failure(kind, message, _LOST if kind == "lost" else None)

    def _kind_of(self, error: Exception) -> FailureKind:
        number = error.args[0] if error.args else 0
        return _CODES.get(number, "statement") if isinstance(number, int) else "statement"

    def _unreachable(self, error: Exception) -> Exception:
        options = self._options
        where = options.get("unix_socket") or f"{options['host']}:{options['port']}"
        place = f'MySQL at {where} (database "{options["database"]}", user "{options["user"]}")'
        number = error.args[0] if error.args else None
        hint = _HINTS.get(number) if isinstance(number, int) else None
        if hint is not None:
            return ToolError(f"{place} refused the connection: {_sentence(error)}", code="connection_refused", hint=hint)
        return Unavailable(
            f"{place} cannot be reached: {_sentence(error)}",
            hint="Check the node's host and port, and that the server runs; the next call tries again.",
        )

    def read_schema(self, connection: Any) -> Schema:
        return read_schema(connection.raw, self._options["database"])


def _bound(raw: pymysql.Connection[Any], sql: str, params: Sequence[Any]) -> str:
    """The statement with its values as literals, because MySQL's text protocol has no parameters."""
    if not params:
        text = sql
    else:
        texts, numbers = split_at_placeholders(sql, MYSQL, len(params))
        values = [_literal(raw, value, f"/input/params/{place}") for place, value in enumerate(params)]
        text = texts[0] + "".join(values[number - 1] + after for number, after in zip(numbers, texts[1:], strict=True))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments.at("/input/sql", f"or a parameter is no text: {error.reason}") from None
    return text


def _literal(raw: Any, value: Any, path: str) -> str:
    """A value as a literal of MySQL. `{"base64": …}` means bytes; other objects, and lists, are JSON texts."""
    from pymysql.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES
    from pymysql.converters import escape_string

    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"  # a number with a point alone would be a DECIMAL
    if isinstance(value, dict) and (content := bytes_in(value, path)) is not None:
        return f"x'{content.hex()}'"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if raw.server_status & SERVER_STATUS_NO_BACKSLASH_ESCAPES:  # a session may set that mode itself
        return "'" + text.replace("'", "''") + "'"
    return f"'{escape_string(text)}'"


def _sentence(error: Exception) -> str:
    text = error.args[1] if len(error.args) > 1 else str(error)
    return " ".join(str(text).split())


def _bits(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _json(value: str) -> JsonDocument | str:
    """The value, or its text if an object would change when written back: `{"base64": …}` means bytes."""
    found = json_document(value)
    is_bytes = isinstance(found, JsonDocument) and isinstance(found.value, dict) and [*found.value] == ["base64"]
    return value if is_bytes else found


class MysqlNode(SqlNode):
    """A MySQL or MariaDB database. Reading needs no permission; `allow_execute` adds statements of any kind.

    Give it a user of the database that may not do more than its callers: without the right FILE, above all.
    """

    provider = "db_mysql"
    title = "MySQL and MariaDB"
    sql_dialect = MYSQL

    class Config(SqlNode.Config, MysqlSettings):
        pass

    extra: ClassVar[str] = "mysql"
    packages: ClassVar[tuple[str, ...]] = ("pymysql",)

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> MysqlBackend:
        ctx.require_local_pipeline()
        options, preferred = connection_options(config, ctx.path)
        return MysqlBackend(options, statement_timeout=config.statement_timeout, preferred=preferred)
