"""Places: a fair limit. Whoever waits stands in the line of its connection, and the lines take turns.

Two limits of a task are made of it: pipes (open or borrowed) and running sync calls. Deciding never blocks and never
awaits; whoever waits says what to do when its turn comes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from rrext.workers import OwnThread

__all__ = ["Held", "Loan", "Place", "Places"]


class Place:
    """A place that is held, waited for, or given back. `release` may be called in any of these states, once or often."""

    __slots__ = ("_granted", "_places", "_wake", "owner")

    def __init__(self, places: Places | None, granted: bool, owner: str = "") -> None:
        self.owner = owner
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
    """`limit` places; who asks when none is free waits in line, those of one owner first come, first served."""

    __slots__ = ("_held", "_line", "_used", "_when_free", "limit", "lock")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = threading.Lock()
        self._held = Held(self)
        self._used = 0
        self._line = _Lines()
        self._when_free: Callable[[], None] | None = None

    def take(self, owner: str = "") -> Place | Held:
        """A place: held at once if one is free and nobody waits, else in the owner's line."""
        with self.lock:
            if self._used < self.limit and not self._line.count:
                self._used += 1
                return self._held
            place = Place(self, False, owner)
            self._line.add(place)
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

    def lend(self) -> None:
        """A holder waits and needs no place meanwhile: the next in line may run."""
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

    def take_back(self) -> None:
        """The holder goes on: block until there is a place again, before everybody in line.

        It ends, because whoever runs ends or lends in turn. Who runs may need the holder's own thread for that, which
        goes on serving its inner jobs meanwhile.
        """
        back = Place(self, False)
        with self.lock:
            if self._used < self.limit:
                self._used += 1
                return
            granted: Future[None] = Future()
            back._wake = lambda: granted.set_result(None)
            self._line.add_first(back)
        own = OwnThread.current()
        if own is not None:
            own.serve_until(granted)
        granted.result()

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

    def __repr__(self) -> str:
        return f"<Places {self._used}/{self.limit} waiting={self._line.count}>"


class Loan:
    """The place of a running sync call, lent to others while the call waits for something on the loop.

    Made on the thread that runs the call. A call may have threads of its own, which wait as well: the place is lent
    once, from when the first of them waits until none does.
    """

    __slots__ = ("_lock", "_places", "_waiting", "thread")

    def __init__(self, places: Places) -> None:
        self.thread = threading.get_ident()
        self._places = places
        self._waiting = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._places.lend()

    def __exit__(self, *_: object) -> None:
        with self._lock:  # also while it blocks: what is not back cannot be lent
            self._waiting -= 1
            if not self._waiting:
                self._places.take_back()

    def __repr__(self) -> str:
        return f"<Loan waiting={self._waiting}>"
