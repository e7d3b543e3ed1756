"""Small pipelines of recording nodes, and a services with real threads and a real loop, for the tests of this folder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from rrext.engine.flow.intake import Intake
from rrext.engine.flow.objects import NodeObjects
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.node import Entry, Node
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.spec import ComponentSpec, DataEdge, PipelineSpec
from rrext.tools.context import ToolContext

T = TypeVar("T")

SOURCE = "source"
EVERY_LANE = ("tags", "text", "table", "documents", "questions", "answers", "image")


def part(node_id: str, node_class: type[Node], *inputs: DataEdge) -> ComponentSpec:
    """A component with data edges and nothing else."""
    return ComponentSpec(id=node_id, provider=node_class.provider, node=node_class, inputs=inputs)


def spec(classes: Mapping[str, type[Node]], *edges: str, source: str = SOURCE) -> PipelineSpec:
    """A pipeline in the file order of `classes`. An edge is `sender lane receiver`; nodes without one come last."""
    triples = [edge.split() for edge in edges]
    parts = tuple(
        part(i, node_class, *(DataEdge(lane, sender) for sender, lane, to in triples if to == i))
        for i, node_class in classes.items()
    )
    listeners: dict[str, list[str]] = {}
    for component in parts:
        for sender in dict.fromkeys(edge.source_id for edge in component.inputs):
            listeners.setdefault(sender, []).append(component.id)
    chain: dict[str, None] = {}
    pending = list(reversed(listeners.get(source, [])))
    while pending:  # depth-first, in file order
        node_id = pending.pop()
        if node_id not in chain:
            chain[node_id] = None
            pending.extend(reversed(listeners.get(node_id, [])))
    chain.update(dict.fromkeys(component.id for component in parts))
    return PipelineSpec(source, parts, tuple(chain), "")


class Flow:
    """A plan, and fresh node objects for it. `log` is where the recording nodes write."""

    def __init__(self, classes: Mapping[str, type[Node]], *edges: str, limits: Limits = DEFAULTS) -> None:
        self.classes = classes
        self.log: list[tuple[Any, ...]] = []
        self.plan = LanePlan.of(spec(classes, *edges), limits)

    def make(self, node_id: str) -> Node:
        node = self.classes[node_id].__new__(self.classes[node_id])
        node.node_id = node_id
        node.shared = self.log
        node.__init__()
        return node

    def objects(self, *, trusted: bool = True) -> NodeObjects:
        return NodeObjects(self.plan, self.make, trusted=trusted)

    def through(self, *writes: bytes | str, lane: str = "text") -> list[tuple[Any, ...]]:
        """The log of a whole object, blocking."""
        objects, services = self.objects(), LoopServices()
        objects.open_blocking(Entry("a"), Intake(lane, f"lane/{lane}"), services)
        for data in writes:
            objects.write_blocking(data, services)
        failure = objects.finish_blocking(services)
        assert objects.closed
        if failure is not None:
            raise failure
        return self.log

    async def through_loop(self, *writes: bytes | str, lane: str = "text") -> list[tuple[Any, ...]]:
        """The log of a whole object, on the loop."""
        objects, services = self.objects(), LoopServices(asyncio.get_running_loop())
        await objects.open(Entry("a"), Intake(lane, f"lane/{lane}"), services)
        for data in writes:
            await objects.write(data, services)
        failure = await objects.finish(services)
        assert objects.closed
        if failure is not None:
            raise failure
        return self.log


class LoopServices:
    """Threads that nobody waits for when they are cancelled, as the engine has them."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        self.trips = 0
        self._threads: list[threading.Thread] = []

    def join(self) -> None:
        """Wait until the threads hold nothing any more."""
        for thread in self._threads:
            thread.join()

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        assert self.loop is not None, "a blocking operation has no loop"
        self.trips += 1
        outcome: asyncio.Future[T] = self.loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if outcome.done():
                return
            if error is None:
                outcome.set_result(value)
            else:
                outcome.set_exception(error)

        def main() -> None:
            value, error = None, None
            try:
                value = work()
            except BaseException as raised:
                error = raised
            assert self.loop is not None
            with suppress(RuntimeError):  # the thread was left over, and its test is done
                self.loop.call_soon_threadsafe(settle, value, error)

        thread = threading.Thread(target=main, daemon=True)
        self._threads.append(thread)
        thread.start()
        return await outcome

    def run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self.loop is not None, "a blocking operation has no loop"
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    request = "request=7 client=lanes"

    def context(self, node_id: str) -> ToolContext:
        return ToolContext(node_id=node_id, request_id=7)


class Recorder(Node):
    """Records its lifecycle; subclasses add lanes."""

    lanes = dict.fromkeys(EVERY_LANE, EVERY_LANE)

    def record(self, *what: Any) -> None:
        self.shared.append((self.node_id, *what))

    def open(self, entry: Entry) -> None:
        self.record("open")

    def closing(self) -> None:
        self.record("closing")

    def close(self) -> None:
        self.record("close")


class AsyncRecorder(Node):
    """`Recorder`, with methods that suspend."""

    lanes = Recorder.lanes

    def record(self, *what: Any) -> None:
        self.shared.append((self.node_id, *what))

    async def open(self, entry: Entry) -> None:
        await asyncio.sleep(0)
        self.record("open")

    async def closing(self) -> None:
        await asyncio.sleep(0)
        self.record("closing")

    async def close(self) -> None:
        self.record("close")
        await asyncio.sleep(0)
