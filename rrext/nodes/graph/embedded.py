"""A graph database in this process: Ladybug, in a file or in memory. Importing this imports nothing of it yet.

One process at a time opens a file for writing. Ladybug's own lock on it is lost as soon as anything else in the process
closes the same file, so a file beside it, NAME.lock, is locked too.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from math import ceil
from time import monotonic, sleep
from typing import Any, ClassVar, Final

from rrext.errors import ToolError, Unavailable
from rrext.nodes.graph.backend import Cursor, GraphBackend, GraphSchema, Rows, Transaction
from rrext.nodes.graph.effects import effects_of
from rrext.nodes.graph.embedded_rules import EmbeddedError, EmbeddedSettings, changing, failure_of, schema_of, sentence
from rrext.nodes.graph.parameters import Readings
from rrext.nodes.graph.tally import Tally
from rrext.nodes.graph.values import EmbeddedValues
from rrext.nodes.sql.backend import Failure

__all__ = ["EmbeddedBackend"]

MIB: Final = 1024 * 1024
TURN: Final = 0.05
"""Seconds between looks at whether a call that waits for its turn to write is still wanted."""
LEAVING: Final = 1.0
"""Seconds that a database which another process has is waited for: that of a server which was killed is about to end."""
IDLE_CONNECTIONS: Final = 8
"""Connections that are kept for the next calls; making one is cheap."""
STATEMENTS: Final = 16
"""Statements with parameters after which a connection is not used again: it keeps the plan of each, half a megabyte."""
RAISED: Final = (RuntimeError, ValueError, TypeError, OverflowError)
"""What the engine raises when it runs a statement, and when its values become Python's."""


class _Lease:
    """A connection, and which statements with parameters it ran."""

    __slots__ = ("connection", "statements")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.statements: set[str] = set()

    def __repr__(self) -> str:
        return f"<_Lease {len(self.statements)} statements>"


class EmbeddedBackend(GraphBackend):
    """One database. It is opened by the first call; if that fails, the next one tries again."""

    dialect: ClassVar[str] = "ladybug"

    __slots__ = ("_database", "_idle", "_is_closed", "_lock", "_lock_file", "_settings", "values", "writing")

    def __init__(self, settings: EmbeddedSettings) -> None:
        import_module("ladybug")  # the slow part of the first call, on this thread
        self._settings = settings
        self._lock = threading.Lock()
        self._database: Any = None
        self._lock_file: int | None = None
        self._idle: list[_Lease] = []
        self._is_closed = False
        self.values = EmbeddedValues()
        self.writing = threading.Lock()

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> Transaction:
        return _EmbeddedTransaction(self, read_only, timeout, check)

    def read_schema(self, run: Rows) -> GraphSchema:
        return schema_of(self._settings, run)

    def changing(self, cypher: str) -> str:
        return changing(self._settings, cypher)

    def failure(self, error: Exception) -> Failure | None:
        return failure_of(error)

    def open(self) -> None:
        """Open the database, if it is not open."""
        self.give_back(self.lease(), is_good=True)

    def lease(self) -> _Lease:
        """A connection for one transaction; opens the database if need be."""
        import ladybug

        with self._lock:
            if self._is_closed:
                raise Unavailable("The graph database is closed: the node is being unloaded")
            if self._idle:
                return self._idle.pop()
            if self._database is None:
                self._database = self._opened()
            return _Lease(ladybug.Connection(self._database, num_threads=self._settings.threads))

    def give_back(self, lease: _Lease, *, is_good: bool) -> None:
        """A transaction is over. A connection that was interrupted is not used again."""
        is_good = is_good and len(lease.statements) <= STATEMENTS
        with self._lock:
            if is_good and not self._is_closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(lease)
                return
        with suppress(Exception):
            lease.connection.close()

    def wait_to_write(self, check: Callable[[], None]) -> None:
        """Wait for the turn to write: the engine has one writing transaction at a time."""
        left = self._settings.lock_timeout
        while not self.writing.acquire(timeout=min(TURN, left)):
            check()
            left -= TURN
            if left <= 0:
                raise ToolError(
                    f"Another transaction writes, and did not end within {self._settings.lock_timeout:g} s (lock_timeout)",
                    code="database_locked",
                    hint="Try again, or end the open transaction.",
                )

    def _opened(self) -> Any:
        import ladybug

        settings = self._settings
        path, read_only = settings.path, settings.read_only and bool(settings.path)
        if path:
            self._lock_beside(path, read_only)
        try:
            return ladybug.Database(
                path or None, buffer_pool_size=settings.memory_mb * MIB, max_num_threads=settings.threads, read_only=read_only
            )
        except Exception as error:
            self._unlock()
            raise _not_opened(str(error), read_only=read_only, is_there=os.path.exists(path)) from None

    def _lock_beside(self, path: str, read_only: bool) -> None:
        try:
            lock_file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if read_only:
                return  # in a folder where nobody writes, nobody has to be kept out
            raise Unavailable(
                f"The graph database cannot be used: {error.strerror or 'its folder cannot be written'}",
                hint="The folder of the database has to exist and to be writable.",
            ) from None
        until = monotonic() + LEAVING
        while not _is_locked(lock_file, read_only):
            if monotonic() > until:
                os.close(lock_file)
                raise _in_use()
            sleep(TURN)
        self._lock_file = lock_file

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            database, self._database = self._database, None
        for lease in idle:
            with suppress(Exception):
                lease.connection.close()
        if database is not None:
            with suppress(Exception):
                database.close()
        self._unlock()

    def __repr__(self) -> str:
        return f"<EmbeddedBackend {'open' if self._database is not None else 'not open'}>"


