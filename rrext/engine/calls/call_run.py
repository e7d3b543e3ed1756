"""A client's call in flight: it runs once, gives back what it holds, and is answered once."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from typing import Any, Final, TypeAlias

from rrext.engine.calls.run import Run
from rrext.engine.host.places import HeldPlace, Place
from rrext.engine.interface.failures import internal_error
from rrext.errors import RrextError, Unavailable
from rrext.threads import NoThread
from rrext.tools.context import CancelReason

Encoded: TypeAlias = tuple[bytes, bytes | None]
"""A result as JSON, and the raw bytes instead if the result is itself bytes."""

log: Final = logging.getLogger("rrext.engine")


class CallRun(Run):
    """The run of a call that is answered when it ends.

    It runs on a thread that may block (`run`), or on the loop (`main`, in a task of its own or in the batch's). Where it
    runs is chosen when it starts, and changes nothing else. `stop` withdraws it before it begins, and stops it after that.
    `place` is one among the running sync calls.
    """

    place: Place | HeldPlace | None = None
    task: asyncio.Task[None] | None = None
    _unclaimed: list[bool]

    # what a kind of call has to say

    @abstractmethod
    def blocking(self) -> Encoded:
        """Do it on this thread."""

    @abstractmethod
    async def on_loop(self) -> Encoded:
        """Do it from the loop, after waiting for what it needs."""

    @abstractmethod
    def failure(self, error: BaseException) -> RrextError:
        """The error for the caller."""

    def give_back(self) -> None:
        """Give back what it holds."""
        lease = self.lease
        if self.place is not None:
            self.place.release()
        lease.task.active.discard(self.call)
        lease.drop()

    def stopped(self, reason: CancelReason) -> None:
        """It is answered before its end."""

    def left_behind(self, reason: CancelReason) -> None:
        """It is answered, and a thread goes on with it, or a task that was just cancelled."""
        lease, host = self.lease, self.host
        if self.task is None:
            lease.leave(host, self.call, self.trail[0], 0 if self.loan is None else self.loan.thread)
            lease.spoil()
            return
        lease.leave(host, self.call, self.trail[0])
        if lease.pipe is not None:  # others wait for it there
            host.clock.call_later(host.limits.return_grace, lease.spoil)

    # where it runs

    def run(self) -> None:
        """On a thread that may block: to its end, and answer, unless it was withdrawn."""
        try:
            self._unclaimed.pop()  # `_claim`, without another call in every call
        except IndexError:
            return
        try:
            encoded = self.blocking()
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)

    def to_worker(self) -> None:
        """Run on a thread of the pool, as soon as one more sync call may run."""
        place = self.place = self.lease.task.sync_places.take(self.call.caller.connection_id, self.call)
        if not place.when_granted(self.to_thread):
            self.to_thread()

    def to_thread(self) -> None:
        """Run on a thread of the pool, with a place that is held."""
        try:
            self.host.workers.run(self.run)
        except NoThread as error:
            if self._claim():
                self._fail(Unavailable(f"{error}, and this call needs one", hint="raise the limits of the process"))

    def start(self) -> None:
        """Run on the loop, in a task of its own. The call holds this, and `Task.active` the call: the loop holds no task."""
        self.task = asyncio.Task(self.main(), loop=self.host.loop)

    async def main(self) -> None:
        """On the loop: to its end, and answer."""
        if not self._claim():
            return
        try:
            encoded = await self.on_loop()
        except asyncio.CancelledError as error:
            self.lease.taint()
            if not self._fail(error):
                raise
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)

    # its end

    def stop(self, reason: CancelReason) -> None:
        """The call is answered: withdraw, or stop what runs and leave behind the thread that does not."""
        self.cancel_token(reason)
        self.stopped(reason)
        if self._claim():  # a task that is cancelled before its first step never runs its `finally`
            self.give_back()
        else:
            self.left_behind(reason)
        if self.task is not None:
            self.task.cancel()

    def overstay(self) -> None:
        """The thread that read the request is still inside: from now on the deadline is watched for."""
        self.host.watch(self.call)

    def _claim(self) -> bool:
        """True for exactly one: who runs it, or who withdraws it."""
        try:
            self._unclaimed.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True

    def _succeed(self, encoded: Encoded) -> None:
        """What it did is the body of the answer."""
        self.give_back()
        self.call.succeed(*encoded)

    def _fail(self, error: BaseException) -> bool:
        """Whether the failure was the answer; if not, somebody had answered before."""
        self.give_back()
        try:
            failure = self.failure(error)
        except BaseException:  # an author's class may be broken, and then the log cannot show it either
            log.error("%s raised an exception that cannot be described", self.call.name)
            failure = internal_error()
        return self.call.fail(failure)


class TaskWork:
    """Stops the asyncio task of an operation such as `execute`. It holds nothing that has to be given back."""

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def stop(self, reason: CancelReason) -> None:
        if self._task is not None:
            self._task.cancel()

    def overstay(self) -> None: ...
