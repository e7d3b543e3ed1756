"""A clock that a test moves by hand."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class ManualTimer:
    """A scheduled action of a `ManualClock`."""

    __slots__ = ("action", "is_cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] = action
        self.is_cancelled: bool = False

    def cancel(self) -> None:
        """Cancel the action."""
        self.is_cancelled = True


class ManualClock:
    """A clock for `LocalEngine(clock=…)` that stands still until `advance`: deadlines and idle times without waiting."""

    __slots__ = ("_now", "_order", "_timers")

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._timers: list[tuple[float, int, ManualTimer]] = []

    def now(self) -> float:
        """The current time in seconds."""
        return self._now

    def call_later(self, delay: float, action: Callable[[], None]) -> ManualTimer:
        """Run `action` when `advance` reaches its time."""
        timer = ManualTimer(action)
        heapq.heappush(self._timers, (self._now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Advance the time and run due actions in order, each at its own time. Call it on the event loop's thread."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if not timer.is_cancelled:
                timer.action()
        self._now = end

    def __repr__(self) -> str:
        waiting = sum(not timer.is_cancelled for _, _, timer in self._timers)
        return f"<ManualClock {self._now:g} s, {waiting} timers>"
