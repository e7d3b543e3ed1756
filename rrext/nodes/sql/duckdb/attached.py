"""Databases on servers that DuckDB's SQL can name: `databases` of the settings, each a catalog of copied tables.

The server's process reads them, over the connections that `db_postgres` and `db_mysql` have, in transactions that the database
itself keeps read-only; the process of DuckDB has no network. A statement that names a table of one brings it: `bring` copies
the tables whose copies are missing or older than `refresh`, before the statement runs. Others contact no server.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.limits import GIB
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.database import RunningStatement, TimerThread, cancellation
from rrext.nodes.databases.failure import SQL, Failure
from rrext.nodes.databases.node import LONGEST_WAIT
from rrext.nodes.sql.backend import Column, Schema, SqlTable, shown_name, split_name
from rrext.nodes.sql.database import SqlDatabase, SqlTransaction, raise_told
from rrext.nodes.sql.dialect import NAME, WORD, SqlToken
from rrext.nodes.sql.duckdb.copied_columns import MYSQL_ROWS, NUMERIC, POSTGRES_ROWS, ServerDialect
from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.duckdb.endings import OWN_SCHEMAS
from rrext.nodes.sql.duckdb.messages import CopiedTable, SqlCopy, SqlOpen
from rrext.nodes.sql.gate import FILE_NAME
from rrext.nodes.sql.lexer import SMALL_LETTERS, tokens
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from rrext.nodes.sql.duckdb.node import DuckdbConnection
    from rrext.nodes.sql.node import SqlNode

MOST_TEXT: Final = 4 * GIB
"""Bytes of the rows of one table as text, which are on disk for a moment: more do not fit the memory of a usual database."""
KEPT_ON: Final = 60.0
"""Seconds for which an old copy is kept, as a statement that found it in time may still be about to run."""
COPY_TURN: Final = 0.25
"""Seconds between checks whether a call that waits for the copy of another one has been cancelled."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk that is full, and of a file that may not be larger."""
LEAST_TIME: Final = 0.001
"""Seconds that DuckDB gets at least for a copy whose time the server took."""
MAIN: Final = "main"
"""DuckDB's schema of the tables whose names have none: no schema of a server has that place."""
COPY_CONNECTIONS: Final = 2
"""Connections to one server: a copy at a time, and the schema beside it."""

_SERVERS: Final = {"postgresql": "postgres", "postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TABLE_FOLLOWS: Final = frozenset({"from", "join", "table", "describe", "summarize"})

Name = tuple[str, ...]
"""The parts of a table's name behind that of its database: the schema, if there is one, and its own."""


class DatabaseOnServer(msgspec.Struct, frozen=True, kw_only=True):
    """A database of PostgreSQL, MySQL or MariaDB whose tables queries may name."""

    url: Annotated[
        str,
        "`postgresql://user@host:5432/database?sslmode=require`, or `mysql://…`, as in the nodes `db_postgres` and `db_mysql`. "
        "A password in it needs its signs percent-encoded; in `password` it stands as it is.",
    ]
    password: Annotated[str, "The user's password; best as `${ROCKETRIDE_…}`, filled from the environment."] = ""
    tables: Annotated[tuple[str, ...], "Tables and views that queries may name, as `customer` or `sales.*`."] = ("*",)
    refresh: Annotated[
        float,
        msgspec.Meta(ge=0, le=86_400),
        "Seconds for which a copy of a table serves; the next query that names it copies it again. 0: each query copies.",
    ] = 60.0
    max_rows: Annotated[int, msgspec.Meta(ge=1), "Rows of one table at most; more are an error."] = 10_000_000
    timeout: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_WAIT), "Seconds that the copy of one table may take."] = 300.0


