"""What `emit` does and when it refuses, in `def` and in `async def` methods."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable
from typing import Any

import pytest
from lane_pipelines import AsyncRecorder, Flow, LoopServices, Recorder

from rrext.engine.flow.intake import Intake
from rrext.errors import RrextError, ToolError
from rrext.limits import Limits
from rrext.nodes.base.node import Entry, Node

pytestmark = pytest.mark.anyio


class End(Recorder):
    def write_text(self, text: str) -> None:
        self.record("text", text)


class AsyncEnd(AsyncRecorder):
    async def write_text(self, text: str) -> None:
        await asyncio.sleep(0)
        self.record("text", text)


class Breaks(Recorder):
    def write_text(self, text: str) -> None:
        raise ValueError("broken")


class AsyncBreaks(AsyncRecorder):
    async def write_text(self, text: str) -> None:
        raise ValueError("broken")


async def fails(flow: Flow, match: str, *, text: str = "x") -> RrextError:
    """The failure of a write on the loop; every node is closed after it."""
    objects, services = flow.objects(), LoopServices(asyncio.get_running_loop())
    await objects.open(Entry("a"), Intake("text", "text/plain"), services)
    with pytest.raises(RrextError, match=match) as failed:
        await objects.write(text, services)
    assert await objects.finish(services) is failed.value
    assert objects.closed
    opened = [node for node, what, *_ in flow.log if what == "open"]
    assert sorted(opened) == sorted(node for node, what, *_ in flow.log if what == "close")
    return failed.value


def tail(*ends: type[Node], first: type[Node]) -> Flow:
    """source → a → every one of `ends`."""
    names = [f"b{i}" for i in range(len(ends))]
    return Flow({"a": first, **dict(zip(names, ends, strict=True))}, "source text a", *(f"a text {n}" for n in names))


@pytest.mark.parametrize("end", [End, AsyncEnd])
async def test_emit_in_a_def_method_returns_when_the_receivers_have(end: type[Node]) -> None:
    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            self.record("before")
            assert self.emit("text", text) is None
            self.record("after")

    log = await tail(end, end, first=Sends).through_loop("x")
    assert log[3:7] == [("a", "before"), ("b0", "text", "x"), ("b1", "text", "x"), ("a", "after")]


@pytest.mark.parametrize("end", [End, AsyncEnd])
async def test_emit_in_an_async_method_sends_when_it_is_awaited(end: type[Node]) -> None:
    class Sends(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            emission = self.emit("text", text)
            self.record("before")
            assert emission is not None
            await emission
            self.record("after")

    log = await tail(end, first=Sends).through_loop("x")
    assert log[2:5] == [("a", "before"), ("b0", "text", "x"), ("a", "after")]


@pytest.mark.parametrize("end", [Breaks, AsyncBreaks])
async def test_emit_raises_what_the_receiver_raised_and_its_sibling_gets_nothing(end: type[Node]) -> None:
    seen: list[BaseException] = []

    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            try:
                self.emit("text", text)
            except RrextError as error:
                seen.append(error)
                raise

    flow = tail(end, End, first=Sends)
    failure = await fails(flow, 'Node "b0" failed in write_text: ValueError: broken')
    assert seen == [failure]
    assert ("b1", "text", "x") not in flow.log


@pytest.mark.parametrize("end", [Breaks, AsyncBreaks])
@pytest.mark.parametrize("kind", ["def", "async"])
async def test_a_node_that_swallows_the_error_of_its_receiver_does_not_save_the_object(end: type[Node], kind: str) -> None:
    class Swallows(Recorder):
        def write_text(self, text: str) -> None:
            for _ in range(2):
                with pytest.raises(RrextError, match="broken"):
                    self.emit("text", text)

    class AsyncSwallows(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            for _ in range(2):
                with pytest.raises(RrextError, match="broken"):
                    await self.emit("text", text)  # type: ignore[misc]

    await fails(tail(end, first=Swallows if kind == "def" else AsyncSwallows), "broken")


def test_a_swallowed_error_goes_on_to_whoever_sent_to_the_swallower() -> None:
    class Swallows(Recorder):
        def write_text(self, text: str) -> None:
            with pytest.raises(RrextError):
                self.emit("text", text)

    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            self.emit("text", text)
            self.record("went on")

    flow = Flow({"a": Sends, "b": Swallows, "c": Breaks}, "source text a", "a text b", "b text c")
    with pytest.raises(ToolError, match="broken"):
        flow.through("x")
    assert ("a", "went on") not in flow.log
    alone = Flow({"b": Swallows, "c": Breaks}, "source text b", "b text c")
    with pytest.raises(ToolError, match="broken"):
        alone.through("x")


async def test_one_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Swallows(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            with pytest.raises(RrextError):
                await self.emit("text", text)  # type: ignore[misc]

    class Strays(Recorder):
        def write_text(self, text: str) -> None:
            self.emit("nowhere", text)

    await fails(tail(Strays, first=Swallows), "nowhere")
    assert len(caplog.records) == 1


async def test_the_first_error_wins_over_what_an_emitter_makes_of_it() -> None:
    class Rewrites(Recorder):
        def write_text(self, text: str) -> None:
            try:
                self.emit("text", text)
            except RrextError as error:
                raise KeyError("mine") from error

    assert 'Node "b0"' in (await fails(tail(Breaks, first=Rewrites), "broken")).message


async def test_a_forgotten_await_fails_the_object_and_names_file_and_line() -> None:
    class Forgets(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            self.emit("text", text)  # the line below says where this is

    line = Forgets.write_text.__code__.co_firstlineno + 1
    flow = tail(End, first=Forgets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await fails(flow, rf"emit at .*test_emit\.py:{line} was not awaited")
    assert ("b0", "text", "x") not in flow.log


async def test_a_forgotten_await_in_closing_fails_the_finish() -> None:
    class Forgets(AsyncRecorder):
        async def write_text(self, text: str) -> None: ...
        async def closing(self) -> None:
            self.emit("text", "bye")

    flow = tail(End, first=Forgets)
    with pytest.raises(ToolError, match="was not awaited"):
        await flow.through_loop("x")
    assert flow.log[-2:] == [("a", "close"), ("b0", "close")]


async def test_an_emit_that_is_left_to_a_task_fails_the_object_and_the_task_ends_before_close() -> None:
    class Spawns(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            self.task = asyncio.ensure_future(self.emit("text", text))  # type: ignore[arg-type]
            await asyncio.sleep(0)

    class Waits(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            self.record("began")
            try:
                await asyncio.Event().wait()
            finally:
                self.record("ended")

    flow = tail(Waits, first=Spawns)
    await fails(flow, "was not awaited")
    assert flow.log.index(("b0", "ended")) < flow.log.index(("a", "close"))


async def test_emits_side_by_side_are_refused_because_a_node_gets_one_value_at_a_time() -> None:
    class Gathers(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            await asyncio.gather(self.emit("text", "1"), self.emit("text", "2"))  # type: ignore[arg-type]

    await fails(tail(AsyncEnd, first=Gathers), "one value after the other")


async def test_an_emission_is_awaited_once() -> None:
    class Twice(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            emission: Awaitable[None] | None = self.emit("text", text)
            assert emission is not None
            await emission
            await emission

    await fails(tail(End, first=Twice), "is awaited twice")


async def test_an_emission_cannot_be_kept_for_later() -> None:
    class Keeps(AsyncRecorder):
        kept: Any = None

        async def write_text(self, text: str) -> None:
            if self.kept is None:
                self.kept = self.emit("text", text)

    await fails(tail(End, first=Keeps), "was not awaited")


async def test_a_timeout_around_an_emit_fails_the_object() -> None:
    class Impatient(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await self.emit("text", text)  # type: ignore[misc]

    class Waits(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            await asyncio.Event().wait()

    await fails(tail(Waits, first=Impatient), 'Node "b0" was cancelled in write_text')


async def test_a_future_that_is_cancelled_inside_a_node_is_the_nodes_own_failure() -> None:
    class Cancels(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    await fails(tail(first=Cancels), 'Node "a" failed in write_text: CancelledError')


@pytest.mark.parametrize("base", [Recorder, AsyncRecorder])
async def test_emitting_on_an_undeclared_lane_names_node_lane_and_declared_lanes(base: type[Node]) -> None:
    caught: list[ValueError] = []

    class Strays(base):  # type: ignore[misc, valid-type]
        lanes = {"text": ("answers", "table")}

        def _send(self) -> None:
            try:
                self.emit("answer", {})
            except ValueError as error:
                caught.append(error)

        if base is Recorder:

            def write_text(self, text: str) -> None:
                self._send()
        else:

            async def write_text(self, text: str) -> None:
                self._send()

    await fails(tail(first=Strays), 'Node "a" emits on the lane "answer", but its class declares answers, table as lanes out')
    assert 'Did you mean "answers"?' in str(caught[0])


@pytest.mark.parametrize("kind", ["def", "async"])
async def test_nobody_needs_to_listen(kind: str) -> None:
    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            self.emit("answers", {})

    class AsyncSends(AsyncRecorder):
        async def write_text(self, text: str) -> None:
            await self.emit("answers", {})  # type: ignore[misc]

    await tail(first=Sends if kind == "def" else AsyncSends).through_loop("x")


@pytest.mark.parametrize("base", [Recorder, AsyncRecorder])
async def test_emit_in_open_is_an_error_because_its_receivers_are_not_open(base: type[Node]) -> None:
    class Early(base):  # type: ignore[misc, valid-type]
        if base is Recorder:

            def open(self, entry: Entry) -> None:
                with pytest.raises(RuntimeError):
                    self.emit("text", "x")
        else:

            async def open(self, entry: Entry) -> None:
                with pytest.raises(RuntimeError):
                    self.emit("text", "x")

        def write_text(self, text: str) -> None: ...

    flow = tail(End, first=Early)
    with pytest.raises(ToolError, match="in open or close"):
        await flow.through_loop("x")
    assert ("b0", "open") not in flow.log


async def test_emit_in_close_is_an_error_because_its_receivers_were_told_that_the_object_ends() -> None:
    class Late(Recorder):
        def write_text(self, text: str) -> None: ...
        def close(self) -> None:
            self.emit("text", "x")

    flow = tail(End, first=Late)
    with pytest.raises(ToolError, match="in open or close"):
        flow.through("x")
    assert flow.log[-1] == ("b0", "close")


def test_emit_from_a_tool_is_an_error_that_leaves_the_object_alone() -> None:
    flow = tail(End, first=End)
    objects, services = flow.objects(), LoopServices()
    node = objects.object("a")
    with pytest.raises(RuntimeError, match="while an object is open"):
        node.emit("text", "x")
    objects.open_blocking(Entry("a"), Intake("text", "text/plain"), services)
    with pytest.raises(RuntimeError, match="not in tools"):
        node.emit("text", "x")
    assert objects.failure is None
    objects.finish_blocking(services)
    with pytest.raises(RuntimeError, match="while an object is open"):
        node.emit("text", "x")


def test_emit_from_a_tool_that_a_receiver_calls_is_an_error() -> None:
    class Sends(Recorder):
        def write_text(self, text: str) -> None:
            self.emit("text", text)

        def tool(self) -> None:
            self.emit("text", "from a tool")

    class Calls(Recorder):
        def write_text(self, text: str) -> None:
            sender.tool()

    flow = tail(Calls, first=Sends)
    objects, services = flow.objects(), LoopServices()
    sender: Any = objects.object("a")
    objects.open_blocking(Entry("a"), Intake("text", "text/plain"), services)
    with pytest.raises(ToolError, match="while its last emit has not returned"):
        objects.write_blocking("x", services)


def row(count: int, node_class: type[Node], limit: int) -> Flow:
    """source → n0 → n1 → …, and an end."""
    ids = [f"n{i}" for i in range(count)]
    edges = [f"{a} text {b}" for a, b in zip(["source", *ids], [*ids, "end"], strict=True)]
    return Flow({**dict.fromkeys(ids, node_class), "end": End}, *edges, limits=Limits(emit_depth=limit))


class Forwards(Node):
    lanes = {"text": ("text",)}

    def write_text(self, text: str) -> None:
        self.emit("text", text)


class AsyncForwards(Node):
    lanes = {"text": ("text",)}

    async def write_text(self, text: str) -> None:
        await self.emit("text", text)  # type: ignore[misc]


class Passes(Node):
    lanes = {"text": ("text",)}


DEPTH = Limits().emit_depth


@pytest.mark.parametrize("node_class", [Forwards, AsyncForwards])
async def test_nodes_may_emit_inside_each_other_down_to_the_limit(node_class: type[Node]) -> None:
    log = await row(DEPTH, node_class, DEPTH).through_loop("x")
    assert ("end", "text", "x") in log


@pytest.mark.parametrize("node_class", [Forwards, AsyncForwards])
async def test_emits_one_after_the_other_are_no_depth(node_class: type[Node]) -> None:
    log = await row(2, node_class, 2).through_loop(*"xyz" * 3)
    assert [what for node, what, *_ in log if node == "end"].count("text") == 9


@pytest.mark.parametrize("node_class", [Forwards, AsyncForwards])
async def test_deeper_ones_fail_cleanly(node_class: type[Node]) -> None:
    flow = row(1000, node_class, DEPTH)
    await fails(flow, "emit_depth")
    assert flow.log == [("end", "open"), ("end", "close")]


async def test_a_thousand_nodes_that_pass_on_are_no_depth_at_all() -> None:
    assert ("end", "text", "x") in await row(1000, Passes, 1).through_loop("x")
    assert ("end", "text", "x") in row(1000, Passes, 1).through("x")
