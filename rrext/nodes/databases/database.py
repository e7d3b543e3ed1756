"""The state that all calls of a database node share: its sessions, its pool of connections, and the snapshot of its schema.

A session is a transaction that lasts longer than one call: it has an owner and turns, and ends when it stays idle. A
statement that runs has a timeout, and ends with its call. One thread does what is due: it stops slow statements and ends
idle sessions.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.failure import Failure
from rrext.tools.context import ToolContext

T = TypeVar("T")


class DatabaseBackend(ABC):
    """A kind of database, as its settings describe it. Making one imports its driver, but connects to nothing."""

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        """Run `attempt` with the seconds that each of its statements may take (0: no limit) and return its result.

        A database in a child process repeats it, where that does no harm, if another call ended the process.
        """
        return attempt(timeout)

    @abstractmethod
    def failure(self, error: Exception) -> Failure | None:
        """The failure of a driver's exception; None for any other exception (a bug of rrext)."""

    def close(self) -> None:
        """Release shared resources when the component is unloaded and all transactions have ended."""
        return


class SessionTransaction(Protocol):
    """A transaction of any kind of database, as sessions use it."""

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be committed."""
        ...

    def close(self) -> None:
        """Roll back uncommitted changes. May be called twice."""
        ...


B = TypeVar("B", bound=DatabaseBackend)
W = TypeVar("W", bound=SessionTransaction)
S = TypeVar("S")
"""The record of the schema, with the name of the `database`."""


class SharedDatabase(Generic[B, W, S]):
    """One database; the first call connects. Thread-safe.

    `statement` and `session_idle` are the limits of a statement and of an idle session in seconds, 0 for none. `shown` makes a
    text with settings safe to show.
    """

    def __init__(self, backend: B, *, statement: float, session_idle: float, shown: Callable[[str], str] = str) -> None:
        self.backend = backend
        self.shown = shown
        self._statement = statement
        self._schema: S | None = None
        self._watch = TimerThread()
        self.sessions: Sessions[W] = Sessions(self._begin_session, self._watch, session_idle)

    def begin(self, ctx: ToolContext, *, read_only: bool, timeout: float | None = None) -> W:
        """Begin a transaction; the caller closes it. A statement may take `timeout` seconds; None: as the settings say."""
        raise NotImplementedError

    @contextmanager
    def transaction(self, ctx: ToolContext, *, read_only: bool, timeout: float | None = None) -> Iterator[W]:
        """A transaction of one call: rolled back at the end of the block unless it was committed."""
        transaction = self.begin(ctx, read_only=read_only, timeout=timeout)
        try:
            yield transaction
        finally:
            transaction.close()

    def reading(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, a single read that gets its limit in seconds, and return the result. The read is repeated if
        another call ended the database's process."""
        return self.backend.repeated(attempt, ctx, reads=True, timeout=self._statement)

    def writing(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, which may write; it is repeated only if nothing of it had begun."""
        return self.backend.repeated(attempt, ctx, reads=False, timeout=self._statement)

    def _begin_session(self, ctx: ToolContext, *, read_only: bool) -> W:
        return self.writing(ctx, lambda _: self.begin(ctx, read_only=read_only))

    def schema(self, ctx: ToolContext, *, refresh: bool = False) -> S:
        """The snapshot of the schema; read when it is first asked for, and again with `refresh`."""
        found: Any = self._schema
        if found is None or refresh:
            found = self.read_schema(ctx)
            found = self._schema = msgspec.structs.replace(found, database=self.shown(found.database))
        return found

    def read_schema(self, ctx: ToolContext) -> S:
        """Read the schema anew."""
        raise NotImplementedError

    def close(self) -> None:
        """Roll back every session, and end every connection. Calls that still run fail, or end theirs themselves."""
        self.sessions.close()
        self._watch.close()
        self.backend.close()


SESSION_TURN: Final = 0.25
"""Seconds between checks whether a call that waits for its turn in a session has been cancelled."""

log: Final = logging.getLogger("rrext.sql")

Work = TypeVar("Work", bound=SessionTransaction)
Made = TypeVar("Made", bound=SessionTransaction, covariant=True)


class BeginTransaction(Protocol[Made]):
    """Begins the transaction of a session. The call of `ctx` waits for it, and the transaction outlives that call."""

    def __call__(self, ctx: ToolContext, /, *, read_only: bool) -> Made: ...


class DatabaseSession(Generic[Work]):
    """One transaction and the connection that it belongs to. `lock` is held by the call that uses it."""

    __slots__ = ("id", "is_over", "lock", "owner", "transaction", "used")

    def __init__(self, session_id: str, owner: int | str | None, transaction: Work) -> None:
        self.id = session_id
        self.owner = owner
        self.transaction = transaction
        self.lock = threading.Lock()
        self.is_over = False
        self.used = monotonic()

    def end(self) -> None:
        """Mark the session as over; its open transaction is rolled back after the current call."""
        self.is_over = True

    def __repr__(self) -> str:
        return f"<DatabaseSession {self.id}{' over' if self.is_over else ''}>"


class Sessions(Generic[Work]):
    """The open sessions of one database. Thread-safe."""

    def __init__(self, begin: BeginTransaction[Work], watch: TimerThread, idle: float) -> None:
        self._begin = begin
        self._watch = watch
        self._idle = idle
        self._lock = threading.Lock()
        self._open: dict[str, DatabaseSession[Work]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, ctx: ToolContext) -> DatabaseSession[Work]:
        """Begin a session of the caller's connection. If the caller is gone by then, the session is rolled back at once."""
        session = DatabaseSession(os.urandom(16).hex(), ctx.connection_id, self._begin(ctx, read_only=False))
        with self._lock:
            refused = self._is_closed
            if not refused:
                self._open[session.id] = session
        # A connection's calls are cancelled before `lost` runs, so `begin` or `lost` sees the change of the other.
        if refused or ctx.cancelled:
            self._expire(session)
            ctx.check()
            raise _unknown(session.id)
        self._watch.set(session, session.used + self._idle, lambda: self._reap(session))
        if session.is_over:
            self._watch.drop(session)
        return session

    @contextmanager
    def using(self, session_id: str, ctx: ToolContext) -> Iterator[DatabaseSession[Work]]:
        """Lock the caller's session for this block; calls of one session take turns.

        Raises `ToolError` (`session_not_found`) for an unknown session, one that is over, or another connection's.
        """
        session = self._open.get(session_id)
        if session is None or session.owner != ctx.connection_id:
            raise _unknown(session_id)
        while not session.lock.acquire(timeout=SESSION_TURN):
            ctx.check()
        try:
            if session.is_over:
                raise _unknown(session_id)
            yield session
        finally:
            session.used = monotonic()
            if not session.transaction.is_open:  # as after a failed commit: later statements would be committed at once
                session.is_over = True
            session.lock.release()
            if session.is_over:
                self._expire(session)

    def lost(self, connection_id: str) -> None:
        """Roll back the sessions of a connection that has closed."""
        with self._lock:
            gone = [session for session in self._open.values() if str(session.owner) == connection_id]
        for session in gone:
            self._expire(session)

    def close(self) -> None:
        """Roll back all sessions and refuse new ones."""
        with self._lock:
            self._is_closed = True
            gone = [*self._open.values()]
        for session in gone:
            self._expire(session)

    def _reap(self, session: DatabaseSession[Work]) -> float | None:
        due = session.used + self._idle
        if session.lock.locked() or due > monotonic():
            return max(due, monotonic() + self._idle / 2)
        log.info("a transaction was idle for %g s and is rolled back", self._idle)
        self._expire(session)
        return None

    def _expire(self, session: DatabaseSession[Work]) -> None:
        self._forget(session)
        self._settle(session)

    def _forget(self, session: DatabaseSession[Work]) -> None:
        session.is_over = True
        with self._lock:
            self._open.pop(session.id, None)
        self._watch.drop(session)

    def _settle(self, session: DatabaseSession[Work]) -> None:
        """Close the transaction of a session that is over, unless a call uses the session: that call closes it."""
        if session.lock.acquire(blocking=False):
            try:
                session.transaction.close()
            finally:
                session.lock.release()


def _unknown(session_id: str) -> ToolError:
    return ToolError(
        f"unknown or expired transaction session: {session_id}",
        code="session_not_found",
        hint="A session belongs to the connection that began it, and ends when it is committed, rolled back or idle for long.",
    )


CANCEL_AGAIN: Final = 0.05
"""Seconds until a cancel of a statement is repeated: the first may have come before the statement began."""

PROGRESS_AGAIN: Final = 1.0
"""Seconds until a statement is first asked for its progress, and between two questions."""

StopReason = Literal["timeout", "cancelled"]


class RunningStatement:
    """One statement, from before it is sent until its rows are fetched. Leaving the block waits for a `stop` in progress,
    so that no cancel ever hits the next statement of the connection. `timeout` is in seconds, 0 for none; `ask` asks the
    database for the progress."""

    __slots__ = ("_ask", "_cancel", "_ctx", "_is_over", "_lock", "_timeout", "_watch", "reason")

    def __init__(
        self,
        cancel: Callable[[], None],
        watch: TimerThread,
        timeout: float,
        ctx: ToolContext,
        ask: Callable[[], None] | None = None,
    ) -> None:
        self._cancel = cancel
        self._watch = watch
        self._timeout = timeout
        self._ctx = ctx
        self._ask = ask
        self._lock = threading.Lock()
        self._is_over = False
        self.reason: StopReason | None = None

    def __enter__(self) -> RunningStatement:
        if self._timeout > 0:
            self._watch.set(self, monotonic() + self._timeout, self._time_out)
        self._ctx.on_cancel(self._call_cancelled)
        if self._ask is not None:
            self._watch.set(self._ask, monotonic() + PROGRESS_AGAIN, self._ask_again)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._ctx.token.forget(self._call_cancelled)
        with self._lock:
            self._is_over = True
        self._watch.drop(self)
        if self._ask is not None:
            self._watch.drop(self._ask)

    def _ask_again(self) -> float | None:
        with self._lock:
            if self._is_over or self._ask is None:
                return None
            self._ask()
        return monotonic() + PROGRESS_AGAIN

    def _time_out(self) -> float | None:
        return self._stop("timeout")

    def _call_cancelled(self) -> None:
        """Stop the statement from the thread of the watch: a cancel may wait for the network, and the cancelling thread must
        not."""
        self._watch.set(self, monotonic(), lambda: self._stop("cancelled"))
        if self._is_over:  # the statement ended meanwhile, and its `drop` may have come before this `set`
            self._watch.drop(self)

    def _stop(self, reason: StopReason) -> float | None:
        with self._lock:
            if self._is_over:
                return None
            self.reason = self.reason or reason
            self._cancel()
        return monotonic() + CANCEL_AGAIN

    def __repr__(self) -> str:
        return f"<RunningStatement {self.reason or 'on'}>"


def cancellation(ctx: ToolContext) -> RrextError | None:
    """The error of a call that was cancelled or whose deadline has passed; None if the call is still wanted."""
    try:
        ctx.check()
    except RrextError as stopped:
        return stopped
    return None


def too_slow(seconds: float) -> Failure:
    """The failure of a statement that passed the node's `statement_timeout`."""
    return Failure("timeout", f"it took longer than statement_timeout ({seconds:g} s)")


Action = Callable[[], float | None]
"""Runs at its due time; returns the next due time, or None to end."""


class TimerThread:
    """A thread with a timetable: actions and their due times, each under a key. The thread starts with the first action.

    Adding and removing cost a lock and a dict: nearly every entry is removed before it is due.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._due: dict[object, tuple[float, Action]] = {}
        self._wakes = inf
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def set(self, key: object, due: float, action: Action) -> None:
        """Run `action` at `due`, a time of `monotonic`, unless `drop` comes first. Replaces the earlier action of the key."""
        with self._condition:
            self._due[key] = (due, action)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="rrext-sql-watch", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._condition.notify()

    def drop(self, key: object) -> None:
        """Remove the action of a key; harmless if it has run or is unknown."""
        with self._condition:
            self._due.pop(key, None)

    def close(self) -> None:
        """Remove all actions, and let the thread end."""
        with self._condition:
            self._is_closed = True
            self._due.clear()
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1)  # an action may hang in a connection to a vanished server

    def _run(self) -> None:
        while (found := self._next()) is not None:
            key, action = found
            try:
                again = action()
            except Exception:
                log.exception("watch: %r failed", key)
                again = None
            with self._condition:
                if self._due.get(key, (0, None))[1] is not action:
                    continue
                if again is None:
                    del self._due[key]
                else:
                    self._due[key] = (again, action)

    def _next(self) -> tuple[object, Action] | None:
        """Wait for the next due action; None when closed."""
        with self._condition:
            while not self._is_closed:
                key, (due, action) = min(self._due.items(), key=_due_of, default=(None, (inf, None)))
                now = monotonic()
                if action is not None and due <= now:
                    return key, action
                self._wakes = due
                self._condition.wait(None if due == inf else due - now)
                self._wakes = -inf
        return None


def _due_of(entry: tuple[object, tuple[float, Action]]) -> float:
    return entry[1][0]


class PoolExhausted(Exception):
    """No connection became free in time."""


class Pool:
    """At most `size` connections, opened when they are needed. The one that was given back last is lent first, so that
    those that are not needed stay idle. Callers that wait are served in the order in which they came. Thread-safe.

    No lock is held while a connection is opened or closed.
    """

    def __init__(self, connect: Callable[[ToolContext | None], Any], size: int, wait: float) -> None:
        """`connect` opens a connection for a call. `wait`: seconds that `take` waits for a connection in use."""
        self._connect = connect
        self._size = size
        self._wait = wait
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._open = 0
        """The number of open connections, and of those being opened or closed; never more than `size`."""
        self._waiting: deque[_Waiter] = deque()
        """Callers in line. While there is one, no connection is idle and `size` are open."""
        self._is_closed = False

    def take(self, ctx: ToolContext | None = None) -> tuple[Any, bool]:
        """Take a connection and whether it is a new one; `give_back` returns it.

        Raises `PoolExhausted`, `Unavailable` when the pool is closed, the errors of `connect`, and the error of `ctx` when its
        call is cancelled meanwhile.
        """
        with self._lock:
            if self._is_closed:
                raise _closed()
            if self._idle:
                return self._idle.pop(), False
            place = _Waiter()
            if self._open < self._size:
                self._open += 1
                place.is_granted = True
            else:
                self._waiting.append(place)
        if not place.is_granted:
            self._wait_in_line(place, ctx)
        return (place.connection, False) if place.connection is not None else (self._opened(ctx), True)

    def give_back(self, connection: Any, *, is_good: bool) -> None:
        """Return a connection; a bad one is closed, and then there is room for another."""
        with self._lock:
            if is_good and not self._is_closed:
                self._pass_on(connection)
                return
        try:
            _close(connection)
        finally:
            with self._lock:
                self._pass_on(None)

    @property
    def in_use(self) -> int:
        """The number of connections in use, including those being opened."""
        with self._lock:
            return self._open - len(self._idle)

    def close(self) -> None:
        """Close every connection, those in use when they are returned. Waiting callers fail, as do later ones."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            waiting, self._waiting = self._waiting, deque()
            for place in waiting:
                place.ready.set()
        for connection in idle:
            _close(connection)

    def _wait_in_line(self, place: _Waiter, ctx: ToolContext | None) -> None:
        """Wait until the place in the line is granted. An error removes it from the line, and no connection is lost."""
        if ctx is not None:
            ctx.on_cancel(place.ready.set)
        remaining = None if ctx is None else ctx.remaining()
        try:
            place.ready.wait(self._wait if remaining is None else min(self._wait, remaining))
        finally:
            if ctx is not None:
                ctx.token.forget(place.ready.set)
        with self._lock:
            if place.is_granted:  # even if it came too late: callers are served in their order
                return
            if self._is_closed:
                raise _closed()
            self._waiting.remove(place)
        if ctx is not None:
            ctx.check()
        raise PoolExhausted

    def _opened(self, ctx: ToolContext | None) -> Any:
        try:
            return self._connect(ctx)
        except BaseException:
            with self._lock:
                self._pass_on(None)
            raise

    def _pass_on(self, connection: Any | None) -> None:
        """Under the lock: to the first in line, else to those who come. None passes on the right to open one."""
        if self._waiting:
            place = self._waiting.popleft()
            place.connection = connection
            place.is_granted = True
            place.ready.set()
        elif connection is not None:
            self._idle.append(connection)
        else:
            self._open -= 1


class _Waiter:
    """A caller's place in the line. Granted without a connection, it is the right to open one."""

    __slots__ = ("connection", "is_granted", "ready")

    def __init__(self) -> None:
        self.connection: Any = None
        self.is_granted = False
        self.ready = threading.Event()


def _closed() -> Unavailable:
    return Unavailable("The database is closed: its component was unloaded")


def _close(connection: Any) -> None:
    try:
        connection.close()
    except Exception:
        log.warning("a connection could not be closed", exc_info=True)
