"""The process of an embedded graph: `python -m rrext.nodes.graph.ladybug_worker`. It imports Ladybug at first use.

Requests come through the standard input and answers leave through the standard output, as `ladybug_rules` says, after the
`EmbeddedSettings`. When the server closes its end, or is killed, open transactions are undone, the database is closed,
and this process ends.

One process at a time opens a file for writing; processes take turns between transactions. The turns have a lock beside
the file, NAME.lock: Ladybug's own lock on the file is lost as soon as anything else in the process closes the same file.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from math import ceil
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec

from rrext.errors import Cancelled, InternalError, ToolError, Unavailable
from rrext.nodes.child.process import Cancel
from rrext.nodes.child.worker import AnswerStream, answer_of, begin, ending_within, receive
from rrext.nodes.files.turns import FileLock, InUse, Turns
from rrext.nodes.graph.backend import EmbeddedValues, bytes_in, wide_integers_in
from rrext.nodes.graph.effects import Effects, effects_of
from rrext.nodes.graph.ladybug_rules import (
    LADYBUG_FAILED,
    EmbeddedError,
    EmbeddedSettings,
    GraphBegin,
    GraphCommit,
    GraphEnd,
    GraphExplain,
    GraphFetch,
    GraphOpen,
    GraphRows,
    GraphRun,
    Message,
    sentence,
)
from rrext.threads import Workers

INTERRUPT_AGAIN: Final = 0.05
"""Seconds until an interrupt is repeated: the first may have come before the step began."""

LEAVING_TIMEOUT: Final = 5.0
"""Seconds that rollback and close may take after the server is gone."""


class LadybugSession:
    """A transaction and its statement. Its requests are done one after the other; only `interrupt` may come
    meanwhile."""

    def __init__(self, backend: EmbeddedBackend, request: GraphBegin) -> None:
        self._lock = threading.Lock()
        self._cursor: EmbeddedCursor | None = None
        self._is_interrupted = False
        self._transaction = backend.transaction(read_only=request.read_only, timeout=request.timeout, check=self._check)

    def _check(self) -> None:
        if self._is_interrupted:
            raise Cancelled

    def do(self, request: Any) -> Any:
        """Carry out a request after the previous one. Raises Ladybug's errors."""
        with self._lock:
            return self._done(request)

    def _done(self, request: Any) -> Any:
        match request:
            case GraphBegin():
                self._transaction.start()
                return None
            case GraphRun():
                self._close_cursor()
                params = msgspec.json.decode(request.params)
                cursor = self._cursor = self._transaction.run(request.cypher, params, counts=request.counts)
                columns, types, counters = cursor.columns, cursor.types, cursor.counters
                return GraphRows(*self._rows(request.size), columns, types, counters)
            case GraphFetch():
                return GraphRows(*self._rows(request.size))
            case GraphExplain():
                self._close_cursor()
                return self._transaction.explain(request.cypher, msgspec.json.decode(request.params))
            case GraphCommit():
                self._close_cursor()
                self._transaction.commit()
                return None
            case _:
                self._close_cursor()
                self._transaction.end()
                return None

    def _rows(self, size: int) -> tuple[list[list[Any]], bool]:
        cursor = self._cursor
        rows: list[list[Any]] = [] if cursor is None else cursor.fetch(size)
        is_last = len(rows) < size
        if is_last:
            self._close_cursor()
        return rows, is_last

    def _close_cursor(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()

    def interrupt(self) -> None:
        """Make the running request fail soon; return when it has ended."""
        self._is_interrupted = True
        while True:
            self._transaction.cancel()
            if self._lock.acquire(timeout=INTERRUPT_AGAIN):
                self._lock.release()
                return


class LadybugWorker:
    """Serves requests, with one thread for each transaction."""

    def __init__(self, backend: EmbeddedBackend, answers: AnswerStream) -> None:
        self._backend = backend
        self._answers = answers
        self._sessions: dict[int, LadybugSession] = {}
        self._at_work: dict[int, LadybugSession] = {}
        """Sessions by the number of the call that they do something for."""
        self._threads = Workers()

    def serve(self, requests: BinaryIO) -> None:
        """Answer requests until the other end closes; then roll back open transactions and close the database."""
        decoder = msgspec.msgpack.Decoder(Message)
        while (received := receive(requests)) is not None:
            call, data = received
            message = decoder.decode(data)
            if isinstance(message, GraphOpen):
                self._threads.run(lambda call=call, message=message: self._do(call, message, None))
                continue
            if isinstance(message, Cancel):
                at_work = self._at_work.get(call)
                if at_work is not None:
                    self._threads.run(at_work.interrupt)
                continue
            session = self._sessions.get(message.transaction)
            if isinstance(message, GraphBegin):
                session = self._sessions[message.transaction] = LadybugSession(self._backend, message)
            elif isinstance(message, GraphEnd):
                self._sessions.pop(message.transaction, None)
            if session is not None:
                self._at_work[call] = session
            self._threads.run(lambda call=call, message=message, session=session: self._do(call, message, session))
        with ending_within(LEAVING_TIMEOUT):
            for session in list(self._sessions.values()):
                self._threads.run(session.interrupt)
            self._backend.close()

    def _do(self, call: int, message: Any, session: LadybugSession | None) -> None:
        answer = answer_of(lambda: self._result(message, session), "The graph database")
        self._at_work.pop(call, None)
        self._answers.send(call, answer)

    def _result(self, message: Any, session: LadybugSession | None) -> Any:
        if isinstance(message, GraphOpen):
            return self._backend.open()
        if session is None:
            raise InternalError("The transaction is not known here")
        try:
            return session.do(message)
        except EmbeddedError as error:
            raise ToolError(str(error), code=LADYBUG_FAILED) from None


def main() -> None:
    """Serve one database until the server is gone."""
    requests, answers, settings = begin(EmbeddedSettings)
    LadybugWorker(EmbeddedBackend(settings), answers).serve(requests)


WRITE_TURN: Final = 0.05
"""Seconds between checks whether a call that waits for its turn to write has been cancelled."""

RAISED: Final = (RuntimeError, ValueError, TypeError, OverflowError)
"""Ladybug's exceptions for statements, and for the conversion of its values to Python."""


class EmbeddedBackend:
    """One database. The first call opens it; if that fails, the next one tries again."""

    def __init__(self, settings: EmbeddedSettings) -> None:
        import_module("ladybug")  # the slow part of the first call, on this thread
        self._settings = settings
        self.turns: Turns[OpenDatabase] = Turns(lambda check: OpenDatabase.open(settings, check), refusal=_closed)
        """Each transaction is a use."""
        self.values = EmbeddedValues()
        self.writing = threading.Lock()

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> EmbeddedTransaction:
        return EmbeddedTransaction(self, read_only, timeout, check)

    def open(self) -> None:
        """Open the database, if it is not open."""
        with self.turns.use(lambda: None):
            pass

    def wait_to_write(self, check: Callable[[], None]) -> None:
        """Wait for the turn to write: Ladybug has one writing transaction at a time."""
        left = self._settings.lock_timeout
        while not self.writing.acquire(timeout=min(WRITE_TURN, left)):
            check()
            left -= WRITE_TURN
            if left <= 0:
                raise ToolError(
                    f"Another transaction writes, and did not end within {self._settings.lock_timeout:g} s (lock_timeout)",
                    code="database_locked",
                    hint="Try again, or end the open transaction.",
                )

    def close(self) -> None:
        self.turns.close(0.0)


class EmbeddedTransaction:
    """A connection with one transaction on it."""

    def __init__(self, backend: EmbeddedBackend, read_only: bool, timeout: float, check: Callable[[], None]) -> None:
        self._backend = backend
        self._read_only = read_only
        self._timeout = timeout
        self._check = check
        self._database: OpenDatabase | None = None
        self._lease: LentConnection | None = None
        self._is_open = False
        self._is_cancelled = False
        self._writes = False

    def start(self) -> None:
        if not self._read_only:
            self._backend.wait_to_write(self._check)
            self._writes = True
        self._database = self._backend.turns.enter(self._check)
        assert self._database is not None  # it was opened, or that raised
        self._lease = self._database.lease()
        self._lease.connection.set_query_timeout(ceil(self._timeout * 1000))  # 0: none
        self._execute("BEGIN TRANSACTION READ ONLY" if self._read_only else "BEGIN TRANSACTION").close()
        self._is_open = True

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> EmbeddedCursor:
        params = _given(params)
        tally = Tally(effects_of(cypher), self._rows, params) if counts else None
        result = self._execute(cypher, params)
        return EmbeddedCursor(result, self._backend.values, tally.counters() if tally is not None else None)

    def _rows(self, cypher: str, params: Mapping[str, Any]) -> list[Any]:
        result = self._execute(cypher, params)
        try:
            return result.get_all()
        finally:
            result.close()

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        result = self._execute(f"EXPLAIN {cypher}", _given(params))
        try:
            return result.get_next()[0]
        finally:
            result.close()

    def commit(self) -> None:
        self._execute("COMMIT").close()
        self._is_open = False

    def end(self) -> None:
        lease, self._lease = self._lease, None
        database, self._database = self._database, None
        try:
            if database is not None and lease is not None:
                is_good = not self._is_cancelled
                if self._is_open:
                    is_good = _rolled_back(lease.connection) and is_good
                database.give_back(lease, is_good=is_good)
        finally:
            self._is_open = False
            if database is not None:
                self._backend.turns.end_use()
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


class EmbeddedCursor:
    """The result of one statement. Ladybug holds the rows; a fetch converts them to Python values."""

    def __init__(self, result: Any, values: EmbeddedValues, counters: dict[str, int] | None) -> None:
        self._result = result
        self._values = values
        self.counters = counters
        self.columns: list[str] = list(result.get_column_names())
        self.types: list[str | None] = list(result.get_column_data_types())

    def fetch(self, size: int, /) -> list[list[Any]]:
        json = self._values.json
        rows: list[list[Any]] = []
        while len(rows) < size and (values := self._next()) is not None:
            rows.append([json(value) for value in values])
        return rows

    def _next(self) -> list[Any] | None:
        """The next row; None if there is none. A value without a Python equivalent fails the statement."""
        try:
            return self._result.get_next() if self._result.has_next() else None
        except RAISED as error:
            raise EmbeddedError(str(error)) from None

    def close(self) -> None:
        self._result.close()


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in the form of the driver."""
    return wide_integers_in(bytes_in(dict(params)))


def _rolled_back(connection: Any) -> bool:
    """Roll back a transaction. A failed statement has ended it already; the connection is not used again then."""
    try:
        connection.execute("ROLLBACK").close()
    except Exception:
        return False
    return True


def _closed() -> Unavailable:
    return Unavailable("The graph database is closed: the node is being unloaded")


NODES: Final = "MATCH (n) RETURN count(n)"
RELATIONSHIPS: Final = "MATCH ()-[r]->() RETURN count(r)"

Run: TypeAlias = "Callable[[str, Mapping[str, Any]], list[Any]]"
"""Runs a statement with parameters and returns all its rows."""


class Tally:
    """Counts of one statement. Made before the statement runs, in the same transaction; call `counters` after it."""

    def __init__(self, effects: Effects, run: Run, params: Mapping[str, Any]) -> None:
        self._effects = effects
        self._run = run
        self._changed = 0
        self._before = (0, 0)
        # Elements that a statement both creates and deletes do not show in the numbers.
        if not effects.are_countable or (effects.creates and effects.deletes):
            return
        if effects.finding is not None:
            self._changed = self._found(effects.finding, params)
        if effects.creates or effects.deletes:
            self._before = self._elements()

    def counters(self) -> dict[str, int] | None:
        """The numbers of created and deleted nodes and relationships, and of changed elements, without those that are
        0. None if it cannot be told."""
        effects = self._effects
        if not effects.are_countable or (effects.creates and effects.deletes):
            return None
        found = {"elements_changed": self._changed}
        if effects.creates or effects.deletes:
            done = "deleted" if effects.deletes else "created"
            for kind, before, after in zip(("nodes", "relationships"), self._before, self._elements(), strict=True):
                found[f"{kind}_{done}"] = abs(after - before)
        return {name: count for name, count in found.items() if count}

    def _elements(self) -> tuple[int, int]:
        [[nodes]] = self._run(NODES, {})
        [[relationships]] = self._run(RELATIONSHIPS, {}) if self._effects.links else [[0]]
        return nodes, relationships

    def _found(self, finding: str, params: Mapping[str, Any]) -> int:
        """The number of elements to change, each counted once, even if several variables name it."""
        names = ["`" + name.replace("`", "``") + "`" for name in self._effects.targets]
        given = {name: value for name, value in params.items() if name in self._effects.parameters}
        if len(names) == 1:
            [[count]] = self._run(f"{finding}\nRETURN count(DISTINCT {names[0]})", given)
            return count
        rows = self._run(f"{finding}\nRETURN DISTINCT {', '.join(f'id({name})' for name in names)}", given)
        return len({(key["table"], key["offset"]) for row in rows for key in row if key is not None})


IDLE_CONNECTIONS: Final = 8
"""Connections that are kept for the next calls; making one is cheap."""

PLANNED_STATEMENTS: Final = 16
"""Statements with parameters after which a connection is not used again: it keeps the plan of each, half a megabyte."""

OPEN_AGAIN: Final = 0.02
"""Seconds between attempts to open a file that another program has open."""

TORN: Final = re.compile(r"WAL file is corrupted|Reading past the end of the file \S+\.wal\b")
"""The messages of Ladybug for a log with a damaged record. The log of a process that was killed while it wrote ends in one.
Ladybug then reads the records before the damaged one, as SQLite does."""

MIB: Final = 1024 * 1024


class LentConnection:
    """A connection, and the statements with parameters that it has run."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.statements: set[str] = set()


class OpenDatabase:
    """A database and its idle connections."""

    def __init__(self, settings: EmbeddedSettings, database: Any, file_lock: FileLock | None) -> None:
        self._settings = settings
        self._database = database
        self._file_lock = file_lock
        self._lock = threading.Lock()
        self._idle: list[LentConnection] = []

    @classmethod
    def open(cls, settings: EmbeddedSettings, check: Callable[[], object]) -> OpenDatabase:
        """Open the database when no other process has it, within the time of the settings. Raises `Unavailable`."""
        import ladybug

        path, read_only = settings.path, settings.read_only and bool(settings.path)
        file_lock = _lock_beside(settings, check) if path else None
        # Despite our lock, Ladybug's may be taken: the system releases the locks of an ending process one by one.
        until = time.monotonic() + settings.wait
        is_torn = False
        try:
            while True:
                try:
                    database = ladybug.Database(
                        path or None,
                        buffer_pool_size=settings.memory_mb * MIB,
                        max_num_threads=settings.threads,
                        read_only=read_only,
                        throw_on_wal_replay_failure=not is_torn,
                    )
                    return cls(settings, database, file_lock)
                except Exception as error:
                    check()
                    if not is_torn and TORN.search(str(error)):
                        is_torn = True
                        _keep_log(f"{path}.wal", str(error))
                        continue
                    if "lock" not in str(error) or time.monotonic() > until:
                        raise _not_opened(str(error), read_only=read_only, is_there=os.path.exists(path)) from None
                time.sleep(OPEN_AGAIN)
        except BaseException:
            if file_lock is not None:
                file_lock.release()
            raise

    def lease(self) -> LentConnection:
        """Take a connection for one transaction."""
        import ladybug

        with self._lock:
            if self._idle:
                return self._idle.pop()
        return LentConnection(ladybug.Connection(self._database, num_threads=self._settings.threads))

    def give_back(self, lease: LentConnection, *, is_good: bool) -> None:
        """Return the connection after a transaction. An interrupted connection is not used again."""
        with self._lock:
            if is_good and len(lease.statements) <= PLANNED_STATEMENTS and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(lease)
                return
        with suppress(Exception):
            lease.connection.close()

    def is_wanted(self) -> bool:
        """Whether another process waits for the file."""
        return self._file_lock is not None and self._file_lock.is_wanted()

    def close(self) -> None:
        """Close the database, so that another process can open the file."""
        with self._lock:
            idle, self._idle = self._idle, []
        for lease in idle:
            with suppress(Exception):
                lease.connection.close()
        with suppress(Exception):
            self._database.close()
        if self._file_lock is not None:
            self._file_lock.release()


def _lock_beside(settings: EmbeddedSettings, check: Callable[[], object]) -> FileLock | None:
    """Take the lock; readers share it. A writer makes the folder. A folder without write permission needs no lock."""
    try:
        path = f"{settings.path}.lock"
        if not settings.read_only:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        return FileLock.take(path, settings.owner, wait=settings.wait, check=check, shared=settings.read_only)
    except InUse as error:
        who = f"process {error.holder}" if error.holder else "another process"
        raise _in_use(f"{who} has it open, and did not let go of it within {settings.wait:g} s") from None
    except OSError as error:
        if settings.read_only:
            return None
        raise Unavailable(
            f"The graph database cannot be used: {error.strerror or 'its folder cannot be written'}",
            hint="The folder of the database has to be writable.",
        ) from None


def _in_use(who: str) -> Unavailable:
    return Unavailable(
        f"The graph database cannot be used: {who}",
        hint='Processes take turns with it between transactions. Wait longer ("wait"), or end that process or transaction.',
    )


def _keep_log(path: str, why: str) -> None:
    """Copy a log with a damaged record to a file beside it, and report that in the server's log."""
    kept = f"{path}.damaged"
    try:
        shutil.copyfile(path, kept)
    except OSError as error:
        kept = f"nowhere: {error.strerror}"
    told = f"the log has a damaged record ({sentence(why)}): only the records before it are read; a copy is kept as {kept}"
    sys.stderr.write(f"{told}\n")


def _not_opened(message: str, *, read_only: bool, is_there: bool) -> Unavailable:
    if "lock" in message:
        return _in_use("another program has it open")
    if read_only and not is_there:
        return Unavailable(
            "The graph database cannot be used: there is none at its path",
            hint='With "allow_execute": true an empty one is made.',
        )
    return Unavailable(f"The graph database cannot be used: {sentence(message)}", hint="Nothing was changed.")


if __name__ == "__main__":
    main()
