"""A part of a call that the loop sends to a thread, with the places that the thread holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rrext.engine.host.places import HeldPlace, Place, Places

if TYPE_CHECKING:
    from rrext.engine.calls.run import Lease
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Call
    from rrext.threads import Job


T = TypeVar("T")


class ThreadJob(Generic[T]):
    """Runs `work` at most once, settles `outcome`, and gives back its places and its lease.

    `place` is one of `places`, the limit of running sync calls. `own_place` is one of `own_places`, the limit of a node's own
    thread.
    """

    __slots__ = (
        "_host", "_is_over", "_lease", "_own_place", "_own_places", "_place", "_places", "_thread", "_unclaimed", "_work",
        "outcome",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        work: Callable[[], T],
        lease: Lease | None,
        places: Places,
        place: Place | HeldPlace,
        own_places: Places | None,
        own_place: Place | HeldPlace | None,
    ) -> None:
        self._host = host
        self._work = work
        self._lease = lease
        self._places = places
        self._place = place
        self._own_places = own_places
        self._own_place = own_place
        self._unclaimed = [True]  # popped once: by the thread that runs the job, or by its withdrawal
        self._thread = 0
        self._is_over = False
        self.outcome: asyncio.Future[T] | None = host.loop.create_future()
        if lease is not None:
            lease.keep()

    def __call__(self) -> None:
        """Run the work, on the thread."""
        if not self._claim():
            return
        self._thread = get_ident()
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._work()
        except BaseException as raised:
            error = raised
        self.let_go()
        self._host.post(self._settle, value, error)
        error = None  # its traceback references this frame: such cycles would wait for the garbage collector

    def let_go(self) -> None:
        """Give back the places and the lease when the job ended or was withdrawn."""
        self._is_over = True
        self._forget()
        if self._lease is not None:
            self._lease.drop()
        self._place.release()
        if self._own_place is not None:
            self._own_place.release()

    def give_up(self, call: Call | None, label: str) -> None:
        """Withdraw the job of a cancelled waiter; a job that runs already is left behind under `label`."""
        lease, host = self._lease, self._host
        if self._claim():
            self.let_go()
        elif lease is not None and call is not None and self.outcome is not None:  # otherwise the thread has returned
            lease.leave(host, call, label)
            lease.spoil()
            host.left_behind(self._places).add(self, label, thread=self._thread)
            if self._own_places is not None:
                host.left_behind(self._own_places).add(self, label)
            if self._is_over:  # the thread may have called `_forget` before this record existed
                self._forget()

    def _forget(self) -> None:
        for places in (self._places, self._own_places):
            if places is not None and places.left_behind is not None:
                places.left_behind.remove(self)

    def _settle(self, value: T, error: BaseException | None) -> None:
        outcome, self.outcome = self.outcome, None  # an error's traceback leads to this job, and would so lead to itself
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(value)
        elif issubclass(type(error), StopIteration):  # no future carries it; an author's `__class__` may raise
            outcome.set_exception(RuntimeError("StopIteration was raised"))
        else:
            outcome.set_exception(error)

    def _claim(self) -> bool:
        try:
            self._unclaimed.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True


async def in_thread(
    host: Host,
    work: Callable[[], T],
    *,
    places: Places,
    lease: Lease | None,
    call: Call | None = None,
    label: str = "",
    run: Callable[[Job], None] | None = None,
    own_places: Places | None = None,
    own_place: Place | HeldPlace | None = None,
) -> T:
    """Run `work` on a thread within the limit `places`, in the line of the call's caller, and return its result.

    `run` hands the job to a thread; the default is a worker of the pool. `own_place`, one of `own_places`, is released at the
    end of the work. A cancel before the work begins withdraws it. After that the thread goes on, keeps its place until it
    returns, is left behind as `label`, and its lease is spoiled.
    """
    place = await _held(host, places, call, own_place)
    job = ThreadJob(host, work, lease, places, place, own_places, own_place)
    try:
        (run or host.workers.run)(job)
    except BaseException:  # no thread can be started
        job.let_go()
        raise
    try:
        assert job.outcome is not None
        return await job.outcome
    except asyncio.CancelledError:
        job.give_up(call, label)
        raise


async def _held(host: Host, places: Places, call: Call | None, own_place: Place | HeldPlace | None) -> Place | HeldPlace:
    """Wait for a place. A cancel meanwhile releases the place and `own_place`."""
    place = places.take(None if call is None else call.caller, call)
    if place.granted:
        return place
    try:
        await host.granted(place)
    except BaseException:
        place.release()
        if own_place is not None:
            own_place.release()
        raise
    return place
