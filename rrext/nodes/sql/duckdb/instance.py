"""The instance of DuckDB in its process: its restrictions, the tables of its files, and its parsed statements."""

from __future__ import annotations

import os
import re
import resource
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import duckdb

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.sql.driver_limits import KEPT_STATEMENTS, LONGEST_KEPT
from rrext.nodes.sql.duckdb.copies import copy_table
from rrext.nodes.sql.duckdb.endings import OWN_SCHEMAS, holds_tables
from rrext.nodes.sql.duckdb.files import literal, reading, weight
from rrext.nodes.sql.duckdb.messages import MEMORY, DuckdbSettings, SqlCopy, SqlPrepare
from rrext.nodes.sql.duckdb.text_tables import quoted, write_parquet

MORE_MEMORY: Final = 'The operator may raise "memory_limit" in the settings of the node.'
"""The hint where memory was short."""

FILE_LEAVING: Final = 1.0
"""Seconds to wait for a file that another process has locked: a killed server's process is about to end."""

OPEN_AGAIN: Final = 0.05
"""Seconds between attempts to open the file."""

MAKING_TURN: Final = 0.05
"""Seconds between checks whether a copy that waits for another one, or for files, was interrupted."""

HEAPS: Final = 3
HEAP_BASE: Final = 1024**3
"""A DuckDB process may have `HEAPS` times `memory_limit` plus `HEAP_BASE` bytes, for what DuckDB's allocator keeps mapped but
unused, values that `memory_limit` does not count, Python's own, and a second instance while files are read. Ordinary work
within a limit of 200 MB, 1 GB and 3 GB, in eight connections at once, mapped 2.8, 2.8 and 0.8 times the limit at most."""

COPIED_SHARE: Final = 8
"""The part of `memory_limit` that the files of copied tables may have on the disk, so that queries have the rest."""

MOST_COPIED: Final = 128 * 1024**2
"""Bytes that the files of copied tables may have at most: to copy more takes longer than one query that reads it."""

_OPEN_SETTINGS: Final = "allowed_configs=['enable_progress_bar', 'enable_progress_bar_print']"
"""Each connection has to ask for its progress."""

_CHANGES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO"})
_GIVES_ROWS: Final = _CHANGES | {"SELECT", "EXPLAIN", "CALL", "PRAGMA", "RELATION", "SHOW", "EXECUTE", "MULTI"}
_LEAVES_NOTHING: Final = _CHANGES | {"SELECT", "EXPLAIN"}
"""Statements after which a connection is as it was. Others may make temporary tables, variables, a search path."""

_INCOMING: Final = '"rrext: rows of files"'
_UNITS: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


class ParsedStatement:
    """A parsed statement with its kind and parameters.

    `count` is how many parameters it was last seen to take; `parameter_types` are those that it says itself, by number.
    `is_exact` says that its rows need `rows.ExactRows`; None: not known yet.
    """

    __slots__ = ("count", "is_exact", "kind", "parameter_types", "statement")

    def __init__(self, statement: duckdb.Statement) -> None:
        self.statement = statement
        self.kind: str = statement.type.name
        self.count = 0
        self.is_exact: bool | None = None if self.kind == "SELECT" else False
        self.parameter_types: Mapping[str, Any] | None = None

    @property
    def counts_changes(self) -> bool:
        """Whether the statement answers a number of changed rows."""
        return self.kind in _CHANGES

    @property
    def gives_rows(self) -> bool:
        """Whether the statement may give rows."""
        return self.kind in _GIVES_ROWS

    @property
    def leaves_traces(self) -> bool:
        """Whether the statement may change the connection's state, or the meaning of later statements."""
        return self.kind not in _LEAVES_NOTHING

    @property
    def writes(self) -> bool:
        """Whether the statement may change the database, by its kind. EXPLAIN ANALYZE runs the statement that it explains."""
        return self.kind != "SELECT"


_OWN_VIEWS: Final = """
SELECT view_name FROM duckdb_views() WHERE NOT internal AND schema_name = 'main' AND database_name = current_database()"""
_COPIED_TABLES: Final = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1 AND NOT internal"


class InstanceConnection(NamedTuple):
    """A connection, with the first connection of its instance: the end of the first one closes the others."""

    cursor: duckdb.DuckDBPyConnection
    root: duckdb.DuckDBPyConnection


