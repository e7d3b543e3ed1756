"""Transactions that last longer than one call: their owners, their turns, and their end when they stay idle."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from rrext.errors import ToolError
from rrext.nodes.databases.timer_thread import TimerThread
from rrext.tools.context import ToolContext

SESSION_TURN: Final = 0.25
"""Seconds between checks whether a call that waits for its turn in a session has been cancelled."""

log: Final = logging.getLogger("rrext.sql")


class SessionTransaction(Protocol):
    """A transaction of any kind of database, as sessions use it."""

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be committed."""
        ...

    def close(self) -> None:
        """Roll back uncommitted changes. May be called twice."""
        ...


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
            self._give_up(session)
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
                self._give_up(session)

    def lost(self, connection_id: str) -> None:
        """Roll back the sessions of a connection that has closed."""
        with self._lock:
            gone = [session for session in self._open.values() if str(session.owner) == connection_id]
        for session in gone:
            self._give_up(session)

    def close(self) -> None:
        """Roll back all sessions and refuse new ones."""
        with self._lock:
            self._is_closed = True
            gone = [*self._open.values()]
        for session in gone:
            self._give_up(session)

    def _reap(self, session: DatabaseSession[Work]) -> float | None:
        due = session.used + self._idle
        if session.lock.locked() or due > monotonic():
            return max(due, monotonic() + self._idle / 2)
        log.info("a transaction was idle for %g s and is rolled back", self._idle)
        self._give_up(session)
        return None

    def _give_up(self, session: DatabaseSession[Work]) -> None:
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
