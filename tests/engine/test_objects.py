"""One object's way through the nodes, in both forms: the promises that hold wherever methods run."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from lane_pipelines import AsyncRecorder, Flow, LoopServices, Recorder

from rrext.engine.flow.intake import Intake
from rrext.engine.flow.objects import NodeObjects
from rrext.errors import InvalidArguments, PipeFailed, PipeNotOpen, RrextError, ToolError
from rrext.nodes.base.lanes import Tag
from rrext.nodes.base.node import Entry, Node
from rrext.tools.context import ToolContext

pytestmark = pytest.mark.anyio


class Echo(Recorder):
    def write_text(self, text: str) -> None:
        self.record("text", text)
        self.emit("text", text + "!")


class AsyncEcho(AsyncRecorder):
    async def write_text(self, text: str) -> None:
        self.record("text", text)
        await self.emit("text", text + "!")


class End(Recorder):
    def write_text(self, text: str) -> None:
        self.record("text", text)


class AsyncEnd(AsyncRecorder):
    async def write_text(self, text: str) -> None:
        await asyncio.sleep(0)
        self.record("text", text)


class Way:
    """The operations of one form under one set of names."""

    def __init__(self, flow: Flow, *, blocking: bool) -> None:
        self.blocking = blocking
        self.objects: NodeObjects = flow.objects()
        self.services = LoopServices(None if blocking else asyncio.get_running_loop())

    async def _do(self, name: str, *args: Any) -> Any:
        if self.blocking:
            return getattr(self.objects, f"{name}_blocking")(*args, self.services)
        return await getattr(self.objects, name)(*args, self.services)

    async def open(self, lane: str = "text") -> None:
        await self._do("open", Entry("a"), Intake(lane, f"lane/{lane}"))

    async def write(self, data: bytes | str) -> None:
        await self._do("write", data)

    async def finish(self) -> RrextError | None:
        return await self._do("finish")

    async def abandon(self) -> None:
        await self._do("abandon")


WayOf = Callable[[Flow], Way]


@pytest.fixture(params=["blocking", "on the loop"])
def way(request: pytest.FixtureRequest) -> WayOf:
    return lambda flow: Way(flow, blocking=request.param == "blocking")


async def failure_of_finish(path: Way) -> RrextError:
    failure = await path.finish()
    assert path.objects.closed
    assert failure is not None
    return failure


CHAIN = ("source text a", "a text b", "b text c")


@pytest.mark.parametrize(
    "classes",
    [(Echo, Echo, End), (AsyncEcho, AsyncEcho, AsyncEnd), (Echo, AsyncEcho, End), (AsyncEcho, Echo, AsyncEnd)],
    ids=["def", "async", "async between", "def between"],
)
async def test_an_object_goes_through_open_writes_closing_and_close(classes: tuple[type[Node], ...]) -> None:
    flow = Flow(dict(zip("abc", classes, strict=True)), *CHAIN)
    log = await flow.through_loop("x", b"y")
    assert log == [
        *((node, "open") for node in "abc"),
        *((node, "text", text) for text in "xy" for node, text in (("a", text), ("b", text + "!"), ("c", text + "!!"))),
        *((node, "closing") for node in "abc"),
        *((node, "close") for node in "abc"),
    ]


async def test_both_forms_do_the_same(way: WayOf) -> None:
    flow = Flow({"a": Echo, "b": End}, "source text a", "a text b")
    path = way(flow)
    await path.open()
    await path.write("x")
    assert await path.finish() is None
    assert flow.log == Flow({"a": Echo, "b": End}, "source text a", "a text b").through("x")


async def test_marks_stand_around_the_writes(way: WayOf) -> None:
    class Raw(Recorder):
        def write_tags(self, tag: Tag) -> None:
            self.record(tag.kind, tag.data)

    flow = Flow({"a": Raw}, "source tags a")
    path = way(flow)
    await path.open("tags")
    assert flow.log == [("a", "open"), ("a", "begin", b"")]
    await path.write(b"\x00")
    assert await path.finish() is None
    assert flow.log[2:] == [("a", "data", b"\x00"), ("a", "end", b""), ("a", "closing"), ("a", "close")]


async def test_what_is_flushed_in_closing_arrives_before_the_receiver_is_closed(way: WayOf) -> None:
    class Collects(Recorder):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def write_text(self, text: str) -> None:
            self.texts.append(text)

        def closing(self) -> None:
            super().closing()
            self.emit("text", "".join(self.texts))

    flow = Flow(dict.fromkeys("dcba", Collects), "source text a", "a text b", "a text c", "b text d", "c text d")
    path = way(flow)
    await path.open()
    await path.write("x")
    await path.write("y")
    assert await path.finish() is None
    assert flow.plan.closing == ("a", "c", "b", "d")
    end = flow.log.index(("d", "closing"))
    assert all(flow.log.index((node, "closing")) < end for node in "abc")
    assert path.objects.object("d").texts == ["xy", "xy"]


async def test_a_control_bound_node_gets_its_lifecycle_too(way: WayOf) -> None:
    flow = Flow({"a": End, "memory": Recorder}, "source text a")
    path = way(flow)
    await path.open()
    assert await path.finish() is None
    assert [what for node, what, *_ in flow.log if node == "memory"] == ["open", "closing", "close"]


async def test_a_node_without_methods_has_no_object_until_a_tool_asks_for_it(way: WayOf) -> None:
    made: list[str] = []

    class Tools(Node):
        def __init__(self) -> None:
            made.append(self.node_id)

    flow = Flow({"tools": Tools, "a": End}, "source text a")
    path = way(flow)
    await path.open()
    assert made == []
    assert path.objects.object("tools") is path.objects.object("tools")
    assert made == ["tools"]
    assert await path.finish() is None


def test_threads_that_ask_at_once_get_the_same_object() -> None:
    barrier = threading.Barrier(8)

    class Slow(Node):
        def __init__(self) -> None:
            threading.Event().wait(0.01)

    objects = Flow({"a": Slow}).objects()
    found: list[Node] = []

    def ask() -> None:
        barrier.wait()
        found.append(objects.object("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(node) for node in found}) == 1


async def test_a_context_comes_only_to_methods_that_ask_for_one(way: WayOf) -> None:
    class Asks(Recorder):
        def open(self, entry: Entry, *, ctx: ToolContext) -> None:
            self.record(ctx.node_id, ctx.request_id, entry.name)

        def write_text(self, text: str, context: ToolContext) -> None:
            self.record(context.node_id, text)

        def close(self, *, ctx: ToolContext | None = None) -> None:
            assert ctx is not None
            self.record(ctx.node_id)

    flow = Flow({"n": Asks}, "source text n")
    path = way(flow)
    await path.open()
    await path.write("x")
    assert await path.finish() is None
    assert flow.log == [("n", "n", 7, "a"), ("n", "n", "x"), ("n", "closing"), ("n", "n")]


async def test_an_async_method_gets_its_context_too() -> None:
    class Asks(AsyncRecorder):
        async def write_text(self, text: str, *, ctx: ToolContext) -> None:
            self.record(ctx.node_id, text)

        async def closing(self, *, ctx: ToolContext) -> None:
            self.record(ctx.node_id)

    flow = Flow({"n": Asks}, "source text n")
    assert (await flow.through_loop("x"))[1:3] == [("n", "n", "x"), ("n", "n")]


async def test_methods_that_may_block_never_run_on_the_loop() -> None:
    threads: dict[str, set[int]] = {"def": set(), "async": set()}

    class Blocks(Node):
        lanes = Recorder.lanes

        def open(self, entry: Entry) -> None:
            threads["def"].add(threading.get_ident())

        def write_text(self, text: str) -> None:
            threads["def"].add(threading.get_ident())
            self.emit("text", text)

        close = closing = lambda self: threads["def"].add(threading.get_ident())

    class Suspends(Node):
        lanes = Recorder.lanes

        async def write_text(self, text: str) -> None:
            threads["async"].add(threading.get_ident())
            await self.emit("text", text)

    classes = {"a": Blocks, "b": Suspends, "c": Blocks, "d": Suspends}
    await Flow(classes, "source text a", "a text b", "b text c", "c text d").through_loop("x")
    assert threads["async"] == {threading.get_ident()}
    assert threads["def"]
    assert threading.get_ident() not in threads["def"]


async def test_a_row_of_def_methods_is_one_trip_to_a_thread() -> None:
    flow = Flow({**dict.fromkeys("abcde", End), "f": AsyncEnd}, *(f"source text {node}" for node in "abcdef"))
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    await objects.open(Entry("a"), Intake("text", "text/plain"), services)
    assert services.trips == 1
    await objects.write("x", services)
    assert services.trips == 2
    await objects.finish(services)
    assert services.trips == 4


# failures


class Fails(Recorder):
    """Fails in the method that `shared` names first."""

    at = ""

    def trip(self, where: str) -> None:
        self.record(where)
        if where == self.at:
            raise ValueError(f"no {where}")

    def open(self, entry: Entry) -> None:
        self.trip("open")

    def write_text(self, text: str) -> None:
        self.trip("write_text")

    def closing(self) -> None:
        self.trip("closing")

    def close(self) -> None:
        self.trip("close")


def failing(where: str) -> type[Fails]:
    return type("Failing", (Fails,), {"at": where})


async def test_what_was_opened_is_closed_when_another_node_does_not_open(way: WayOf) -> None:
    flow = Flow({"a": End, "b": failing("open"), "c": End}, *(f"source text {node}" for node in "abc"))
    path = way(flow)
    with pytest.raises(ToolError, match=r'Node "b" failed in open: ValueError: no open'):
        await path.open()
    assert flow.log == [("a", "open"), ("b", "open"), ("a", "close")]
    assert path.objects.closed
    with pytest.raises(PipeNotOpen):
        await path.write("x")


async def test_a_node_that_cannot_be_made_fails_the_open(way: WayOf) -> None:
    class Broken(Node):
        def __init__(self) -> None:
            raise OSError("no socket")

        def close(self) -> None: ...

    flow = Flow({"a": End, "b": Broken}, "source text a")
    path = way(flow)
    with pytest.raises(ToolError, match=r'Node "b" failed in __init__: OSError: no socket'):
        await path.open()
    assert flow.log == []
    assert path.objects.closed


async def test_a_failure_names_the_node_and_the_type_and_keeps_its_cause(way: WayOf) -> None:
    path = way(Flow({"a": failing("write_text")}, "source text a"))
    await path.open()
    with pytest.raises(ToolError) as failed:
        await path.write("x")
    assert failed.value.message == 'Node "a" failed in write_text: ValueError: no write_text'
    assert failed.value.data == {"nodeId": "a", "exception": "ValueError"}
    assert isinstance(failed.value.__cause__, ValueError)
    assert path.objects.failure is failed.value
    assert await failure_of_finish(path) is failed.value


async def test_who_is_not_trusted_reads_the_type_of_an_exception_and_not_its_text() -> None:
    flow = Flow({"a": failing("write_text")}, "source text a")
    objects, services = flow.objects(trusted=False), LoopServices()
    objects.open_blocking(Entry("a"), Intake("text", "text/plain"), services)
    with pytest.raises(ToolError, match=r'Node "a" failed in write_text: ValueError') as failed:
        objects.write_blocking("x", services)
    assert "no write_text" not in failed.value.message


async def test_an_error_of_rrext_passes_as_it_is(way: WayOf) -> None:
    mine = ToolError("too blue", code="colour")

    class Picky(Recorder):
        def write_text(self, text: str) -> None:
            raise mine

    path = way(Flow({"a": Echo, "b": Picky}, "source text a", "a text b"))
    await path.open()
    with pytest.raises(ToolError) as failed:
        await path.write("x")
    assert failed.value is mine
    assert await failure_of_finish(path) is mine


async def test_after_a_failed_write_nothing_is_sent_or_flushed_but_every_node_is_closed(way: WayOf) -> None:
    flow = Flow({"a": End, "b": failing("write_text"), "c": End}, *(f"source text {node}" for node in "abc"))
    path = way(flow)
    await path.open()
    flow.log.clear()
    with pytest.raises(ToolError):
        await path.write("x")
    assert flow.log == [("a", "text", "x"), ("b", "write_text")], "the fan-out stops"
    with pytest.raises(PipeFailed, match="no write_text"):
        await path.write("y")
    flow.log.clear()
    await failure_of_finish(path)
    assert flow.log == [(node, "close") for node in "abc"]


async def test_a_failure_in_closing_still_closes_every_node(way: WayOf) -> None:
    flow = Flow({"a": End, "b": failing("closing"), "c": End}, *(f"source text {node}" for node in "abc"))
    path = way(flow)
    await path.open()
    flow.log.clear()
    assert (await failure_of_finish(path)).message == 'Node "b" failed in closing: ValueError: no closing'
    assert flow.log == [("a", "closing"), ("b", "closing"), ("a", "close"), ("b", "close"), ("c", "close")]


async def test_of_many_failures_in_close_the_first_is_told_and_all_nodes_are_closed(way: WayOf) -> None:
    flow = Flow(dict.fromkeys("abc", failing("close")), *(f"source text {node}" for node in "abc"))
    path = way(flow)
    await path.open()
    assert (await failure_of_finish(path)).message.startswith('Node "a" failed in close')
    assert [entry for entry in flow.log if entry[1] == "close"] == [(node, "close") for node in "abc"]


async def test_bytes_that_the_lane_refuses_fail_the_object(way: WayOf) -> None:
    path = way(Flow({"a": End}, "source text a"))
    await path.open()
    with pytest.raises(InvalidArguments):
        await path.write(b"\xff")
    assert isinstance(await failure_of_finish(path), InvalidArguments)


async def test_text_that_ends_in_half_a_character_fails_the_finish_and_closes(way: WayOf) -> None:
    flow = Flow({"a": End}, "source text a")
    path = way(flow)
    await path.open()
    await path.write(b"\xe2")
    assert "middle of a UTF-8 character" in (await failure_of_finish(path)).message
    assert flow.log == [("a", "open"), ("a", "close")]


async def test_an_abandoned_object_is_closed_and_nothing_else(way: WayOf) -> None:
    flow = Flow({"a": End, "b": End}, "source text a", "source text b")
    path = way(flow)
    await path.open()
    flow.log.clear()
    await path.abandon()
    assert flow.log == [("a", "close"), ("b", "close")]
    await path.abandon()
    assert len(flow.log) == 2, "once is enough"
    assert path.objects.closed


async def test_objects_that_were_never_opened_can_be_abandoned(way: WayOf) -> None:
    flow = Flow({"a": End}, "source text a")
    path = way(flow)
    path.objects.object("a")
    await path.abandon()
    assert flow.log == []


async def test_objects_serve_one_object(way: WayOf) -> None:
    path = way(Flow({"a": End}, "source text a"))
    await path.open()
    assert await path.finish() is None
    with pytest.raises(RuntimeError, match="serve one object"):
        await path.open()


async def test_an_object_that_is_failed_from_outside_stops_at_the_next_emit() -> None:
    flow = Flow({"a": Echo, "b": End}, "source text a", "a text b")
    objects = flow.objects()
    timeout = ToolError("late")

    class Outside(Echo):
        def write_text(self, text: str) -> None:
            objects.fail(timeout)
            super().write_text(text)

    flow.classes = {**flow.classes, "a": Outside}
    services = LoopServices()
    objects.open_blocking(Entry("a"), Intake("text", "text/plain"), services)
    with pytest.raises(ToolError) as failed:
        objects.write_blocking("x", services)
    assert failed.value is timeout
    assert ("b", "text", "x!") not in flow.log


@pytest.mark.parametrize("error", [SystemExit(3), RecursionError("deep"), StopIteration("s"), MemoryError()])
async def test_no_exception_of_a_node_ends_anything_but_its_object(way: WayOf, error: BaseException) -> None:
    class Odd(Recorder):
        def write_text(self, text: str) -> None:
            raise error

    flow = Flow({"a": Echo, "b": Odd}, "source text a", "a text b")
    path = way(flow)
    await path.open()
    with pytest.raises(ToolError, match=type(error).__name__):
        await path.write("x")
    await failure_of_finish(path)
    assert flow.log[-2:] == [("a", "close"), ("b", "close")]


async def test_an_async_method_that_raises_system_exit_does_not_end_the_loop() -> None:
    class Exits(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            raise SystemExit(1)

    path = Way(Flow({"a": Exits}, "source text a"), blocking=False)
    await path.open()
    with pytest.raises(ToolError, match="SystemExit: 1"):
        await path.write("x")
    await failure_of_finish(path)


async def test_a_def_method_that_returns_a_coroutine_is_an_error_not_silence(way: WayOf) -> None:
    async def work() -> None: ...

    class Forgets(Recorder):
        def write_text(self, text: str) -> Any:
            return work()

    path = way(Flow({"a": Forgets}, "source text a"))
    await path.open()
    with pytest.raises(ToolError, match="declare the method `async def`"):
        await path.write("x")
    await failure_of_finish(path)


async def test_when_no_thread_can_be_had_the_object_fails() -> None:
    class Refuses(LoopServices):
        async def run_in_thread(self, work: Callable[[], Any]) -> Any:
            raise ToolError("no thread")

    flow = Flow({"a": End}, "source text a")
    objects = flow.objects()
    with pytest.raises(ToolError, match="no thread"):
        await objects.open(Entry("a"), Intake("text", "text/plain"), Refuses(asyncio.get_running_loop()))
    assert flow.log == []
    assert objects.closed


async def test_a_closed_object_leaves_no_circle_of_references(way: WayOf) -> None:
    flow = Flow({"a": Echo, "b": End}, "source text a", "a text b")
    path = way(flow)
    gc.collect()
    gc.disable()
    try:
        await path.open()
        node = weakref.ref(path.objects.object("a"))
        await path.write("x")
        assert await path.finish() is None
        path.objects = flow.objects()
        path.services.join()
        assert node() is None, "reference counts alone free it"
    finally:
        gc.enable()
