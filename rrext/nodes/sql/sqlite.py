"""`db_sqlite`: an SQLite file, or a database in memory, with the SQLite that comes with Python.

SQLite reports each table, function and PRAGMA that a statement uses to a callback, the authorizer. So SQLite's own parser
is the read-only gate, and the connection, which is opened with `mode=ro`, is the second wall. The declared types of a
result's columns come from a temporary view of the statement: Python's driver does not report them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol
from urllib.parse import quote
from weakref import ref

import msgspec

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.cells import bytes_in, rows_within
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.word_lists import words
from rrext.nodes.sql.backend import Backend, Column, Cursor, ForeignKey, Schema, SqlTable
from rrext.nodes.sql.dialect import (
    BACKTICKED_NAME,
    BLOCK,
    LINE,
    LINE_COMMENT,
    LIST,
    LITERAL,
    NUMBERED,
    PLAIN_NUMBER,
    PLAIN_WORD,
    QUERIES,
    QUOTED_NAME,
    SIGN,
    SPACES,
    STRAIGHT,
    TORN,
    SqlDialect,
)
from rrext.nodes.sql.driver_limits import KEPT_STATEMENTS, LONGEST_KEPT
from rrext.nodes.sql.gate import refusal
from rrext.nodes.sql.lexer import check_placeholders, split_at_placeholders, without_names
from rrext.nodes.sql.node import SqlNode

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


LONGEST_VALUE: Final = 64 * 1024 * 1024
"""Bytes of one text or blob, and of one statement: SQLite allows 1 GB, which one `randomblob` would take of the memory."""

LARGEST_HEAP: Final = 512 * 1024 * 1024
"""Bytes of all SQLite in the process. A row may have thousands of such values; statements that need more fail."""

MANY_VALUES: Final = 200
"""Placeholders of a statement beyond which the search for their names takes SQLite longer than all else."""

CACHED_STATEMENTS: Final = 256
"""Prepared statements that a connection keeps; programs repeat a few dozen."""

MEMORY: Final = ":memory:"

_READS_ONLY: Final = re.compile(r"(?:\s|--[^\n]*+|/\*.*?\*/)*+(?:SELECT|VALUES|EXPLAIN|PRAGMA)\b", re.DOTALL | re.IGNORECASE)
_GIVES_NO_ROWS: Final = re.compile(r"(?:\s|--[^\n]*+|/\*.*?\*/)*+(?:INSERT|REPLACE|UPDATE|DELETE)\b", re.DOTALL | re.IGNORECASE)
_SYNTAX: Final = re.compile(r"syntax error|incomplete input|unrecognized token")

_KINDS: Final[dict[int, FailureKind]] = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_INTERRUPT: "cancelled",
    sqlite3.SQLITE_CANTOPEN: "unreachable",
    sqlite3.SQLITE_CORRUPT: "unreachable",
    sqlite3.SQLITE_NOTADB: "unreachable",
    sqlite3.SQLITE_IOERR: "unreachable",
    sqlite3.SQLITE_PERM: "unreachable",
}
_HINTS: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: "Another transaction writes. Try again, or roll back this one and begin anew.",
}


class FileGone(Exception):
    """The path leads to another file than the one that a connection has open."""


class SqliteConnection(sqlite3.Connection):
    """A connection with the state of its transaction."""

    file: tuple[int, int] | None = None
    """Device and inode of its file."""
    is_fresh: bool = False
    """Whether its transaction has run no statement yet."""
    has_temporary: bool = False
    """Whether the connection has temporary objects, which no other connection sees."""
    refused: str | None = None
    """The last action that the authorizer refused."""


class SqliteCursor(sqlite3.Cursor):
    """A cursor that holds little of large rows."""

    types_of: Callable[[int], Sequence[str | None]]
    """Looks up the types of that many columns."""

    @property
    def types(self) -> Sequence[str | None]:
        return self.types_of(len(self.description)) if self.description else ()

    @property
    def warnings(self) -> Sequence[str]:
        return ()

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        taken: list[Any] = []
        try:
            return rows_within(self, size or 1, taken)
        except sqlite3.OperationalError as error:
            if self.connection.text_factory is not str or "decode" not in str(error):
                raise
        # The driver stays at the row with a text that is not UTF-8. To have a function of Python for every text would be slow.
        self.connection.text_factory = _text_or_bytes
        return taken or rows_within(self, size or 1)


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


SQLITE: Final = SqlDialect(
    name="sqlite",
    patterns=(
        SPACES, LIST, PLAIN_NUMBER, NUMBERED, TORN, LINE, BLOCK, PLAIN_WORD, STRAIGHT,
        r'(?P<name>["`])', r"(?P<bracketed>\[)", r"(?P<other>\?\d*+|[:@#$][A-Za-z_][\w$]*+)", SIGN,
    ),
    literals=rf"{LINE_COMMENT}|{LITERAL}|{QUOTED_NAME}|{BACKTICKED_NAME}|\[[^\]]*(?:\]|\Z)",
    queries=QUERIES | {"pragma"},
    open_comments=True,
)  # fmt: skip


class SqliteBackend(Backend):
    """Readers open the file with `mode=ro`, and an authorizer lets them do nothing but read."""

    dialect = SQLITE
    separate_readers = True
    reusable_after_cancel = True

    def __init__(self, path: str, *, create: bool, lock_timeout: float, foreign_keys: bool, shown: str = "") -> None:
        """`path` is absolute, or `:memory:`. `shown` is its name in messages, as in the node's settings."""
        self._shown = shown or path
        self._folder: TemporaryDirectory[str] | None = None
        self._is_memory = path == MEMORY
        if self._is_memory:
            import tempfile

            # SQLite's own databases in memory let nobody read while a transaction writes. A private file, of which
            # nothing is ever forced to the disk, is as fast, and readers and the writer do not wait for each other.
            self._folder = tempfile.TemporaryDirectory(prefix="rrext-sqlite-")
            path, create = os.path.join(self._folder.name, "memory.db"), True
        self._path = path
        self._create = create
        self._lock_timeout = lock_timeout
        self._foreign_keys = foreign_keys
        self._uri = f"file:{quote(path)}"
        self._types = SqliteTypes(self._for_types)

    def connect(self, *, read_only: bool) -> SqliteConnection:
        if not os.path.exists(self._path):
            self._make_file()
        connection = self._opened("ro" if read_only else "rw")
        try:
            self._prepare(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_file(self) -> None:
        if not self._create:
            raise Unavailable(
                f'There is no database file "{self._shown}"',
                hint='Set "create": true in the settings to begin with an empty one.',
            )
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        except OSError as error:
            raise Unavailable(f'The folder of "{self._shown}" cannot be made: {error.strerror}') from error
        connection = self._opened("rwc")
        try:
            # With a write-ahead log, readers and the writer do not wait for each other. An existing file keeps its mode.
            connection.execute("PRAGMA journal_mode=WAL")
        finally:
            connection.close()

    def _opened(self, mode: str) -> SqliteConnection:
        return sqlite3.connect(
            f"{self._uri}?mode={mode}",
            uri=True,
            timeout=self._lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
            factory=SqliteConnection,
        )

    def _for_types(self) -> SqliteConnection:
        connection = self._opened("ro")
        connection.execute("PRAGMA busy_timeout=0")  # types are not worth waiting for a lock
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.file = self._file()
        return connection

    def _prepare(self, connection: SqliteConnection, *, read_only: bool) -> None:
        connection.file = self._file()
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.execute(f"PRAGMA hard_heap_limit={LARGEST_HEAP}")
        connection.execute("PRAGMA trusted_schema=OFF")
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        else:
            connection.execute(f"PRAGMA foreign_keys={'ON' if self._foreign_keys else 'OFF'}")
            if self._is_memory:
                connection.execute("PRAGMA synchronous=OFF")
        connection.set_authorizer(reader_may(connection) if read_only else writer_may(connection))

    def _file(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    def close(self) -> None:
        self._types.close()
        if self._folder is not None:
            self._folder.cleanup()

    # transactions

    def begin(self, connection: SqliteConnection, *, read_only: bool) -> None:
        try:
            is_same = connection.file == self._file()
        except OSError:
            is_same = False
        if not is_same:
            raise FileGone
        connection.is_fresh = True
        connection.execute("BEGIN")

    def commit(self, connection: SqliteConnection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: SqliteConnection) -> None:
        connection.execute("ROLLBACK")

    def in_transaction(self, connection: SqliteConnection) -> bool:
        return connection.in_transaction

    def is_clean(self, connection: SqliteConnection) -> bool:
        return not connection.has_temporary

    # statements

    def run(self, connection: SqliteConnection, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        text, values = with_values(sql, params) if params else (sql, ())
        if not read_only and connection.is_fresh and not _READS_ONLY.match(sql):
            # A transaction that begins by writing takes its lock at once, and waits for it: one that read first and
            # writes later cannot wait, since what it has read may have changed.
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        connection.is_fresh = False
        connection.refused = None
        try:
            connection.text_factory = str
            cursor = connection.cursor(SqliteCursor)
            cursor.types_of = partial(self._types.of, connection, sql, len(params))
            return cursor.execute(text, values)
        except sqlite3.DatabaseError as error:
            if connection.refused is None or getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_AUTH:
                raise
            if read_only:
                raise refusal(connection.refused) from None
            raise ToolError(f"The statement is refused: {connection.refused}", code="sql_failed") from None

    def cancel(self, connection: SqliteConnection) -> None:
        connection.interrupt()

    def explain(self, sql: str) -> str:
        return f"EXPLAIN QUERY PLAN {sql}"

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, FileGone):
            return Failure("lost", "the file was replaced or removed")
        if isinstance(error, UnicodeEncodeError):
            return Failure("syntax", "a text has a character that is none (a lone surrogate)")
        if isinstance(error, UnicodeDecodeError):
            return Failure("statement", "the name of a column, or a text in SQLite's message, is not UTF-8")
        if isinstance(error, MemoryError):
            return Failure("statement", f"out of memory: SQLite may use {LARGEST_HEAP // 2**20} MB", "Ask for less at once.")
        if not isinstance(error, sqlite3.Error | sqlite3.Warning):
            return None
        message = str(error)
        code: int | None = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return self._failure_of_module(error, message)
        kind = _KINDS.get(code & 0xFF, "statement")
        if kind == "statement" and _SYNTAX.search(message):
            kind = "syntax"
        if kind == "unreachable":
            message = f'{message} ("{os.path.basename(self._shown)}")'
        return Failure(kind, message, _HINTS.get(code & 0xFF))

    def _failure_of_module(self, error: Exception, message: str) -> Failure:
        """The failure for an error of Python's sqlite3 module itself."""
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.Warning):
            return Failure("lost" if "closed" in message else "syntax", message)
        return Failure("statement", message)

    def read_schema(self, connection: SqliteConnection) -> Schema:
        name = MEMORY if self._is_memory else os.path.basename(self._shown)
        return read_schema(connection, name)


def with_values(sql: str, params: Sequence[Any]) -> tuple[str, Mapping[str, Any] | Sequence[Any]]:
    """The statement and its values as the driver takes them.

    SQLite looks for the name of each placeholder among all others: 15,000 of them take a second. So where there are many,
    and no column is named after one, they go without names.
    """
    bound = [value if type(value) is str else _bound(value, place) for place, value in enumerate(params)]
    if len(params) >= MANY_VALUES and _GIVES_NO_ROWS.match(sql) and "RETURNING" not in sql.upper():
        text, numbers = without_names(sql, SQLITE, len(params))
        if len(numbers) == len(params):
            return text, [bound[number - 1] for number in numbers]
    else:
        check_placeholders(sql, SQLITE, len(params))
    return sql, {str(number): value for number, value in enumerate(bound, 1)}  # SQLite's name for $1 is 1


def _bound(value: Any, place: int) -> Any:
    """A value for SQLite; `{"base64": …}` means bytes."""
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return value
        raise InvalidArguments.at(f"/input/params/{place}", "SQLite's integers have 64 bits: pass it as text")
    if not isinstance(value, list | dict):
        return value
    path = f"/input/params/{place}"
    if isinstance(value, dict) and (content := bytes_in(value, path)) is not None:
        return content
    raise InvalidArguments.at(path, 'SQLite has no such values: pass them as JSON text, and bytes as {"base64": "…"}')


class SqliteNode(SqlNode):
    """An SQLite database. Reading needs no permission; `allow_execute` adds statements of any kind.

    Transactions see what others committed, and one writes at a time: a second one waits for `lock_timeout`.
    """

    provider = "db_sqlite"
    title = "SQLite"
    sql_dialect = SQLITE

    class Config(SqlNode.Config):
        path: Annotated[
            str, "The database file; a relative path begins at --root, or else at the folder of the pipeline's file. "
            '":memory:" is a private one that is gone when the pipeline is unloaded.'
        ] = MEMORY  # fmt: skip
        create: Annotated[bool, "Begin with an empty file if there is none."] = False
        lock_timeout: Annotated[
            float, msgspec.Meta(ge=0, le=600), "Seconds that a statement waits for another transaction's lock."
        ] = 5.0
        foreign_keys: Annotated[bool, "Enforce the foreign keys of the tables."] = True

    extra: ClassVar[str] = "sql"
    paths = {"path": "file"}
    no_paths = frozenset({MEMORY})

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.path != MEMORY and not config.create and not os.path.exists(path(config.path)):
            yield "path", f'There is no database file "{config.path}"; "create": true would begin with an empty one.'

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> SqliteBackend:
        path = config.path if config.path == MEMORY else ctx.path(config.path)
        return SqliteBackend(
            path,
            create=config.create,
            lock_timeout=config.lock_timeout,
            foreign_keys=config.foreign_keys,
            shown=ctx.shown(config.path),
        )


_ASKING_PRAGMAS: Final = words(
    """table_info table_xinfo table_list index_info index_xinfo index_list foreign_key_list foreign_key_check integrity_check
    quick_check"""
)
"""PRAGMAs that only report something about the object that their value names."""

_TELLING_PRAGMAS: Final = _ASKING_PRAGMAS | words(
    """analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check
    checkpoint_fullfsync collation_list compile_options data_version defer_foreign_keys encoding foreign_keys
    freelist_count fullfsync function_list hard_heap_limit ignore_check_constraints journal_mode journal_size_limit
    legacy_alter_table locking_mode max_page_count mmap_size module_list page_count page_size pragma_list query_only
    read_uncommitted recursive_triggers reverse_unordered_selects schema_version secure_delete soft_heap_limit synchronous
    temp_store threads trusted_schema user_version wal_autocheckpoint writable_schema"""
)
"""PRAGMAs that only report something when they have no value. Others act, as `optimize` does, or show the file's path."""

_OF_THE_FILE: Final = frozenset({"application_id", "user_version", "defer_foreign_keys"})
"""PRAGMAs that a statement of any kind may set: the end of the transaction undoes them."""

_READS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
_NEVER: Final = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
"""Actions on other files than the one of the settings: always refused."""

_MAKES_TEMPORARY: Final = frozenset(
    {
        sqlite3.SQLITE_CREATE_TEMP_INDEX,
        sqlite3.SQLITE_CREATE_TEMP_TABLE,
        sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
        sqlite3.SQLITE_CREATE_TEMP_VIEW,
    }
)
_PREPARED: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_INNER_TABLES: Final = (
    *("sqlite_master", "sqlite_temp_master", "_node", "_rowid", "_parent", "_content", "_segments", "_segdir", "_docsize"),
    *("_stat", "_data", "_idx", "_config"),
)
"""How tables end for which a virtual table prepares writes when it is opened, also to be read: R-tree does. They never run:
who writes such a table meets the connection's `mode=ro`."""

_REFUSED_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})