class DuckdbInstance:
    """One instance, opened by the first connection. Its connections share tables, the cache and parsed statements.

    Before the first statement of a caller runs, access to files, networks and extensions is closed and the configuration
    locked, for statements of every kind. A database file of a node that may not write is opened read-only. `on_open` is
    told of the instance when it is open.
    """

    def __init__(self, settings: DuckdbSettings, on_open: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None) -> None:
        self._settings = settings
        self._on_open = on_open
        self._lock = threading.Lock()
        self._statements: dict[str, ParsedStatement] = {}
        self._root: duckdb.DuckDBPyConnection | None = None
        self._files: dict[str, Sequence[str]] = {}
        self._readable: frozenset[str] = frozenset()
        self._memory = 0
        self._making = threading.Lock()
        """Held while tables are made, so that none is missing in the next instance."""

    def connection(self) -> InstanceConnection:
        """Open another connection. Raises `Unavailable` if that fails."""
        with self._lock:
            if self._root is None:
                self._root = self._opened(())
                self._memory = memory_of(self._root)
                self._on_open(self._root)
            connection, root = self._root.cursor(), self._root
        for setting in ("enable_progress_bar_print=false", "enable_progress_bar=true"):
            connection.execute(f"SET {setting}")
        return InstanceConnection(connection, root)

    def is_former(self, connection: InstanceConnection) -> bool:
        """Whether another instance has taken the place of that of a connection."""
        return connection.root is not self._root

    @property
    def reads_files(self) -> bool:
        """Whether it reads files where they are."""
        return bool(self._readable)

    def close(self) -> None:
        """Close the instance, once its connections are closed."""
        with self._lock:
            if self._root is not None:
                self._root.close()

    def _opened(self, readable: Collection[str]) -> duckdb.DuckDBPyConnection:
        settings = self._settings
        is_file = settings.path != MEMORY
        if is_file and not os.path.exists(settings.path):
            self._require_creating()
        root = self._connected(settings.path, read_only=is_file and not settings.writes)
        try:
            if readable:
                os.chdir(settings.folder)
                root.execute(f"SET allowed_paths = [{', '.join(map(literal, sorted(readable)))}]")
            for name in settings.attached:
                root.execute(f"ATTACH ':memory:' AS {quoted(name)}")
            # Nothing is written beside the database: data beyond memory_limit fails.
            for setting in ("temp_directory=''", "enable_external_access=false", _OPEN_SETTINGS, "lock_configuration=true"):
                root.execute(f"SET {setting}")
        except BaseException:
            root.close()
            raise
        return root

    def _connected(self, path: str, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        until = monotonic() + FILE_LEAVING
        while True:
            try:
                return duckdb.connect(path, read_only=read_only, config=self._config())
            except duckdb.Error as error:
                message = sentence(error)
                if "Could not set lock" not in message:
                    raise Unavailable(f"The database cannot be used: {message}") from error
                if monotonic() > until:  # DuckDB goes on with paths and processes of this machine
                    raise Unavailable(
                        f'The database cannot be used: another process has "{os.path.basename(path)}" open',
                        hint="DuckDB lets several processes have a file open only if all of them open it to read.",
                    ) from error
            sleep(OPEN_AGAIN)

    def _config(self) -> dict[str, Any]:
        settings = self._settings
        return {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,  # else a table name finds Python's own variables
            "arrow_lossless_conversion": True,  # how rows get from one instance or connection to another
            "memory_limit": settings.memory_limit,
            "threads": settings.threads or _processors(),
        }

    def _require_creating(self) -> None:
        settings = self._settings
        if not (settings.create and settings.writes):
            raise Unavailable(
                f'There is no database file "{settings.shown}"',
                hint='Set "create" and "allow_execute" to true in the settings to begin with an empty one.',
            )
        os.makedirs(os.path.dirname(settings.path), exist_ok=True)

    def load(self, tables: Mapping[str, Sequence[str]]) -> None:
        """Make tables anew from files, all or none.

        The rows of small files come over from a second instance, which lives as long as this takes. The instance itself reads
        the large files alone, which each query reads where they are. An instance is told at its opening which files it may
        read, so that a further large file needs another instance, with all tables. Raises `Unavailable`.
        """
        with self._making:
            self._load(tables)

    def _load(self, tables: Mapping[str, Sequence[str]]) -> None:
        self._files.update(tables)
        large = {} if self._settings.writes else self._large()
        readable = frozenset(chain.from_iterable(large.values()))
        root = None if readable <= self._readable else self._opened(readable)
        connection = self.connection().cursor if root is None else root.cursor()
        try:
            self._make(connection, tables if root is None else self._files, large)
            if root is not None:
                self._bring_copies(connection)
        except BaseException:
            if root is not None:
                root.close()
            raise
        finally:
            connection.close()
        if root is not None:
            with self._lock:  # connections keep the former one, which would close them
                self._root, self._readable = root, readable

    def _bring_copies(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Bring the tables of attached databases to a connection of another instance."""
        former = self.connection().cursor
        try:
            for database in self._settings.attached:
                found = former.execute(_COPIED_TABLES, [database]).fetchall()
                for schema, table in found:
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}.{quoted(schema)}")
                    place = f"{quoted(database)}.{quoted(schema)}.{quoted(table)}"
                    _take(connection, former.sql(f"FROM {place}"), place)
        finally:
            former.close()

    def _large(self) -> dict[str, Sequence[str]]:
        """The tables that are not copied: the largest, as far as all together are too much."""
        room = min(self._memory // COPIED_SHARE, MOST_COPIED)
        tables = {table: weight(files) for table, files in self._files.items() if not holds_tables(files[0])}
        large: dict[str, Sequence[str]] = {}
        for table, size in sorted(tables.items(), key=lambda entry: entry[1]):
            room -= size
            if room < 0:
                large[table] = self._files[table]
        return large

    def _make(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Mapping[str, Sequence[str]],
        large: Mapping[str, Sequence[str]],
    ) -> None:
        loader = self._loader()
        try:
            connection.execute("BEGIN TRANSACTION")
            views = {name for (name,) in connection.execute(_OWN_VIEWS).fetchall()}
            for table, files in tables.items():
                try:
                    if holds_tables(files[0]):
                        self._load_all(connection, loader, table, files[0])
                        continue
                    if table in large or table in views:
                        connection.execute(f"DROP {'VIEW' if table in views else 'TABLE'} IF EXISTS {quoted(table)}")
                    if table in large:
                        named = [f"./{os.path.relpath(file, self._settings.folder)}" for file in files]
                        connection.execute(f"CREATE VIEW {quoted(table)} AS {reading(named, allowed=True)}")
                    else:
                        _take(connection, loader.sql(reading(files)), quoted(table))
                except (duckdb.Error, Unavailable) as error:
                    said = error.message if isinstance(error, Unavailable) else sentence(error)
                    for file in files:
                        said = said.replace(file, os.path.basename(file))
                    hint = MORE_MEMORY if isinstance(error, duckdb.OutOfMemoryException) else None
                    raise Unavailable(f'The table "{table}" cannot be made from its files: {said}', hint=hint) from error
            connection.execute("COMMIT")
        except duckdb.Error as error:
            raise Unavailable(f"The tables of files cannot be made anew: {sentence(error)}") from error
        finally:
            loader.close()
            self.forget()

    def _load_all(self, connection: duckdb.DuckDBPyConnection, loader: duckdb.DuckDBPyConnection, name: str, file: str) -> None:
        """Make a schema of a file that holds tables."""
        from tempfile import TemporaryDirectory

        from rrext.nodes.sql.duckdb.containers import HeldTable, first_alone, relations

        if name.lower() in OWN_SCHEMAS:
            raise Unavailable(f'DuckDB has a schema "{name}" of its own: the tables of a file need another name')
        schema, made = quoted(name), list[HeldTable]()
        for statement in ("DROP VIEW IF EXISTS", "DROP SCHEMA IF EXISTS", "CREATE SCHEMA"):
            connection.execute(f"{statement} {schema}{' CASCADE' if 'DROP SCHEMA' in statement else ''}")
        with TemporaryDirectory(prefix="rrext-") as folder:
            for held in relations(loader, file, folder):
                place = f"{schema}.{quoted(held.name)}"
                if held.problem is None:
                    _take(connection, held.relation, place)
                else:  # who reads it is told; a condition runs also where no column is wanted
                    said = f"the view cannot be read: {held.problem}".replace("'", "''")
                    connection.execute(f"CREATE VIEW {place} AS SELECT NULL AS problem WHERE error('{said}') IS NULL")
                made.append(held)
        if not made:
            raise Unavailable("it has no table")
        if (first := first_alone(file, [held.name for held in made if not held.is_view])) is not None:
            connection.execute(f"CREATE VIEW {schema} AS FROM {schema}.{quoted(first)}")

    def copy(self, request: SqlCopy, working: Callable[..., AbstractContextManager[None]]) -> None:
        """Make tables of an attached database of the rows that the server read, in a block of `working` with the connections
        that do so. Raises `Unavailable`, and what `working` raises when the request is interrupted."""
        while not self._making.acquire(timeout=MAKING_TURN):
            with working():
                pass
        try:
            self._copy(request, working)
        finally:
            self._making.release()

    def _copy(self, request: SqlCopy, working: Callable[..., AbstractContextManager[None]]) -> None:
        connection, loader = self.connection().cursor, self._loader()
        database = quoted(request.database)
        try:
            with working(connection, loader):
                for schema, name in request.dropped:
                    connection.execute(f"DROP TABLE IF EXISTS {database}.{quoted(schema)}.{quoted(name)}")
                for table in request.tables:
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {database}.{quoted(table.schema)}")
                    place = f"{database}.{quoted(table.schema)}.{quoted(table.table)}"
                    copy_table(loader, table, partial(_take, connection, table=place))
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            hint = MORE_MEMORY if isinstance(error, duckdb.OutOfMemoryException) else None
            said = sentence(error).partition("\n")[0]  # the rest shows rows and files
            raise Unavailable(f"its tables cannot be copied: {said}", hint=hint) from error
        finally:
            connection.close()
            loader.close()
            self.forget()

    def prepare(self, request: SqlPrepare) -> None:
        """Make a Parquet file of a table in a text. A second instance does that, as in `load`."""
        loader = self._loader()
        try:
            write_parquet(loader, request.source, request.form, request.target)
        finally:
            loader.close()

    def _loader(self) -> duckdb.DuckDBPyConnection:
        loader = duckdb.connect(config=self._config())
        loader.execute("SET temp_directory=''")
        return loader

    def known(self, sql: str) -> ParsedStatement | None:
        """The statement of a known text; None for another text."""
        return self._statements.get(sql)

    def parsed(self, connection: duckdb.DuckDBPyConnection, sql: str) -> ParsedStatement:
        """Parse a text of one statement. A known text is not parsed again: that would take a fifth of a short query."""
        found = self._statements.get(sql)
        if found is None:
            statements = connection.extract_statements(sql)
            if len(statements) != 1:
                raise InvalidArguments.at("/input/sql", f"has {len(statements)} statements: expected one")
            found = ParsedStatement(statements[0])
            if len(sql) <= LONGEST_KEPT:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                self._statements[sql] = found
        return found

    def forget(self) -> None:
        """Drop the parsed statements, because the meaning of names may have changed."""
        self._statements.clear()


class ArrowRows:
    """Rows of a relation, for another connection to read. A relation itself may only be read by its own."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.__arrow_c_stream__(requested_schema)


def _take(connection: duckdb.DuckDBPyConnection, relation: Any, table: str) -> None:
    """Make a table of the rows of another connection's relation."""
    connection.register(_INCOMING.strip('"'), ArrowRows(relation))
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM {_INCOMING}")
    connection.unregister(_INCOMING.strip('"'))


def sentence(error: Exception) -> str:
    """The message of DuckDB, without the lines that repeat the statement, and without advice for its own shell."""
    return re.split(r"\n\n(?:LINE |Possible solutions)|\nDatabase is launched", str(error), maxsplit=1)[0].strip()


def _processors() -> int:
    """The number of processors that this process may use: DuckDB counts those of the machine, and wakes a thread for each."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_memory(root: duckdb.DuckDBPyConnection) -> None:
    """Limit this process, which has no other work, so that an allocation fails before all memory is taken."""
    if memory := memory_of(root):
        most = memory * HEAPS + HEAP_BASE
        with suppress(OSError, ValueError):  # a system without this limit, or with a smaller one
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def memory_of(root: duckdb.DuckDBPyConnection) -> int:
    """The bytes of `memory_limit`, 0 if they are not known."""
    row = root.execute("SELECT current_setting('memory_limit')").fetchall()[0]  # all of it, as else its transaction stays open
    number, _, unit = str(row[0]).partition(" ")
    return int(float(number) * _UNITS.get(unit, 0))
