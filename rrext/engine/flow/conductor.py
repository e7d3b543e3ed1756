"""Calls the methods of node objects in order, in this thread or on the loop; the first error fails the object.

Generators yield the method calls as steps, and check `failure` after each step. One driver runs the steps in the current
thread, the other one on the loop, from where `def` methods go to threads.
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
    from rrext.engine.events.flow_publisher import Visit
    from rrext.engine.events.hub import EventOrigin
    from rrext.engine.events.trace import TracedVisit
    from rrext.limits import Limits
    from rrext.tools.context import ToolContext


T = TypeVar("T")
Step = tuple[Target, tuple[Any, ...]]
Steps = Iterator[Step]

log: Final = logging.getLogger("rrext.objects")


class OperationServices(Protocol):
    """The engine's services for one operation on a pipe: threads, the loop, and a context."""

    async def run_in_thread(self, work: Callable[[], T], /) -> T:
        """Run a blocking function in a worker thread. Called on the loop."""
        ...

    def run_on_loop(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine on the loop and block until it is done. Called in a worker thread."""
        ...

    def context(self, node_id: str) -> ToolContext:
        """Make the context of this operation, for a node method with a context parameter."""
        ...

    @property
    def request(self) -> str:
        """The name of the request in log lines."""
        ...


class Conductor:
    """Calls the methods of one pipe's node objects, one at a time. `services` are those of the running operation.

    `failure` is the first error of the object, after which nothing is sent. `depth` counts nested emits; a failure does not
    reset it, because nothing is emitted after one. `origin` is the origin of the object's events.
    """

    __slots__ = ("_guests", "_leftovers", "_limits", "_origin", "_trusted", "depth", "failure", "max_depth", "services")

    def __init__(self, limits: Limits, *, trusted: bool, origin: EventOrigin | None = None) -> None:
        self.services: OperationServices | None = None
        self.failure: RrextError | None = None
        self.depth = 0
        self.max_depth = limits.emit_depth
        self._limits = limits
        self._trusted = trusted
        self._origin = origin
        self._guests: set[asyncio.Task[Any]] = set()
        self._leftovers: list[ThreadWork[Any]] = []

    @property
    def event_origin(self) -> EventOrigin | None:
        """The origin of the events of the nodes that it calls."""
        return self._origin

    def fail(self, error: RrextError) -> RrextError:
        """Mark the object failed, and return its first error."""
        first = self.failure
        if first is None:
            self.failure = first = error
        return first

    def fail_in(self, node_id: str, where: str, error: BaseException) -> RrextError:
        """Mark the object failed by the exception of a node, and return the object's first error."""
        first = self.failure
        if first is not None and (error is first or error is first.__cause__):
            return first
        if isinstance(error, KeyboardInterrupt | GeneratorExit):  # not an error of the node
            self.fail(Cancelled())
            raise error
        what = f'Node "{node_id}" failed in {where}'
        failure = failure_of(
            error,
            what=what,
            node_id=node_id,
            tool=None,
            request=f"node={node_id}" if self.services is None else self.services.request,
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

    def _enter(self, target: Target, args: tuple[Any, ...]) -> Visit | TracedVisit | None:
        """Publish the event that a payload enters a node; None without subscribers and without a trace."""
        origin = self._origin
        if origin is None:
            return None
        flow, trace = origin.events.flow, origin.trace
        if flow is None and trace is None:
            return None
        node_id, lane = target.link.node_id, target.lane
        visit = None if flow is None or lane is None else flow.lane_in(origin, node_id, lane, args)
        return visit if trace is None else trace.enter(node_id, lane or target.name, args, visit)

    def _lent(self) -> OperationServices:
        assert self.services is not None, "methods run in operations only"
        return self.services

    # in this thread

    def drive(self, steps: Steps) -> None:
        """Run all steps in this thread. Errors are recorded, not raised: the generator decides which steps remain."""
        self._take(steps, next(steps, None), None)

    def _take(self, steps: Steps, step: Step | None, trip: ThreadWork[Any] | None) -> Step | None:
        """Run steps in this thread. For work sent by the loop, stop at the first step that runs on the loop, and return it."""
        while step is not None and (trip is None or not step[0].is_async):
            try:
                self.deliver(step[:1], step[1])
            except RrextError:
                pass  # recorded by `deliver`
            if trip is not None and trip.given_up:
                return None
            step = next(steps, None)
        return step

    def deliver(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """Call one method after the other from this thread. Raises the first error."""
        for target in targets:
            link = target.link
            visit: Visit | TracedVisit | None = None
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
                try:
                    raise failure from failure.__cause__
                finally:
                    del failure  # its traceback references this frame, and so the payload
            link.state = QUIET
            if visit is not None:
                visit.leave(None)
            if self.failure is not None:
                raise self.failure  # the method swallowed it

    # on the loop

    async def drive_on_loop(self, steps: Steps) -> None:
        """Run all steps on the loop. Errors are recorded, not raised. A cancel fails the object, and the remaining steps run.

        A second cancel, or a cancel while a method runs in a thread, stops the steps.
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
        try:
            if cancelled is not None:
                raise cancelled
        finally:
            del cancelled  # as in `deliver`

    async def deliver_on_loop(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """Call one method after the other on the loop. Raises the first error."""
        await self.drive_on_loop(self.fan(targets, args))
        if self.failure is not None:
            raise self.failure

    def fan(self, targets: Sequence[Target], args: tuple[Any, ...]) -> Steps:
        """Yield the steps that send one payload to several targets, until a failure."""
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
            is_inner = task is None or not task.cancelling()
            del task  # it keeps the error, whose traceback references this frame
            if is_inner:  # a future of the author was cancelled, not this task
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
            del failure  # as in `deliver`

    async def _visit(self, target: Target, args: tuple[Any, ...]) -> None:
        """Run an `async def` method for a thread that waits for it."""
        guest = asyncio.current_task()
        assert guest is not None
        self._guests.add(guest)
        try:
            await self._run(target, args)
        finally:
            self._guests.discard(guest)
            del guest  # see `_run`

    # threads that outlive their operation

    async def _in_thread(self, first: Target, work: Callable[[ThreadWork[T]], T]) -> T | None:
        trip = ThreadWork(work)
        try:
            return await self._lent().run_in_thread(trip)
        except asyncio.CancelledError:
            if trip.give_up():
                self._leftovers.append(trip)
                for guest in self._guests:
                    guest.cancel()  # the thread may wait for these tasks
            raise
        except BaseException as error:  # no thread can be started; errors of nodes were recorded in the thread
            failure = self.fail_in(first.link.node_id, first.name, error)
            try:
                raise failure from failure.__cause__
            finally:
                del failure  # as in `deliver`

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
        """Fail the object because its emits are nested too deep for Python's stack, and return the error."""
        return self.fail(ToolError(f"More than {self.max_depth} nodes emit inside each other's emit (emit_depth)"))


def _refuse_unawaited(outcome: object) -> None:
    """Raise `TypeError` for a `def` method that returned a coroutine or generator: its body has not run."""
    if hasattr(outcome, "__await__") or hasattr(outcome, "__anext__") or isinstance(outcome, Generator):
        if isinstance(outcome, Coroutine):
            outcome.close()
        raise TypeError(f"it returned a {type(outcome).__name__} that nobody runs: declare the method `async def`")


async def _stop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
