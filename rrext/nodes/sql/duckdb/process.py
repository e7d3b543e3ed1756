"""The server's side of the process of a DuckDB database, and of the connections to it."""

from __future__ import annotations

import itertools
import logging
import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import msgspec

from rrext.errors import RrextError, error_from_wire
from rrext.nodes.child.calls import receive
from rrext.nodes.child.launch import module_command
from rrext.nodes.child.process import NodeProcess, ProcessLost
from rrext.nodes.databases.failure import Failure
from rrext.nodes.sql.duckdb.messages import (
    MEMORY,
    Answer,
    Begin,
    DuckdbSettings,
    Interrupt,
    Refused,
    Request,
    SqlCommit,
    SqlFailed,
    SqlFetch,
    SqlLoad,
    SqlOpen,
    SqlRollback,
    SqlRows,
    SqlRun,
    is_over,
    message_frame,
)
from rrext.nodes.sql.limits import MORE_ROWS

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
        with door:
            command = module_command("rrext.nodes.sql.duckdb.worker", str(door.fileno()))
            super().__init__(command, settings, what=WHAT, crash=_CRASHED, closed=CLOSED, inherits=(door.fileno(),))

    def lost_by(self, request: Request, *, is_sent: bool) -> RrextError:
        """The error for a connection that saw the process end, or could not send to it."""
        self.wait()
        is_unknown = is_sent and isinstance(request, SqlCommit)
        error = self.lost(
            suspects=self._at_work if is_sent else 0,
            is_harmless=not is_sent or isinstance(request, SqlOpen | SqlLoad),
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

    def leave(self, link: socket.socket) -> bool:
        """Give up a statement that does not stop, and the connection that it is on: it ends some time, its answer is nobody's.
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

    def let_go(self) -> None:
        self._at_work = max(1, len(self.busy))
        self._door.close()
        while self._left:
            self._left.pop().close()


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
        """The names of the tables and views that there are, the first `NAMED` of them; in a transaction of its own."""
        sql = "SELECT table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'VIEW') ORDER BY ALL"
        with suppress(DuckdbError, RrextError):  # the process is lost meanwhile: the loss itself is told
            self.begin(read_only=True)
            rows = self.run(sql, ()).fetchmany(NAMED)
            self.rollback()
            return [name for (name,) in rows]
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
            received = receive(self._answers)
            if received is None:
                raise self._lost(request)
        except OSError:
            raise self._lost(request) from None
        finally:
            busy.pop(self._number, None)
        answer = _DECODER.decode(received[1])
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
        if late > 0 and self.process.leave(self._socket):
            self._is_left = True
        elif late > 0 and (late > SETTLING_TIMEOUT or not self.process.has_commits):
            self.process.doom()
        else:
            self.process.tell(Interrupt(self._number, self._request))

    def close(self) -> None:
        """Close the connection; the process rolls back its open transaction."""
        self._answers.close()
        self._socket.close()


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
