"""The node objects of one pipe, and what happens to its object: open, writes, closing, close.

`NodeObjects` has the objects of one pipe and the operations. Each has two forms: the blocking one runs in one worker thread,
for pipelines without `async def` methods, the other one on the loop. Both run the same generators, which yield the method
calls as steps and check `failure` after each. `Conductor` drives them, in its thread or on the loop, from where `def` methods
go to threads; the first error fails the object. `NodeLink` joins a node to its receivers: the targets of `emit`, and the times
when it is allowed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from rrext.engine.host.host import ThreadWork
from rrext.engine.interface.failures import failure_of
from rrext.errors import Cancelled, PipeFailed, PipeNotOpen, RrextError, ToolError, Unavailable, near_matches
from rrext.nodes.base.node import Node
from rrext.pipefile.lane_plan import Method

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventOrigin
    from rrext.engine.events.publishers import Visit
    from rrext.engine.events.trace import TracedVisit
    from rrext.engine.flow.intake import Intake
    from rrext.limits import Limits
    from rrext.nodes.base.node import Entry
    from rrext.pipefile.lane_plan import LanePlan, LaneReceiver
    from rrext.tools.context import ToolContext


NEW, OPEN, ENDING, CLOSED = "new", "open", "ending", "closed"
NONE_ABSENT: Final[Mapping[str, Unavailable]] = {}


class NodeObjects:
    """The objects of a pipeline's nodes, for one pipe or for calls without a pipe.

    `object` makes them at first use, from any thread. Operations run one at a time, for one object. After a failure nothing
    more is sent and `closing` does not run, so that no incomplete object is committed. `close` still runs once on every
    node whose `open` returned.

    `made` maps node ids to the objects made so far; `make` makes one. `trusted` says that the caller may read the texts of
    nodes' exceptions. `origin` is the origin of the lane events. `absent` maps each node that is unavailable for this object
    to the error: it has no object, and a payload that reaches it fails the object.
    """

    __slots__ = ("_absent", "_conductor", "_intake", "_links", "_lock", "_make", "_source", "made", "phase", "plan")

    def __init__(
        self,
        plan: LanePlan,
        make: Callable[[str], Node],
        *,
        trusted: bool = False,
        origin: EventOrigin | None = None,
        absent: Mapping[str, Unavailable] = NONE_ABSENT,
    ) -> None:
        self.plan = plan
        self.phase = NEW
        self._make = make
        self._absent = absent
        self.made: dict[str, Node] = {}
        self._lock = threading.Lock()
        self._links: dict[str, NodeLink] = {}
        self._source: tuple[Target, ...] = ()
        self._conductor = Conductor(plan.limits, trusted=trusted, origin=origin)
        self._intake: Intake

    def object(self, node_id: str) -> Node:
        """Get the node's object, made at first use. Raises the exceptions of its `__init__`; of an absent node, its error."""
        try:
            return self.made[node_id]
        except KeyError:
            pass
        if node_id in self._absent:
            raise self._absent[node_id].again()
        with self._lock:
            found = self.made.get(node_id)
            if found is None:
                found = self.made[node_id] = self._make(node_id)
            return found

    @property
    def failure(self) -> RrextError | None:
        """The first error of the object."""
        return self._conductor.failure

    @property
    def closed(self) -> bool:
        """Whether the object has ended and no node is open."""
        return self.phase == CLOSED

    @property
    def leftover(self) -> bool:
        """Whether a method still runs in a thread, though its operation was cancelled."""
        return self._conductor.leftover

    def fail(self, error: RrextError) -> RrextError:
        """Mark the object failed, from any thread, and return its first error. A running method stops at its next `emit`."""
        return self._conductor.fail(error)

    # operations, each in both forms

    def open_blocking(self, entry: Entry, intake: Intake, services: OperationServices) -> None:
        """Open every node, then send the begin marks. Raises the first error, after closing the opened nodes."""
        self._begin(intake)
        self._here(self._opening(entry), services)
        self._raise_failure()

    async def open(self, entry: Entry, intake: Intake, services: OperationServices) -> None:
        """`open_blocking`, on the loop. A cancel closes the opened nodes; see `abandon`."""
        self._begin(intake)
        await self._on_loop(self._opening(entry), services)
        self._raise_failure()

    def write_blocking(self, data: bytes | str, services: OperationServices) -> None:
        """Send the payload of one write; returns after every receiver has returned. Raises the first error."""
        payload = self._payload(data)
        if payload is not None:
            self._conductor.services = services
            try:
                self._conductor.deliver(self._source, (payload,))
            finally:
                self._conductor.services = None

    async def write(self, data: bytes | str, services: OperationServices) -> None:
        """`write_blocking`, on the loop. A cancel fails the object."""
        payload = self._payload(data)
        if payload is not None:
            self._conductor.services = services
            try:
                await self._conductor.deliver_on_loop(self._source, (payload,))
            finally:
                self._conductor.services = None

    def finish_blocking(self, services: OperationServices) -> RrextError | None:
        """Send the end marks, run `closing` and `close` of every node. Returns the object's first error."""
        self._here(self._finishing(), services)
        return self.failure

    async def finish(self, services: OperationServices) -> RrextError | None:
        """`finish_blocking`, on the loop. After a cancel every `close` still runs; see `abandon`.

        While a leftover thread runs, no node is touched: the results collected so far are the result.
        """
        if not self.leftover:
            await self._on_loop(self._finishing(), services)
        return self.failure

    def abandon_blocking(self, services: OperationServices) -> None:
        """Run `close` of every open node of an object that was given up. Errors of nodes are not raised."""
        self._here(self._closing(), services)

    async def abandon(self, services: OperationServices) -> None:
        """`abandon_blocking`, on the loop, after leftover threads have returned.

        A cancelled operation other than `write` closes the nodes itself. If a thread is left over, or a second cancel
        arrives, `closed` is false afterwards and the caller must run `abandon`. The caller limits its duration.
        """
        await self._conductor.threads_returned()
        await self._on_loop(self._closing(), services)

    # steps of the operations

    def _opening(self, entry: Entry) -> Steps:
        for link in self._links.values():
            method = link.methods.get("open")
            if method is None:
                link.opened = True
            else:
                yield link.target(method), (entry,)
            if self.failure is not None:
                break
        for mark in self._intake.begin:
            yield from self._conductor.fan(self._source, (mark,))
        if self.failure is not None:
            yield from self._closing()

    def _finishing(self) -> Steps:
        if self.phase == OPEN:
            for mark in self._end_marks():
                yield from self._conductor.fan(self._source, (mark,))
            for node_id in self.plan.closing:
                link = self._links.get(node_id)
                method = None if link is None else link.methods.get("closing")
                if link is not None and method is not None and self.failure is None:
                    yield link.target(method), ()
        yield from self._closing()

    def _closing(self) -> Steps:
        if self.phase == OPEN:
            self.phase = ENDING
        for node_id in self.plan.closing:
            link = self._links.get(node_id)
            if link is None or not link.opened:
                continue
            method = link.methods.get("close")
            if method is None:
                link.opened = False
                continue
            yield link.target(method), ()
            if link.opened:  # cancelled before its thread began: `close` must still run
                yield link.target(method), ()

    # parts of the steps

    def _begin(self, intake: Intake) -> None:
        if self.phase != NEW:
            raise RuntimeError(f"node objects serve one object, and this one is {self.phase}")
        self._intake = intake
        self.phase = ENDING
        try:
            for node_id in self.plan.opening:
                # Nodes without methods pass payloads on without an object.
                methods = self.plan.methods[node_id]
                if methods and node_id not in self._absent:
                    self._links[node_id] = self._link(node_id, methods)
            self._source = self.bind(self.plan.source, intake.lane)
            self.phase = OPEN
        finally:
            self._break_cycles()

    def _link(self, node_id: str, methods: Mapping[str, Method]) -> NodeLink:
        try:
            node = self.object(node_id)
        except Exception as error:
            failure = self._conductor.fail_in(node_id, "__init__", error)
            try:
                raise failure from failure.__cause__
            finally:
                del failure  # its traceback references this frame
        node._link = link = NodeLink(self, self._conductor, node_id, node, methods)
        return link

    def bind(self, sender: str, lane: str) -> tuple[Target, ...]:
        """Find the methods that receive the payloads which a node or the source sends on a lane."""
        return tuple(self._target(receiver) for receiver in self.plan.receivers(sender, lane))

    def reaches(self, node_id: str) -> bool:
        """Whether payloads of the open object, on the lane that it took, may come to a node."""
        return node_id in self.plan.reached(self._intake.lane)

    def _target(self, receiver: LaneReceiver) -> Target:
        error = self._absent.get(receiver.node_id)
        if error is None:
            return self._links[receiver.node_id].target(receiver.method)

        def refuse(payload: Any) -> None:
            raise error.again()

        link = NodeLink(self, self._conductor, receiver.node_id, Node(), {})
        return Target(link, Method(receiver.method.name, False, None), refuse)

    def _payload(self, data: bytes | str) -> Any:
        if self.phase != OPEN:
            raise PipeNotOpen("The pipe is not open")
        if self.failure is not None:
            raise PipeFailed(f"The object has failed: {self.failure.message}", data={"cause": self.failure.code})
        try:
            return self._intake.feed(data)
        except RrextError as error:
            raise self.fail(error) from None

    def _end_marks(self) -> list[Any]:
        if self.failure is not None:
            return []
        try:
            return self._intake.end()
        except RrextError as error:
            self.fail(error)
            return []

    def _here(self, steps: Steps, services: OperationServices) -> None:
        self._conductor.services = services
        try:
            self._conductor.drive(steps)
        finally:
            self._conductor.services = None
            self._break_cycles()

    async def _on_loop(self, steps: Steps, services: OperationServices) -> None:
        self._conductor.services = services
        try:
            await self._conductor.drive_on_loop(steps)
        finally:
            self._conductor.services = None
            self._break_cycles()

    def _break_cycles(self) -> None:
        """Break the reference cycles of nodes and links after the last `close`, so that they need no garbage collection."""
        links = self._links.values()
        if self.phase == ENDING and not self.leftover and not any(link.opened for link in links):
            for link in links:
                link.node._link = None
            self._links.clear()
            self._source = ()
            self.phase = CLOSED
            if (failure := self.failure) is not None:  # its traceback leads back to here, with the payload
                failure.__traceback__ = failure.__cause__ = failure.__context__ = None

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


