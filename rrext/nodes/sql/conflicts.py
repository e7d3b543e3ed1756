"""Transactions that changed the same rows at once: all but one fail, and may just be run once more."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

from rrext.errors import ToolError
from rrext.tools.context import ToolContext

__all__ = ["ATTEMPTS", "retried"]

T = TypeVar("T")

ATTEMPTS: Final = 50
"""How often a transaction is run at most."""
FIRST_PAUSE: Final = 0.001
LAST_PAUSE: Final = 0.05
"""Seconds between attempts: at most so many, twice as many each time, and fewer by chance, so that no two meet again."""


def retried(attempt: Callable[[float], T], ctx: ToolContext, timeout: float) -> T:
    """What `attempt` returns, which is one transaction and gets the seconds that it may take (0: no limit). It is run again
    after `database_locked`, within its time and as long as the call is wanted; then that is raised."""
    until = monotonic() + timeout if timeout else None
    for number in range(ATTEMPTS):
        left = timeout if until is None or not number else until - monotonic()
        try:
            return attempt(left)
        except ToolError as error:
            pause = random.uniform(0, min(LAST_PAUSE, FIRST_PAUSE * 2**number))
            is_late = until is not None and monotonic() + pause >= until
            if error.code != "database_locked" or number == ATTEMPTS - 1 or is_late:
                raise
        _wait(pause, ctx)
    raise AssertionError("unreachable")


def _wait(seconds: float, ctx: ToolContext) -> None:
    """Raises when the call is not wanted any more."""
    woken = threading.Event()
    ctx.on_cancel(woken.set)
    try:
        woken.wait(seconds)
    finally:
        ctx.token.forget(woken.set)
    ctx.check()