_ACTIONS: Final = {
    sqlite3.SQLITE_INSERT: "INSERT writes",
    sqlite3.SQLITE_UPDATE: "UPDATE writes",
    sqlite3.SQLITE_DELETE: "DELETE writes",
    sqlite3.SQLITE_ATTACH: "ATTACH opens another file",
    sqlite3.SQLITE_DETACH: "DETACH closes a file",
}


class AuthorizedConnection(Protocol):
    """A connection with an authorizer: `refused` is the last action that it refused."""

    refused: str | None
    has_temporary: bool


def reader_may(connection: AuthorizedConnection) -> Callable[..., int]:
    """The authorizer of a connection that only reads."""
    owner = ref(connection)  # a weak reference, because SQLite holds the authorizer: no reference circle

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action in _READS or (action in _PREPARED and (first or "").endswith(_INNER_TABLES)):
            return _function(owner, action, second)
        if action == sqlite3.SQLITE_PRAGMA:
            return _pragma(owner, first, second, _ASKING_PRAGMAS)
        return _answer(owner, False, _ACTIONS.get(action, "it changes the database"))

    return may


def writer_may(connection: AuthorizedConnection) -> Callable[..., int]:
    """The authorizer of a connection for statements of any kind."""
    owner = ref(connection)

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        if action == sqlite3.SQLITE_PRAGMA:
            return _pragma(owner, first, second, _ASKING_PRAGMAS | _OF_THE_FILE)
        if action in _MAKES_TEMPORARY and (made_on := owner()) is not None:
            made_on.has_temporary = True
        if action in _NEVER:
            return _answer(owner, False, _ACTIONS[action])
        return _function(owner, action, second)

    return may


