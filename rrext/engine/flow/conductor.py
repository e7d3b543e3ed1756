"""Calls the methods of node objects, in this thread or on the loop, in order; the first error fails the object.

What is to be called comes as steps, from generators that look at `failure` after each of them. One driver takes steps
in the thread that it is called in, the other one on the loop, from where `def` methods go to threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from rrext.engine.flow.node_link import QUIET, Target
from rrext.engine.host.thread_work import ThreadWork
from rrext.engine.interface.failures import failure_of
from rrext.errors import Cancelled, RrextError, ToolError

if TYPE_CHECKING:
    from rrext.engine.events.flow import Visit
    from rrext.engine.events.hub import EventOrigin
    from rrext.limits import Limits
    from rrext.tools.context import ToolContext


T = TypeVar("T")
Step = tuple[Target, tuple[Any, ...]]
Steps = Iterator[Step]

log: Final = logging.getLogger("rrext.objects")


class Bridge(Protocol):
    """The engine's services for one operation on a pipe."""

    async def run_in_thread(self, work: Callable[[], T], /) -> T:
        """Run a blocking function in a worker thread. Called on the loop."""
        ...

    def run_on_loop(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine on the loop and block until it is done. Called in a worker thread."""
        ...

    def context(self, node_id: str) -> ToolContext:
        """The context of this operation, for a method that asks for one."""
        ...

    @property
    def request(self) -> str:
        """The name of the request in the log."""
        ...


class Conductor:
    """Calls the methods of one pipe's node objects, one at a time. `bridge` is the running operation's, if one runs.

    `failure` is the first error of the object: from then on nothing is sent. `depth` counts the emits that wait inside
    each other; a failure leaves it as it is, because nothing is emitted after one. `origin` is where its events come from.
    """

    __slots__ = ("_guests", "_leftovers", "_limits", "_origin", "_trusted", "bridge", "depth", "failure", "max_depth")

    def __init__(self, limits: Limits, *, trusted: bool, origin: EventOrigin | None = None) -> None:
        self.bridge: Bridge | None = None
        self.failure: RrextError | None = None
        self.depth = 0
        self.max_depth = limits.emit_depth
        self._limits = limits
        self._trusted = trusted
        self._origin = origin
        self._guests: set[asyncio.Task[Any]] = set()
        self._leftovers: list[ThreadWork[Any]] = []

    def fail(self, error: RrextError) -> RrextError:
        """Mark the object failed, and return its first error."""
        first = self.failure
        if first is None:
            self.failure = first = error
        return first

    def fail_in(self, node_id: str, where: str, error: BaseException) -> RrextError:
        """Mark the object failed by what a node raised, and return its first error."""
        first = self.failure
        if first is not None and (error is first or error is first.__cause__):
            return first
        if isinstance(error, KeyboardInterrupt | GeneratorExit):  # not the node's
            self.fail(Cancelled())
            raise error
        what = f'Node "{node_id}" failed in {where}'
        failure = failure_of(
            error,
            what=what,
            node_id=node_id,
            tool=None,
            request=f"node={node_id}" if self.bridge is None else self.bridge.request,
            trusted=self._trusted,
            limits=self._limits,
        )
        first = self.fail(failure)
        if first is not failure:
            log.info("%s after the object had failed: %s", what, failure.message)
        return first

    def context(self, node_id: str) -> ToolContext:
        """The context of the running operation, for a method of this node."""
        return self._lent().context(node_id)

    def _enter(self, target: Target, args: tuple[Any, ...]) -> Visit | None:
        """A payload goes into a node, if anybody watches lanes."""
        origin = self._origin
        if origin is None or target.lane is None:
            return None
        flow = origin.events.flow
        return None if flow is None else flow.lane_in(origin, target.link.node_id, target.lane, args)

    def _lent(self) -> Bridge:
        assert self.bridge is not None, "methods run in operations only"
        return self.bridge

    # in this thread

    def drive(self, steps: Steps) -> None:
        """Take all steps in this thread. Errors are recorded, not raised: the steps know what is left to do."""
        self._take(steps, next(steps, None), None)

    def _take(self, steps: Steps, step: Step | None, trip: ThreadWork[Any] | None) -> Step | None:
        """Take steps in this thread. On a trip from the loop, stop at one that belongs there, and return it."""
        while step is not None and (trip is None or not step[0].is_async):
            try:
                self.deliver(step[:1], step[1])
            except RrextError:
                pass  # recorded where it was raised
            if trip is not None and trip.given_up:
                return None
            step = next(steps, None)
        return step

    def deliver(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """Call one method after the other from this thread. Raises the first error."""
        for target in targets:
            link = target.link
            visit: Visit | None = None
            try:
                if target.is_async:
                    self._lent().run_on_loop(self._visit(target, args))
                else:
                    visit = self._enter(target, args)
                    link.state = target.state
                    outcome = target.call(*args)
                    if outcome is not None:
                        _refuse_unawaited(outcome)
            except BaseException as error:
                link.state = QUIET
                failure = self.fail_in(link.node_id, target.name, error)
                if visit is not None:
                    visit.leave(failure)
                raise failure from failure.__cause__
            link.state = QUIET
            if visit is not None:
                visit.leave(None)
            if self.failure is not None:
                raise self.failure  # the method swallowed it

    # on the loop

    async def drive_on_loop(self, steps: Steps) -> None:
        """Take all steps. Errors are recorded, not raised. Cancelled, the object has failed, and the steps go on.

        Cancelled once more, or while a method is stuck in a thread, it stops.
        """
        cancelled: asyncio.CancelledError | None = None
        step: Step | None = next(steps, None)
        while step is not None:
            try:
                if not step[0].is_async:
                    # A row of `def` methods is one trip to a thread; it comes back with the first step that is not.
                    step = await self._in_thread(step[0], partial(self._take, steps, step))
                    continue
                await self._run(step[0], step[1])
            except asyncio.CancelledError as error:
                self.fail(Cancelled())
                if cancelled is not None or self.leftover:
                    raise
                cancelled = error
            except RrextError:
                pass  # recorded where it was raised
            step = next(steps, None)
        if cancelled is not None:
            raise cancelled

    async def deliver_on_loop(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """Call one method after the other. Raises the first error."""
        await self.drive_on_loop(self.fan(targets, args))
        if self.failure is not None:
            raise self.failure

    def fan(self, targets: Sequence[Target], args: tuple[Any, ...]) -> Steps:
        """One payload to many, as steps: a failure stops it."""
        for target in targets:
            if self.failure is not None:
                return
            yield target, args

    async def _run(self, target: Target, args: tuple[Any, ...]) -> None:
        link = target.link
        visit = self._enter(target, args)
        failure: RrextError | None = None
        link.state = target.state
        try:
            await target.call(*args)
            if link.emissions and self.failure is None:
                raise RuntimeError(f"emit at {link.emissions[0].where} was not awaited")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # a future of the author's own was cancelled, nobody cancels us
                failure = self.fail_in(link.node_id, target.name, error)
                raise failure from failure.__cause__
            failure = self.fail(Cancelled(f'Node "{link.node_id}" was cancelled in {target.name}'))
            raise
        except BaseException as error:
            failure = self.fail_in(link.node_id, target.name, error)
            raise failure from failure.__cause__
        finally:
            if link.emissions:
                await _stop(link.strays())
                link.emissions.clear()
            link.state = QUIET
            if visit is not None:
                visit.leave(failure)

    async def _visit(self, target: Target, args: tuple[Any, ...]) -> None:
        """An `async def` method that a thread waits for."""
        guest = asyncio.current_task()
        assert guest is not None
        self._guests.add(guest)
        try:
            await self._run(target, args)
        finally:
            self._guests.discard(guest)

    # threads that outlive their operation

    async def _in_thread(self, first: Target, work: Callable[[ThreadWork[T]], T]) -> T | None:
        trip = ThreadWork(work)
        try:
            return await self._lent().run_in_thread(trip)
        except asyncio.CancelledError:
            if trip.give_up():
                self._leftovers.append(trip)
                for guest in self._guests:
                    guest.cancel()  # the thread may be waiting for them
            raise
        except BaseException as error:  # no thread to be had: what the nodes raise was recorded there
            failure = self.fail_in(first.link.node_id, first.name, error)
            raise failure from failure.__cause__

    @property
    def leftover(self) -> bool:
        """Whether a method still runs in a thread, though its operation was cancelled."""
        return any(not trip.finished for trip in self._leftovers)

    async def threads_returned(self) -> None:
        """Wait until no method runs in a thread any more."""
        while self._leftovers:
            await self._leftovers[-1].returned()
            self._leftovers.pop()

    def too_deep(self) -> RrextError:
        """The failure of nodes that emit too deep inside each other: Python's stack is smaller than a pipeline file."""
        return self.fail(ToolError(f"More than {self.max_depth} nodes emit inside each other's emit (emit_depth)"))


def _refuse_unawaited(outcome: object) -> None:
    """A `def` method that hands out a coroutine has done nothing yet."""
    if hasattr(outcome, "__await__") or hasattr(outcome, "__anext__") or isinstance(outcome, Generator):
        if isinstance(outcome, Coroutine):
            outcome.close()
        raise TypeError(f"it returned a {type(outcome).__name__} that nobody runs: declare the method `async def`")


async def _stop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
