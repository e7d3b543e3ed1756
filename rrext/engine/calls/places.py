"""Places: a fair limit. Whoever waits stands in the line of its connection, and the lines take turns.

Two limits of a task are made of it: pipes (open or borrowed) and running sync calls. Deciding never blocks and never
awaits; whoever waits says what to do when its turn comes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rrext.workers import OwnThread

if TYPE_CHECKING:
    from rrext.engine.calls.left_behind import LeftBehind
    from rrext.engine.interface import Call

__all__ = ["Held", "Loan", "Place", "Places"]


class Place:
    """A place that is held, waited for, or given back. `release` may be called in any of these states, once or often.

    `call` is who waits, if it can be told that it waits in vain.
    """

    __slots__ = ("_granted", "_places", "_wake", "call", "owner")

    def __init__(self, places: Places | None, granted: bool, owner: str = "", call: Call | None = None) -> None:
        self.owner = owner
        self.call = call
        self._places = places
        self._granted = granted
        self._wake: Callable[[], None] | None = None

    @classmethod
    def free(cls) -> Place:
        """A place that counts nowhere, for looking without running."""
        return cls(None, True)

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


class Held:
    """A place that was free when it was asked for. Each holder releases it once; all of them share this object."""

    __slots__ = ("_places",)

    granted = True

    def __init__(self, places: Places) -> None:
        self._places = places

    def when_granted(self, wake: Callable[[], None]) -> bool:
        """False: it is held."""
        return False

    def release(self) -> None:
        """Give the place back."""
        places = self._places
        with places.lock:
            if places._used > 1 and not places._line.count:  # nobody is to be told
                places._used -= 1
                return
            wake = places._pass_on()
        if wake is not None:
            wake()

    def __repr__(self) -> str:
        return "<Held>"


class _Lines:
    """Those who wait: a line for each owner, first come, first served; a place goes to the owner whose turn it is.

    Lines are dicts, so that thousands may leave them from their middle without looking for each. `count` is how many wait.
    """

    __slots__ = ("_first", "_lines", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[Place] = []
        self._lines: OrderedDict[str, OrderedDict[Place, None]] = OrderedDict()

    def add(self, place: Place) -> None:
        """Stand at the end of the owner's line."""
        self.count += 1
        self._lines.setdefault(place.owner, OrderedDict())[place] = None

    def add_first(self, place: Place) -> None:
        """Stand before everybody."""
        self.count += 1
        self._first.append(place)

    def remove(self, place: Place) -> None:
        """Leave a line."""
        self.count -= 1
        line = self._lines[place.owner]
        del line[place]
        if not line:
            del self._lines[place.owner]

    def all(self) -> list[Place]:
        """Everybody."""
        return [*self._first, *(place for line in self._lines.values() for place in line)]

    def next(self) -> Place:
        """Whose turn it is; that owner's next one waits until all other owners had theirs."""
        self.count -= 1
        if self._first:
            return self._first.pop()
        owner, line = next(iter(self._lines.items()))
        place, _ = line.popitem(last=False)
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return place


class Places:
    """`limit` places; who asks when none is free waits in line, those of one owner first come, first served.

    `lent` are the threads whose places others have meanwhile. `left_behind` are the calls that hold places though they
    were answered, once there was one.
    """

    __slots__ = ("_held", "_line", "_used", "_when_free", "left_behind", "lent", "limit", "lock")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = threading.Lock()
        self._held = Held(self)
        self._used = 0
        self._line = _Lines()
        self._when_free: Callable[[], None] | None = None
        self.lent: list[int] = []
        self.left_behind: LeftBehind | None = None

    def take(self, owner: str = "", call: Call | None = None) -> Place | Held:
        """A place: held at once if one is free and nobody waits, else in the owner's line."""
        with self.lock:
            if self._used < self.limit and not self._line.count:
                self._used += 1
                return self._held
            place = Place(self, False, owner, call)
            self._line.add(place)
        if self.left_behind is not None:
            self.left_behind.joined()
        return place

    def give_back(self, place: Place) -> None:
        """What `Place.release` calls."""
        with self.lock:
            if place._places is None:
                return
            place._places = None
            if not place._granted:
                self._line.remove(place)
                place._wake = None  # it leads to who waited, and from there to the place
                return
            wake = self._pass_on()
        if wake is not None:
            wake()

    def lend(self, thread: int) -> None:
        """A holder waits and needs no place meanwhile: the next in line may run."""
        self.lent.append(thread)
        self._held.release()

    def _pass_on(self) -> Callable[[], None] | None:
        """Under the lock: a held place goes to the next in line, or is free."""
        if not self._line.count:
            self._used -= 1
            return None if self._used else self._when_free
        heir = self._line.next()
        heir._granted = True
        wake, heir._wake = heir._wake, None
        return wake

    def take_back(self, thread: int, call: Call | None = None) -> None:
        """The holder goes on: block until there is a place again, before everybody in line.

        It ends, because whoever runs ends or lends in turn. Who runs may need the holder's own thread for that, which
        goes on serving its inner jobs meanwhile.
        """
        with self.lock:
            if self._used < self.limit:
                self._used += 1
                self.lent.remove(thread)
                return
            back = Place(self, False, "", call)
            granted: Future[None] = Future()
            back._wake = lambda: granted.set_result(None)
            self._line.add_first(back)
        if self.left_behind is not None:
            self.left_behind.joined()
        own = OwnThread.current()
        if own is not None:
            own.serve_until(granted)
        granted.result()
        self.lent.remove(thread)

    def when_free(self, wake: Callable[[], None]) -> bool:
        """False if no place is held; else True, and `wake` runs whenever the last one is given back."""
        with self.lock:
            self._when_free = wake
            return self._used > 0

    @property
    def used(self) -> int:
        """Places held now."""
        return self._used

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return self._line.count

    def waiting_calls(self) -> list[Call]:
        """The calls that stand in line."""
        with self.lock:
            return [place.call for place in self._line.all() if place.call is not None]

    @property
    def are_missing(self) -> bool:
        """Whether calls that were answered have held all places for a while."""
        return self.left_behind is not None and self.left_behind.are_all

    def __repr__(self) -> str:
        return f"<Places {self._used}/{self.limit} waiting={self._line.count}>"


class Loan:
    """The place of a running sync call, lent to others while the call waits for something on the loop.

    Made on the thread that runs the call. A call may have threads of its own, which wait as well: the place is lent
    once, from when the first of them waits until none does.
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
        with self._lock:  # also while it blocks: what is not back cannot be lent
            self._waiting -= 1
            if not self._waiting:
                self._places.take_back(self.thread, self._call)

    def __repr__(self) -> str:
        return f"<Loan waiting={self._waiting}>"
