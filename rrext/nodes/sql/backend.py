"""The interface of a kind of SQL database. Each kind is a subclass; all other code of the SQL nodes is the same for all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

from rrext.nodes.databases.database import DatabaseBackend
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.limits import MOST_WARNINGS
from rrext.nodes.sql.schema import Schema

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

    def is_committing(self, connection: Any) -> bool:
        """Whether the commit has begun, so that it cannot be undone: `commit` reports its result."""
        return False

    @abstractmethod
    def cancel(self, connection: Any) -> None:
        """Make the statement that runs on this connection fail soon. Called from another thread, and called again
        every `CANCEL_AGAIN` seconds until the statement has ended, because it may come before the statement began.
        Never called after `run` and the fetching of its rows are over."""

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
