"""PostgreSQL as a backend of the SQL nodes: psycopg 3 for connections and values, libpq for statements.

Importing this imports psycopg. The schema and the server's own functions come from queries over its catalog.

The reading role is the role that reading statements run with. The gate refuses functions that are not known. Some run
without being named: of operators, of domains and casts, of `row.function`. In a read-only transaction they can write
nothing, but what a superuser's function may do to files and programs no transaction forbids. So where the server has
`pg_read_all_data`, and the user may become that role, it does.

No answer may change by that. Where it would (row-level security, foreign tables, views that ask who reads), the user
stays who it is; and a statement that asks for the role, or reads what the server shows each role otherwise or only to
some, runs as the user, and sees nothing then but the system's own tables and functions.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from itertools import pairwise, zip_longest
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

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
from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.backend import Backend, Cursor, Schema, schema_of
from rrext.nodes.sql.dialect import ESCAPED_NAME, STRING, SqlDialect, SqlToken
from rrext.nodes.sql.driver_limits import CANCEL_TIMEOUT
from rrext.nodes.sql.gate import refusal
from rrext.nodes.sql.lexer import check_placeholders, tokens
from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.postgres.rows import PostgresConnection, ResultStream, adapters
from rrext.nodes.sql.postgres.types import ParameterType, PostgresTypes, ask, encoded, needs_type, rows_of, send, settle

if TYPE_CHECKING:
    from psycopg import Connection


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
        send(connection, b"DISCARD ALL")
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


_PART: Final = """CASE WHEN {0} OPERATOR(pg_catalog.~) '[."]'
  THEN pg_catalog.concat('"', pg_catalog.replace({0}::pg_catalog.text, '"', '""'), '"') ELSE {0}::pg_catalog.text END"""
_RELATION, _NAMESPACE = _PART.format("{0}.relname"), _PART.format("{0}n.nspname")
_NAME: Final = f"""CASE WHEN pg_catalog.pg_table_is_visible({{0}}.oid) THEN {_RELATION}
  ELSE {_NAMESPACE} OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) {_RELATION} END"""
"""See `shown_name`."""
_IS: Final = "OPERATOR(pg_catalog.=)"
"""Users may have operators and functions of the same names, and the path of the session, which the names in the answer follow,
may lead to them: everything is called by its full name here."""

COLUMNS: Final = f"""
SELECT {_NAME.format("c")}, c.relkind {_IS} ANY ('{{v,m}}'), a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace cn ON cn.oid {_IS} c.relnamespace
LEFT JOIN pg_catalog.pg_attribute a
  ON a.attrelid {_IS} c.oid AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2 AND NOT a.attisdropped
WHERE c.relkind {_IS} ANY ('{{r,p,v,m,f}}') AND NOT c.relispartition
AND cn.nspname OPERATOR(pg_catalog.<>) 'information_schema' AND cn.nspname OPERATOR(pg_catalog.!~) '^pg_'
AND pg_catalog.has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')
ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC, 1, a.attnum"""
"""Every table that the user may do something with, but the parts of partitioned ones."""

_COLUMNS_OF: Final = f"""ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(k.{{0}}) WITH ORDINALITY u(n, i)
    JOIN pg_catalog.pg_attribute a ON a.attrelid {_IS} k.{{1}} AND a.attnum {_IS} u.n ORDER BY u.i)"""
KEYS: Final = f"""
SELECT {_NAME.format("c")}, k.contype {_IS} 'p', {_COLUMNS_OF.format("conkey", "conrelid")},
  {_NAME.format("f")}, {_COLUMNS_OF.format("confkey", "confrelid")}
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid {_IS} k.conrelid
JOIN pg_catalog.pg_namespace cn ON cn.oid {_IS} c.relnamespace
LEFT JOIN pg_catalog.pg_class f ON f.oid {_IS} k.confrelid LEFT JOIN pg_catalog.pg_namespace fn ON fn.oid {_IS} f.relnamespace
WHERE k.contype {_IS} ANY ('{{p,f}}') ORDER BY k.conname"""

FUNCTIONS: Final = """
WITH own AS (
  SELECT proname AS name, pronamespace::regnamespace::text IN ('pg_catalog', 'information_schema') AND oid < 16384
    AND prokind <> 'p' AND provolatile <> 'v' AND proacl IS NULL AND prorettype <> 'void'::regtype
    AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[] AS reads
  FROM pg_catalog.pg_proc
  UNION ALL
  SELECT typname, true FROM pg_catalog.pg_type
  WHERE typnamespace = 'pg_catalog'::regnamespace AND oid < 16384 AND typtype IN ('b', 'r', 'm') AND typcategory <> 'A')
SELECT name FROM own GROUP BY name HAVING pg_catalog.bool_and(reads)"""
"""Functions of the server itself that it marks immutable or stable, and types, which are called as `inet('::1')`.

