"""The deadlines of a connection's calls: one task watches them all, so that a call costs no timer of its own."""

from __future__ import annotations

from math import inf
from typing import Protocol

import anyio

from rrext.client.event_loop import EventLoop


class Timed(Protocol):
    """A call with a deadline."""

    due: float
    """When its time is up; infinite once that no longer matters. It may move later without a word."""

    def expire(self) -> None:
        """Its time is up."""
        ...


class DeadlineWatch:
    """The calls that have a deadline; from any thread. `run` is a task, which tells each whose time is up.

    Nearly all calls are answered long before, so the task looks at all of them, but only when the earliest deadline that
    it saw passes: a call costs an entry in a set.
    """

    __slots__ = ("_armed", "_calls", "_loop", "_wake")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._calls: set[Timed] = set()
        self._armed = inf
        """The time at which the task looks next, unless it is woken before."""
        self._wake = anyio.Event()

    def add(self, call: Timed) -> None:
        """Watch a call."""
        self._calls.add(call)
        if call.due < self._armed:
            self._loop.run(self._look)

    def drop(self, call: Timed) -> None:
        """A call that was added is over."""
        self._calls.discard(call)

    def _look(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Tell calls that their time is up, until this is cancelled."""
        while True:
            self._wake = anyio.Event()
            self._armed = inf  # from now on `add` wakes this task
            earliest, now = inf, self._loop.now()
            for call in list(self._calls):
                if call.due <= now:
                    self._calls.discard(call)
                    call.expire()
                else:
                    earliest = min(earliest, call.due)
            self._armed = earliest
            with anyio.CancelScope(deadline=earliest):
                await self._wake.wait()

    def __repr__(self) -> str:
        return f"<DeadlineWatch of {len(self._calls)} calls>"
