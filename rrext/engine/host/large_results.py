"""The room for large results: those that wait to be read, and those that running calls will probably return.

Calls that run at once may all return before the first result is read. So of the tools that are known for large results a
connection runs no more calls at once than its share of the room is for, and all connections of a user no more than its limit of
memory is for. One always goes on, however large its result is.
"""

from __future__ import annotations

import asyncio
from threading import RLock
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from rrext.clock import Clock
from rrext.engine.interface.call import Outlet
from rrext.errors import TooManyRequests
from rrext.limits import DEFAULTS, LARGE_RESULT, RESULTS_ROOM

ROOM_PATIENCE: Final = 30.0
"""Seconds until a call is refused for which its user has no room: that of a message without room."""
ROOM_LOOK: Final = 0.1
"""Seconds between two looks whether a user has room for the first of its calls that wait. No event tells it: a look counts all
connections of the user, and one at each write of each of them would cost more than the writes."""

COPIES: Final = 3
"""Bytes of memory for each byte of a result while its call runs: of the value, of its JSON, and of the answer."""


def learnt_size(known: int, size: int) -> int:
    """The size that the next result of a tool will probably have, 0 if it is small. `known` is what was expected of this one: a
    tool that returns less than before is trusted slowly.
    """
    size = max(size, known - known // 8)
    return size if size > LARGE_RESULT else 0


def no_room(maximum: int) -> TooManyRequests:
    """The error for a user whose connections keep all that they may."""
    return TooManyRequests(
        f"all connections of this user keep {maximum} bytes (max_user_bytes)",
        hint="read what waits on the others, or close them",
        data={"limit": "max_user_bytes", "maximum": maximum},
    )


class Expecting(Protocol):
    """A run whose result may be expected."""

    expected: int
    """Its bytes, 0 if it is not."""


class _Share:
    """The share of a connection: the bytes of expected results, the user for whom these bytes count, and two lines of waiting
    calls, for calls without a pipe and for calls on pipes.

    A call without a pipe may wait for a place at the head of its line, and pipes that are open keep the places.
    """

    __slots__ = ("expected", "lines", "user")

    def __init__(self) -> None:
        self.expected = 0
        self.user: str | None = None
        self.lines = asyncio.Lock(), asyncio.Lock()


class LargeResults:
    """The connections that share `room` bytes for large results, and of each user at most `of_user`. From any thread; they wait
    on the loop.
    """

    __slots__ = ("_clock", "_lock", "_of_user", "_room", "_shares", "_user_lines")

    def __init__(self, clock: Clock, *, room: int = RESULTS_ROOM, of_user: int = DEFAULTS.max_user_bytes) -> None:
        self._clock = clock
        self._room = room
        self._of_user = of_user
        self._lock = RLock()
        self._shares: WeakKeyDictionary[Outlet, _Share] = WeakKeyDictionary()
        self._user_lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """User → the line of its calls whose connections have room, and which wait until the user has some."""

    def line(self, outlet: Outlet, *, on_pipe: bool) -> asyncio.Lock:
        """The line of calls of a connection that wait; its head holds the lock until it has taken room."""
        with self._lock:
            return self._share(outlet).lines[on_pipe]

    def has_room(self, outlet: Outlet, size: int, user: str | None = None) -> bool:
        """Whether a call may begin now that will probably return so much. Calls of its user that wait for room go first."""
        with self._lock:
            line = None if user is None else self._user_lines.get(user)
            return (line is None or not line.locked()) and self._has_room(outlet, size, user)

    def take(self, outlet: Outlet, size: int, run: Expecting, user: str | None = None) -> bool:
        """Expect the result of a run, if there is room for it."""
        with self._lock:
            if not self._has_room(outlet, size, user):
                return False
            self.expect(outlet, size, run, user)
            return True

    def expect(self, outlet: Outlet, size: int, run: Expecting, user: str | None) -> None:
        """Count a result that is known and not in the outlet yet, also without room, in place of what was expected of its run.

        Its run releases its place before it answers, and the next call must not begin in that room.
        """
        with self._lock:
            share = self._share(outlet)
            share.user = user
            share.expected += size - run.expected
            run.expected = size

    def note(self, outlet: Outlet, size: int, user: str | None) -> None:
        """Count what waits in an outlet for its user from now on, after a result of that size, expected or not."""
        if user is not None and size > LARGE_RESULT:
            with self._lock:
                self._share(outlet).user = user

    def give_back(self, outlet: Outlet, run: Expecting) -> None:
        """Expect it no longer, if it still is."""
        with self._lock:
            share = self._share(outlet)
            share.expected -= run.expected
            run.expected = 0
            is_awaited = any(line.locked() for line in share.lines)
        if is_awaited:
            outlet.want_room()

    async def until_room(self, outlet: Outlet, size: int, user: str | None = None) -> None:
        """Wait for room. Raises `TooManyRequests` if the user of the connection has none for a long time."""
        while True:
            await outlet.until(lambda: self._has_share(outlet, size))
            if user is not None:
                late = self._clock.now() + ROOM_PATIENCE
                async with self._user_lines.setdefault(user, asyncio.Lock()):
                    await self._until_fits(outlet, size, user, late)
            if self._has_room(outlet, size, user):
                return

    async def _until_fits(self, outlet: Outlet, size: int, user: str, late: float) -> None:
        while not (outlet.is_broken or self._fits(user, size)):
            if self._clock.now() >= late:
                raise no_room(self._of_user)
            look = asyncio.Event()
            self._clock.call_later(ROOM_LOOK, look.set)
            await look.wait()

    def _has_room(self, outlet: Outlet, size: int, user: str | None) -> bool:
        return outlet.is_broken or (self._has_share(outlet, size) and (user is None or self._fits(user, size)))

    def _has_share(self, outlet: Outlet, size: int) -> bool:
        with self._lock:
            held = self._share(outlet).expected + outlet.size
            return not held or (not outlet.is_full and held + size <= self._room // self._holders())

    def _fits(self, user: str, size: int) -> bool:
        """Whether a user has room; also for one result that is too large if hardly anything waits."""
        with self._lock:
            shares = self._shares.items()
            held = sum(COPIES * share.expected + outlet.held for outlet, share in shares if share.user == user)
        return held < LARGE_RESULT or held + COPIES * size <= self._of_user

    def _share(self, outlet: Outlet) -> _Share:
        share = self._shares.get(outlet)
        if share is None:
            share = self._shares[outlet] = _Share()
        return share

    def _holders(self) -> int:
        """The number of connections with something in the room."""
        return max(1, sum(1 for outlet, share in self._shares.items() if share.expected or outlet.size))