def faults(databases: Mapping[str, DatabaseOnServer], taken: Sequence[str], *, writes: bool) -> Iterator[str]:
    """What is wrong with attached databases; `taken` are names that mean something else. `writes`: the node may write."""
    if databases and writes:
        yield (
            'Attached databases are only read: "databases" stands beside neither "allow_execute" nor "allow_insert". '
            "Use two nodes."
        )
    known = {name.casefold() for name in (*OWN_SCHEMAS, "memory", *taken)}
    for name, database in databases.items():
        if not _PLAIN.fullmatch(name):
            yield f'The database "{name}" needs a name of letters, digits and _, which does not begin with a digit.'
        elif name.casefold() in known:
            yield f'The database "{name}" needs another name: that one is taken.'
        if not database.url.startswith("${") and _kind_of(database.url) is None:
            yield f'The url of the database "{name}" begins with none of {", ".join(f"{scheme}://" for scheme in _SERVERS)}.'


def _kind_of(url: str) -> str | None:
    scheme, colon, _ = url.partition("://")
    return _SERVERS.get(scheme.partition("+")[0]) if colon else None


def _node_of(database: DatabaseOnServer) -> tuple[type[SqlNode], ServerDialect] | None:
    match _kind_of(database.url):
        case "postgres":
            from rrext.nodes.sql.postgres.node import PostgresNode

            return PostgresNode, POSTGRES_ROWS
        case "mysql":
            from rrext.nodes.sql.mysql import MysqlNode

            return MysqlNode, MYSQL_ROWS
    return None


def missing_drivers(databases: Mapping[str, DatabaseOnServer]) -> Iterator[str]:
    """Why databases cannot be reached from this machine; the texts name the install line."""
    for name, database in databases.items():
        found = _node_of(database)
        if found is not None and (why := found[0].unavailable()) is not None:
            yield f'The database "{name}": {why}'


class Copy(msgspec.Struct, frozen=True):
    """A copied table. `due` is the time of `monotonic` from which on it is too old; `at` says when it was made."""

    due: float
    at: str


class AttachedDatabases:
    """The databases on servers of one node, by name."""

    def __init__(self, settings: Mapping[str, DatabaseOnServer], ctx: SetupContext) -> None:
        """Of settings without `faults`. Connects to nothing. Raises `Unavailable` without a driver."""
        for fault in missing_drivers(settings):
            raise Unavailable(fault)
        self._databases = {_folded(name): AttachedDatabase(name, given, ctx) for name, given in settings.items()}

    def __bool__(self) -> bool:
        return bool(self._databases)

    def names(self) -> tuple[str, ...]:
        """The names, as the settings write them."""
        return tuple(database.name for database in self._databases.values())

    def bring(self, connection: DuckdbConnection, sql: str, ctx: ToolContext) -> dict[str, str]:
        """Copy the tables that a statement names, where that is due. Returns when each of them was copied, by its name.

        Raises `ToolError` (`table_not_found`, `copy_too_large`), the errors of the server with the name of its database, and
        the errors of `ctx.check`.
        """
        folded = _folded(sql)
        if not any(name in folded for name in self._databases):
            return {}
        times: dict[str, str] = {}
        for database, wanted in self._named(sql).items():
            for key, copy in self._databases[database].bring(connection, wanted, ctx).items():
                times[f"{self._databases[database].name}.{shown_name(key)}"] = copy.at
        return times

    def _named(self, sql: str) -> dict[str, dict[Name, bool]]:
        """The tables that a statement may name, by database, and whether it can mean nothing else."""
        found: dict[str, dict[Name, bool]] = {}
        try:
            seen = list(tokens(sql, DUCKDB))
        except InvalidArguments:
            return {}  # DuckDB says what is wrong
        for index, token in enumerate(seen):
            if token.kind not in (WORD, NAME) or _folded(token.text) not in self._databases:
                continue
            last = seen[index - 1] if index else None
            before = "" if last is None else last.text if last.kind == WORD else last.kind
            count = _dots(seen, index)
            if before == "." or not count:
                continue
            name = tuple(seen[at].text for at in range(index + 2, index + 2 * min(count, 2) + 1, 2))
            wanted = found.setdefault(_folded(token.text), {})
            wanted[name] = wanted.get(name, False) or before in _TABLE_FOLLOWS
        return found

    def tables(self, ctx: ToolContext, *, refresh: bool) -> dict[str, SqlTable]:
        """The tables of all databases, with DuckDB's types. A server that does not answer is a table with its problem."""
        found: dict[str, SqlTable] = {}
        for database in self._databases.values():
            try:
                found |= database.tables(ctx, refresh=refresh)
            except RrextError as error:
                ctx.check()
                found[database.name] = SqlTable(database.name, (), problem=error.message)
        return found

    def close(self) -> None:
        """End the connections."""
        for database in self._databases.values():
            database.close()


