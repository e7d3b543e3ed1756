"""`db_duckdb`: DuckDB, over a database file or over CSV, Parquet and JSON files that the settings name."""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from rrext.engine.setup import SetupContext
from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.sql.backend import Backend, Cursor, Failure
from rrext.nodes.sql.cells import rows_within
from rrext.nodes.sql.duckdb_schema import read_schema
from rrext.nodes.sql.node import SqlNode
from rrext.nodes.sql.placeholders import split_at_placeholders
from rrext.nodes.sql.schema import Schema

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckdbBackend", "DuckdbNode"]

MEMORY: Final = ":memory:"
KEPT_STATEMENTS: Final = 512
"""Parsed statements that are kept; programs repeat a few dozen."""
LONGEST_KEPT: Final = 16 * 1024
"""Characters of a statement that is kept; longer ones take so long that parsing does not matter."""

_READERS: Final = {
    ".csv": "read_csv", ".tsv": "read_csv", ".txt": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json", ".jsonl": "read_json", ".ndjson": "read_json",
}  # fmt: skip
_PACKED: Final = (".gz", ".zst")

_CHANGES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO"})
_GIVES_ROWS: Final = _CHANGES | {"SELECT", "EXPLAIN", "CALL", "PRAGMA", "RELATION", "SHOW", "EXECUTE"}
_LEAVES_NOTHING: Final = _CHANGES | {"SELECT", "EXPLAIN"}
"""Statements after which a connection is as it was. Others may make temporary tables, variables, a search path."""


class Link:
    """A connection, and what DuckDB does not say of it."""

    __slots__ = ("connection", "in_transaction", "is_clean")

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.in_transaction = False
        self.is_clean = True

    def close(self) -> None:
        self.connection.close()

    def __repr__(self) -> str:
        return "<Link in a transaction>" if self.in_transaction else "<Link>"


class RowCursor:
    """The rows of a statement. DuckDB answers a number of changed rows as if it were a row: here it is none."""

    __slots__ = ("_connection", "_counts", "_rows")

    def __init__(self, connection: duckdb.DuckDBPyConnection, kind: str) -> None:
        self._connection = connection
        self._counts = kind in _CHANGES
        self._rows = 0

    @property
    def description(self) -> Sequence[Sequence[Any]] | None:
        return self._connection.description

    @property
    def types(self) -> Sequence[str | None]:
        return [None for _ in self.description or ()]

    @property
    def warnings(self) -> Sequence[str]:
        return ()

    @property
    def rowcount(self) -> int:
        return self._rows if self._counts else -1

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        rows = rows_within(iter(self._connection.fetchone, None), size)
        self._rows += len(rows)
        return rows

    def close(self) -> None:
        return


class Done:
    """The end of a statement that gives no rows."""

    __slots__ = ("rowcount",)
    description = None
    types: Sequence[str | None] = ()
    warnings: Sequence[str] = ()

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        return ()

    def close(self) -> None:
        return


