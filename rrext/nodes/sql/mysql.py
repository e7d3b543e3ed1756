"""MySQL and MariaDB as a backend of the SQL nodes, over PyMySQL: the dialect, the settings of connections, the schema in two
queries over the information schema, the node.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.cells import JsonDocument, bytes_in, json_document
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.sql.backend import Backend, Cursor, Schema, schema_of
from rrext.nodes.sql.dialect import (
    BACKTICKED_NAME,
    BLOCK,
    ESCAPED_LITERAL,
    EXPLAIN_WORDS,
    KEYWORDS,
    LIST,
    NAME,
    NUMBERED,
    PLAIN_NUMBER,
    PLAIN_WORD,
    QUERIES,
    SIGN,
    SPACES,
    STRAIGHT,
    SqlDialect,
    SqlToken,
    opening,
)
from rrext.nodes.sql.dialect import WORD as A_WORD
from rrext.nodes.sql.driver_limits import CANCEL_TIMEOUT
from rrext.nodes.sql.lexer import split_at_placeholders
from rrext.nodes.sql.mysql_values import DECIMALS, MysqlRows, MysqlTypes
from rrext.nodes.sql.node import SqlNode
from rrext.secrets.names import authority_of

if TYPE_CHECKING:
    from ssl import SSLContext

    import pymysql
    from pymysql import Connection


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


_NUMBER: Final = PLAIN_NUMBER.replace("_]", "]")
"""`1_000` is a name in MySQL."""

_COMMENT: Final = r"(?:--(?=[\x00-\x20\x7f]|\Z)|\#)[^\n\r]*+"
_TORN: Final = rf"(?P<torn>{_COMMENT}\r(?!\n)|\$?\d|@[\w.$]*+[\x80-\U0010ffff])"
_VARIABLE: Final = r"(?P<variable>@(?![@`'\"])[\w.$]*+)"
"""A variable of a session in MySQL: dots belong to its name."""

_KEYWORDS: Final = words("""
against columns convert default distinctrow div force ignore index json_table key keys mediumtext match mod path partitions
persistent regexp returning rlike sounds straight_join use xor system_time nested partition recursive
""")

_FUNCTIONS: Final = words_of(__file__, "mysql_functions.txt")


def _shows(tokens: Sequence[SqlToken]) -> bool:
    match opening(tokens):
        case "show", _:
            names = [token.text for token in tokens[1:4] if token.kind == A_WORD and token.text not in _MODIFIERS]
            return bool(names) and names[0] in _SHOWN
        case "describe" | "desc" | "explain", second:
            if not second or tokens[1].kind == NAME:
                return bool(second)
            return second not in _DESCRIBED and (len(tokens) == 2 or second not in EXPLAIN_WORDS)
        case "check", "table" | "view":
            return all(token.text in _CHECKS for token in _options(tokens))
        case "checksum", "table":
            return True
        case "help", _:
            return len(tokens) == 2
    return False


MYSQL: Final = SqlDialect(
    name="mysql",
    patterns=(
        SPACES, LIST, _NUMBER, NUMBERED, _TORN, rf"(?P<line>{_COMMENT})", BLOCK, PLAIN_WORD, STRAIGHT,
        r'(?P<name>["`])', _VARIABLE, r"(?P<other>\?)", SIGN,
    ),
    literals=rf"--(?=\s|\Z)[^\n]*|\#[^\n]*|{ESCAPED_LITERAL}|\"(?:[^\"\\]|\\(?:.|\Z)|\"\")*(?:\"|\Z)|{BACKTICKED_NAME}",
    queries=QUERIES | {"table"},
    quote="`",
    functions=_FUNCTIONS,
    keywords=KEYWORDS | _KEYWORDS,
    own_schemas=frozenset(),
    shows=_shows,
    explains=frozenset({"explain", "analyze", "describe", "desc"}),
    sql_modes=True,
    reserved_words=True,
    assignment=True,
)  # fmt: skip


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


SslMode = Literal["disable", "prefer", "require", "verify-ca", "verify-full"]


class MysqlSettings:
    """The address of a MySQL or MariaDB server, the user and the password. The base of the `Config` of nodes that use one."""

    url: Annotated[
        str, "`mysql://user:password@host:3306/database?sslmode=require`; the other settings fill what it leaves out."
    ] = ""
    host: Annotated[str, "Name or address of the server."] = "localhost"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535), "Port of the server."] = 3306
    database: Annotated[str, "Name of the database."] = ""
    user: Annotated[str, "Who connects."] = "root"
    password: Annotated[str, "The user's password; best as `${ROCKETRIDE_…}`, filled from the environment."] = ""
    socket: Annotated[str, "File of the server's socket, in place of host and port; below the root if there is one."] = ""
    sslmode: Annotated[SslMode, "Whether TLS is used, and what is verified, by PostgreSQL's names."] = "prefer"
    sslrootcert: Annotated[str, "File of the certificates that sign the server's; without it, the machine's own."] = ""
    sslcert: Annotated[str, "File of the certificate that we show to the server, if it wants one."] = ""
    sslkey: Annotated[str, "File of that certificate's key."] = ""
    connect_timeout: Annotated[
        float, msgspec.Meta(gt=0, le=600), "Seconds for one attempt to connect: a server that is there answers in one."
    ] = 10.0


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
    def machine_files(cls, config: Any) -> Iterable[str]:
        return (name for name in ("socket", "sslrootcert", "sslcert", "sslkey") if getattr(config, name))

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> MysqlBackend:
        ctx.require_local_pipeline()
        options, preferred = connection_options(config, ctx.path)
        return MysqlBackend(options, statement_timeout=config.statement_timeout, preferred=preferred)


_SHOWN: Final = words(
    """all authors binary binlog character charset client_statistics collation columns contributors count create databases
    engine engines errors events fields function grants index index_statistics indexes keys locales master open package
    plugins privileges procedure processlist profile profiles relaylog replica schemas slave status storage table
    table_statistics tables triggers user_statistics variables warnings"""
)
"""Objects of MySQL's SHOW, after FULL, EXTENDED, GLOBAL or SESSION."""

