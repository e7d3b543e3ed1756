"""The lock of one pipe: requests take effect in arrival order; `write` and `close` alone, tool calls together."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable


class LockTurn:
    """A turn at the lock: inside, waiting, or gone. `release` may be called in any state."""

    __slots__ = ("_lock", "_wake", "exclusive", "granted")

    def __init__(self, lock: FairLock, exclusive: bool) -> None:
        self._lock: FairLock | None = lock
        self.exclusive = exclusive
        self.granted = False
        self._wake: Callable[[], None] | None = None

    def when_granted(self, wake: Callable[[], None]) -> bool:
        """False if the turn is granted already; else True, and `wake` runs once, in the thread that left the lock."""
        lock = self._lock
        if lock is None:
            raise RuntimeError("a turn that was given back cannot be waited for")
        with lock.lock:
            if self.granted:
                return False
            self._wake = wake
            return True

    def release(self) -> None:
        """Leave the lock or its line."""
        lock = self._lock
        if lock is not None:
            lock.leave(self)

    def __repr__(self) -> str:
        state = "gone" if self._lock is None else "inside" if self.granted else "waiting"
        return f"<LockTurn {'exclusive' if self.exclusive else 'shared'} {state}>"


class FairLock:
    """A fair lock with shared and exclusive turns, granted in the order of arrival.

    The line is an ordered dict, so that thousands of turns may leave its middle without a search.
    """

    __slots__ = ("_inside", "_is_closed", "_line", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._inside = 0
        self._is_closed = False
        self._line: OrderedDict[LockTurn, None] = OrderedDict()

    def enter(self, exclusive: bool, *, first: bool = False) -> LockTurn:
        """Join the line, at its end or as the first, and return the turn, which is granted at once if none is in the way."""
        turn = LockTurn(self, exclusive)
        with self.lock:
            if self._line or not self._has_room(exclusive):
                self._line[turn] = None
                if first:
                    self._line.move_to_end(turn, last=False)
            else:
                self._let_in(turn)
        return turn

    def leave(self, turn: LockTurn) -> None:
        """Remove a turn from the lock or its line; see `LockTurn.release`."""
        with self.lock:
            if turn._lock is None:
                return
            turn._lock = None
            if turn.granted:
                self._inside -= 1
                self._is_closed = False  # only an exclusive turn, alone inside, has closed it
            else:
                del self._line[turn]
            wakes = self._admit()
        for wake in wakes:
            wake()

    @property
    def is_idle(self) -> bool:
        """Whether no turn is granted or waits."""
        return not self._inside and not self._line

    def _admit(self) -> list[Callable[[], None]]:
        wakes: list[Callable[[], None]] = []
        while self._line:
            first = next(iter(self._line))
            if not self._has_room(first.exclusive):
                break
            del self._line[first]
            self._let_in(first)
            if first._wake is not None:
                wakes.append(first._wake)
                first._wake = None
        return wakes

    def _has_room(self, exclusive: bool) -> bool:
        return not self._inside or not (exclusive or self._is_closed)

    def _let_in(self, turn: LockTurn) -> None:
        self._inside += 1
        self._is_closed = turn.exclusive
        turn.granted = True
