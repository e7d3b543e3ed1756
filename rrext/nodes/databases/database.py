"""The state that all calls of a database node share: its sessions, and the snapshot of its schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from rrext.nodes.databases.failure import Failure
from rrext.nodes.databases.sessions import Sessions, SessionTransaction
from rrext.nodes.databases.timer_thread import TimerThread
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