_MODIFIERS: Final = frozenset({"full", "extended", "global", "session", "local"})
_DESCRIBED: Final = words(
    """select with values table insert update delete replace merge for call create alter drop set do load truncate"""
)
"""Words after DESCRIBE that explain a statement instead of describing a table."""

_CHECKS: Final = frozenset({"quick", "fast", "medium", "extended", "changed"})


def _options(tokens: Sequence[SqlToken]) -> list[SqlToken]:
    """The words behind the last name of `CHECK TABLE a, b.c QUICK FAST`."""
    at = 2
    while at < len(tokens):
        at += 1
        if at < len(tokens) and tokens[at].kind in (".", ","):
            at += 1
        else:
            break
    return list(tokens[at:])


IN_URL: Final = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout"})
"""Parameters that may follow `?` in a URL. No option file, no socket, no init command."""


def connection_options(settings: MysqlSettings, path: Callable[[str], str]) -> tuple[dict[str, Any], SSLContext | None]:
    """Keyword arguments for `pymysql.connect`, complete: no option file and no account of this machine changes their meaning;
    and the context of TLS that is only preferred.

    `path` makes paths absolute and refuses those that the node may not use. Raises `Unavailable` for an invalid URL,
    and for unreadable certificates.
    """
    given = {name: getattr(settings, name) for name in _names()} | _parts_of(settings.url)
    options: dict[str, Any] = {
        "host": given["host"],
        "port": int(given["port"]),
        "user": given["user"],
        "password": str(given["password"]).encode(),  # PyMySQL would refuse letters beyond Latin-1
        "database": given["database"] or None,
        "connect_timeout": float(given["connect_timeout"]),
    }
    if given["socket"]:
        options["unix_socket"] = path(given["socket"])
    if given["sslmode"] in ("disable", "prefer"):
        options["auth_plugin_map"] = dict.fromkeys(("mysql_clear_password", "dialog"), _no_clear_text)
        options["ssl_disabled"] = True
        return options, _preferred() if given["sslmode"] == "prefer" else None
    options["ssl"] = _tls(given, path)
    return options, None


