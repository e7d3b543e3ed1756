"""Places: a fair limit. Each connection has a line of waiting calls, and the lines take turns.

Two limits of a task are made of it: pipes (open or borrowed) and running sync calls. Deciding never blocks and never
awaits; whoever waits says what to do when its turn comes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from rrext.threads import OwnThread

if TYPE_CHECKING:
    from rrext.engine.host.left_behind import LeftBehind
    from rrext.engine.interface.call import Call


class Place:
    """A place that is held, waited for, or given back. `release` may be called in any of these states, once or often.

    `call` is the call that waits, if it can be failed while it waits.
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


class HeldPlace:
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
        places._free.append(self)
        if places._line.count or places._when_free is not None:  # looked at after the place is free: see `Places`
            places._passed_on()

    def __repr__(self) -> str:
        return "<Held>"


class _Lines:
    """The waiting calls: a line for each owner, first come, first served; the owners take turns.

    Lines are dicts, so that thousands may leave them from their middle without looking for each. `count` is how many wait.
    """

    __slots__ = ("_first", "_lines", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: dict[Place, None] = {}
        self._lines: OrderedDict[str, OrderedDict[Place, None]] = OrderedDict()

    def add(self, place: Place) -> None:
        """Stand at the end of the owner's line."""
        self.count += 1
        self._lines.setdefault(place.owner, OrderedDict())[place] = None

    def add_first(self, place: Place) -> None:
        """Stand before all owners, behind those who did so earlier."""
        self.count += 1
        self._first[place] = None

    def remove(self, place: Place) -> None:
        """Leave a line."""
        self.count -= 1
        if place in self._first:
            del self._first[place]
            return
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
            place = next(iter(self._first))
            del self._first[place]
            return place
        owner, line = next(iter(self._lines.items()))
        place, _ = line.popitem(last=False)
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return place


class Places:
    """`limit` places; who asks when none is free waits in line, those of one owner first come, first served.

    Free places lie in a list, whose `pop` and `append` are atomic, so a place changes hands without the lock while nobody
    waits. A caller that joins a line looks for a free place after that; a holder that gives one back looks at the lines
    after that: one of the two sees the other.

    `name` is what one of them is for people. `lent` are the threads whose places others have meanwhile. `left_behind` are the
    calls that hold places though they were answered, once there was one.
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

    def take(self, owner: str = "", call: Call | None = None) -> Place | HeldPlace:
        """A place: held at once if one is free and nobody waits, else in the owner's line."""
        if not self._line.count:
            try:
                return self._free.pop()
            except IndexError:
                pass
        place = Place(self, False, owner, call)
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
                place._wake = None  # it leads to who waited, and from there to the place
                return
            self._free.append(self._held)
        self._passed_on()

    def lend(self, thread: int) -> None:
        """A holder waits and needs no place meanwhile: the next in line may run."""
        self.lent.append(thread)
        self._held.release()

    def _passed_on(self) -> None:
        """A place is free: it goes to the next in line, and if it was the last one that was held, that is told."""
        with self.lock:
            wakes = self._granted()
            when_free = self._when_free if len(self._free) == self.limit else None
        for wake in wakes:
            wake()
        if when_free is not None:
            when_free()

    def _granted(self) -> list[Callable[[], None]]:
        """Under the lock: free places go to those in line, who are to be woken."""
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
        """The holder goes on: block until there is a place again, before everybody in line.

        It ends, because whoever runs ends or lends in turn. Who runs may need the holder's own thread for that, which
        goes on serving jobs meanwhile: inner ones, and the one call that has the turn of its node and perhaps this place.
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
            back = Place(self, False, "", call)
            back._wake = partial(granted.set_result, None)
            self._join(self._line.add_first, back)
            if own is None:
                granted.result()
                return
            job = own.next_job(granted)
            if job is None:
                return
            back.release()  # the job may lend its place and need it again, while whoever waits here cannot go on
            own.serve(job)
            del job

    def when_free(self, wake: Callable[[], None]) -> bool:
        """False if no place is held; else True, and `wake` runs whenever the last one is given back."""
        self._when_free = wake
        return self.used > 0

    @property
    def used(self) -> int:
        """Places held now."""
        return self.limit - len(self._free)

    @property
    def waiting(self) -> int:
        """The number of calls in line."""
        return self._line.count

    def waiting_calls(self) -> list[Call]:
        """The calls that stand in line."""
        with self.lock:
            return [place.call for place in self._line.all() if place.call is not None]

    @property
    def are_missing(self) -> bool:
        """Whether calls that were answered have held all places for a while."""
        return self.left_behind is not None and self.left_behind.are_all


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
