"""A statement while it runs: who may stop it, and what its failure means."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.nodes.databases.watch import Watch
from rrext.nodes.sql.backend import Backend, Failure, FailureKind

if TYPE_CHECKING:
    from rrext.tools.context import ToolContext

__all__ = ["CANCEL_AGAIN", "Running", "error_of", "told"]

CANCEL_AGAIN: Final = 0.05
"""Seconds until a statement that was cancelled is cancelled once more: the first time may have come before it began."""

StopReason = Literal["timeout", "cancelled"]

_CODES: Final[dict[FailureKind, str]] = {
    "statement": "sql_failed",
    "timeout": "statement_timeout",
    "cancelled": "statement_cancelled",
    "read_only": "not_read_only",
    "locked": "database_locked",
    "lost": "connection_lost",
}


class Running:
    """One statement, from before it is sent until its rows are fetched. Leaving it waits for a `stop` that is under way,
    so that no cancel ever hits the next statement of the connection."""

    __slots__ = ("_backend", "_connection", "_ctx", "_lock", "_timeout", "_watch", "reason")

    def __init__(self, backend: Backend, connection: Any, watch: Watch, timeout: float, ctx: ToolContext) -> None:
        self._backend = backend
        self._connection = connection
        self._watch = watch
        self._timeout = timeout
        self._ctx = ctx
        self._lock = threading.Lock()
        self.reason: StopReason | None = None

    def __enter__(self) -> Running:
        if self._timeout > 0:
            self._watch.set(self, monotonic() + self._timeout, self._time_out)
        self._ctx.on_cancel(self._cancel)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._ctx.token.forget(self._cancel)
        with self._lock:
            self._connection = None
        self._watch.drop(self)

    def _time_out(self) -> float | None:
        return self._stop("timeout")

    def _cancel(self) -> None:
        again = self._stop("cancelled")
        if again is not None:
            self._watch.set(self, again, lambda: self._stop("cancelled"))
            if self._connection is None:  # it ended meanwhile, and may have dropped what was not set yet
                self._watch.drop(self)

    def _stop(self, reason: StopReason) -> float | None:
        """Cancel, and say when to do so again; None if the statement is over."""
        with self._lock:
            if self._connection is None:
                return None
            self.reason = self.reason or reason
            self._backend.cancel(self._connection)
        return monotonic() + CANCEL_AGAIN

    def error_of(self, error: Exception) -> Exception:
        """What the caller is told of an exception that came out of the statement."""
        if isinstance(error, RrextError):
            return error
        if self.reason == "cancelled" or self._ctx.cancelled:
            try:
                self._ctx.check()
            except RrextError as stopped:
                return stopped
        failure = self._backend.failure(error)
        if self.reason == "timeout" and (failure is None or failure.kind != "lost"):
            failure = Failure("timeout", f"it took longer than statement_timeout ({self._timeout:g} s)")
        return error if failure is None else told(failure)

    def __repr__(self) -> str:
        return f"<Running {self.reason or 'on'}>"


def error_of(backend: Backend, error: Exception) -> Exception:
    """What the caller is told of an exception outside of a statement: connecting, beginning, committing."""
    if isinstance(error, RrextError):
        return error
    failure = backend.failure(error)
    return error if failure is None else told(failure)


def told(failure: Failure) -> RrextError:
    """A failure of the driver as an error of ours."""
    if failure.kind == "unreachable":
        return Unavailable(f"The database cannot be used: {failure.message}", hint=failure.hint)
    message = f"SQL execution failed: {failure.message}"
    if failure.kind == "syntax":
        return InvalidArguments(
            message, hint=failure.hint, data={"errors": [{"path": "/input/sql", "message": failure.message}]}
        )
    return ToolError(message, code=_CODES[failure.kind], hint=failure.hint)
