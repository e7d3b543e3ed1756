"""A client's call in flight: it runs, releases its place and lease, and is answered, each exactly once."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeAlias

from rrext.engine.calls.run import Run
from rrext.engine.host.places import HeldPlace, Place
from rrext.engine.interface.failures import internal_error
from rrext.errors import RrextError
from rrext.threads import NoThread
from rrext.tools.context import CancelReason

Encoded: TypeAlias = tuple[bytes, bytes | None]
"""A result: its JSON and None, or empty JSON and the raw bytes of a `bytes` result."""

log: Final = logging.getLogger("rrext.engine")


class CallRun(Run):
    """The run of a client's call, which answers the call at its end.

    A call runs on a thread that may block (`run`), or on the loop (`main`, in a task of its own or in the batch's task).
    The starter chooses; the result is the same. `stop` withdraws a call that has not begun, and stops a running one.
    `place` is the call's place in the limit of running sync calls.
    """

    place: Place | HeldPlace | None = None
    task: asyncio.Task[None] | None = None
    expected = 0
    """Bytes for which there is room because this call will probably return so much."""
    _unclaimed: list[bool]

    # hooks of the kinds of calls

    @abstractmethod
    def blocking(self) -> Encoded:
        """Do the work on this thread."""

    @abstractmethod
    def on_loop(self) -> Coroutine[Any, Any, Encoded]:
        """Do the work from the loop, after waiting for turns, places and components."""

    @abstractmethod
    def failure(self, error: BaseException) -> RrextError:
        """Translate an exception of the run into the error for the caller."""

    def give_back(self) -> None:
        """Release the place and the lease, and remove the call from the task's active calls."""
        lease = self.lease
        if self.place is not None:
            self.place.release()
        lease.task.active.discard(self.call)
        lease.drop()

    def stopped(self, reason: CancelReason) -> None:
        """Hook: the caller got an answer before the code finished."""

    def left_behind(self, reason: CancelReason) -> None:
        """Record a call that was answered while its thread or cancelled task still runs: its place stays taken."""
        lease, host = self.lease, self.host
        if self.task is None:
            lease.leave(host, self.call, self.trail[0], 0 if self.loan is None else self.loan.thread)
            lease.spoil()
            return
        lease.leave(host, self.call, self.trail[0])
        if lease.pipe is not None:  # other calls wait for the pipe
            host.clock.call_later(host.limits.return_grace, lease.spoil)

    # thread or loop

    def run(self) -> None:
        """Run the work to its end on this thread, which may block, and answer; do nothing if the call was withdrawn."""
        try:
            self._unclaimed.pop()  # `_claim`, without another call in every call
        except IndexError:
            self.give_room_back()
            return
        try:
            encoded = self.blocking()
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)
        if self.expected:
            self.give_room_back()

    def to_worker(self) -> None:
        """Run on a thread of the pool, as soon as the limit of running sync calls has a place."""
        place = self.place = self.lease.task.sync_places.take(self.call.caller, self.call)
        if not place.when_granted(self.to_thread):
            self.to_thread()

    def to_thread(self) -> None:
        """Run on a thread of the pool; the place is held already."""
        try:
            self.host.workers.run(self.begin_in_thread)
        except NoThread as error:
            if self._claim():
                self._fail(error)

    def begin_in_thread(self) -> None:
        """Run on this thread of the pool."""
        self.run()

    def start(self) -> None:
        """Run on the loop, in a task of its own. The loop references its tasks weakly: `Task.active` keeps the call alive."""
        self.task = asyncio.Task(self.main(), loop=self.host.loop)

    async def main(self) -> None:
        """Run the work to its end on the loop, and answer."""
        try:
            self._unclaimed.pop()  # `_claim`, as in `run`
        except IndexError:
            return
        try:
            encoded = await self.on_loop()
        except asyncio.CancelledError as error:
            self.lease.taint()
            self._fail(error)  # not raised: a cancelled task keeps the traceback, which leads to the task again
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)
        if self.expected:
            self.give_room_back()

    def give_room_back(self) -> None:
        """Expect no result any longer: it is in the outbox, or nobody waits for it."""
        if self.call.outlet is not None:
            self.host.results.give_back(self.call.outlet, self)

    # waiting

    async def wait_for_turn(self) -> None:
        """Wait for the turn, and for room in the outbox. A borrowed place is released while the outbox is full."""
        await self.host.granted(self.lease.turn)
        outlet = self.call.outlet
        while outlet is not None and outlet.is_full:
            self.leave_place()
            await outlet.room()
            await self.take_place()

    def leave_place(self) -> None:
        """Release a borrowed place, to wait for something else."""
        if self.lease.pipe is None:
            self.lease.turn.release()
            self.lease.turn = Place.free()

    async def take_place(self) -> None:
        """Wait for a place again."""
        call, lease = self.call, self.lease
        if lease.pipe is None:
            lease.turn = lease.task.places.take(call.caller, call)
            await self.host.granted(lease.turn)

    # end of the run

    def stop(self, reason: CancelReason) -> None:
        """Withdraw an answered call, or stop its running code; a thread that cannot be stopped is left behind."""
        self.cancel_token(reason)
        self.stopped(reason)
        if self._claim():  # a task that is cancelled before its first step never runs its `finally`
            self.give_back()
        else:
            self.left_behind(reason)
        if self.task is not None:
            self.task.cancel()

    def overstay(self) -> None:
        """Start to watch the deadline: the thread that read the request still runs the call."""
        self.host.watch(self.call)

    def _claim(self) -> bool:
        """Claim the run, for running or for withdrawing it. True for the first caller only."""
        try:
            self._unclaimed.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True

    def _succeed(self, encoded: Encoded) -> None:
        """Answer the call with its encoded result."""
        self.give_back()
        self.call.succeed(*encoded)

    def _fail(self, error: BaseException) -> bool:
        """Answer the call with an error. False if it was answered before."""
        self.give_back()
        try:
            failure = self.failure(error)
        except BaseException:  # an author's class may be broken, or the log: then it cannot show that either
            failure = internal_error()
            with suppress(Exception):
                log.error("%s raised an exception that cannot be described", self.call.name)
        return self.call.fail(failure)


class TaskWork:
    """Stops the asyncio task of an operation such as `execute`, which holds no place and no lease."""

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def stop(self, reason: CancelReason) -> None:
        if self._task is not None:
            self._task.cancel()

    def overstay(self) -> None: ...
