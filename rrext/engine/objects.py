"""The node objects of one pipe, and the way of one object through them: open, writes, closing, close.

Every operation has two forms with one meaning. The blocking one runs whole in a worker thread, and is for pipelines
without `async def` methods. The other one runs on the loop, awaits `async def` methods there and takes `def` ones to
threads. What happens in which order is written once, as generators of steps; two small drivers take the steps.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from rrext.engine.failures import failure_of
from rrext.engine.link import QUIET, Link, Target
from rrext.engine.node import Node
from rrext.engine.thread_work import ThreadWork
from rrext.errors import Cancelled, PipeFailed, PipeNotOpen, RrextError, ToolError

if TYPE_CHECKING:
    from rrext.engine.intake import Intake
    from rrext.engine.node import Entry
    from rrext.engine.plan import LanePlan
    from rrext.tools.context import ToolContext

__all__ = ["Bridge", "NodeObjects"]

T = TypeVar("T")
Step = tuple[Target, tuple[Any, ...]]
Steps = Iterator[Step]

log: Final = logging.getLogger("rrext.objects")

NEW, OPEN, ENDING, CLOSED = "new", "open", "ending", "closed"


class Bridge(Protocol):
    """What the engine lends to one operation on a pipe."""

    async def run_in_thread(self, fn: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread. Called on the loop."""
        ...

    def run_on_loop(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and block until it is done. Called in a worker thread."""
        ...

    def context(self, node_id: str) -> ToolContext:
        """The context of this operation, for a method that asks for one."""
        ...


class NodeObjects:
    """The objects of a pipeline's nodes, for one pipe or for calls without a pipe.

    `object` makes them at first use. Only one operation runs at a time; tools may run beside none but themselves.
    `failure` is the first error of the object: from then on nothing is sent, and `closing` runs no more, so that no
    half of an object is committed anywhere; `close` still runs on every node that was opened.
    """

    __slots__ = (
        "_bridge",
        "_depth",
        "_guests",
        "_intake",
        "_leftovers",
        "_links",
        "_lock",
        "_make",
        "_objects",
        "_source",
        "failure",
        "phase",
        "plan",
    )

    def __init__(self, plan: LanePlan, make: Callable[[str], Node]) -> None:
        self.plan = plan
        self.failure: RrextError | None = None
        self.phase = NEW
        self._make = make
        self._objects: dict[str, Node] = {}
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._source: tuple[Target, ...] = ()
        self._depth = 0
        self._guests: set[asyncio.Task[Any]] = set()
        self._leftovers: list[ThreadWork[Any]] = []
        self._bridge: Bridge
        self._intake: Intake

    def object(self, node_id: str) -> Node:
        """The node's object, made if there is none yet. From any thread."""
        try:
            return self._objects[node_id]
        except KeyError:
            pass
        with self._lock:
            found = self._objects.get(node_id)
            if found is None:
                found = self._objects[node_id] = self._make(node_id)
            return found

    @property
    def closed(self) -> bool:
        """Whether no node is open any more."""
        return self.phase == CLOSED

    @property
    def leftover(self) -> bool:
        """Whether a method still runs in a thread, though its operation was cancelled."""
        return any(not work.finished for work in self._leftovers)

    def fail(self, error: RrextError) -> RrextError:
        """Mark the object failed, from any thread, and return its first error: what runs stops at its next emit."""
        first = self.failure
        if first is None:
            self.failure = first = error
        return first

    # the operations

    def open_blocking(self, entry: Entry, intake: Intake, bridge: Bridge) -> None:
        """Open every node, then send the begin marks. Raises the first error, after what was opened was closed."""
        self._begin(intake, bridge)
        self._drive(self._opening(entry))
        self._let_go()
        if self.failure is not None:
            raise self.failure

    async def open(self, entry: Entry, intake: Intake, bridge: Bridge) -> None:
        """`open_blocking`, on the loop. Cancelled, it closes what was opened; see `abandon`."""
        self._begin(intake, bridge)
        try:
            await self._drive_on_loop(self._opening(entry))
        finally:
            self._let_go()
        if self.failure is not None:
            raise self.failure

    def write_blocking(self, data: bytes | str, bridge: Bridge) -> None:
        """Send one write on; returns when every receiver has. Raises the first error."""
        payload = self._payload(data, bridge)
        if payload is not None:
            self.deliver(self._source, (payload,))

    async def write(self, data: bytes | str, bridge: Bridge) -> None:
        """`write_blocking`, on the loop. Cancelled, the object has failed."""
        payload = self._payload(data, bridge)
        if payload is not None:
            await self.deliver_on_loop(self._source, (payload,))

    def finish_blocking(self, bridge: Bridge) -> RrextError | None:
        """Send the end marks, run `closing` and `close` of every node. Returns the object's first error."""
        self._bridge = bridge
        self._drive(self._finishing())
        self._let_go()
        return self.failure

    async def finish(self, bridge: Bridge) -> RrextError | None:
        """`finish_blocking`, on the loop. Cancelled, it goes on with every `close`; see `abandon`.

        With a leftover thread no node is touched, and what was collected until then is the result.
        """
        if not self.leftover:
            self._bridge = bridge
            try:
                await self._drive_on_loop(self._finishing())
            finally:
                self._let_go()
        return self.failure

    def abandon_blocking(self, bridge: Bridge) -> None:
        """Run `close` of every node that is open, and nothing else: nobody wants the object any more."""
        self._bridge = bridge
        self._drive(self._closing())
        self._let_go()

    async def abandon(self, bridge: Bridge) -> None:
        """`abandon_blocking`, on the loop, after leftover threads have returned.

        An operation that is cancelled closes the nodes by itself, except for `write`. It leaves them to `abandon` when
        a thread is left over, or when it is cancelled again meanwhile: whenever `closed` is false after it. How long
        this may take is the caller's business.
        """
        while self._leftovers:
            await self._leftovers[-1].returned()
            self._leftovers.pop()
        self._bridge = bridge
        try:
            await self._drive_on_loop(self._closing())
        finally:
            self._let_go()

    # what they do, step by step

    def _begin(self, intake: Intake, bridge: Bridge) -> None:
        if self.phase != NEW:
            raise RuntimeError(f"node objects serve one object, and this one is {self.phase}")
        self._bridge = bridge
        self._intake = intake
        self.phase = ENDING
        for node_id in self.plan.opening:
            if self.plan.methods(node_id):  # others pass on without having an object
                self._links[node_id] = self._link(node_id)
        self._source = self.bind(self.plan.source, intake.lane)
        self.phase = OPEN

    def _link(self, node_id: str) -> Link:
        try:
            node = self.object(node_id)
        except Exception as error:
            raise self.fail_in(node_id, "__init__", error) from error
        node._link = link = Link(self, node_id, node)
        return link

    def _opening(self, entry: Entry) -> Steps:
        for node_id, link in self._links.items():
            method = self.plan.methods(node_id).get("open")
            if method is None:
                link.opened = True
            else:
                yield link.target(method), (entry,)
            if self.failure is not None:
                break
        for mark in self._intake.begin():
            yield from self._fan(self._source, (mark,))
        if self.failure is not None:
            yield from self._closing()

    def _finishing(self) -> Steps:
        if self.phase == OPEN:
            for mark in self._end_marks():
                yield from self._fan(self._source, (mark,))
            for node_id in self.plan.closing:
                method = self.plan.methods(node_id).get("closing")
                if method is not None and self.failure is None:
                    yield self._links[node_id].target(method), ()
        yield from self._closing()

    def _end_marks(self) -> list[Any]:
        if self.failure is not None:
            return []
        try:
            return self._intake.end()
        except RrextError as error:
            self.fail(error)
            return []

    def _closing(self) -> Steps:
        if self.phase == OPEN:
            self.phase = ENDING
        for node_id in self.plan.closing:
            link = self._links.get(node_id)
            if link is None or not link.opened:
                continue
            method = self.plan.methods(node_id).get("close")
            if method is None:
                link.opened = False
                continue
            yield link.target(method), ()
            if link.opened:  # cancelled before its thread began
                yield link.target(method), ()

    def _fan(self, targets: Sequence[Target], args: tuple[Any, ...]) -> Steps:
        for target in targets:
            if self.failure is not None:
                return
            yield target, args

    def _payload(self, data: bytes | str, bridge: Bridge) -> Any:
        if self.phase != OPEN:
            raise PipeNotOpen("The pipe is not open")
        if self.failure is not None:
            raise PipeFailed(f"The object has failed: {self.failure.message}", data={"cause": self.failure.code})
        self._bridge = bridge
        try:
            return self._intake.feed(data)
        except RrextError as error:
            raise self.fail(error) from None

    def _let_go(self) -> None:
        """When the last node is closed: cut the circles of node and link, so that nothing waits for the collector."""
        if self.phase == ENDING and not self.leftover and not any(link.opened for link in self._links.values()):
            for link in self._links.values():
                link.node._link = None
            self._links.clear()
            self._source = ()
            self.phase = CLOSED

    # the two drivers

    def _drive(self, steps: Steps) -> None:
        self._take_defs(steps, next(steps, None), None)

    async def _drive_on_loop(self, steps: Steps) -> None:
        cancelled: asyncio.CancelledError | None = None
        step: Step | None = next(steps, None)
        while step is not None:
            try:
                if not step[0].is_async:
                    # A row of `def` methods is one trip to a thread; it comes back with the first step that is not.
                    step = await self._in_thread(partial(self._take_defs, steps, step))
                    continue
                await self._run(step[0], step[1])
            except asyncio.CancelledError as error:
                self.fail(Cancelled())
                if cancelled is not None or self.leftover:
                    raise
                cancelled = error
            except RrextError:
                pass  # recorded where it was raised; the steps know what is left to do
            step = next(steps, None)
        if cancelled is not None:
            raise cancelled

    def _take_defs(self, steps: Steps, step: Step | None, work: ThreadWork[Any] | None) -> Step | None:
        """Take steps in this thread. For a loop (`work`), stop at one that belongs there and return it."""
        while step is not None and (work is None or not step[0].is_async):
            try:
                self.deliver(step[:1], step[1])
            except RrextError:
                pass  # recorded where it was raised; the steps know what is left to do
            if work is not None and work.given_up:
                return None
            step = next(steps, None)
        return step

    async def _in_thread(self, work: Callable[[ThreadWork[T]], T]) -> T | None:
        trip = ThreadWork(work)
        try:
            return await self._bridge.run_in_thread(trip)
        except BaseException:
            if trip.give_up():
                self._leftovers.append(trip)
                for guest in self._guests:
                    guest.cancel()  # the thread may be waiting for them
            raise

    # calling methods

    def context(self, node_id: str) -> ToolContext:
        """The context of the operation that runs."""
        return self._bridge.context(node_id)

    def bind(self, sender: str, lane: str) -> tuple[Target, ...]:
        """The methods that take what a node or the source sends on a lane."""
        return tuple(self._links[r.node_id].target(r.method) for r in self.plan.receivers(sender, lane))

    def deliver(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """Call one method after the other in this thread; `async def` ones on the loop. Raises the first error."""
        self._depth += 1
        if self._depth > self.plan.limits.emit_depth:
            self._depth -= 1
            raise self._too_deep()
        try:
            for target in targets:
                if target.is_async:
                    self._bridge.run_on_loop(self._visit(target, args))
                    continue
                link = target.link
                link.state = target.state
                try:
                    outcome = target.call(*args)
                    if outcome is not None:
                        _refuse_unawaited(outcome)
                except BaseException as error:
                    link.state = QUIET
                    failure = self.fail_in(link.node_id, target.name, error)
                    raise failure from failure.__cause__
                link.state = QUIET
                if self.failure is not None:
                    raise self.failure  # the method swallowed it
        finally:
            self._depth -= 1

    async def deliver_on_loop(self, targets: Sequence[Target], args: tuple[Any, ...]) -> None:
        """`deliver`, on the loop."""
        self._depth += 1
        try:
            if self._depth > self.plan.limits.emit_depth:
                raise self._too_deep()
            await self._drive_on_loop(self._fan(targets, args))
        finally:
            self._depth -= 1
        if self.failure is not None:
            raise self.failure

    async def _visit(self, target: Target, args: tuple[Any, ...]) -> None:
        """An `async def` method that a thread waits for."""
        guest = asyncio.current_task()
        assert guest is not None
        self._guests.add(guest)
        try:
            await self._run(target, args)
        finally:
            self._guests.discard(guest)

    async def _run(self, target: Target, args: tuple[Any, ...]) -> None:
        link = target.link
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
            self.fail(Cancelled(f'Node "{link.node_id}" was cancelled in {target.name}'))
            raise
        except BaseException as error:
            failure = self.fail_in(link.node_id, target.name, error)
            raise failure from failure.__cause__
        finally:
            if link.emissions:
                await _stop(link.strays())
                link.emissions.clear()
            link.state = QUIET
        if self.failure is not None:
            raise self.failure  # the method swallowed it

    def fail_in(self, node_id: str, where: str, error: BaseException) -> RrextError:
        """Mark the object failed by what a node raised, and return its first error."""
        if self.failure is not None and error is self.failure:
            return self.failure
        if isinstance(error, KeyboardInterrupt | GeneratorExit):  # not the node's
            self.fail(Cancelled())
            raise error
        what = f'Node "{node_id}" failed in {where}'
        failure = failure_of(
            error, what=what, node_id=node_id, tool=None, request_id=None, trusted=True, limits=self.plan.limits
        )
        first = self.fail(failure)
        if first is not failure:
            log.info("%s after the object had failed: %s", what, failure.message)
        return first

    def _too_deep(self) -> RrextError:
        limit = self.plan.limits.emit_depth
        return self.fail(ToolError(f"More than {limit} nodes emit inside each other's emit (emit_depth)"))

    def __repr__(self) -> str:
        failed = f" failed={self.failure.code}" if self.failure is not None else ""
        return f"<NodeObjects {self.phase}{failed} nodes={len(self._objects)}>"


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
