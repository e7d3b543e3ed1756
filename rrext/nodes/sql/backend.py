"""The interface of a kind of SQL database, and its schema. Each kind is a subclass; all other code of the SQL nodes is the
same for all.

The schema has tables, columns and keys: as records, as the answer of `get_schema`, and as the text for a language model.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from rrext.errors import ToolError, near_matches
from rrext.nodes.databases.database import DatabaseBackend
from rrext.nodes.sql.dialect import SqlDialect
from rrext.nodes.sql.driver_limits import MOST_WARNINGS
from rrext.tools.context import ToolContext

LONGEST_WARNING: Final = 2000
"""Characters of a warning in an answer."""

T = TypeVar("T")


class Warnings:
    """Warnings of a database beside a result: the first `MOST_WARNINGS`, and the number of the others."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.count = 0

    def add(self, text: str) -> None:
        self.count += 1
        if self.count <= MOST_WARNINGS:
            self._texts.append(text if len(text) <= LONGEST_WARNING else f"{text[:LONGEST_WARNING]} …")

    def clear(self) -> None:
        self._texts, self.count = [], 0

    @property
    def texts(self) -> list[str]:
        more = self.count - len(self._texts)
        return [*self._texts, f"and {more:,} more"] if more else self._texts


class Cursor(Protocol):
    """The part of a DBAPI cursor that is used. `description` is None if the statement gives no rows. `rowcount`, asked
    after the last row, is the number of rows that the statement changed; 0 or less if it only reads. `fetchmany` may return
    fewer rows than asked for, as `rows_within` does with large ones. No rows: the end.

    `warnings` and then `types` are called after `close`, in the transaction of the statement, and may query the database: for
    the statement's warnings, and for the type name of each column, None if it has none. Cells of a
    cursor with an attribute `is_json` that is true are JSON already: nested ones are texts in a transaction that may write.
    """

    @property
    def description(self) -> Sequence[Sequence[Any]] | None: ...

    @property
    def types(self) -> Sequence[str | None]: ...

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def rowcount(self) -> int: ...

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]: ...

    def close(self) -> Any: ...


class Backend(DatabaseBackend):
    """One database, as its settings describe it.

    Making one imports its driver and prepares; it connects to nothing and so cannot fail because a server is down. It
    runs on a worker thread, as all methods do. `connection` is always what `connect` returned, used by one thread at a
    time; only `cancel` may come from another one meanwhile. Methods raise whatever the driver raises: `failure` reads it.
    """

    dialect: ClassVar[SqlDialect]
    """The SQL dialect, by which the gate judges statements and placeholders are found."""
    separate_readers: ClassVar[bool] = False
    """Whether a connection is opened either for reading or for writing, so that each kind has a pool of its own."""
    statements_may_commit: ClassVar[bool] = False
    """Whether statements such as CREATE TABLE end the transaction that they run in, and a session goes on with another one."""
    retries_conflicts: ClassVar[bool] = False
    """Whether a statement that failed because another transaction changed the same rows may just be run once more."""
    tells_progress: ClassVar[bool] = False
    """Whether the database tells how far a statement is."""
    reusable_after_cancel: ClassVar[bool] = False
    """Whether a connection is good for the next call after its statement was cancelled; else it is thrown away."""

    # connections: the pool calls these

    @abstractmethod
    def connect(self, *, read_only: bool) -> Any:
        """Open a DBAPI connection. `read_only` is False unless `separate_readers`. Sets limits of a session, as the
        server's own statement timeout, once for all transactions. Bounded in time itself. The pool ends it by its `close()`."""

    # transactions

    @abstractmethod
    def begin(self, connection: Any, *, read_only: bool) -> None:
        """Begin a transaction; with `read_only`, one in which the database itself refuses every write.

        `begin` is the first message on a connection of the pool: if it fails with a failure of kind
        `lost`, it is repeated once on a new connection.
        """

    @abstractmethod
    def commit(self, connection: Any) -> None: ...

    @abstractmethod
    def rollback(self, connection: Any) -> None: ...

    @abstractmethod
    def in_transaction(self, connection: Any) -> bool:
        """Whether the transaction that `begin` began is still open (also if it can only be rolled back), as far as can
        be told without asking the server. A statement that failed, or one like MySQL's DDL, may have ended it."""

    def is_clean(self, connection: Any) -> bool:
        """Whether the connection is free of traces of the last call, such as temporary tables; the pool
        closes a connection that is not clean. Called after the transaction has ended."""
        return True

    # statements

    @abstractmethod
    def run(self, connection: Any, sql: str, params: Sequence[Any], *, read_only: bool) -> Cursor:
        """Run one statement in the open transaction and return its cursor, before its rows are fetched.

        `params` are the values of `$1`, `$2`, …; if there are none, nothing is bound and the text goes to the database
        unchanged, with every `%`, `?` and `:name` in it. Only as many rows are held in memory as a batch has, however large
        the result: `read_only` says that the transaction is, so that a server-side cursor will do. Raises
        `InvalidArguments` for placeholders that do not fit (see `placeholders.py`), and for several statements in one text.
        """

    def run_only(self, connection: Any, sql: str, params: Sequence[Any], *, most_rows: int) -> Cursor:
        """Run the only statement of a transaction that may write. If it succeeds with at most that many rows, the
        database may begin to commit at once: see `is_committing`."""
        return self.run(connection, sql, params, read_only=False)

    def bring(self, connection: Any, sql: str, ctx: ToolContext) -> Mapping[str, str]:
        """Bring the rows of other databases that a statement needs, before it runs. Returns the time of each copied table."""
        return {}

    def is_committing(self, connection: Any) -> bool:
        """Whether the commit has begun, so that it cannot be undone: `commit` reports its result."""
        return False

    @abstractmethod
    def cancel(self, connection: Any) -> None:
        """Make the statement that runs on this connection fail soon. Called from another thread, and called again
        every `CANCEL_AGAIN` seconds until the statement has ended, because it may come before the statement began.
        Never called after `run` and the fetching of its rows are over."""

    def ask_progress(self, connection: Any, report: Callable[[float], None]) -> None:
        """Ask how far the statement is that runs on this connection, where `tells_progress`: `report` gets a number of percent
        while `run` or a fetch waits. Called as `cancel` is."""

    def explain(self, sql: str) -> str:
        """The statement that shows the plan of another one without running it."""
        return f"EXPLAIN {sql}"

    # facts

    def functions(self, connection: Any) -> frozenset[str]:
        """Functions of the server itself that only compute or look, by its own catalog, read in an open read-only
        transaction. None that a user made, whatever is said of it."""
        return frozenset()

    @abstractmethod
    def read_schema(self, connection: Any) -> Schema:
        """Tables and views with their columns and keys, read in an open read-only transaction."""

    def other_tables(self, ctx: ToolContext, *, refresh: bool) -> Mapping[str, SqlTable]:
        """Tables of other databases that statements may name; `refresh` reads them anew."""
        return {}


