"""The deadlines of a connection's calls: one task watches them all, so that a call costs no timer of its own."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from typing import Protocol

import anyio

from rrext.client.event_loop import EventLoop

__all__ = ["Deadlines", "Timed"]

SPARED = 64
"""So many entries of calls that are over may lie in the heap before they are looked for."""


class Timed(Protocol):
    """A call with a deadline."""

    due: float
    """When its time is up; infinite once that no longer matters. It may move later without a word."""

    def expire(self) -> None:
        """Its time is up."""
        ...


class Deadlines:
    """Calls by the time at which they are due; from any thread. `run` is a task, which tells each that is."""

    __slots__ = ("_armed", "_heap", "_lock", "_loop", "_numbers", "_over", "_wake")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._lock = Lock()
        self._heap: list[tuple[float, int, Timed]] = []
        self._numbers = count()
        self._armed = inf
        """When the task looks next, if nobody wakes it."""
        self._over = 0
        self._wake = anyio.Event()

    def add(self, call: Timed) -> None:
        """Watch a call."""
        with self._lock:
            heappush(self._heap, (call.due, next(self._numbers), call))
            is_first = call.due < self._armed
        if is_first:
            self._loop.run(self._look)

    def drop(self, call: Timed) -> None:
        """A call that was added is over. Its entry goes with others, when half of all are of such calls."""
        call.due = inf
        self._over += 1  # two threads may count as one: the next call counts too
        if self._over > SPARED and 2 * self._over > len(self._heap):
            with self._lock:
                self._heap = [entry for entry in self._heap if entry[2].due != inf]
                heapify(self._heap)
                self._over = 0

    def _look(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Tell calls that their time is up, until this is cancelled."""
        while True:
            self._wake = anyio.Event()
            for call in self._expired():
                call.expire()
            with anyio.CancelScope(deadline=self._armed):
                await self._wake.wait()

    def _expired(self) -> list[Timed]:
        """The calls that are due now; the task looks again at the next one's time."""
        expired: list[Timed] = []
        now = self._loop.now()
        with self._lock:
            heap = self._heap
            while heap and heap[0][0] <= now:
                _, number, call = heappop(heap)
                if call.due <= now:
                    expired.append(call)
                elif call.due != inf:
                    heappush(heap, (call.due, number, call))
            self._armed = heap[0][0] if heap else inf
        return expired

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._heap)} entries>"
