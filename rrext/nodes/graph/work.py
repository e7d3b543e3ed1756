"""A transaction at work: statements with somebody who waits for them, a limit of time, and failures in our own words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.nodes.child.engine import EngineLost
from rrext.nodes.databases.watch import Watch
from rrext.nodes.graph.backend import Cursor, GraphBackend, Transaction
from rrext.nodes.sql.backend import Failure, FailureKind

if TYPE_CHECKING:
    from rrext.tools.context import ToolContext

__all__ = ["Work"]

CANCEL_AGAIN: Final = 0.05
"""Seconds until a statement that was cancelled is cancelled once more: the first time may have come before it began."""

UNKNOWN: Final = "Whether the transaction was kept is not known: look before you send it again."

_CODES: Final[dict[FailureKind, str]] = {
    "statement": "cypher_failed",
    "timeout": "statement_timeout",
    "cancelled": "statement_cancelled",
    "read_only": "not_read_only",
    "locked": "database_locked",
    "lost": "connection_lost",
}


class Work:
    """One transaction. A statement that fails ends it as a whole: only `close` is left then. Used by one thread at a time.

    `timeout` is how many seconds each step may take, 0 for no limit: what is left of the node's `limit`.
    """

    __slots__ = ("_backend", "_limit", "_timeout", "_transaction", "_watch", "_writes", "is_broken")

    def __init__(
        self,
        backend: GraphBackend,
        transaction: Transaction,
        watch: Watch,
        timeout: float,
        *,
        limit: float,
        writes: bool,
    ) -> None:
        self._backend = backend
        self._transaction: Transaction | None = transaction
        self._watch = watch
        self._timeout = timeout
        self._limit = limit
        self._writes = writes
        self.is_broken = False

    @property
    def is_open(self) -> bool:
        """Whether there is still something to commit."""
        return self._transaction is not None and not self.is_broken

    def start(self, ctx: ToolContext) -> None:
        """Connect and begin."""
        with self._step(ctx) as transaction:
            transaction.start()
        if self.is_broken:  # it was stopped, and heard of it too late to fail
            ctx.check()
            raise _told(self._too_slow())

    @contextmanager
    def statement(self, cypher: str, params: Mapping[str, Any], ctx: ToolContext, *, counts: bool = False) -> Iterator[Cursor]:
        """Run a statement; its rows can be fetched in the block. Its failures, and those of the block, come out as ours."""
        with self._step(ctx) as transaction:
            cursor = transaction.run(cypher, params, counts=counts)
            try:
                yield cursor
            finally:
                cursor.close()

    def explain(self, cypher: str, params: Mapping[str, Any], ctx: ToolContext) -> Any:
        """The plan of a statement."""
        with self._step(ctx) as transaction:
            return transaction.explain(cypher, params)

    def commit(self, ctx: ToolContext) -> None:
        """Keep what was done. Raises `ToolError` (`transaction_failed`) if a statement failed before.

        The error's `data` says `committed: null` if the answer to the commit is lost, so that nobody knows what became of it.
        """
        is_unknown = False
        try:
            with self._step(ctx) as transaction:
                try:
                    transaction.commit()
                except Exception as error:
                    is_unknown = self._is_unanswered(error)
                    raise
        except RrextError as error:
            if is_unknown:
                error.data["committed"] = None
                error.hint = UNKNOWN
            raise

    def _is_unanswered(self, error: Exception) -> bool:
        """Whether a commit failed by something else than the database's own word."""
        if isinstance(error, EngineLost):
            return error.is_unknown
        failure = self._backend.failure(error)
        return failure is None or failure.kind == "lost"

    def close(self) -> None:
        """Undo what is not committed and give the connection back. May be called twice."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.end()

    @contextmanager
    def _step(self, ctx: ToolContext) -> Iterator[Transaction]:
        transaction = self._transaction
        if transaction is None or self.is_broken:
            raise ToolError(
                "A statement of this transaction failed, and with it the whole transaction",
                code="transaction_failed",
                hint='Only "rollback" is left; begin anew after it.',
            )
        ctx.check()
        stop = _Stop(transaction.cancel, self._watch, self._timeout, ctx)
        try:
            with stop:
                yield transaction
            if stop.reason is not None:  # it came too late to fail, but the connection may be cut
                self.is_broken = True
        except BaseException as error:
            self.is_broken = True
            told = self._told(error, stop, ctx) if isinstance(error, Exception) else error
            if told is error:
                raise
            raise told from None  # the driver's error quotes the statement

    def _told(self, error: Exception, stop: _Stop, ctx: ToolContext) -> Exception:
        """What the caller reads of an exception. Why it was stopped comes first: what follows from that says little."""
        if ctx.cancelled:
            try:
                ctx.check()
            except RrextError as stopped:
                return stopped
        if stop.reason == "timeout":
            return _told(self._too_slow())
        if isinstance(error, RrextError):
            return self._with_outcome(error) if isinstance(error, EngineLost) else error
        failure = self._backend.failure(error)
        if failure is None:
            return error
        return self._with_outcome(_told(failure)) if failure.kind == "lost" else _told(failure)

    def _with_outcome(self, error: RrextError) -> RrextError:
        """The error of a transaction that was lost before its commit, with what became of it."""
        if self._writes:
            error.data["committed"] = False
            error.hint = f"Nothing of this transaction was kept. {error.hint or ''}".strip()
        return error

    def _too_slow(self) -> Failure:
        return Failure("timeout", f"it took longer than statement_timeout ({self._limit:g} s)")

    def __repr__(self) -> str:
        return f"<Work {'broken' if self.is_broken else 'open' if self._transaction else 'over'}>"


class _Stop:
    """Cancels a step when its time is up or nobody waits any more. Leaving it waits for a cancel that is under way."""

    __slots__ = ("_cancel", "_ctx", "_is_over", "_lock", "_timeout", "_watch", "reason")

    def __init__(self, cancel: Callable[[], None], watch: Watch, timeout: float, ctx: ToolContext) -> None:
        self._cancel = cancel
        self._watch = watch
        self._timeout = timeout
        self._ctx = ctx
        self._lock = threading.Lock()
        self._is_over = False
        self.reason: str | None = None

    def __enter__(self) -> _Stop:
        if self._timeout > 0:
            self._watch.set(self, monotonic() + self._timeout, self._time_out)
        self._ctx.on_cancel(self._unwanted)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._ctx.token.forget(self._unwanted)
        with self._lock:
            self._is_over = True
        self._watch.drop(self)

    def _time_out(self) -> float | None:
        return self._stop("timeout")

    def _unwanted(self) -> None:
        again = self._stop("cancelled")
        if again is not None:
            self._watch.set(self, again, lambda: self._stop("cancelled"))
            if self._is_over:
                self._watch.drop(self)

    def _stop(self, reason: str) -> float | None:
        with self._lock:
            if self._is_over:
                return None
            self.reason = self.reason or reason
            self._cancel()
        return monotonic() + CANCEL_AGAIN


def _told(failure: Failure) -> RrextError:
    """A failure of the driver as an error of ours."""
    if failure.kind == "unreachable":
        return Unavailable(f"The graph database cannot be used: {failure.message}", hint=failure.hint)
    message = f"Cypher execution failed: {failure.message}"
    if failure.kind == "syntax":
        return InvalidArguments(
            message, hint=failure.hint, data={"errors": [{"path": "/input/query", "message": failure.message}]}
        )
    return ToolError(message, code=_CODES[failure.kind], hint=failure.hint)