def _pragma(owner: ref[AuthorizedConnection], name: str | None, value: str | None, with_value: frozenset[str]) -> int:
    name = (name or "").lower()
    what = f"PRAGMA {name} acts" if value is None else f"PRAGMA {name} with a value changes a setting"
    if name == "database_list":
        what = "PRAGMA database_list tells where the file is, which is nobody's business"
    return _answer(owner, name in (_TELLING_PRAGMAS if value is None else with_value), what)


def _function(owner: ref[AuthorizedConnection], action: int, name: str | None) -> int:
    name = (name or "").lower() if action == sqlite3.SQLITE_FUNCTION else ""
    return _answer(owner, name not in _REFUSED_FUNCTIONS, f'the function "{name}" reaches files')


def _answer(owner: ref[AuthorizedConnection], is_allowed: bool, what: str) -> int:
    if is_allowed:
        return sqlite3.SQLITE_OK
    asked = owner()
    if asked is not None:
        asked.refused = what
    return sqlite3.SQLITE_DENY


_NAMES: Final = """
SELECT name, type = 'view' FROM sqlite_master
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"""
_SHADOWS: Final = "SELECT name FROM pragma_table_list WHERE type = 'shadow' AND schema = 'main'"
"""Tables in which a virtual table, such as a full-text index, keeps its data."""