A name counts only if all functions of that name, in every schema, are so: what a user made may be marked wrongly. Functions
whose right to EXECUTE is restricted read files and settings of the server, those without a result are called for an effect,
and those that take a `cstring` read values of any type by its number, and so run functions of users."""


def read_functions(connection: Connection[Any]) -> frozenset[str]:
    """Functions that only compute or look, by the catalog, without the server's own that do more all the same."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = pg_catalog")  # operators of users may stand in the path before the system's
        found = cursor.execute(FUNCTIONS.encode()).fetchall()
    return frozenset(name for (name,) in found) - (POSTGRES.attributes or frozenset())


def read_schema(connection: Connection[Any], database: str) -> Schema:
    """Read the tables that the user may see. Names outside of the default schemas have their schema as a prefix."""
    with connection.cursor() as cursor:
        columns = cursor.execute(COLUMNS.encode()).fetchall()
        keys = cursor.execute(KEYS.encode()).fetchall()
    return schema_of(database, columns, keys)


READER_CHECKED_AGAIN: Final = 60.0
"""Seconds after which the database is asked again whether the reading role would change answers."""

_ASKING: Final = (
    "current_user|current_role|session_user|user|has_[a-z_]+_privilege|pg_has_role|row_security_active|information_schema|"
    "pg_stat_(?!statements)[a-z_]+|pg_statio_[a-z_]+|pg_stats[a-z_]*|pg_settings|pg_show_all_settings|pg_file_settings|pg_user_mappings?"
)
_ASKS: Final = re.compile(rf"\b(?:{_ASKING}|current_setting)\b", re.IGNORECASE)
_ASKS_WORD: Final = re.compile(rf"(?:{_ASKING})\Z")
_SHOWS: Final = re.compile(r"\s*show\b", re.IGNORECASE)
_OTHER_SETTING: Final = re.compile(
    r"current_setting\s*\(\s*'(?!(?:is_superuser|role|row_security|search_path|session_authorization)')[\w.]+'", re.IGNORECASE
)
"""A setting of the session that is the same for the reading role."""

_PLACES: Final = re.compile(r"current_schemas?\Z|to_reg[a-z]+\Z|current_setting\Z")
_OF_TYPES: Final = re.compile(r"pg_input_[a-z_]+\Z")
"""Functions that read a value of a type which a text names."""

_OPERATOR_SIGNS: Final = frozenset("+-*/<>=~!@#%^&|`?")
_OPERATOR_WORDS: Final = words("between case distinct ilike in like natural nullif similar using")
"""Words that stand for operators, which are looked for by name."""

_AS_USER: Final = b"SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE NONE; SET LOCAL row_security TO DEFAULT; "
_OWN_PATH: Final = b"SET LOCAL search_path TO DEFAULT"
_SYSTEM_ONLY: Final = _AS_USER + b"SET LOCAL search_path = pg_catalog"

_NOT_OF_EXTENSIONS: Final = """NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = '{0}'::pg_catalog.regclass AND d.objid = o.oid AND d.deptype = 'e')"""
_IS_MADE: Final = f"""
SELECT EXISTS (SELECT FROM pg_catalog.json_array_elements_text($1::json) n WHERE
    EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.oid >= 16384 AND o.relname = n::name)
    OR EXISTS (SELECT FROM pg_catalog.pg_type o WHERE o.oid >= 16384 AND o.typname = n::name)
    OR EXISTS (SELECT FROM pg_catalog.pg_proc o WHERE o.oid >= 16384 AND o.proname = n::name
      AND {_NOT_OF_EXTENSIONS.format("pg_catalog.pg_proc")}))
  OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 AND pg_catalog.strpos($2, o.oprname) > 0
    AND {_NOT_OF_EXTENSIONS.format("pg_catalog.pg_operator")})"""
"""Whether one of some names is that of a table, a type or a function that a user made, or some signs have one's operator."""

_POSIX: Final = _ASKING.replace("(?:", "(").replace("(?!statements)", "")
_CHECK: Final = f"""
SELECT CASE
    WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'pg_read_all_data') THEN ''
    WHEN NOT pg_catalog.pg_has_role(session_user, 'pg_read_all_data',
        CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
      OR current_user <> session_user
      OR NOT EXISTS (
        SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
        WHERE p.oid >= 16384 AND l.lanname NOT IN ('internal', 'c')
          AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
      OR EXISTS (SELECT FROM pg_catalog.pg_class WHERE relrowsecurity OR relkind = 'f')
      OR EXISTS (
        SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class >= 16384 AND r.ev_type = '1' AND (
          r.ev_action::text ~ (
            SELECT '[{{]SQLVALUEFUNCTION :op (9|10|11|12) |:funcid (' || pg_catalog.string_agg(p.oid::text, '|') || ') '
            FROM pg_catalog.pg_proc p WHERE p.oid < 16384 AND p.proname ~ '^({_POSIX})$')
          OR r.ev_action::text ~ (
            SELECT ':relid (' || pg_catalog.string_agg(c.oid::text, '|') || ') '
            FROM pg_catalog.pg_class c WHERE c.oid < 16384 AND c.relkind = 'v'
              AND (c.relnamespace = 'information_schema'::regnamespace OR c.relname ~ '^({_POSIX})$'))
          OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
            WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_proc'::regclass
              AND p.prosrc ~* '\\y({_POSIX})\\y')))
    THEN ''
    WHEN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) THEN 'SESSION AUTHORIZATION'
    ELSE 'ROLE' END,
  (SELECT pg_catalog.json_agg(nspname)::text FROM pg_catalog.pg_namespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')),
  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = session_user)
    THEN (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s), ', ')
      FROM pg_catalog.json_array_elements_text($1::json) s) END
"""
"""How a statement becomes the reader, if it should; the schemas that are not the system's; and the path, `$1`, of a user who
has a schema of the same name, which a role of another name would not find."""

