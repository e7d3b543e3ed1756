"""Deadlines of calls: one timer for the earliest, for any number of calls.

Most calls are answered long before their deadline. One loop timer per call would be made and cancelled for nothing, and
from other threads. Here a settled call is dropped when its deadline comes, or when half of all entries are settled. Calls
are referenced weakly, so that a call's arguments, which may be megabytes, are not kept until its deadline.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final
from weakref import ref

from rrext.clock import Clock, Timer
from rrext.engine.interface.call import Call
from rrext.limits import MIN_SWEEP_ENTRIES

log: Final = logging.getLogger("rrext.engine")


class DeadlineTimer:
    """Calls `expire(call)` on the loop's thread for each call that is unsettled at its deadline."""

    def __init__(self, clock: Clock, expire: Callable[[Call], None], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._expire = expire
        self._call_soon = call_soon
        self._heap: list[tuple[float, int, ref[Call]]] = []
        self._numbers = count()
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._wakes_at = float("inf")
        self._sweep_at = MIN_SWEEP_ENTRIES
        self._is_stopped = False

    def add(self, when: float, call: Call) -> None:
        """Watch `call` until the time `when` of the clock. From any thread."""
        with self._lock:
            heappush(self._heap, (when, next(self._numbers), ref(call)))
            if len(self._heap) > self._sweep_at:
                self._heap = [entry for entry in self._heap if _open(entry[2])]
                heapify(self._heap)
                self._sweep_at = max(MIN_SWEEP_ENTRIES, 2 * len(self._heap))
            earlier = when < self._wakes_at
            if earlier:
                self._wakes_at = when
        if earlier:
            self._call_soon(self._arm)

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, even of an answered call: otherwise each call would set the timer anew."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._is_stopped:
                return
            self._wakes_at = self._heap[0][0] if self._heap else float("inf")
            wakes_at = self._wakes_at
        self._timer = None
        if wakes_at != float("inf"):
            self._timer = self._clock.call_later(max(0.0, wakes_at - self._clock.now()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.now()
        due: list[ref[Call]] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heappop(self._heap)[2])
            while self._heap and not _open(self._heap[0][2]):
                heappop(self._heap)
        for entry in due:
            call = _open(entry)
            if call is not None:
                self._ring_for(call)
        self._arm()

    def _ring_for(self, call: Call) -> None:
        try:
            self._expire(call)
        except Exception:
            log.exception("%r could not be stopped at its deadline", call)  # go on with the others

    def stop(self) -> None:
        """Cancel the timer."""
        with self._lock:
            self._heap.clear()
            self._is_stopped = True
            self._wakes_at = float("-inf")  # so no deadline is earlier
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _open(entry: ref[Call]) -> Call | None:
    """The call behind a weak reference, if it is not answered yet."""
    call = entry()
    return call if call is not None and not call.settled else None
