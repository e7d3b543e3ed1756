"""Fair limits in which calls wait for their turn: places of a task, and the lock of a pipe.

A limit is made of places. Waiting calls stand in lines that take turns: those of users, and within each those of its
connections. A task has two such limits: pipes (open or borrowed) and running sync calls. The lock of a pipe has one line, in
which requests take effect in arrival order: `write` and `close` alone, tool calls together. `take` and `enter` never block and
never await; a waiting caller passes a function to call when its turn is granted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from rrext.threads import OwnThread

if TYPE_CHECKING:
    from rrext.engine.host.left_behind import LeftBehind
    from rrext.engine.interface.call import Call, Caller


_NOBODYS: Final = "", ""
"""The lines of work that is no caller's."""


class Place:
    """A place that is held, waited for, or given back. `release` may be called in any of these states, once or often.

    `call` is the waiting call, if it can be failed while it waits.
    """

    __slots__ = ("_granted", "_places", "_wake", "call", "lines")

    def __init__(
        self, places: Places | None, granted: bool, lines: tuple[str, str] = _NOBODYS, call: Call | None = None
    ) -> None:
        self.lines = lines
        self.call = call
        self._places = places
        self._granted = granted
        self._wake: Callable[[], None] | None = None

    @property
    def granted(self) -> bool:
        """Whether the place is held now."""
        return self._granted

    def when_granted(self, wake: Callable[[], None]) -> bool:
        """False if the place is held already; else True, and `wake` runs once, in the thread that gives it back."""
        places = self._places
        if places is None:
            raise RuntimeError("a place that was given back cannot be waited for")
        with places.lock:
            if self._granted:
                return False
            self._wake = wake
            return True

    def release(self) -> None:
        """Give the place back, or leave the line."""
        places = self._places
        if places is not None:
            places.give_back(self)

    def __repr__(self) -> str:
        state = "released" if self._places is None else "held" if self._granted else "waiting"
        return f"<Place {state}>"


FREE: Final = Place(None, True)
"""A place outside of any limit, for work that does not count."""


class HeldPlace:
    """A place that was free when it was taken. All holders share this object, and each releases it once."""

    __slots__ = ("_places", "granted")

    def __init__(self, places: Places) -> None:
        self._places = places
        self.granted = True

    def when_granted(self, wake: Callable[[], None]) -> bool:
        """False: the place is held already."""
        return False

    def release(self) -> None:
        """Give the place back."""
        places = self._places
        places._free.append(self)
        if places._line.count or places._when_free is not None:  # read after the place was freed: see `Places`
            places._passed_on()

    def __repr__(self) -> str:
        return "<Held>"