def _preferred() -> SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _no_clear_text(connection: object) -> object:
    """Refuses clear-text password authentication on a connection without required TLS."""
    from pymysql.err import OperationalError

    raise OperationalError(2059, "the server wants the password in clear text, which needs sslmode=require or more")


def _names() -> list[str]:
    return [name for name in MysqlSettings.__annotations__ if name != "url"]


def _parts_of(url: str) -> dict[str, Any]:
    """The parameters of a URL. No message contains its text, because it may hold the password."""
    if not url:
        return {}
    try:
        authority_of(url)
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        found = {
            "host": parts.hostname,
            "port": parts.port,
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path.removeprefix("/")),
            **query,
        }
        if parts.scheme.partition("+")[0] not in ("mysql", "mariadb") or not 0 < float(query.get("connect_timeout", 1)) <= 600:
            raise ValueError
    except ValueError:
        raise Unavailable(
            'The "url" of this node is no URL of a MySQL database',
            hint="Write it as mysql://user:password@host:3306/database, with signs such as @ and / percent-encoded.",
        ) from None
    unknown = sorted(query.keys() - IN_URL)
    if unknown:
        raise Unavailable(
            f'The "url" of this node may not set {", ".join(unknown)}', hint=f"It may set {', '.join(sorted(IN_URL))}."
        )
    if query.get("sslmode", "prefer") not in SslMode.__args__:
        raise Unavailable(
            'The "url" of this node sets an sslmode that does not exist', hint=f"There are {', '.join(SslMode.__args__)}."
        )
    return {name: value for name, value in found.items() if value not in (None, "")}


def _tls(given: dict[str, Any], path: Callable[[str], str]) -> SSLContext:
    import ssl

    mode = given["sslmode"]
    try:
        context = ssl.create_default_context(cafile=path(given["sslrootcert"]) if given["sslrootcert"] else None)
        # The certificates that MySQL generates fail the strict check.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = mode == "verify-full"
        context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
        if given["sslcert"]:
            context.load_cert_chain(path(given["sslcert"]), path(given["sslkey"]) if given["sslkey"] else None)
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(
            f"The certificates of this node cannot be used: {error.strerror or error}",
            hint="Check sslrootcert, sslcert and sslkey: files in PEM format.",
        ) from None
    return context


COLUMNS: Final = """
SELECT t.TABLE_NAME, t.TABLE_TYPE LIKE '%VIEW', c.COLUMN_NAME, c.COLUMN_TYPE
FROM information_schema.TABLES t JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_TYPE <> 'SEQUENCE'
ORDER BY t.TABLE_NAME, c.ORDINAL_POSITION"""

KEYS: Final = """
SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME,
  IF(REFERENCED_TABLE_SCHEMA = DATABASE(), REFERENCED_TABLE_NAME,
     CONCAT(REFERENCED_TABLE_SCHEMA, '.', REFERENCED_TABLE_NAME)), REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = DATABASE() AND (CONSTRAINT_NAME = 'PRIMARY' OR REFERENCED_TABLE_NAME IS NOT NULL)
ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION"""


def read_schema(raw: Connection[Any], database: str | None) -> Schema:
    """The tables and views of the database that the connection uses."""
    with raw.cursor() as cursor:
        cursor.execute(COLUMNS)
        columns = cursor.fetchall()
        cursor.execute(KEYS)
        parts = [list(group) for _, group in groupby(sorted(cursor.fetchall(), key=itemgetter(0, 1)), key=itemgetter(0, 1))]
    keys = [(rows[0][0], rows[0][3] is None, [row[2] for row in rows], rows[0][3], [row[4] for row in rows]) for rows in parts]
    return schema_of(database or "", columns, keys)