_HIDDEN: Final = 1
"""The value of `table_xinfo` for columns that are arguments of a virtual table."""


def read_schema(connection: sqlite3.Connection, database: str) -> Schema:
    """Read every table and view of the file. `problem` explains those that SQLite cannot read, as a view of a dropped table,
    and those with a column whose name is not UTF-8."""
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        shadows = {name for (name,) in connection.execute(_SHADOWS)}
    except sqlite3.OperationalError:  # SQLite before 3.37 does not report them
        shadows = set()
    names = connection.execute(_NAMES).fetchall()
    connection.text_factory = str
    return Schema(
        database, {name: _table(connection, name, is_view=bool(is_view)) for name, is_view in names if name not in shadows}
    )


def _table(connection: sqlite3.Connection, name: str, *, is_view: bool) -> SqlTable:
    try:
        rows = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
        keys = connection.execute(f"PRAGMA foreign_key_list({_quoted(name)})").fetchall()
    except sqlite3.DatabaseError as error:
        return SqlTable(name, (), is_view=is_view, problem=str(error))
    columns = tuple(Column(row[1], row[2]) for row in rows if row[6] != _HIDDEN)
    primary = tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])
    return SqlTable(name, columns, primary, _foreign_keys(connection, keys), is_view)


def _foreign_keys(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> tuple[ForeignKey, ...]:
    found: dict[int, tuple[str, list[str], list[str | None]]] = {}
    for number, _, table, column, reference, *_ in rows:
        _, columns, references = found.setdefault(number, (table, [], []))
        columns.append(column)
        references.append(reference)
    return tuple(
        ForeignKey(tuple(columns), table, _referenced(connection, table, references))
        for table, columns, references in reversed(found.values())
    )


def _referenced(connection: sqlite3.Connection, table: str, columns: list[str | None]) -> tuple[str, ...]:
    """The columns that a foreign key references; the other table's primary key if it names none."""
    if None not in columns:
        return tuple(name for name in columns if name is not None)
    rows = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    return tuple(row[1] for row in sorted(rows, key=lambda row: row[5]) if row[5])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_VIEWS: Final = frozenset({sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_DROP_TEMP_VIEW})
_CHANGES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_OWN_TABLES: Final = frozenset({"sqlite_temp_master", "sqlite_temp_schema", "described"})


class SqliteTypes:
    """The column types of the statements of one database. Uses a connection of its own that runs no caller's statement."""

    def __init__(self, opened: Callable[[], SqliteConnection]) -> None:
        """`opened` opens a read-only connection."""
        self._open = opened
        self._lock = threading.Lock()
        self._connection: SqliteConnection | None = None
        self._statements: dict[tuple[int, str], list[str | None] | None] = {}

    def of(self, connection: SqliteConnection, sql: str, parameters: int, count: int) -> list[str | None]:
        """The types of the columns of a statement with that many parameters and columns; None for an expression.

        All are None for a statement that is no query, and where the connection has changed tables and committed nothing
        yet.
        """
        found: list[str | None] | None = None
        if len(sql) <= LONGEST_KEPT:
            with self._lock:
                found = self._known(connection, sql, parameters)
        return found if found is not None and len(found) == count else [None] * count

    def _known(self, asking: SqliteConnection, sql: str, parameters: int) -> list[str | None] | None:
        try:
            own = self._connection
            if own is None or own.file != asking.file:
                self.close()
                own = self._connection = self._open()
                _authorize(own)
            version = _version(own)
            if version != _version(asking):
                return None
            if (version, sql) not in self._statements:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                texts, _ = split_at_placeholders(sql, SQLITE, parameters) if parameters else ([sql], None)
                self._statements[version, sql] = _described(own, "NULL".join(texts))
            return self._statements[version, sql]
        except (sqlite3.Error, OSError):
            return None

    def close(self) -> None:
        """Close the connection and drop the cache."""
        self._statements.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA schema_version").fetchone()[0]


def _described(connection: sqlite3.Connection, sql: str) -> list[str | None] | None:
    connection.execute("SELECT 1 FROM main.sqlite_master LIMIT 1").fetchone()  # makes SQLite read the current schema
    try:
        connection.execute(f"CREATE TEMP VIEW described AS {sql}")
    except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError):
        return None
    try:
        return [row[2] or None for row in connection.execute("PRAGMA temp.table_info(described)")]
    except sqlite3.Error:
        return None
    finally:
        connection.execute("DROP VIEW temp.described")


def _authorize(connection: sqlite3.Connection) -> None:
    """Allow only to create, inspect and drop a view of any query."""
    connection.execute("PRAGMA temp_store=MEMORY")

    def may(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
        is_allowed = (
            action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
            or action in _VIEWS
            or (action in _CHANGES and (first or "") in _OWN_TABLES)
            or (action == sqlite3.SQLITE_PRAGMA and first in ("schema_version", "table_info"))
        )
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    connection.set_authorizer(may)
