"""The room for large results: those that wait to be read, and those that running calls will probably return.

Calls that run at once may all return before the first result is read. So of the tools that are known for large results a
connection runs no more calls at once than its share of the room is for. One always goes on, however large its result is.
"""

from __future__ import annotations

import asyncio
from threading import RLock
from typing import Protocol
from weakref import WeakKeyDictionary

from rrext.engine.interface.call import Outlet
from rrext.limits import RESULTS_ROOM


class Expecting(Protocol):
    """A run whose result may be expected."""

    expected: int
    """Its bytes, 0 if it is not."""


class _Share:
    """What is expected for a connection, and its lines of calls that wait: those without a pipe, and those on pipes.

    A call without a pipe may wait for a place at the head of its line, and pipes that are open keep the places.
    """

    __slots__ = ("expected", "lines")

    def __init__(self) -> None:
        self.expected = 0
        self.lines = asyncio.Lock(), asyncio.Lock()


class LargeResults:
    """The connections that share `room` bytes for large results. From any thread; they wait on the loop."""

    __slots__ = ("_lock", "_room", "_shares")

    def __init__(self, room: int = RESULTS_ROOM) -> None:
        self._room = room
        self._lock = RLock()
        self._shares: WeakKeyDictionary[Outlet, _Share] = WeakKeyDictionary()

    def line(self, outlet: Outlet, *, on_pipe: bool) -> asyncio.Lock:
        """The line of calls of a connection that wait; its head holds the lock until it has taken room."""
        with self._lock:
            return self._share(outlet).lines[on_pipe]

    def has_room(self, outlet: Outlet, size: int) -> bool:
        """Whether a call may begin now that will probably return so much."""
        with self._lock:
            held = self._share(outlet).expected + outlet.size
            return not held or outlet.is_broken or (not outlet.is_full and held + size <= self._room // self._holders())

    def take(self, outlet: Outlet, size: int, run: Expecting) -> bool:
        """Expect the result of a run, if there is room for it."""
        with self._lock:
            if not self.has_room(outlet, size):
                return False
            self._share(outlet).expected += size
            run.expected = size
            return True

    def give_back(self, outlet: Outlet, run: Expecting) -> None:
        """Expect it no longer, if it still is."""
        with self._lock:
            share = self._share(outlet)
            share.expected -= run.expected
            run.expected = 0
            is_awaited = any(line.locked() for line in share.lines)
        if is_awaited:
            outlet.want_room()

    def _share(self, outlet: Outlet) -> _Share:
        share = self._shares.get(outlet)
        if share is None:
            share = self._shares[outlet] = _Share()
        return share

    def _holders(self) -> int:
        """The number of connections with something in the room."""
        return max(1, sum(1 for outlet, share in self._shares.items() if share.expected or outlet.size))