class AttachedDatabase:
    """One database on a server, with the connections to it."""

    def __init__(self, name: str, settings: DatabaseOnServer, ctx: SetupContext) -> None:
        found = _node_of(settings)
        assert found is not None  # `faults` looks at the URL
        node, self._dialect = found
        config: Any = node.Config()
        config.url, config.password = settings.url, settings.password
        config.statement_timeout, config.pool_size = settings.timeout, COPY_CONNECTIONS
        self.name = name
        with self._named():
            self.database: SqlDatabase = node.database(config, ctx)
        self._settings = settings
        self._hidden: frozenset[Name] = frozenset()
        self._known_bases: tuple[datetime | None, dict[str, str]] = (None, {})
        self._lock = threading.Lock()
        self._watch = TimerThread()

    def close(self) -> None:
        """End the connections."""
        self._watch.close()
        self.database.close()

    def bring(self, connection: DuckdbConnection, wanted: Mapping[Name, bool], ctx: ToolContext) -> dict[Name, Copy]:
        """See `AttachedDatabases.bring`. `wanted` are names of tables and whether there must be one."""
        copies = connection.process.copies.setdefault(self.name, {})
        keys = [_key_of(name) for name in wanted]
        if all(key in copies and monotonic() < copies[key].due for key in keys) and self._hidden.isdisjoint(wanted):
            return {key: copies[key] for key in keys}
        with self._named(), self._turn(ctx):
            targets = self._targets(wanted, ctx)
            due = {key: table for key, table in targets.items() if key not in copies or monotonic() >= copies[key].due}
            if due:
                old = [key for key, copy in copies.items() if key not in targets and monotonic() >= copy.due + KEPT_ON]
                at = datetime.now(UTC).isoformat(timespec="seconds")  # rows that come later may be missing
                self._copy(connection, due, old, ctx)
                made = Copy(monotonic() + self._settings.refresh, at)
                for key in old:
                    del copies[key]
                copies.update(dict.fromkeys(due, made))
            return {key: copies[key] for key in targets}

    def tables(self, ctx: ToolContext, *, refresh: bool) -> dict[str, SqlTable]:
        """The tables as queries name them, with the types that their copies have."""
        schema = self._remote(ctx, refresh=refresh)
        if self._known_bases[0] != schema.read_at:
            self._known_bases = schema.read_at, self._bases(ctx)
        bases = self._known_bases[1]
        return {
            f"{self.name}.{table.name}": msgspec.structs.replace(
                table,
                name=f"{self.name}.{table.name}",
                columns=tuple(
                    Column(each.name, self._kind(each.name, bases.get(each.type, each.type))) for each in table.columns
                ),
                foreign_keys=tuple(
                    msgspec.structs.replace(key, table=f"{self.name}.{key.table}") for key in table.foreign_keys
                ),
            )
            for table in schema.tables.values()
        }

    def _kind(self, name: str, kind: str) -> str:
        return self._dialect.column(name, kind).kind.replace(NUMERIC, "DECIMAL")

    def _bases(self, ctx: ToolContext) -> dict[str, str]:
        """The types of the server that stand for others, by name."""
        found: dict[str, str] = {}
        if self._dialect.bases:
            with (
                self._named(),
                self.database.transaction(ctx, read_only=True) as transaction,
                transaction.statement(self._dialect.bases, (), ctx) as result,
            ):
                while rows := result.batch()[0]:
                    found.update((name, base) for name, base in rows)
        return found

    def _remote(self, ctx: ToolContext, *, refresh: bool) -> Schema:
        """The tables that the settings let through. One that DuckDB cannot tell from another has a problem, and no columns."""
        with self._named():
            schema = self.database.schema(ctx, refresh=refresh)
        found: dict[str, SqlTable] = {}
        taken: dict[Name, str] = {}
        for table in schema.tables.values():
            name = self._shown(table.name)
            if any(fnmatchcase(name, pattern) for pattern in self._settings.tables):
                key = _key_of(split_name(name))
                problem = table.problem
                if FILE_NAME.search(key[-1]):
                    problem = "to DuckDB its name is that of a file"
                if len(key) == 2 and key[0] == MAIN:
                    problem = f'to DuckDB the schema "{MAIN}" is that of tables without one'
                elif taken.setdefault(key, name) != name:
                    problem = f'to DuckDB its name is that of "{taken[key]}", as capital letters are small ones'
                keys = tuple(msgspec.structs.replace(each, table=self._shown(each.table)) for each in table.foreign_keys)
                columns = () if problem else table.columns
                found[name] = msgspec.structs.replace(table, name=name, columns=columns, foreign_keys=keys, problem=problem)
        self._hidden = frozenset(split_name(name) for name, table in found.items() if table.problem is not None)
        return Schema(self.name, found, schema.read_at)

    def _public(self, known: Mapping[Name, SqlTable], key: Name) -> SqlTable | None:
        return known.get(key[1:]) if self._dialect.has_schemas and key[0] == "public" else None

    def _shown(self, name: str) -> str:
        return shown_name(split_name(name) if self._dialect.has_schemas else (name,))

    def _targets(self, wanted: Mapping[Name, bool], ctx: ToolContext) -> dict[Name, SqlTable]:
        """The tables that are meant, by the keys of their copies; the schema is read again for an unknown one.

        A name of two parts is a table in a schema, or a column of a table.
        """
        for refresh in (False, True):
            schema = self._remote(ctx, refresh=refresh)
            known: dict[Name, SqlTable] = {}
            for name, table in schema.tables.items():
                known.setdefault(_key_of(split_name(name)), table)
            found: dict[Name, SqlTable] = {}
            unknown: list[str] = []
            for name, must_be in wanted.items():
                key = _key_of(name)
                if key not in known and key[0] == MAIN and key[1:] in known:
                    key = key[1:]
                own = schema.tables.get(shown_name(name)) or known.get(key) or self._public(known, key)
                if own is None and not must_be:
                    key = key[:1]
                    own = known.get(key)
                if own is not None:
                    found[key] = own
                elif must_be:
                    unknown.append(shown_name(name))
            if not unknown:
                break
        for name in unknown:
            schema.table(name)  # raises
        for table in found.values():
            if table.problem is not None:
                raise ToolError(
                    f'The table "{table.name}" cannot be read here: {table.problem}',
                    code="table_not_found",
                    hint="Name a view of the server that has another name, or ask the server itself by its own node.",
                )
        return found

    def _copy(self, connection: DuckdbConnection, due: Mapping[Name, SqlTable], old: Sequence[Name], ctx: ToolContext) -> None:
        until = monotonic() + self._settings.timeout * len(due)
        try:
            with TemporaryDirectory(prefix="copy-", dir=connection.process.folder, ignore_cleanup_errors=True) as folder:
                with self.database.transaction(ctx, read_only=True) as transaction:
                    for statement in self._dialect.setup:
                        with transaction.statement(statement, (), ctx):
                            pass
                    made = [
                        self._written(transaction, key, table, os.path.join(folder, f"{number}.csv"), ctx)
                        for number, (key, table) in enumerate(due.items())
                    ]
                self._taken(connection, SqlCopy(self.name, made, [_place_of(key) for key in old]), until, ctx)
        except OSError as error:
            if connection.process.is_over:  # its folder is gone with it
                raise connection.process.lost_by(SqlOpen(), is_sent=False) from error
            raise self._unwritten(error) from error

    def _taken(self, connection: DuckdbConnection, request: SqlCopy, until: float, ctx: ToolContext) -> None:
        """Have the process take the written rows, until a time of `monotonic` or until the call is cancelled."""
        ctx.check()
        running = RunningStatement(connection.cancel, self._watch, max(until - monotonic(), LEAST_TIME), ctx)
        try:
            with running:
                connection.ask(request)
        except Exception as error:
            stopped = cancellation(ctx)
            if stopped is None and running.reason == "timeout":
                said = f"the copy took longer than the timeout of the database ({self._settings.timeout:g} s a table)"
                stopped = SQL.error(Failure("timeout", said))
            raise_told(stopped or error, error)

    @staticmethod
    def _unwritten(error: OSError) -> ToolError:
        """The error for rows that could not be written to a file."""
        hint = "The rows are in a file for a moment: see that the folder of TMPDIR can be written."
        if error.errno in NO_ROOM:
            hint = (
                "The rows are in a file of the folder of TMPDIR for a moment: make room there, name another folder, "
                "or name a view of the server that has less."
            )
        code = "no_space" if error.errno in NO_ROOM else "copy_not_written"
        return ToolError(f"its tables cannot be copied: {error.strerror}", code=code, hint=hint)

    def _written(self, transaction: SqlTransaction, key: Name, table: SqlTable, path: str, ctx: ToolContext) -> CopiedTable:
        """Write the rows of a table to a file."""
        source = ".".join(map(self._dialect.quoted, split_name(table.name)))
        with transaction.statement(f"SELECT * FROM {source} WHERE 1 = 0", (), ctx) as probe:
            pass
        if not probe.columns:
            raise ToolError(f'The table "{table.name}" has no columns', code="table_not_found")
        columns, sql = self._dialect.query(source, list(zip(probe.columns, probe.types, strict=True)))
        longest = count = size = 0
        with open(path, "xb", opener=_own) as file, transaction.statement(sql, (), ctx) as result:
            while rows := result.batch()[0]:
                ctx.check()
                for (line,) in rows:
                    if line is None:
                        raise self._too_large(table, "a row that is larger than the server's max_allowed_packet")
                data = "\n".join([line for (line,) in rows]).encode()
                longest = max(longest, max(map(len, [line for (line,) in rows])))
                count, size = count + len(rows), size + len(data)
                if count > self._settings.max_rows:
                    raise self._too_large(table, f"more than max_rows ({self._settings.max_rows:,}) rows", "max_rows")
                if size > MOST_TEXT:
                    raise self._too_large(table, f"more than MOST_TEXT ({MOST_TEXT // GIB} GiB) of text", "MOST_TEXT")
                file.write(data + b"\n")
        schema, name = _place_of(key)
        return CopiedTable(schema, name, path, 4 * longest, columns)

    def _too_large(self, table: SqlTable, what: str, limit: str = "max_allowed_packet") -> ToolError:
        more = {"max_rows": ', or let the operator raise "max_rows" of the database'}.get(limit, "")
        return ToolError(
            f'The table "{table.name}" has {what}, and cannot be copied',
            code="copy_too_large",
            hint=f"Name a view of the server that has less, ask the server itself by its own node{more}.",
            data={"limit": limit},
        )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A block whose failures tell the name of the database."""
        try:
            yield
        except RrextError as error:
            if "database" not in error.data:
                error.data["database"] = self.name
                if f'the database "{self.name}"' not in error.message:
                    error.message = f'The database "{self.name}": {error.message}'
            raise

    @contextmanager
    def _turn(self, ctx: ToolContext) -> Iterator[None]:
        """A block for one call at a time."""
        while not self._lock.acquire(timeout=COPY_TURN):
            ctx.check()
        try:
            yield
        finally:
            self._lock.release()


def _own(path: str, flags: int) -> int:
    """Open a file that other users may not read."""
    return os.open(path, flags, 0o600)


def _dots(seen: Sequence[SqlToken], index: int) -> int:
    """How many names follow the one at `index`, each behind a dot."""
    count = 0
    while (
        index + 2 * count + 2 < len(seen)
        and seen[index + 2 * count + 1].kind == "."
        and seen[index + 2 * count + 2].kind
        in (
            WORD,
            NAME,
        )
    ):
        count += 1
    return count


def _folded(text: str) -> str:
    """A text as DuckDB compares names."""
    return text.translate(SMALL_LETTERS)


def _key_of(name: Name) -> Name:
    return tuple(map(_folded, name))


def _place_of(key: Name) -> tuple[str, str]:
    """The schema and the name of a copy in its catalog."""
    *schema, name = key
    return schema[0] if schema else MAIN, name