class DuckdbBackend(Backend):
    """One DuckDB instance. Its connections are the instance's own, so that they share tables and the cache.

    Before the first statement of a caller runs, access to files, networks and extensions is closed and the configuration
    locked, for statements of every kind. A database file of a node that may not write is opened read-only.
    """

    dialect = "duckdb"

    def __init__(
        self, path: str, *, files: Mapping[str, str], create: bool, writes: bool, memory_limit: str, threads: int
    ) -> None:
        """`path` and those of `files`, table name → file, are absolute; `path` may be `:memory:`."""
        import duckdb

        self._duckdb = duckdb
        self._path = path
        self._files = files
        self._create = create
        self._writes = writes
        self._config: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,  # else a table name finds Python's own variables
            "memory_limit": memory_limit,
            **({"threads": threads} if threads else {}),
        }
        self._lock = threading.Lock()
        self._statements: dict[str, duckdb.Statement] = {}
        self._root: duckdb.DuckDBPyConnection | None = None

    def connect(self, *, read_only: bool) -> Link:
        with self._lock:
            if self._root is not None and not self._is_alive(self._root):
                self._root.close()
                self._root = None
            if self._root is None:
                self._root = self._opened()
            return Link(self._root.cursor())

    def _is_alive(self, root: duckdb.DuckDBPyConnection) -> bool:
        """After an inner error, DuckDB refuses everything until the database is opened anew."""
        try:
            root.execute("SELECT 1").fetchall()
        except self._duckdb.Error:
            return False
        return True

    def _require_creating(self) -> None:
        if not (self._create and self._writes):
            raise Unavailable(
                f'There is no database file "{self._path}"',
                hint='Set "create" and "allow_execute" to true in the settings to begin with an empty one.',
            )
        os.makedirs(os.path.dirname(self._path), exist_ok=True)

    def _opened(self) -> duckdb.DuckDBPyConnection:
        is_file = self._path != MEMORY
        if is_file and not os.path.exists(self._path):
            self._require_creating()
        try:
            root = self._duckdb.connect(self._path, read_only=is_file and not self._writes, config=self._config)
        except self._duckdb.Error as error:
            raise self._not_opened(_sentence(error)) from error
        try:
            for table, file in self._files.items():
                self._load(root, table, file)
            # Nothing is written beside the database: what does not fit into memory_limit fails.
            for setting in ("temp_directory=''", "enable_external_access=false", "lock_configuration=true"):
                root.execute(f"SET {setting}")
        except BaseException:
            root.close()
            raise
        return root

    def _not_opened(self, message: str) -> Unavailable:
        if "Could not set lock" in message:  # DuckDB goes on with paths and processes of this machine
            name = os.path.basename(self._path)
            return Unavailable(
                f'The database cannot be used: another process has "{name}" open',
                hint="DuckDB lets several processes have a file open only if all of them open it to read.",
            )
        return Unavailable(f"The database cannot be used: {message}")

    def _load(self, root: duckdb.DuckDBPyConnection, table: str, file: str) -> None:
        reader = _reader(file)
        try:
            if not os.path.isfile(file):
                raise FileNotFoundError("there is no such file")
            # A file's name is no pattern, whatever stands in it.
            path = glob.escape(file).replace("'", "''")
            root.execute(f"CREATE TABLE {_quoted(table)} AS SELECT * FROM {reader}('{path}')")
        except (self._duckdb.Error, OSError) as error:
            raise Unavailable(f'The table "{table}" cannot be made from "{file}": {_sentence(error)}') from error

    def close(self) -> None:
        self._statements.clear()
        with self._lock:
            if self._root is not None:
                self._root.close()
                self._root = None

    # transactions

    def begin(self, connection: Link, *, read_only: bool) -> None:
        self._send(connection, "BEGIN TRANSACTION READ ONLY" if read_only else "BEGIN TRANSACTION")
        connection.in_transaction = True

    def commit(self, connection: Link) -> None:
        connection.in_transaction = False  # a commit that fails has rolled back
        self._send(connection, "COMMIT")

    def rollback(self, connection: Link) -> None:
        connection.in_transaction = False
        self._send(connection, "ROLLBACK")

    def _send(self, connection: Link, sql: str) -> None:
        connection.connection.execute(self._parsed(connection.connection, sql))

    def in_transaction(self, connection: Link) -> bool:
        return connection.in_transaction

    def is_clean(self, connection: Link) -> bool:
        return connection.is_clean

    # statements

    def run(self, connection: Link, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        if params:
            split_at_placeholders(sql, self.dialect, len(params))
        raw = connection.connection
        statement = self._parsed(raw, sql)
        kind = statement.type.name
        connection.is_clean = connection.is_clean and kind in _LEAVES_NOTHING
        raw.execute(statement, params or None)
        changed = raw.rowcount
        return Done(changed) if changed >= 0 or kind not in _GIVES_ROWS else RowCursor(raw, kind)

    def _parsed(self, connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
        """The one statement of a text. A text that was seen before is not parsed again, which is a fifth of a short query."""
        found = self._statements.get(sql)
        if found is None:
            statements = connection.extract_statements(sql)
            if len(statements) != 1:
                raise InvalidArguments.at("/input/sql", f"has {len(statements)} statements: expected one")
            found = statements[0]
            if len(sql) <= LONGEST_KEPT:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                self._statements[sql] = found
        return found

    def cancel(self, connection: Link) -> None:
        connection.connection.interrupt()

    def failure(self, error: Exception) -> Failure | None:
        driver = self._duckdb
        if isinstance(error, UnicodeEncodeError):
            return Failure("syntax", "a text has a character that is none (a lone surrogate)")
        if not isinstance(error, driver.Error):
            return None
        message = _sentence(error)
        match error:
            case driver.ParserException():
                return Failure("syntax", message)
            case driver.InterruptException():
                return Failure("cancelled", message)
            case driver.FatalException() | driver.ConnectionException():
                return Failure("lost", message)
            case driver.OutOfMemoryException():
                return Failure("statement", message, 'The operator may raise "memory_limit" in the settings of the node.')
            case driver.TransactionException() if "read-only" in message:
                return Failure("read_only", message)
            case driver.TransactionException() if "onflict" in message:
                return Failure("locked", message, "Another transaction changed the same rows: roll back and begin anew.")
        return Failure("statement", message)

    def read_schema(self, connection: Link) -> Schema:
        return read_schema(connection.connection)

    def __repr__(self) -> str:
        return f"<DuckdbBackend {self._path}>"


def _reader(file: str) -> str:
    stem, extension = os.path.splitext(file.lower())
    if extension in _PACKED:
        extension = os.path.splitext(stem)[1]
    reader = _READERS.get(extension)
    if reader is None:
        known = ", ".join(_READERS)
        raise Unavailable(f'"{file}" cannot be loaded: its name ends with none of {known}', hint='".gz" may follow.')
    return reader


def _sentence(error: Exception) -> str:
    """What DuckDB says, without the lines in which it repeats the statement."""
    return str(error).partition("\n\nLINE ")[0].strip()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class DuckdbNode(SqlNode):
    """A DuckDB database for analytic queries. Reading needs no permission; `allow_execute` adds statements of any kind.

    `files` are read into tables in memory when the database is first used; later changes of them are not seen. Other
    files, networks and extensions are out of reach for every statement. An interval's months count 30 days each.
    """

    provider = "db_duckdb"
    title = "DuckDB"

    class Config(SqlNode.Config):
        path: Annotated[
            str, "The database file; a relative path begins at --root, or else at the folder of the pipeline's file. "
            '":memory:" is one that lives as long as the pipeline is loaded.'
        ] = MEMORY  # fmt: skip
        files: Annotated[
            dict[str, str], "Name of a table → CSV, TSV, Parquet or JSON file that it is made from; not together with a path."
        ] = {}
        create: Annotated[bool, "Begin with an empty file if there is none."] = False
        memory_limit: Annotated[str, "Memory of the database, its tables and queries; what needs more fails."] = "1GB"
        threads: Annotated[
            int, msgspec.Meta(ge=0, le=1024), "Threads of the database; 0: as many as the machine has processors."
        ] = 0

    extra: ClassVar[str] = "duckdb"
    packages: ClassVar[tuple[str, ...]] = ("duckdb", "pytz")  # the driver makes timestamps with a time zone of pytz

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> DuckdbBackend:
        if config.files and config.path != MEMORY:
            raise Unavailable(
                f'Node "{ctx.node_id}" has both "path" and "files": files become tables in memory, beside no other database',
                hint="Use two nodes, or load the files into the database once, with a program of your own.",
            )
        return DuckdbBackend(
            config.path if config.path == MEMORY else ctx.path(config.path),
            files={table: ctx.path(file) for table, file in config.files.items()},
            create=config.create,
            writes=config.allow_execute,
            memory_limit=config.memory_limit,
            threads=config.threads,
        )