MAX_SCHEMA_TEXT: Final = 24_000
"""Characters of the schema in a prompt, about 6,000 tokens: what a model of any size still reads with attention."""

MAX_COLUMNS: Final = 150
"""Columns of one table that are shown; those that the question names first."""

SHORTEST_WORD: Final = 3
"""Letters of a word that counts as relevant."""


class Column(msgspec.Struct, frozen=True):
    """`type` is written as the database writes it."""

    name: str
    type: str


class ForeignKey(msgspec.Struct, frozen=True):
    """`columns` of this table name a row of `table` by its columns `references`."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


def shown_name(parts: Iterable[str]) -> str:
    """The name of a table, of its schema's name and its own: one that has a dot or a double quote in it is quoted."""
    return ".".join('"' + part.replace('"', '""') + '"' if _UNCLEAR.search(part) else part for part in parts)


def split_name(name: str) -> tuple[str, ...]:
    """The parts of a name that `shown_name` made."""
    return tuple(plain or quoted.replace('""', '"') for quoted, plain in _PARTS.findall(name))


_UNCLEAR: Final = re.compile(r'[."]')
_PARTS: Final = re.compile(r'"((?:[^"]|"")*)"(?=\.|$)|([^.]+)')


class SqlTable(msgspec.Struct, frozen=True):
    """A table or a view. Its name has its schema as a prefix, unless that is the default schema; see `shown_name`."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    is_view: bool = False
    problem: str | None = None
    """The database's error, if it cannot list the columns."""

    def as_json(self) -> dict[str, Any]:
        """`{columns: [{column, type}], primary_key?, foreign_keys?, view?, problem?}`."""
        answer: dict[str, Any] = {"columns": [{"column": column.name, "type": column.type} for column in self.columns]}
        if self.primary_key:
            answer["primary_key"] = list(self.primary_key)
        if self.foreign_keys:
            answer["foreign_keys"] = [
                {"columns": list(key.columns), "references": {"table": key.table, "columns": list(key.references)}}
                for key in self.foreign_keys
            ]
        if self.is_view:
            answer["view"] = True
        if self.problem is not None:
            answer["problem"] = self.problem
        return answer


