"""The node objects of one pipe, and the way of one object through them: open, writes, closing, close.

Every operation has two forms with one meaning. The blocking one runs whole in a worker thread, and is for pipelines
without `async def` methods. The other one runs on the loop. What happens in which order is written once, as steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rrext.engine.flow.conductor import Bridge, Conductor, Steps
from rrext.engine.flow.node_link import NodeLink, Target
from rrext.errors import PipeFailed, PipeNotOpen, RrextError

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventOrigin
    from rrext.engine.flow.intake import Intake
    from rrext.nodes.base.node import Entry, Node
    from rrext.pipefile.plan import LanePlan


NEW, OPEN, ENDING, CLOSED = "new", "open", "ending", "closed"


class NodeObjects:
    """The objects of a pipeline's nodes, for one pipe or for calls without a pipe.

    `object` makes them at first use, from any thread. Operations run one at a time, and serve one object; of an object
    that has failed, nothing more is sent and `closing` runs no more, so that no half of it is committed anywhere.
    `close` still runs on every node that was opened: on each whose `open` returned, once.

    `made` are the objects that were asked for so far, by node id; `make` makes one. `trusted` says that whoever opens the
    object may read the texts of nodes' exceptions. `origin` is where the events of its lanes come from.
    """

    __slots__ = ("_conductor", "_intake", "_links", "_lock", "_make", "_source", "made", "phase", "plan")

    def __init__(
        self, plan: LanePlan, make: Callable[[str], Node], *, trusted: bool = False, origin: EventOrigin | None = None
    ) -> None:
        self.plan = plan
        self.phase = NEW
        self._make = make
        self.made: dict[str, Node] = {}
        self._lock = threading.Lock()
        self._links: dict[str, NodeLink] = {}
        self._source: tuple[Target, ...] = ()
        self._conductor = Conductor(plan.limits, trusted=trusted, origin=origin)
        self._intake: Intake

    def object(self, node_id: str) -> Node:
        """The node's object, made if there is none yet. Raises what its `__init__` raises."""
        try:
            return self.made[node_id]
        except KeyError:
            pass
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
        """Whether the object is over and no node is open any more."""
        return self.phase == CLOSED

    @property
    def leftover(self) -> bool:
        """Whether a method still runs in a thread, though its operation was cancelled."""
        return self._conductor.leftover

    def fail(self, error: RrextError) -> RrextError:
        """Mark the object failed, from any thread, and return its first error. What runs stops at its next `emit`."""
        return self._conductor.fail(error)

    # operations, each in both forms

    def open_blocking(self, entry: Entry, intake: Intake, bridge: Bridge) -> None:
        """Open every node, then send the begin marks. Raises the first error, after what was opened was closed."""
        self._begin(intake)
        self._here(self._opening(entry), bridge)
        self._raise_failure()

    async def open(self, entry: Entry, intake: Intake, bridge: Bridge) -> None:
        """`open_blocking`, on the loop. Cancelled, it closes what was opened; see `abandon`."""
        self._begin(intake)
        await self._on_loop(self._opening(entry), bridge)
        self._raise_failure()

    def write_blocking(self, data: bytes | str, bridge: Bridge) -> None:
        """Send one write on; returns when every receiver has. Raises the first error."""
        payload = self._payload(data)
        if payload is not None:
            self._conductor.bridge = bridge
            try:
                self._conductor.deliver(self._source, (payload,))
            finally:
                self._conductor.bridge = None

    async def write(self, data: bytes | str, bridge: Bridge) -> None:
        """`write_blocking`, on the loop. Cancelled, the object has failed."""
        payload = self._payload(data)
        if payload is not None:
            self._conductor.bridge = bridge
            try:
                await self._conductor.deliver_on_loop(self._source, (payload,))
            finally:
                self._conductor.bridge = None

    def finish_blocking(self, bridge: Bridge) -> RrextError | None:
        """Send the end marks, run `closing` and `close` of every node. Returns the object's first error."""
        self._here(self._finishing(), bridge)
        return self.failure

    async def finish(self, bridge: Bridge) -> RrextError | None:
        """`finish_blocking`, on the loop. Cancelled, it goes on with every `close`; see `abandon`.

        With a leftover thread no node is touched: what was collected until then is the result.
        """
        if not self.leftover:
            await self._on_loop(self._finishing(), bridge)
        return self.failure

    def abandon_blocking(self, bridge: Bridge) -> None:
        """Run `close` of every node that is open, and nothing else: nobody wants the object. Raises nothing of it."""
        self._here(self._closing(), bridge)

    async def abandon(self, bridge: Bridge) -> None:
        """`abandon_blocking`, on the loop, after leftover threads have returned.

        An operation that is cancelled closes the nodes by itself, except for `write`. It leaves them to `abandon` when
        a thread is left over, or when it is cancelled again meanwhile: whenever `closed` is false after it. How long
        this may take is the caller's business.
        """
        await self._conductor.threads_returned()
        await self._on_loop(self._closing(), bridge)

    # what they do, step by step

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
                if method is not None and self.failure is None:
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
            if link.opened:  # cancelled before its thread began: it is still to be done
                yield link.target(method), ()

    # their parts

    def _begin(self, intake: Intake) -> None:
        if self.phase != NEW:
            raise RuntimeError(f"node objects serve one object, and this one is {self.phase}")
        self._intake = intake
        self.phase = ENDING
        try:
            for node_id in self.plan.opening:
                if self.plan.methods(node_id):  # nodes without methods pass on without having an object
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
            raise failure from failure.__cause__
        node._link = link = NodeLink(self, self._conductor, node_id, node)
        return link

    def bind(self, sender: str, lane: str) -> tuple[Target, ...]:
        """The methods that take what a node or the source sends on a lane."""
        return tuple(self._links[r.node_id].target(r.method) for r in self.plan.receivers(sender, lane))

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

    def _here(self, steps: Steps, bridge: Bridge) -> None:
        self._conductor.bridge = bridge
        try:
            self._conductor.drive(steps)
        finally:
            self._conductor.bridge = None
            self._let_go()

    async def _on_loop(self, steps: Steps, bridge: Bridge) -> None:
        self._conductor.bridge = bridge
        try:
            await self._conductor.drive_on_loop(steps)
        finally:
            self._conductor.bridge = None
            self._let_go()

    def _let_go(self) -> None:
        """When the last node is closed: cut the circles of node and link, so that nothing waits for the collector."""
        links = self._links.values()
        if self.phase == ENDING and not self.leftover and not any(link.opened for link in links):
            for link in links:
                link.node._link = None
            self._links.clear()
            self._source = ()
            self.phase = CLOSED

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure
