"""`db_duckdb`: DuckDB, over a database file, or over files of data that the settings name.

The database is open in a process of its own; this module has the server's side of it and of the connections to it. DuckDB
only imitates PostgreSQL's catalog tables, so three statements over DuckDB's own functions read the schema.
"""

from __future__ import annotations

import glob
import itertools
import logging
import os
import re
import select
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from tempfile import mkdtemp
from time import monotonic
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec

from rrext.errors import RrextError, Unavailable, error_from_wire
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child.process import NodeProcess, ProcessLost, module_command
from rrext.nodes.child.supervisor import Supervisor
from rrext.nodes.child.worker import receive
from rrext.nodes.databases.failure import Failure
from rrext.nodes.sql.backend import Backend, Cursor, Schema, SqlTable, schema_of
from rrext.nodes.sql.driver_limits import MORE_ROWS
from rrext.nodes.sql.duckdb.attached import AttachedDatabases, Copy, DatabaseOnServer, faults, missing_drivers
from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.duckdb.files import FileTables
from rrext.nodes.sql.duckdb.messages import (
    MEMORY,
    Answer,
    AskProgress,
    Begin,
    DuckdbSettings,
    Interrupt,
    Refused,
    Request,
    SqlCommit,
    SqlCopy,
    SqlFailed,
    SqlFetch,
    SqlLoad,
    SqlOpen,
    SqlPrepare,
    SqlProgress,
    SqlRollback,
    SqlRows,
    SqlRun,
    is_over,
    message_frame,
)
from rrext.nodes.sql.node import SqlNode
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
    tells_progress = True

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
        attached: AttachedDatabases | None = None,
    ) -> None:
        """`path` is absolute or `:memory:`; `shown` is how messages name it. `files` are table name → path or pattern, which
        `locate` makes absolute."""
        names = attached.names() if attached else ()
        folder = os.path.realpath(locate(".")) if files else "/"
        self._settings = DuckdbSettings(path, shown or path, create, writes, memory_limit, threads, names, folder)
        self._attached = attached
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
        if self._attached is not None:
            self._attached.close()

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        return self._supervisor.repeated(attempt, ctx, reads=reads, timeout=timeout)

    def prepare(self, connection: DuckdbConnection, request: SqlPrepare) -> None:
        """Make a Parquet file of a table in a text. Raises `ToolError` (`no_table`), and as a statement does."""
        connection.ask(request)

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
            found = self._files.current()
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
                content = [f'"{name}"' for name in connection.tables()]
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

    def bring(self, connection: DuckdbConnection, sql: str, ctx: ToolContext) -> Mapping[str, str]:
        return self._attached.bring(connection, sql, ctx) if self._attached else {}

    def cancel(self, connection: DuckdbConnection) -> None:
        connection.cancel()

    def ask_progress(self, connection: DuckdbConnection, report: Callable[[float], None]) -> None:
        connection.ask_progress(report)

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

    def other_tables(self, ctx: ToolContext, *, refresh: bool) -> Mapping[str, SqlTable]:
        return self._attached.tables(ctx, refresh=refresh) if self._attached else {}


class DuckdbNode(SqlNode):
    """A DuckDB database for analytic queries. Reading needs no permission; `allow_execute` adds statements of any kind.

    `files` are read into tables in memory when the database is first used, and again when one of them has changed; files that
    are too large for that are read by each query, in little memory, unless `allow_execute` is set. Other files, networks and
    extensions are out of reach for every statement. The database works in a process of its own.
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
            "folders; or name of a schema → workbook (Excel, OpenDocument) or database (SQLite, DuckDB) whose tables it gets. "
            "Not together with a path.",
        ] = {}
        databases: Annotated[
            dict[str, DatabaseOnServer],
            "Name → database of PostgreSQL, MySQL or MariaDB whose tables queries may name: `crm.customer`, in another schema "
            "`crm.sales.customer`. A table is copied into memory when a query names it; nothing is written to the server, "
            "and the node only reads: not together with `allow_execute` or `allow_insert`.",
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
        for fault in _faults(config):
            yield "databases", fault

    @classmethod
    def unmet(cls, config: Any) -> Iterable[tuple[str, str]]:
        return (("databases", why) for why in missing_drivers(config.databases))

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> DuckdbBackend:
        if config.files and config.path != MEMORY:
            raise Unavailable(
                f'Node "{ctx.node_id}" has both "path" and "files": files become tables in memory, beside no other database',
                hint="Use two nodes, or load the files into the database once, with a program of your own.",
            )
        if _AMOUNT.fullmatch(config.memory_limit) is None:
            text = f'"memory_limit" of the node "{ctx.node_id}" is no amount of memory'  # DuckDB would tell a part of it
            raise Unavailable(text, hint='Write an amount as "2GB", or "50%".')
        for fault in _faults(config):
            raise Unavailable(f'Node "{ctx.node_id}": {fault}')
        return DuckdbBackend(
            config.path if config.path == MEMORY else ctx.path(config.path),
            files=config.files,
            create=config.create,
            writes=config.allow_execute,
            memory_limit=config.memory_limit,
            threads=config.threads,
            locate=ctx.path,
            shown=ctx.shown(config.path),
            attached=AttachedDatabases(config.databases, ctx) if config.databases else None,
        )


_AMOUNT: Final = re.compile(r"\d+(\.\d+)? *(%|bytes?|b|[kmgt](i?b)?)", re.IGNORECASE)


def _faults(config: Any) -> Iterator[str]:
    """What is wrong with `databases`. No name may be that of the file's own catalog, or of a table or schema of files."""
    taken = [*config.files, os.path.splitext(os.path.basename(config.path))[0]]
    return faults(config.databases, taken, writes=config.allow_execute or config.allow_insert)


FIRST_ROWS: Final = 64
"""Rows that come with the answer to a statement, so that most need one answer only."""

STUCK_AFTER: Final = 2.0
"""Seconds after which a cancelled statement that does not stop ends with its process: some never check for interrupts."""

MOST_LEFT: Final = 3
"""Statements that do not stop and are left running, as a database in memory would end with them. Each takes a processor."""

NAMED: Final = 20
"""Tables of a database in memory whose names are told if it is lost."""

SETTLING_TIMEOUT: Final = 2.0
"""Seconds that commits of other calls get for their answers before that."""

WHAT: Final = "the DuckDB database"
CLOSED: Final = "The database is closed: its component was unloaded"
_CRASHED: Final = (
    "connection_lost",
    "The next call starts another process. SIGKILL often means that memory was short.",
)

log: Final = logging.getLogger("rrext.sql")


class DuckdbError(Exception):
    """A failure of DuckDB in its process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class DuckdbProcess(NodeProcess):
    """A process with one database. Each connection has its own socket to its own thread there."""

    def __init__(self, settings: DuckdbSettings) -> None:
        """Start the process. Raises `Unavailable` if that fails."""
        self.folder = _private_folder() if settings.attached else ""
        """Where rows for the process are written. Both processes remove it at the end, as the other may have been killed."""
        self._door, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._is_memory = settings.path == MEMORY
        self._links = itertools.count(1)
        self._at_work = 1
        self._left: list[socket.socket] = []
        self.holds_data = False
        """Whether committed data is in the memory of this process alone."""
        self.busy: dict[int, Request] = {}
        """What is asked for and not answered yet, by connection."""
        self.loaded: dict[str, Any] = {}
        """Tables that were made of files, and the state of these."""
        self.copies: dict[str, dict[tuple[str, ...], Copy]] = {}
        """Copied tables of each attached database."""
        try:
            with door:
                command = module_command("rrext.nodes.sql.duckdb.worker", str(door.fileno()))
                given = msgspec.structs.replace(settings, copies=self.folder)
                super().__init__(command, given, what=WHAT, crash=_CRASHED, closed=CLOSED, inherits=(door.fileno(),))
        except BaseException:
            self._remove_folder()
            raise

    def lost_by(self, request: Request, *, is_sent: bool) -> RrextError:
        """The error for a connection that saw the process end, or could not send to it."""
        self.wait()
        is_unknown = is_sent and isinstance(request, SqlCommit)
        error = self.lost(
            suspects=self._at_work if is_sent else 0,
            is_harmless=not is_sent or isinstance(request, SqlOpen | SqlLoad | SqlCopy | SqlPrepare),
            is_unknown=is_unknown,
        )
        if isinstance(error, ProcessLost):
            if is_unknown:
                error.data["committed"] = None
            kept = "Whether it was kept is not known." if is_unknown else "Nothing that was not committed is kept."
            gone = " What was written to this database in memory is lost." if self._is_memory else ""
            error.hint = f"{kept}{gone} {error.hint}"
        return error

    def connect(self) -> DuckdbConnection:
        """Open a connection. If the process is gone, the first request on the connection raises that."""
        number = next(self._links)
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):
            socket.send_fds(self._door, [number.to_bytes(8, "little")], [theirs.fileno()])
        return DuckdbConnection(self, number, ours)

    @property
    def has_commits(self) -> bool:
        """Whether a call waits for the answer to a commit."""
        return any(isinstance(request, SqlCommit) for request in list(self.busy.values()))

    def abandon(self, link: socket.socket) -> bool:
        """Abandon a statement that does not stop, with its connection: it ends some time, and its answer is dropped.
        Returns whether that was better than to kill the process."""
        if not self.holds_data:
            return False
        for other in [other for other in self._left if _is_ended(other)]:
            self._left.remove(other)
            other.close()
        if len(self._left) >= MOST_LEFT:
            return False
        self._left.append(link.dup())
        link.shutdown(socket.SHUT_RD)
        log.warning("a statement does not stop: it is left running, as the data of %s is in memory alone", WHAT)
        return True

    def close(self, patience: float) -> None:
        super().close(0 if self._left else patience)  # what does not stop now either would only delay the end

    def release(self) -> None:
        self._at_work = max(1, len(self.busy))
        self._door.close()
        while self._left:
            self._left.pop().close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class DuckdbConnection:
    """A connection to the process. One thread uses it at a time; only `cancel` may come from another one meanwhile.

    A transaction begins with its first statement, so that both travel together. One that only reads ends with the last row
    of it. One of a single statement is committed by the process as soon as that has answered.
    """

    def __init__(self, process: DuckdbProcess, number: int, link: socket.socket) -> None:
        self.process = process
        self._number = number
        self._socket = link
        self._answers = link.makefile("rb")
        self._request = 0
        self._begin: Begin = ""
        self._cancelled_since: float | None = None
        self._report: Callable[[float], None] = lambda percent: None
        self._is_left = False
        self._writes = False
        self.in_transaction = False
        self.is_committing = False
        self.reads_only = False
        self.is_clean = True

    # transactions

    def begin(self, *, read_only: bool) -> None:
        """Begin a transaction with the next statement."""
        self._begin = "read" if read_only else "write"
        self.reads_only = read_only
        self.in_transaction = True
        self._writes = False

    def commit(self) -> bool:
        """Commit; return whether anything may have changed."""
        try:
            if self.is_committing:
                self.is_committing = False
                self._cancelled_since = None
                self._answer(SqlCommit())
            elif not self._begin:
                self.ask(SqlCommit())
        except DuckdbError:  # a failed commit has rolled back
            self.in_transaction = False
            raise
        self._begin = ""
        self.in_transaction = False
        return self._writes

    def rollback(self) -> None:
        """Roll back. A transaction that only read is not waited for."""
        assert not self.is_committing  # an answer is pending: this connection cannot be used again
        is_begun, self._begin = not self._begin, ""
        self.in_transaction = False
        if not is_begun:
            return
        if self.reads_only:
            self._send(SqlRollback(is_answered=False))
        else:
            self.ask(SqlRollback(is_answered=True))

    def tables(self) -> list[str]:
        """The names of the tables and views that no file made, the first `NAMED` of them; in a transaction of its own."""
        kinds = "('BASE TABLE', 'VIEW')"
        sql = (
            "SELECT table_schema, table_name FROM information_schema.tables "
            f"WHERE table_catalog = current_database() AND table_type IN {kinds} ORDER BY ALL"
        )
        with suppress(DuckdbError, RrextError):  # the process is lost meanwhile: the loss itself is told
            self.begin(read_only=True)
            rows = self.run(sql, ()).fetchmany(MORE_ROWS)
            self.rollback()
            return [name for schema, name in rows if not {schema, name} & self.process.loaded.keys()][:NAMED]
        return []

    # requests

    def run(self, sql: str, params: Sequence[Any], only: int | None = None) -> DuckdbCursor:
        """Run a statement, up to its first rows. With `only`, it is the only one of a transaction that may write, and nothing
        may be kept of it if it has more rows than so many."""
        begin, self._begin = self._begin, ""
        size = FIRST_ROWS
        if only is not None:
            begin, size = "once", min(FIRST_ROWS, only)
        request = SqlRun(begin, sql, list(params), not self.reads_only, size)
        first = self.rows(request)
        if is_over(request, first):
            self.in_transaction = self.is_committing = first.writes
        return DuckdbCursor(self, first)

    def rows(self, request: Request) -> SqlRows:
        """Send a request for rows and return them."""
        answer = self.ask(request)
        assert isinstance(answer, SqlRows)  # both these requests are answered with rows
        self._writes = self._writes or answer.writes
        self.is_clean = self.is_clean and not answer.leaves_traces
        return answer

    def ask(self, request: Request) -> Answer:
        """Send a request; return the answer. Raises `DuckdbError`, the process's other errors, and `ProcessLost` if it ends."""
        if not self._send(request):
            raise self._lost(request, is_sent=False)
        return self._answer(request)

    def _answer(self, request: Request) -> Answer:
        busy = self.process.busy
        busy[self._number] = request
        try:
            while True:
                received = receive(self._answers)
                if received is None:
                    raise self._lost(request)
                answer = _DECODER.decode(received[1])
                if not isinstance(answer, SqlProgress):
                    break
                self._report(answer.percent)
        except OSError:
            raise self._lost(request) from None
        finally:
            busy.pop(self._number, None)
        if self.reads_only and not (isinstance(answer, SqlRows) and not answer.is_last):
            self._begin = "read"  # the transaction is over with its statement; another one would begin anew
        if isinstance(answer, Refused):
            raise DuckdbError(Failure(answer.kind, answer.message, answer.hint))
        if isinstance(answer, SqlFailed):
            raise error_from_wire(answer.code, answer.message, answer.hint, answer.data)
        return answer

    def _send(self, request: Request) -> bool:
        """Send a request; return whether the process was there to receive it."""
        self._request += 1
        data = message_frame(self._request, request)
        self._cancelled_since = None
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def _lost(self, request: Request, *, is_sent: bool = True) -> RrextError | DuckdbError:
        self.in_transaction = False
        if self._cancelled_since is not None:  # the process may have been killed for this statement, whose answer no call wants
            return DuckdbError(Failure("cancelled", "the process of the database ended before the statement did"))
        return self.process.lost_by(request, is_sent=is_sent)

    def cancel(self) -> None:
        """Make the running statement fail soon. If it goes on for long, leave it alone if the process has data to lose, else
        kill the process, after the commits of other calls."""
        if self._is_left:
            return
        now = monotonic()
        if self._cancelled_since is None:
            self._cancelled_since = now
        late = now - self._cancelled_since - STUCK_AFTER
        if late > 0 and self.process.abandon(self._socket):
            self._is_left, self.is_clean = True, False
        elif late > 0 and (late > SETTLING_TIMEOUT or not self.process.has_commits):
            self.process.terminate()
        else:
            self.process.notify(Interrupt(self._number, self._request))

    def ask_progress(self, report: Callable[[float], None]) -> None:
        """Ask how far the running statement is."""
        self._report = report
        self.process.notify(AskProgress(self._number, self._request))

    def close(self) -> None:
        """Close the connection; the process rolls back its open transaction."""
        self._answers.close()
        self._socket.close()


def _private_folder() -> str:
    try:
        return mkdtemp(prefix="rrext-")
    except OSError as error:
        raise Unavailable(
            f"No folder for the rows of attached databases can be made: {error.strerror}",
            hint="See that the folder of TMPDIR can be written, and has room.",
        ) from error


def _is_ended(link: socket.socket) -> bool:
    """Whether the other end of a connection is closed."""
    poll = select.poll()
    poll.register(link, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


class DuckdbCursor:
    """The rows of a statement that runs in the process. They are JSON already."""

    is_json = True

    def __init__(self, link: DuckdbConnection, first: SqlRows) -> None:
        self._link = link
        self._rows: list[list[Any]] = first.rows
        self._is_last = first.is_last
        self.description: Sequence[Sequence[Any]] | None = None
        if first.columns is not None:
            self.description = [(name,) for name in first.columns]
        self.types: Sequence[str | None] = first.types
        self.warnings: Sequence[str] = ()
        self.rowcount = first.changed

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        if not self._rows and not self._is_last:
            answer = self._link.rows(SqlFetch(max(size, MORE_ROWS)))
            self._rows, self._is_last = answer.rows, answer.is_last
            self.rowcount += max(0, answer.changed)
        if len(self._rows) <= size:
            found, self._rows = self._rows, []
        else:
            found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def close(self) -> None:
        self._rows, self._is_last = [], True


_DECODER: Final = msgspec.json.Decoder(Answer)

_COLUMNS: Final = """
SELECT schema_name, table_name, column_name, data_type, table_oid IN (SELECT view_oid FROM duckdb_views())
FROM duckdb_columns() WHERE database_name = current_database() AND NOT internal
ORDER BY schema_name <> 'main', schema_name, table_name, column_index
"""
_KEYS: Final = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY constraint_index
"""


def read_schema(run: Callable[[str], Cursor]) -> Schema:
    """Tables and views of the database, from statements that `run` runs."""
    columns = [(_name(schema, table), is_view, column, kind) for schema, table, column, kind, is_view in _rows(run(_COLUMNS))]
    keys = [
        (_name(schema, table), kind == "PRIMARY KEY", names, _name(schema, other), references)
        for schema, table, kind, names, other, references in _rows(run(_KEYS))
    ]
    ((database,),) = _rows(run("SELECT current_database()"))
    return schema_of(database, columns, keys)


def _name(schema: str, table: str) -> str:
    return table if schema == "main" else f"{schema}.{table}"


def _rows(cursor: Cursor) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(1000):
        yield from rows
