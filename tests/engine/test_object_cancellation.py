"""Cancelled at any await, an object leaves no node open, and no node is closed twice or while it still runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from lane_pipelines import AsyncRecorder, Flow, LoopServices, Recorder

from rrext.engine.flow.intake import Intake
from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.host import ThreadWork
from rrext.errors import Cancelled, PipeFailed
from rrext.nodes.base.node import Entry, Node

pytestmark = pytest.mark.anyio


class Counted:
    """Counts the awaits of nodes, and cancels the operation at the one whose number is `at`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.task: asyncio.Task[Any] | None = None

    async def point(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            assert self.task is not None
            self.task.cancel()
        await asyncio.sleep(0)


def counting(points: Counted) -> type[Node]:
    class Counting(AsyncRecorder):
        async def open(self, entry: Entry) -> None:
            await points.point()
            self.record("open")

        async def write_text(self, text: str) -> None:
            await points.point()
            await self.emit("text", text)  # type: ignore[misc]
            await points.point()

        async def closing(self) -> None:
            await points.point()
            await self.emit("text", "bye")  # type: ignore[misc]
            await points.point()

        async def close(self) -> None:
            self.record("close")
            await points.point()

    return Counting


def opened_and_closed(flow: Flow) -> tuple[list[str], list[str]]:
    opened = [node for node, what in flow.log if what == "open"]
    return sorted(opened), sorted(node for node, what in flow.log if what == "close")


async def whole(objects: NodeObjects, services: LoopServices, *, use: bool = True) -> None:
    await objects.open(Entry("a"), Intake("text", "text/plain"), services)
    if use:
        await objects.write("x", services)
        await objects.finish(services)


class DefEnd(Recorder):
    def write_text(self, text: str) -> None: ...


@pytest.mark.parametrize("end", ["async", "def"])
async def test_wherever_an_operation_is_cancelled_every_opened_node_is_closed_once(end: str) -> None:
    cancelled = 0
    for at in range(1, 100):
        points = Counted(at)
        node_class = counting(points)
        last = node_class if end == "async" else DefEnd
        flow = Flow({"a": node_class, "b": node_class, "c": last}, "source text a", "a text b", "a text c", "b text c")
        objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
        points.task = asyncio.create_task(whole(objects, services))
        await asyncio.wait([points.task])
        if points.seen < at:
            break
        cancelled += 1
        assert points.task.cancelled()
        assert isinstance(objects.failure, Cancelled)
        await objects.abandon(services)  # closes what a cancelled write left, and nothing after open and finish
        opened, closed = opened_and_closed(flow)
        assert opened == closed
        assert objects.closed
    assert cancelled > 12, "there are that many awaits"


async def test_a_cancelled_open_and_a_cancelled_finish_close_by_themselves() -> None:
    for operation in ("open", "finish"):
        for at in range(1, 100):
            points = Counted(at if operation == "open" else 0)
            node_class = counting(points)
            flow = Flow({"a": node_class, "b": node_class}, "source text a", "a text b")
            objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
            points.task = asyncio.create_task(whole(objects, services, use=False))
            await asyncio.wait([points.task])
            if operation == "finish":
                points.at = points.seen + at
                points.task = asyncio.create_task(objects.finish(services))
                await asyncio.wait([points.task])
            if points.seen < points.at:
                break
            assert points.task.cancelled()
            assert objects.closed, f"{operation}, await {at}"
            opened, closed = opened_and_closed(flow)
            assert opened == closed
        assert at > 1


async def test_a_cancelled_write_fails_the_object_and_leaves_closing_it_to_the_caller() -> None:
    points = Counted(3)
    node_class = counting(points)
    flow = Flow({"a": node_class, "b": node_class}, "source text a", "a text b")
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    await whole(objects, services, use=False)
    points.task = asyncio.create_task(objects.write("x", services))
    await asyncio.wait([points.task])
    assert opened_and_closed(flow) == (["a", "b"], [])
    with pytest.raises(PipeFailed):
        await objects.write("y", services)
    failure = await objects.finish(services)
    assert isinstance(failure, Cancelled)
    assert failure.message == 'Node "a" was cancelled in write_text'
    assert opened_and_closed(flow) == (["a", "b"], ["a", "b"])


class Stuck(AsyncRecorder):
    """A node whose close waits for ever."""

    async def write_text(self, text: str) -> None: ...

    async def close(self) -> None:
        self.record("close")
        await asyncio.Event().wait()


async def settled() -> None:
    """Let everything that can run on the loop run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_second_cancel_ends_the_waiting_and_abandon_goes_on_where_it_stopped() -> None:
    flow = Flow(dict.fromkeys("abc", Stuck), *(f"source text {node}" for node in "abc"))
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    await whole(objects, services, use=False)
    finishing = asyncio.create_task(objects.finish(services))
    for expected in ("a", "ab"):
        await settled()
        assert opened_and_closed(flow)[1] == list(expected)
        finishing.cancel()
    await asyncio.wait([finishing])
    assert finishing.cancelled()
    assert not objects.closed
    abandoning = asyncio.create_task(objects.abandon(services))
    await settled()
    abandoning.cancel()
    await asyncio.wait([abandoning])
    assert opened_and_closed(flow)[1] == ["a", "b", "c"], "each once"
    assert objects.closed


class Parked(Recorder):
    """A `def` node that stays in its thread until it is let go."""

    at = "write_text"

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def park(self, where: str) -> None:
        if where == self.at:
            self.entered.set()
            assert self.go.wait(30)

    def open(self, entry: Entry) -> None:
        self.park("open")
        self.record("open")

    def write_text(self, text: str) -> None:
        self.park("write_text")
        self.record("text")
        self.emit("text", text)

    def close(self) -> None:
        self.park("close")
        self.record("close")


class AsyncEnd(AsyncRecorder):
    async def write_text(self, text: str) -> None:
        self.record("text")


async def parked(where: str) -> tuple[Flow, NodeObjects, LoopServices, asyncio.Task[None], Any]:
    """An operation that is cancelled while a thread of its is in `where`; source → p → end, and source → q."""
    node_class = type("ParkedThere", (Parked,), {"at": where})
    flow = Flow({"p": node_class, "end": AsyncEnd, "q": AsyncEnd}, "source text p", "p text end", "source text q")
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    node: Any = objects.object("p")
    task = asyncio.create_task(whole(objects, services))
    await asyncio.to_thread(node.entered.wait, 30)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "the operation does not wait for the thread"
    assert objects.leftover
    return flow, objects, services, task, node


async def test_while_a_thread_is_left_over_no_node_is_touched() -> None:
    flow, objects, services, _, node = await parked("write_text")
    assert isinstance(await objects.finish(services), Cancelled)
    abandoning = asyncio.create_task(objects.abandon(services))
    await settled()
    assert opened_and_closed(flow)[1] == []
    assert not objects.closed
    node.go.set()
    await abandoning
    assert not objects.leftover
    assert objects.closed
    assert opened_and_closed(flow) == (["end", "p", "q"], ["end", "p", "q"])
    assert ("end", "text") not in flow.log, "the thread stopped at its emit"
    assert ("q", "text") not in flow.log


async def test_a_node_whose_open_outlives_its_operation_is_closed_when_it_has_returned() -> None:
    flow, objects, services, _, node = await parked("open")
    node.go.set()
    await objects.abandon(services)
    assert opened_and_closed(flow) == (["p"], ["p"])
    assert objects.closed


async def test_a_close_that_outlives_its_operation_is_not_repeated() -> None:
    flow, objects, services, _, node = await parked("close")
    assert opened_and_closed(flow)[1] == [], "the others wait for it"
    node.go.set()
    await objects.abandon(services)
    assert opened_and_closed(flow) == (["end", "p", "q"], ["end", "p", "q"])


async def left_in_close(*others: type[Node]) -> tuple[Flow, NodeObjects, LoopServices, Any]:
    """An object whose finish was cancelled while a thread of its was in the close of the first node, p."""
    node_class = type("ParkedInClose", (Parked,), {"at": "close"})
    names = [f"r{i}" for i in range(len(others))]
    edges = [f"source text {node}" for node in ("p", *names)]
    flow = Flow({"p": node_class, **dict(zip(names, others, strict=True))}, *edges)
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    node: Any = objects.object("p")
    finishing = asyncio.create_task(whole(objects, services))
    await asyncio.to_thread(node.entered.wait, 30)
    finishing.cancel()
    await asyncio.wait([finishing])
    return flow, objects, services, node


async def test_a_leftover_thread_goes_no_further_than_its_method() -> None:
    flow, objects, services, node = await left_in_close(DefEnd)
    node.go.set()
    await asyncio.to_thread(services.join)
    assert opened_and_closed(flow)[1] == ["p"]
    await objects.abandon(services)
    assert opened_and_closed(flow)[1] == ["p", "r0"]


async def test_an_object_is_not_closed_while_its_last_close_still_runs() -> None:
    _, objects, services, node = await left_in_close()
    assert not objects.closed
    node.go.set()
    await objects.abandon(services)
    assert objects.closed


async def test_waiting_for_a_leftover_thread_can_be_cancelled_and_taken_up_again() -> None:
    flow, objects, services, _, node = await parked("write_text")
    abandoning = asyncio.create_task(objects.abandon(services))
    await settled()
    abandoning.cancel()
    await asyncio.wait([abandoning])
    assert objects.leftover
    node.go.set()
    await objects.abandon(services)
    assert opened_and_closed(flow) == (["end", "p", "q"], ["end", "p", "q"])


async def test_a_cancel_reaches_an_async_node_that_a_thread_waits_for() -> None:
    entered = asyncio.Event()

    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            self.emit("text", text)

    class Waits(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.record("unwound")

    flow = Flow({"a": Sends, "b": Waits}, "source text a", "a text b")
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    await whole(objects, services, use=False)
    task = asyncio.create_task(objects.write("x", services))
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    await objects.abandon(services)
    assert ("b", "unwound") in flow.log
    assert opened_and_closed(flow) == (["a", "b"], ["a", "b"])


class Late(LoopServices):
    """A services whose threads begin only when they are told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.waiting: list[Callable[[], Any]] = []
        self.hold = True

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        if self.hold:
            self.waiting.append(work)
            await asyncio.Event().wait()
        return await super().run_in_thread(work)


async def test_what_is_cancelled_before_its_thread_begins_never_runs() -> None:
    flow = Flow({"a": DefEnd}, "source text a")
    objects, services = flow.objects(), Late(asyncio.get_running_loop())
    task = asyncio.create_task(whole(objects, services))
    await settled()
    task.cancel()
    await asyncio.wait([task])
    assert not objects.leftover
    for work in services.waiting:
        work()
    assert flow.log == []


class OnlyCloses(Node):
    def open(self, entry: Entry) -> None:
        self.shared.append((self.node_id, "open"))

    def close(self) -> None:
        self.shared.append((self.node_id, "close"))


@pytest.mark.parametrize("node_class", [DefEnd, OnlyCloses], ids=["in closing", "in close"])
async def test_a_close_that_is_cancelled_before_its_thread_begins_still_runs(node_class: type[Node]) -> None:
    flow = Flow({"a": node_class, "b": node_class}, "source text a", "source text b")
    objects, services = flow.objects(), Late(asyncio.get_running_loop())
    services.hold = False
    await whole(objects, services, use=False)
    services.hold = True
    task = asyncio.create_task(objects.finish(services))
    await settled()
    services.hold = False
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert opened_and_closed(flow) == (["a", "b"], ["a", "b"])
    assert objects.closed


async def test_work_that_was_given_up_before_it_began_does_nothing() -> None:
    ran: list[int] = []
    work: ThreadWork[None] = ThreadWork(lambda _: ran.append(1))
    assert work.give_up() is False
    assert work() is None
    assert ran == []


async def test_work_that_has_finished_is_not_left_over() -> None:
    work: ThreadWork[int] = ThreadWork(lambda _: 3)
    assert work() == 3
    assert work.give_up() is False
    await work.returned()


async def test_work_that_raises_has_returned() -> None:
    def fail(_: ThreadWork[None]) -> None:
        raise ValueError

    work: ThreadWork[None] = ThreadWork(fail)
    with pytest.raises(ValueError):
        work()
    await work.returned()


def test_work_that_returns_when_its_loop_is_closed_returns_quietly() -> None:
    work: ThreadWork[int] = ThreadWork(lambda _: 3)

    async def wait_in_vain() -> None:
        waiting = asyncio.create_task(work.returned())
        await settled()
        waiting.cancel()

    asyncio.run(wait_in_vain())
    assert work() == 3


async def test_work_in_a_thread_is_waited_for_by_many() -> None:
    go = threading.Event()
    entered = threading.Event()

    def wait(work: ThreadWork[bool]) -> bool:
        entered.set()
        assert go.wait(30)
        return work.given_up

    work: ThreadWork[bool] = ThreadWork(wait)
    running = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.to_thread(entered.wait, 30)
    assert work.give_up() is True
    waiting = [asyncio.create_task(work.returned()) for _ in range(3)]
    await settled()
    assert not any(task.done() for task in waiting)
    go.set()
    await asyncio.gather(*waiting)
    assert await running is True