class _Lines:
    """The waiting places: a line for each connection of each user, first come, first served. Users take turns, and at the turn
    of a user its connections do.

    Lines are ordered dicts, so that thousands may leave their middle without a search. `count` is the number of waiting
    places.
    """

    __slots__ = ("_first", "_users", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[Place, None] = {}
        self._users: OrderedDict[str, OrderedDict[str, OrderedDict[Place, None]]] = OrderedDict()

    def add(self, place: Place) -> None:
        """Add a place at the end of its line."""
        self.count += 1
        user, connection = place.lines
        self._users.setdefault(user, OrderedDict()).setdefault(connection, OrderedDict())[place] = None

    def add_first(self, place: Place) -> None:
        """Add a place before all lines, behind earlier places of this kind."""
        self.count += 1
        self._first[place] = None

    def remove(self, place: Place) -> None:
        """Remove a place from its line."""
        self.count -= 1
        if place in self._first:
            del self._first[place]
            return
        user, connection = place.lines
        lines = self._users[user]
        del lines[connection][place]
        if not lines[connection]:
            del lines[connection]
        if not lines:
            del self._users[user]

    def all(self) -> list[Place]:
        """All waiting places."""
        return [*self._first, *(place for lines in self._users.values() for line in lines.values() for place in line)]

    def next(self) -> Place:
        """Remove and return the place whose turn it is. The next turn of its user comes after those of all other users."""
        self.count -= 1
        if self._first:
            place = next(iter(self._first))
            del self._first[place]
            return place
        user, lines = next(iter(self._users.items()))
        connection, line = next(iter(lines.items()))
        place, _ = line.popitem(last=False)
        if line:
            lines.move_to_end(connection)
        else:
            del lines[connection]
        if lines:
            self._users.move_to_end(user)
        else:
            del self._users[user]
        return place


class Places:
    """A fair limit of `limit` places. A caller waits in its line while none is free.

    Free places lie in a list, whose `pop` and `append` are atomic, so a place changes hands without the lock while no call
    waits. A caller first joins a line and then looks for a free place; a holder first gives its place back and then looks
    at the lines: one of the two sees the other.

    `name` is the word for one place in messages. `lent` are the threads that have lent their places. `left_behind` records
    the answered calls that still hold places, None before the first one.
    """

    __slots__ = ("_free", "_held", "_line", "_when_free", "left_behind", "lent", "limit", "lock", "name")

    def __init__(self, limit: int, name: str = "place") -> None:
        self.limit = limit
        self.name = name
        self.lock = threading.Lock()
        self._held = HeldPlace(self)
        self._free = [self._held] * limit
        self._line = _Lines()
        self._when_free: Callable[[], None] | None = None
        self.lent: list[int] = []
        self.left_behind: LeftBehind | None = None

    def take(self, caller: Caller | None = None, call: Call | None = None) -> Place | HeldPlace:
        """Take a free place at once if no call waits, else join the caller's line; return the place."""
        if not self._line.count:
            try:
                return self._free.pop()
            except IndexError:
                pass
        place = Place(self, False, _NOBODYS if caller is None else caller.lines, call)
        self._join(self._line.add, place)
        return place

    def _join(self, stand: Callable[[Place], None], place: Place) -> None:
        with self.lock:
            stand(place)
            wakes = self._granted()
        for wake in wakes:
            wake()
        if self.left_behind is not None and not place.granted:
            self.left_behind.joined()

    def give_back(self, place: Place) -> None:
        """Take a place back, or remove it from its line; see `Place.release`."""
        with self.lock:
            if place._places is None:
                return
            place._places = None
            if not place._granted:
                self._line.remove(place)
                place._wake = None  # breaks a cycle: it references the waiter, and the waiter this place
                return
            self._free.append(self._held)
        self._passed_on()

    def lend(self, thread: int) -> None:
        """Lend the place of a thread that waits: the next call in line may run."""
        self.lent.append(thread)
        self._held.release()

    def _passed_on(self) -> None:
        """Pass free places to the line, and call `_when_free` if no place is held any more."""
        with self.lock:
            wakes = self._granted()
            when_free = self._when_free if len(self._free) == self.limit else None
        for wake in wakes:
            wake()
        if when_free is not None:
            when_free()

    def _granted(self) -> list[Callable[[], None]]:
        """Grant free places to the line and return the wake functions. Under the lock."""
        wakes: list[Callable[[], None]] = []
        while self._line.count:
            try:
                self._free.pop()
            except IndexError:
                break
            heir = self._line.next()
            heir._granted = True
            wake, heir._wake = heir._wake, None
            if wake is not None:
                wakes.append(wake)
        return wakes

    def take_back(self, thread: int, call: Call | None = None) -> None:
        """Block until the thread that lent its place has one again, before all other calls in line.

        The wait always ends: every running call either finishes or lends its place. If a running call needs this thread,
        the thread runs that job while it waits.
        """
        try:
            self._free.pop()
        except IndexError:
            self._wait_first(call)
        self.lent.remove(thread)

    def _wait_first(self, call: Call | None) -> None:
        own = OwnThread.current()
        while True:
            granted: Future[None] = Future()
            back = Place(self, False, call=call)
            back._wake = partial(granted.set_result, None)
            self._join(self._line.add_first, back)
            if own is None:
                granted.result()
                return
            job = own.next_job(granted)
            if job is None:
                return
            back.release()  # the job may lend its place and need it back, while this waiter cannot go on
            own.serve(job)
            del job

    def when_free(self, wake: Callable[[], None]) -> bool:
        """False if no place is held; else True, and `wake` runs whenever the last held place is given back."""
        self._when_free = wake
        return self.used > 0

    @property
    def used(self) -> int:
        """The number of held places."""
        return self.limit - len(self._free)

    @property
    def waiting(self) -> int:
        """The number of waiting places."""
        return self._line.count

    def waiting_calls(self) -> list[Call]:
        """The waiting calls that can be failed."""
        with self.lock:
            return [place.call for place in self._line.all() if place.call is not None]

    @property
    def are_missing(self) -> bool:
        """Whether left-behind calls have held all places for the grace period."""
        return self.left_behind is not None and self.left_behind.are_all


class Loan:
    """The place of a running sync call, lent to other calls while this one waits for the loop.

    Made on the thread that runs the call. Several threads of a call may wait at once: the place is lent once, while at
    least one of them waits.
    """

    __slots__ = ("_call", "_lock", "_places", "_waiting", "thread")

    def __init__(self, places: Places, call: Call | None = None) -> None:
        self.thread = threading.get_ident()
        self._places = places
        self._call = call
        self._waiting = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._places.lend(self.thread)

    def __exit__(self, *_: object) -> None:
        with self._lock:  # held while `take_back` blocks: a place cannot be lent again before it is back
            self._waiting -= 1
            if not self._waiting:
                self._places.take_back(self.thread, self._call)


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
