"""`db_duckdb`: DuckDB, over a database file or over CSV, Parquet and JSON files that the settings name."""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child.process import ProcessLost
from rrext.nodes.child.supervisor import Supervisor
from rrext.nodes.databases.failure import Failure
from rrext.nodes.sql.backend import Backend, Cursor
from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.duckdb.files import FileTables
from rrext.nodes.sql.duckdb.messages import MEMORY, DuckdbSettings, SqlLoad, SqlOpen
from rrext.nodes.sql.duckdb.process import CLOSED, WHAT, DuckdbConnection, DuckdbError, DuckdbProcess
from rrext.nodes.sql.duckdb.schema import read_schema
from rrext.nodes.sql.limits import MORE_ROWS
from rrext.nodes.sql.node import SqlNode
from rrext.nodes.sql.schema import Schema
from rrext.tools.context import ToolContext

CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to roll back open transactions and close the database."""

T = TypeVar("T")


_FUNCTIONS: Final = """
SELECT lower(function_name) FROM duckdb_functions() GROUP BY ALL
HAVING bool_and(internal AND function_type IN ('scalar', 'aggregate') AND stability = 'CONSISTENT' AND NOT has_side_effects)
  AND lower(function_name) NOT LIKE '\\_\\_%' ESCAPE '\\' AND lower(function_name) <> 'to_aggregate_state'"""
"""Functions that DuckDB says only compute. Those that begin with `__` are for its planner, and trust what they are given, as
does `to_aggregate_state`."""


class DuckdbBackend(Backend):
    """One database in a process of its own, which the first call starts.

    DuckDB takes more memory than its `memory_limit` for some values, and some of its functions cannot be stopped. The
    process has a limit that the system enforces, and one in which a statement goes on after its time is killed. Another
    process is started then: calls that only read are done again there.
    """

    dialect = DUCKDB
    retries_conflicts = True

    def __init__(
        self,
        path: str,
        *,
        files: Mapping[str, str],
        create: bool,
        writes: bool,
        memory_limit: str,
        threads: int,
        locate: Callable[[str], str] = str,
        shown: str = "",
    ) -> None:
        """`path` is absolute or `:memory:`; `shown` is how messages name it. `files` are table name → path or pattern, which
        `locate` makes absolute."""
        self._settings = DuckdbSettings(path, shown or path, create, writes, memory_limit, threads)
        self._files = FileTables(files, locate)
        self._loading = threading.Lock()
        self._supervisor = Supervisor(self._started, closed=CLOSED, memory=WHAT if path == MEMORY else "")

    def _started(self) -> DuckdbProcess:
        return DuckdbProcess(self._settings)

    def connect(self, *, read_only: bool) -> DuckdbConnection:
        link = self._supervisor.process().connect()
        try:
            link.ask(SqlOpen())
        except BaseException:
            link.close()
            raise
        return link

    def close(self) -> None:
        self._supervisor.close(CLOSING_TIMEOUT)

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        return self._supervisor.repeated(attempt, ctx, reads=reads, timeout=timeout)

    # transactions

    def begin(self, connection: DuckdbConnection, *, read_only: bool) -> None:
        if connection.process.is_over:
            raise connection.process.lost_by(SqlOpen(), is_sent=False)
        if self._files:
            self._load_changed(connection)
        connection.begin(read_only=read_only)

    def _load_changed(self, connection: DuckdbConnection) -> None:
        """Reload the tables whose files changed since they were read. Other calls wait meanwhile."""
        with self._loading:
            loaded = connection.process.loaded
            found = self._files.look()
            changed = {table: source for table, source in found.items() if loaded.get(table) != source}
            if changed:
                connection.ask(SqlLoad({table: list(source.files) for table, source in changed.items()}))
                loaded.update(changed)

    def commit(self, connection: DuckdbConnection) -> None:
        if not connection.commit():
            return
        content: Sequence[str] | None = None
        if self._settings.path == MEMORY:
            connection.process.holds_data = True
            if not connection.is_clean:  # as a statement that defines something leaves it
                content = [f'"{name}"' for name in connection.tables() if name not in connection.process.loaded]
        self._supervisor.wrote(content)

    def rollback(self, connection: DuckdbConnection) -> None:
        connection.rollback()

    def in_transaction(self, connection: DuckdbConnection) -> bool:
        return connection.in_transaction

    def is_clean(self, connection: DuckdbConnection) -> bool:
        return connection.is_clean

    # statements

    def run(self, connection: DuckdbConnection, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        return connection.run(sql, params)

    def run_only(self, connection: DuckdbConnection, sql: str, params: Sequence[Any], *, most_rows: int) -> Cursor:
        return connection.run(sql, params, most_rows)

    def is_committing(self, connection: DuckdbConnection) -> bool:
        return connection.is_committing

    def cancel(self, connection: DuckdbConnection) -> None:
        connection.cancel()

    def explain(self, sql: str) -> str:
        return f"EXPLAIN (FORMAT compact) {sql}"

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, DuckdbError):
            return error.failure
        if isinstance(error, ProcessLost):
            return Failure("lost", error.message, error.hint)
        if isinstance(error, UnicodeEncodeError):
            return Failure("syntax", "a text has a character that is none (a lone surrogate)")
        return None

    def functions(self, connection: DuckdbConnection) -> frozenset[str]:
        cursor = connection.run(_FUNCTIONS, ())
        names: set[str] = set()
        while rows := cursor.fetchmany(MORE_ROWS):
            names.update(name for (name,) in rows)
        return frozenset(names)

    def read_schema(self, connection: DuckdbConnection) -> Schema:
        return read_schema(lambda sql: connection.run(sql, ()))


class DuckdbNode(SqlNode):
    """A DuckDB database for analytic queries. Reading needs no permission; `allow_execute` adds statements of any kind.

    `files` are read into tables in memory when the database is first used, and again when one of them has changed. Other
    files, networks and extensions are out of reach for every statement. The database works in a process of its own.
    """

    provider = "db_duckdb"
    title = "DuckDB"
    sql_dialect = DUCKDB

    class Config(SqlNode.Config):
        path: Annotated[
            str, "The database file; a relative path begins at --root, or else at the folder of the pipeline's file. "
            '":memory:" is one that lives as long as the pipeline is loaded.'
        ] = MEMORY  # fmt: skip
        files: Annotated[
            dict[str, str],
            "Name of a table → CSV, TSV, Parquet or JSON file that it is made from, or a pattern of names: *, ?, ** for any "
            "folders; not together with a path.",
        ] = {}
        create: Annotated[bool, "Begin with an empty file if there is none."] = False
        memory_limit: Annotated[str, "Memory of the database, its tables and queries; what needs more fails."] = "1GB"
        threads: Annotated[
            int, msgspec.Meta(ge=0, le=1024), "Threads of the database; 0: as many as the processors that rrext may use."
        ] = 0

    extra: ClassVar[str] = "duckdb"
    paths = {"path": "file", "files": "file"}
    no_paths = frozenset({MEMORY})
    packages: ClassVar[tuple[str, ...]] = ("duckdb", "pytz")  # the driver makes timestamps with a time zone of pytz

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.path != MEMORY and not (config.create and config.allow_execute) and not os.path.exists(path(config.path)):
            text = '"create" and "allow_execute" would begin with an empty one'
            yield "path", f'There is no database file "{config.path}"; {text}.'
        for table, name in config.files.items():
            if not glob.has_magic(name) and not os.path.isfile(path(name)):
                yield "files", f'There is no file "{name}", of which the table "{table}" is made.'

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> DuckdbBackend:
        if config.files and config.path != MEMORY:
            raise Unavailable(
                f'Node "{ctx.node_id}" has both "path" and "files": files become tables in memory, beside no other database',
                hint="Use two nodes, or load the files into the database once, with a program of your own.",
            )
        return DuckdbBackend(
            config.path if config.path == MEMORY else ctx.path(config.path),
            files=config.files,
            create=config.create,
            writes=config.allow_execute,
            memory_limit=config.memory_limit,
            threads=config.threads,
            locate=ctx.path,
            shown=ctx.shown(config.path),
        )
