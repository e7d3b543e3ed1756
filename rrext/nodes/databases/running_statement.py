"""A statement while it runs: its timeout, and the cancel of its call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Literal

from rrext.errors import RrextError
from rrext.nodes.databases.failure import Failure
from rrext.nodes.databases.timer_thread import TimerThread
from rrext.tools.context import ToolContext

CANCEL_AGAIN: Final = 0.05
"""Seconds until a cancel of a statement is repeated: the first may have come before the statement began."""

StopReason = Literal["timeout", "cancelled"]


class RunningStatement:
    """One statement, from before it is sent until its rows are fetched. Leaving the block waits for a `stop` in progress,
    so that no cancel ever hits the next statement of the connection. `timeout` is in seconds, 0 for none."""

    __slots__ = ("_cancel", "_ctx", "_is_over", "_lock", "_timeout", "_watch", "reason")

    def __init__(self, cancel: Callable[[], None], watch: TimerThread, timeout: float, ctx: ToolContext) -> None:
        self._cancel = cancel
        self._watch = watch
        self._timeout = timeout
        self._ctx = ctx
        self._lock = threading.Lock()
        self._is_over = False
        self.reason: StopReason | None = None

    def __enter__(self) -> RunningStatement:
        if self._timeout > 0:
            self._watch.set(self, monotonic() + self._timeout, self._time_out)
        self._ctx.on_cancel(self._call_cancelled)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._ctx.token.forget(self._call_cancelled)
        with self._lock:
            self._is_over = True
        self._watch.drop(self)

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
