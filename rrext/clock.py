"""The clock seam: deadlines and idle times ask this, so that tests move time by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol

__all__ = ["Clock", "LoopClock", "Timer"]


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Make it not happen; harmless when it has."""
        ...


class Clock(Protocol):
    """Seconds since an arbitrary point, and things to do later."""

    def now(self) -> float:
        """The time, in seconds."""
        ...

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        """Run `action` on the event loop's thread after `delay` seconds. Called on that thread only."""
        ...


class LoopClock:
    """Real time, kept by an asyncio event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    now = staticmethod(monotonic)

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, action)
