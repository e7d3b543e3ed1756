"""Transactions that changed the same rows at once: all but one fail and may be repeated."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from rrext.errors import ToolError
from rrext.nodes.sql.limits import CONFLICT_ATTEMPTS, CONFLICT_FIRST_PAUSE, CONFLICT_LAST_PAUSE
from rrext.tools.context import ToolContext

T = TypeVar("T")


def retried(attempt: Callable[[float], T], ctx: ToolContext, timeout: float) -> T:
    """Run `attempt`, one transaction with that many seconds (0: no limit), and return its result. It is repeated
    after `database_locked`, within its time and while the call is wanted; then that is raised."""
    until = monotonic() + timeout if timeout else None
    for number in range(CONFLICT_ATTEMPTS):
        left = timeout if until is None or not number else until - monotonic()
        try:
            return attempt(left)
        except ToolError as error:
            pause = random.uniform(0, min(CONFLICT_LAST_PAUSE, CONFLICT_FIRST_PAUSE * 2**number))
            is_late = until is not None and monotonic() + pause >= until
            if error.code != "database_locked" or number == CONFLICT_ATTEMPTS - 1 or is_late:
                raise
        _wait(pause, ctx)
    raise AssertionError("unreachable")


def _wait(seconds: float, ctx: ToolContext) -> None:
    """Raises if the call is cancelled or late."""
    woken = threading.Event()
    ctx.on_cancel(woken.set)
    try:
        woken.wait(seconds)
    finally:
        ctx.token.forget(woken.set)
    ctx.check()