_PATH: Final = b"SELECT pg_catalog.to_json(pg_catalog.current_schemas(false))"


class ReadingRole:
    """The reading role of a database. Shared by its connections."""

    def __init__(self) -> None:
        self._checked = float("-inf")
        self._form = ""
        self._schemas: frozenset[str] = frozenset()
        self._path = ""

    def setup(self, connection: Connection[Any]) -> bytes:
        """Statements for the beginning of a reading transaction, after which the reading role runs it; b"" if it should not.

        Asks the database, once in `READER_CHECKED_AGAIN` seconds.
        """
        if monotonic() - self._checked > READER_CHECKED_AGAIN:
            ((schemas,),) = rows_of(connection, _PATH)
            ask(connection, b"SET search_path = pg_catalog")  # operators of users may stand in the path before the system's
            ((form, schemas, path),) = rows_of(connection, _CHECK.encode(), (schemas or "[]").encode())
            ask(connection, b"RESET search_path")
            self._form, self._schemas, self._path = form or "", frozenset(json.loads(schemas or "[]")), path or ""
            self._checked = monotonic()
        if not self._form:
            return b""
        # What row-level security would hide by now is refused then, and not left out.
        path = f"; SET LOCAL search_path = {self._path}" if self._path else ""
        return f"SET LOCAL row_security = off{path}; SET LOCAL {self._form} pg_read_all_data; ".encode()

    def as_user(self, connection: Connection[Any]) -> None:
        """Switch back to the user until the end of the transaction."""
        if self._form:
            ask(connection, _AS_USER + _OWN_PATH)

    @property
    def is_another(self) -> bool:
        """Whether statements run as the reading role."""
        return bool(self._form)

    def prepare(self, connection: Connection[Any], sql: str, *, is_denied: bool = False) -> bool:
        """Let a statement that asks for its role, or one that the role was denied something, run as the user, with access to
        the system's objects only.

        Returns whether names of other objects are out of reach. Raises `ToolError` for a statement that names some.
        """
        if not self._form:
            return False
        if _SHOWS.match(sql):
            ask(connection, _AS_USER + _OWN_PATH)
            return False
        if not is_denied and not _ASKS.search(sql):
            return False
        found = list(tokens(sql, POSTGRES))
        if not is_denied and not any(
            _is_asking(sql, before, token) for before, token in zip([None, *found], found, strict=False)
        ):
            return False
        named = any(
            token.kind == ESCAPED_NAME or (token.kind in ("word", "name") and token.text in self._schemas and after.kind == ".")
            for token, after in pairwise(found)
        )
        said = [token.text for token in found if token.kind == "word"]
        if named or any(map(_OF_TYPES.match, said)):
            raise self.refusal()
        ask(connection, _SYSTEM_ONLY)
        if not self._may_reach(connection, found):
            ask(connection, _OWN_PATH)  # it decides about names in texts that the server writes, as of a view's definition
            return False
        if any(map(_PLACES.match, said)):
            raise self.refusal()
        return True

    def _may_reach(self, connection: Connection[Any], found: list[SqlToken]) -> bool:
        """Whether a name without a schema may be that of something that a user made."""
        names = sorted({token.text for token in found if token.kind in ("word", "name")})
        if not all(map(str.isascii, names)):
            return True  # in some encodings the server folds more letters than the lexer
        signs = "".join(token.kind if token.kind in _OPERATOR_SIGNS else " " for token in found)
        if not _OPERATOR_WORDS.isdisjoint(names):
            signs += " = <> <= >= ~~* !~~*"
        ((is_made,),) = rows_of(connection, _IS_MADE.encode(), json.dumps(names).encode(), signs.encode())
        return is_made != "f"

    def refusal(self) -> ToolError:
        """The error for a statement that needs both: the user's own role and the database's own objects."""
        return ToolError(
            "The statement asks who runs it (current_user, information_schema, pg_stat_…), and names a table, type or function "
            "of the database: read-only statements run as pg_read_all_data there, and would be answered something else",
            code="not_read_only",
            hint="Ask for the role and the catalogs in a statement of their own, or use execute.",
        )


def _is_asking(sql: str, before: SqlToken | None, token: SqlToken) -> bool:
    if before is not None and (before.text == "as" or (before.kind == "." and token.text in ("user", "current_user"))):
        return False
    if token.text == "current_setting":
        return _OTHER_SETTING.match(sql, token.start) is None
    if token.kind == "word":
        return _ASKS_WORD.match(token.text) is not None
    return token.kind == "name" and token.text not in ("user", "current_user") and _ASKS_WORD.match(token.text) is not None
