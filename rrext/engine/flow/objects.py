"""The node objects of one pipe, and the processing of one object: open, writes, closing, close.

Every operation has two forms. The blocking form runs in one worker thread, for pipelines without `async def` methods; the
other form runs on the loop. Both run the same generators of steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.flow.conductor import Conductor, OperationServices, Steps
from rrext.engine.flow.node_link import NodeLink, Target
from rrext.errors import PipeFailed, PipeNotOpen, RrextError, Unavailable
from rrext.nodes.base.node import Node
from rrext.pipefile.lane_plan import Method

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventOrigin
    from rrext.engine.flow.intake import Intake
    from rrext.nodes.base.node import Entry
    from rrext.pipefile.lane_plan import LanePlan, LaneReceiver


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
        for node_id, link in self._links.items():
            method = self.plan.methods(node_id).get("open")
            if method is None:
                link.opened = True
            else:
                yield link.target(method), (entry,)
            if self.failure is not None:
                break
        for mark in self._intake.begin():
            yield from self._conductor.fan(self._source, (mark,))
        if self.failure is not None:
            yield from self._closing()

    def _finishing(self) -> Steps:
        if self.phase == OPEN:
            for mark in self._end_marks():
                yield from self._conductor.fan(self._source, (mark,))
            for node_id in self.plan.closing:
                method = self.plan.methods(node_id).get("closing")
                if method is not None and self.failure is None and node_id in self._links:
                    yield self._links[node_id].target(method), ()
        yield from self._closing()

    def _closing(self) -> Steps:
        if self.phase == OPEN:
            self.phase = ENDING
        for node_id in self.plan.closing:
            link = self._links.get(node_id)
            method = self.plan.methods(node_id).get("close")
            if link is None or not link.opened:
                continue
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
                if self.plan.methods(node_id) and node_id not in self._absent:
                    self._links[node_id] = self._link(node_id)
            self._source = self.bind(self.plan.source, intake.lane)
            self.phase = OPEN
        finally:
            self._let_go()

    def _link(self, node_id: str) -> NodeLink:
        try:
            node = self.object(node_id)
        except Exception as error:
            failure = self._conductor.fail_in(node_id, "__init__", error)
            try:
                raise failure from failure.__cause__
            finally:
                del failure  # its traceback references this frame
        node._link = link = NodeLink(self, self._conductor, node_id, node)
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

        link = NodeLink(self, self._conductor, receiver.node_id, Node())
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
            self._let_go()

    async def _on_loop(self, steps: Steps, services: OperationServices) -> None:
        self._conductor.services = services
        try:
            await self._conductor.drive_on_loop(steps)
        finally:
            self._conductor.services = None
            self._let_go()

    def _let_go(self) -> None:
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
