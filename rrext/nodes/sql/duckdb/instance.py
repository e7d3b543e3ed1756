"""A DuckDB instance in its process: its start, its restrictions, and the tables of its files."""

from __future__ import annotations

import os
import re
import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

import duckdb

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.sql.duckdb.files import reading
from rrext.nodes.sql.duckdb.messages import MEMORY, DuckdbSettings
from rrext.nodes.sql.limits import KEPT_STATEMENTS, LONGEST_KEPT

FILE_LEAVING: Final = 1.0
"""Seconds to wait for a file that another process has locked: a killed server's process is about to end."""
OPEN_AGAIN: Final = 0.05
"""Seconds between attempts to open the file."""
HEAPS: Final = 3
HEAP_BASE: Final = 1024**3
"""A DuckDB process may have `HEAPS` times `memory_limit` plus `HEAP_BASE` bytes, for what DuckDB's allocator keeps mapped but
unused, values that `memory_limit` does not count, Python's own, and a second instance while files are read. Ordinary work
within a limit of 200 MB, 1 GB and 3 GB, in eight connections at once, mapped 2.8, 2.8 and 0.8 times the limit at most."""

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

    def connection(self) -> duckdb.DuckDBPyConnection:
        """Open another connection of the instance. Raises `Unavailable` if that fails."""
        with self._lock:
            if self._root is None:
                self._root = self._opened()
                self._on_open(self._root)
            return self._root.cursor()

    def close(self) -> None:
        """Close the instance, once its connections are closed."""
        with self._lock:
            if self._root is not None:
                self._root.close()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        settings = self._settings
        is_file = settings.path != MEMORY
        if is_file and not os.path.exists(settings.path):
            self._require_creating()
        root = self._connected(settings.path, read_only=is_file and not settings.writes)
        try:
            # Nothing is written beside the database: data beyond memory_limit fails.
            for setting in ("temp_directory=''", "enable_external_access=false", "lock_configuration=true"):
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
        """Make tables anew from files, all or none. The instance itself never reads a file: a second one does, which lives
        as long as this takes, and whose rows come over as a stream. Raises `Unavailable`."""
        connection = self.connection()
        loader = duckdb.connect(config=self._config())
        try:
            loader.execute("SET temp_directory=''")
            connection.execute("BEGIN TRANSACTION")
            for table, files in tables.items():
                try:
                    connection.register(_INCOMING.strip('"'), ArrowRows(loader.sql(reading(files))))
                    connection.execute(f"CREATE OR REPLACE TABLE {_quoted(table)} AS SELECT * FROM {_INCOMING}")
                    connection.unregister(_INCOMING.strip('"'))
                except duckdb.Error as error:
                    said = sentence(error)
                    for file in files:
                        said = said.replace(file, os.path.basename(file))
                    raise Unavailable(f'The table "{table}" cannot be made from its files: {said}') from error
            connection.execute("COMMIT")
        except duckdb.Error as error:
            raise Unavailable(f"The tables of files cannot be made anew: {sentence(error)}") from error
        finally:
            connection.close()
            loader.close()
            self.forget()

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


def sentence(error: Exception) -> str:
    """The message of DuckDB, without the lines that repeat the statement, and without advice for its own shell."""
    return re.split(r"\n\n(?:LINE |Possible solutions)", str(error), maxsplit=1)[0].strip()


def _processors() -> int:
    """The number of processors that this process may use: DuckDB counts those of the machine, and wakes a thread for each."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def limit_memory(root: duckdb.DuckDBPyConnection) -> None:
    """Limit this process, which has no other work, so that an allocation fails before all memory is taken."""
    row = root.execute("SELECT current_setting('memory_limit')").fetchall()[0]  # all of it, as else its transaction stays open
    number, _, unit = str(row[0]).partition(" ")
    if unit in _UNITS:
        most = int(float(number) * _UNITS[unit]) * HEAPS + HEAP_BASE
        with suppress(OSError, ValueError):  # a system without this limit, or with a smaller one
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