class Target:
    """A method of a node object, ready to be called; `state` is that of the link while the method runs."""

    __slots__ = ("call", "is_async", "lane", "link", "name", "state")

    def __init__(self, link: NodeLink, method: Method, call: Callable[..., Any]) -> None:
        self.link = link
        self.name = method.name
        self.lane = method.name.removeprefix("write_") if method.name.startswith("write_") else None
        self.is_async = method.is_async
        self.call = call
        if method.name in ("open", "close"):
            self.state = SILENT
        else:
            self.state = SENDING_ASYNC if method.is_async else SENDING


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


# States of a node: the method that runs. A node may emit in SENDING and SENDING_ASYNC only.
QUIET: Final = 0  # no method of the object runs; perhaps a tool
SILENT: Final = 1  # open or close
SENDING: Final = 2  # a `def` lane method or closing
SENDING_ASYNC: Final = 3  # an `async def` lane method or closing
WAITING: Final = 4  # an emit of the node has not returned yet


class NodeLink:
    """A node object while its pipe is open. `opened` is true from the end of `open` to the beginning of `close`.

    The data edges make no circle, so at most one lane method of a node runs at any time, and one state is enough.
    """

    __slots__ = ("_conductor", "_fanouts", "_objects", "emissions", "methods", "node", "node_id", "opened", "state")

    def __init__(
        self, objects: NodeObjects, conductor: Conductor, node_id: str, node: Node, methods: Mapping[str, Method]
    ) -> None:
        self._objects = objects
        self._conductor = conductor
        self.node_id = node_id
        self.node = node
        self.methods = methods
        self.opened = False
        self.state = QUIET
        self.emissions: list[Emission] = []  # emits that have not ended
        self._fanouts: dict[str, tuple[Target, ...]] = {}

    def emit(self, lane: str, value: Any) -> Awaitable[None] | None:
        """Send a payload on a lane; see `Node.emit`."""
        conductor = self._conductor
        if self.state == SENDING and conductor.failure is None:
            targets = self._fanouts.get(lane)
            if targets is None:
                targets = self._find(lane)
            depth = conductor.depth
            if depth >= conductor.max_depth:
                raise conductor.too_deep()
            conductor.depth = depth + 1
            self.state = WAITING
            conductor.deliver(targets, (value,))
            self.state = SENDING
            conductor.depth = depth
            return None
        if self.state == SENDING_ASYNC:  # a failure is raised when it is awaited
            targets = self._fanouts.get(lane)
            if targets is None:
                targets = self._find(lane)
            caller = sys._getframe(2)  # 0 is this method, 1 is Node.emit
            emission = Emission(self, lane, targets, value, f"{caller.f_code.co_filename}:{caller.f_lineno}")
            self.emissions.append(emission)
            return emission
        raise self._refusal(lane)

    def listens(self, lane: str) -> bool:
        """Whether the node listens on a lane; see `Node.listens`."""
        return f"write_{lane}" in self._objects.plan.methods[self.node_id] and self._objects.reaches(self.node_id)

    def is_heard(self, lane: str) -> bool:
        """Whether any node takes what the node sends on a lane; see `Node.is_heard`."""
        return bool(self._objects.plan.receivers(self.node_id, lane))

    def target(self, method: Method) -> Target:
        """Make the target of a node method: passes a context to a method with a context parameter, and maintains `opened`."""
        call = getattr(self.node, method.name)
        name = method.context
        if name is not None:
            call = _with_context(call, name, lambda: self._conductor.context(self.node_id))
        if method.name == "open":
            call = self._after_open_on_loop(call) if method.is_async else self._after_open(call)
        elif method.name == "close":
            call = self._before_close(call)
        return Target(self, method, call)

    def _after_open(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(entry: Entry) -> Any:
            outcome = call(entry)
            self.opened = True
            return outcome

        return opening

    def _after_open_on_loop(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def opening(entry: Entry) -> None:
            await call(entry)
            self.opened = True

        return opening

    def _before_close(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def closing() -> Any:
            self.opened = False
            return call()

        return closing

    def begin(self, emission: Emission) -> Conductor:
        """Begin an awaited emission, and return the conductor that delivers it."""
        if emission.task is not None:
            raise self._broken(RuntimeError(f"the emit at {emission.where} is awaited twice"))
        if self.state != SENDING_ASYNC:
            raise self._refusal(emission.lane)
        self.state = WAITING
        return self._conductor

    def strays(self) -> list[asyncio.Task[Any]]:
        """The tasks of the node that still emit, though the method that started them has ended."""
        mine = asyncio.current_task()
        tasks = (emission.task for emission in self.emissions)
        return [task for task in tasks if task is not None and task is not mine and not task.done()]

    def done(self, emission: Emission) -> None:
        """End an emission: its receivers have returned."""
        self.emissions.remove(emission)
        self.state = SENDING_ASYNC

    def _find(self, lane: str) -> tuple[Target, ...]:
        declared = self._objects.plan.declared[self.node_id]
        if lane in declared:
            found = self._fanouts[lane] = self._objects.bind(self.node_id, lane)
            return found
        near = near_matches(lane, declared) if isinstance(lane, str) else []
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise self._broken(
            ValueError(
                f'Node "{self.node_id}" emits on the lane "{lane}", but its class declares {", ".join(declared) or "none"} '
                f"as lanes out.{hint}"
            )
        )

    def _refusal(self, lane: str) -> BaseException:
        who = f'Node "{self.node_id}": emit("{lane}")'
        if self.state == QUIET:
            return RuntimeError(f"{who} outside of an object: it works in write_<lane> and closing, not in tools")
        if self._conductor.failure is not None:
            return self._conductor.failure  # a node that caught the error gets it again
        if self.state == SILENT:
            return self._broken(RuntimeError(f"{who} in open or close: only in between its receivers listen"))
        return self._broken(
            RuntimeError(f"{who} while its last emit has not returned: emit one value after the other, from one thread")
        )

    def _broken(self, error: Exception) -> Exception:
        """Mark the object failed and return the same error: an author may catch it, but the failure stays."""
        self._conductor.fail_in(self.node_id, "emit", error)
        return error


class Emission:
    """The awaitable that `emit` returns in an `async def` method; awaiting it sends the payload."""

    __slots__ = ("_link", "_targets", "_value", "lane", "task", "where")

    def __init__(self, link: NodeLink, lane: str, targets: tuple[Target, ...], value: Any, where: str) -> None:
        self._link = link
        self._targets = targets
        self._value = value
        self.lane = lane
        self.where = where
        self.task: asyncio.Task[Any] | None = None

    def __await__(self) -> Generator[Any, None, None]:
        return self._send().__await__()

    async def _send(self) -> None:
        conductor = self._link.begin(self)
        self.task = asyncio.current_task()
        depth = conductor.depth
        if depth >= conductor.max_depth:
            raise conductor.too_deep()
        conductor.depth = depth + 1
        await conductor.deliver_on_loop(self._targets, (self._value,))
        conductor.depth = depth
        self._link.done(self)


def _with_context(call: Callable[..., Any], name: str, context: Callable[[], Any]) -> Callable[..., Any]:
    return lambda *args: call(*args, **{name: context()})