class Schema(msgspec.Struct, frozen=True):
    """The snapshot of a database's tables. `database` is its name; of a file, the file's."""

    database: str
    tables: Mapping[str, SqlTable]
    read_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))

    def as_json(self, table: str | None = None) -> dict[str, Any]:
        """`{database, tables}`, of one table only if it is named. Raises `ToolError` (`table_not_found`) with near names."""
        tables = self.tables if table is None else {table: self.table(table)}
        return {"database": self.database, "tables": {name: entry.as_json() for name, entry in tables.items()}}

    def table(self, name: str) -> SqlTable:
        """The table of that name."""
        found = self.tables.get(name)
        if found is not None:
            return found
        near = near_matches(name, self.tables)
        hint = f"Did you mean {' or '.join(near)}?" if near else "refresh_schema reads the tables again."
        raise ToolError(
            f'There is no table "{name}" in the database "{self.database}"',
            code="table_not_found",
            hint=hint,
            data={"near": near},
        )


def schema_of(
    database: str,
    columns: Iterable[tuple[str, bool, str | None, str]],
    keys: Iterable[tuple[str, bool, Sequence[str], str, Sequence[str]]],
) -> Schema:
    """The schema of columns and keys, as catalogs list them.

    A column is its table, whether that is a view, its name (None: the table has no column) and its type. A key is its table,
    whether it is the primary key, its columns, and of a foreign key the other table and its columns.
    """
    found: dict[str, list[Column]] = {}
    views: set[str] = set()
    primary: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, list[ForeignKey]] = {}
    for table, is_view, column, kind in columns:
        known = found.setdefault(table, [])
        if column is not None:
            known.append(Column(column, kind))
        if is_view:
            views.add(table)
    for table, is_primary, own, other, references in keys:
        if is_primary:
            primary[table] = tuple(own)
        else:
            foreign.setdefault(table, []).append(ForeignKey(tuple(own), other, tuple(references)))
    return Schema(
        database,
        {
            name: SqlTable(name, tuple(known), primary.get(name, ()), tuple(foreign.get(name, ())), name in views)
            for name, known in found.items()
        },
    )


_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE: Final = re.compile(r"\s+")


def schema_text(schema: Schema, question: str) -> str:
    """One line per table. The most relevant ones come first; how many are left out is said at the end."""
    asked = _stems(question)
    scores = {name: _score(table, asked) for name, table in schema.tables.items()}
    for name, table in schema.tables.items():  # a table that connects relevant tables is needed for the join
        if scores[name]:
            for key in table.foreign_keys:
                if key.table in scores and not scores[key.table]:
                    scores[key.table] = 1
    lines: list[str] = []
    size = 0
    for name in sorted(schema.tables, key=lambda name: (-scores[name], name)):
        line = _line(schema.tables[name], asked)
        size += len(line) + 1
        if size > MAX_SCHEMA_TEXT:
            break
        lines.append(line)
    left = len(schema.tables) - len(lines)
    if left:
        lines.append(f"({left} more tables are not shown)")
    return "\n".join(lines)


def _line(table: SqlTable, asked: frozenset[str]) -> str:
    columns = table.columns
    if len(columns) > MAX_COLUMNS:
        columns = tuple(sorted(columns, key=lambda column: not (_stems(column.name) & asked))[:MAX_COLUMNS])
    told = [f"{_one_line(column.name)} {_one_line(column.type)}" for column in columns]
    if len(table.columns) > len(columns):
        told.append(f"({len(table.columns) - len(columns)} more columns)")
    if table.primary_key:
        told.append(f"primary key ({', '.join(map(_one_line, table.primary_key))})")
    for key in table.foreign_keys:
        here, there = ", ".join(map(_one_line, key.columns)), ", ".join(map(_one_line, key.references))
        told.append(f"({here}) references {_one_line(key.table)} ({there})")
    return f"{'view' if table.is_view else 'table'} {_one_line(table.name)}: {'; '.join(told)}"[:MAX_SCHEMA_TEXT]


def _one_line(name: str) -> str:
    """The text on one line: names may hold anything, even line breaks."""
    return _LINE.sub(" ", name)[:128]


def _score(table: SqlTable, asked: frozenset[str]) -> int:
    of_columns = {stem for column in table.columns for stem in _stems(column.name)}
    return 4 * len(_stems(table.name) & asked) + len(of_columns & asked)


def _stems(text: str) -> frozenset[str]:
    """The words of a text or of a name, without plural endings."""
    words = _WORDS.findall(_CAMEL.sub(" ", text).casefold())
    return frozenset(_stem(word) for word in words if len(word) >= SHORTEST_WORD)


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > SHORTEST_WORD + 1:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