class _EmbeddedTransaction(Transaction):
    """A connection with one transaction on it."""

    __slots__ = ("_backend", "_check", "_is_cancelled", "_is_first", "_is_open", "_lease", "_read_only", "_timeout", "_writes")

    def __init__(self, backend: EmbeddedBackend, read_only: bool, timeout: float, check: Callable[[], None]) -> None:
        self._backend = backend
        self._read_only = read_only
        self._timeout = timeout
        self._check = check
        self._lease: _Lease | None = None
        self._is_open = False
        self._is_cancelled = False
        self._is_first = True  # whether no statement ran yet
        self._writes = False

    def start(self) -> None:
        if not self._read_only:
            self._backend.wait_to_write(self._check)
            self._writes = True
        self._lease = self._backend.lease()
        self._lease.connection.set_query_timeout(ceil(self._timeout * 1000))  # 0: none
        self._begin()
        self._is_open = True

    def _begin(self) -> None:
        self._execute("BEGIN TRANSACTION READ ONLY" if self._read_only else "BEGIN TRANSACTION").close()

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> Cursor:
        is_first, self._is_first = self._is_first, False
        readings = Readings(params)
        while True:
            try:
                return self._ran(cypher, readings.params, counts=counts)
            except EmbeddedError as error:
                # It ended the transaction mostly; if nothing was done in that yet, another one is as good.
                if not is_first or not readings.learn(str(error)):
                    raise
            if (lease := self._lease) is not None:
                _rolled_back(lease.connection)
            self._begin()

    def _ran(self, cypher: str, params: Mapping[str, Any], *, counts: bool) -> Cursor:
        tally = Tally(effects_of(cypher), self._rows, params) if counts else None
        cursor = _EmbeddedCursor(self._execute(cypher, params), self._backend.values)
        if tally is not None:
            cursor.settle(tally.counters())
        return cursor

    def _rows(self, cypher: str, params: Mapping[str, Any]) -> list[Any]:
        result = self._execute(cypher, params)
        try:
            return result.get_all()
        finally:
            result.close()

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        result = self._execute(f"EXPLAIN {cypher}", Readings(params).params)
        try:
            return result.get_next()[0]
        finally:
            result.close()

    def commit(self) -> None:
        self._execute("COMMIT").close()
        self._is_open = False

    def end(self) -> None:
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                is_good = not self._is_cancelled
                if self._is_open:
                    is_good = _rolled_back(lease.connection) and is_good
                self._backend.give_back(lease, is_good=is_good)
        finally:
            self._is_open = False
            if self._writes:
                self._writes = False
                self._backend.writing.release()

    def cancel(self) -> None:
        self._is_cancelled = True
        lease = self._lease
        if lease is not None:
            with suppress(Exception):
                lease.connection.interrupt()

    def _execute(self, cypher: str, params: Mapping[str, Any] | None = None) -> Any:
        lease = self._lease
        assert lease is not None  # started, and not ended
        try:
            if params:
                lease.statements.add(cypher)
                result = lease.connection.execute(cypher, dict(params))
            else:
                result = lease.connection.execute(cypher)
        except RAISED as error:
            raise EmbeddedError(str(error)) from None
        return result[-1] if isinstance(result, list) else result

    def __repr__(self) -> str:
        return f"<_EmbeddedTransaction {'open' if self._is_open else 'over'}>"


class _EmbeddedCursor:
    """The result of one statement. The engine holds it; rows become Python's when they are fetched."""

    __slots__ = ("_counters", "_result", "_values", "columns", "types")

    def __init__(self, result: Any, values: EmbeddedValues) -> None:
        self._result = result
        self._values = values
        self._counters: dict[str, int] | None = None
        self.columns: list[str] = list(result.get_column_names())
        self.types: list[str | None] = list(result.get_column_data_types())

    def settle(self, counters: dict[str, int] | None) -> None:
        """What the statement did, which is known before its rows are fetched."""
        self._counters = counters

    def fetch(self, size: int, /) -> list[list[Any]]:
        json = self._values.json
        rows: list[list[Any]] = []
        while len(rows) < size and (values := self._next()) is not None:
            rows.append([json(value) for value in values])
        return rows

    def _next(self) -> list[Any] | None:
        """The next row; None if there is none. A value that Python has no room for fails the statement."""
        try:
            return self._result.get_next() if self._result.has_next() else None
        except RAISED as error:
            raise EmbeddedError(str(error)) from None

    def counters(self) -> dict[str, int] | None:
        return self._counters

    def affected(self) -> int | None:
        return None if self._counters is None else sum(self._counters.values())

    def plan(self) -> Any:
        return None  # it is the only row

    def close(self) -> None:
        self._result.close()


def _rolled_back(connection: Any) -> bool:
    """Undo a transaction. A statement that failed ended it already; such a connection is not used again."""
    try:
        connection.execute("ROLLBACK").close()
    except Exception:
        return False
    return True


def _is_locked(lock_file: int, read_only: bool) -> bool:
    try:
        fcntl.flock(lock_file, (fcntl.LOCK_SH if read_only else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _in_use() -> Unavailable:
    return Unavailable(
        "The graph database cannot be used: another process or another node has it open",
        hint="One at a time may write. With allow_execute off everywhere, several may read.",
    )


def _not_opened(message: str, *, read_only: bool, is_there: bool) -> Unavailable:
    if "lock" in message:
        return _in_use()
    if read_only and not is_there:
        return Unavailable(
            "The graph database cannot be used: there is none at its path",
            hint='With "allow_execute": true an empty one is made.',
        )
    return Unavailable(f"The graph database cannot be used: {sentence(message)}", hint="Nothing was changed.")
