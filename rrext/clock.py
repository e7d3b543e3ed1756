"""The clock seam: deadlines and idle times read a `Clock`, so that tests can move time by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol


class Timer(Protocol):
    """A scheduled action that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the action; harmless after it ran."""
        ...


class Clock(Protocol):
    """Seconds since an arbitrary point, and actions after a delay."""

    def now(self) -> float:
        """The current time in seconds."""
        ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        """Run `action` on the event loop's thread after `delay` seconds. Call it on that thread only."""
        ...


class LoopClock:
    """The real time of an asyncio event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    now = staticmethod(monotonic)

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, action)
