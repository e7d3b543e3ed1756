"""Calls that were answered and do not return: who waits for their places is told so, and the places come back."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from engine_world import Asked, AsyncPark, Park, World, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Open
from rrext.errors import RrextError, Unavailable
from rrext.limits import DEFAULTS
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.promise("pool:left-behind:unavailable")

GRACE = DEFAULTS.return_grace
ONE, OTHER = Caller("one"), Caller("other")


class Deaf:
    """Where an async tool waits and listens to no cancel."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.inside = 0

    async def stay(self) -> None:
        self.inside += 1
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                pass
        self.inside -= 1


def worker(park: Park, deaf: Deaf, lot: AsyncPark) -> type[Node]:
    class Worker(Node):
        provider = "worker"
        lanes = {"text": ()}

        def open(self, entry: Any) -> None: ...

        def write_text(self, text: str) -> None:
            if text == "stay":
                park.stay()

        def close(self) -> None: ...

        @tool_function
        def stay(self) -> str:
            park.stay()
            return "stayed"

        @tool_function
        def quick(self) -> int:
            return 1

        @tool_function
        async def stay_deaf(self) -> str:
            await deaf.stay()
            return "stayed"

        @tool_function
        async def wait(self) -> None:
            await lot.stay()

        @tool_function
        async def quick_on_loop(self) -> int:
            return 2

        @tool_function(thread="same")
        def stay_same(self) -> None:
            park.stay()

        @tool_function(thread="same")
        def quick_same(self) -> int:
            return 3

        @tool_function(timeout=5)
        def stay_for_5(self) -> None:
            park.stay()

        @tool_function
        def outer(self, tool: str, ctx: ToolContext) -> str:
            try:
                ctx.call_blocking("worker", tool, {})
            except RrextError as error:
                return error.code
            return "done"

        @tool_function
        async def gather(self, tool: str, times: int, ctx: ToolContext) -> None:
            await asyncio.gather(*(ctx.call("worker", tool, {}) for _ in range(times)))

    return Worker


class Stuck:
    """A world, and what keeps its places."""

    def __init__(self, w: World, park: Park, deaf: Deaf, lot: AsyncPark) -> None:
        self.w = w
        self.park = park
        self.deaf = deaf
        self.lot = lot

    async def leave_behind(self, tool: str = "stay", times: int = 1, pipe: int | None = None) -> None:
        """Calls that time out and stay."""
        inside = self.inside
        late = [self.w.tool(tool, timeout=1, pipe=pipe) for _ in range(times)]
        await until(lambda: self.inside == inside + times)
        self.w.clock.advance(1)
        assert {(await asked.error()).code for asked in late} == {"tool_timeout"}

    @property
    def inside(self) -> int:
        return self.park.inside + self.deaf.inside

    async def let_go(self) -> None:
        self.park.let_go()
        self.deaf.gate.set()
        self.lot.let_go()
        await self.w.at_rest()
        await until(lambda: not self.inside)  # a thread that was left behind is no part of the rest

    async def later(self, seconds: float = GRACE) -> None:
        """What was cancelled unwinds, and time passes."""
        for _ in range(5):
            await asyncio.sleep(0)
        self.w.clock.advance(seconds)

    async def refused(self, asked: Asked) -> Unavailable:
        error = await asked.error()
        assert error.code == "unavailable", error
        return error  # type: ignore[return-value]


class Worlds:
    """Makes a world with so many threads, and lets everything go at its end."""

    def __init__(self, threads: int) -> None:
        self.parts = Park(), Deaf(), AsyncPark()
        self.world = world(worker(*self.parts), threads=threads)

    async def __aenter__(self) -> Stuck:
        return Stuck(await self.world.__aenter__(), *self.parts)

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        park, deaf, lot = self.parts
        park.let_go()
        deaf.gate.set()
        lot.let_go()
        await self.world.__aexit__(kind, error, trace)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["stay", "stay_deaf"])
async def test_who_waits_and_who_comes_later_is_unavailable_and_places_come_back(kind: str, threads: int) -> None:
    async with Worlds(threads) as s:
        await s.leave_behind(kind, threads)
        waiting = [s.w.tool("quick", caller=ONE), s.w.tool("quick_on_loop", caller=OTHER), s.w.ask(Open(), caller=ONE)]
        await s.later()
        for asked in waiting:
            error = await s.refused(asked)
            assert f"worker.{kind} ({threads}, for 2.0 s)" in error.message
            assert error.data["leftBehind"] == {f"worker.{kind}": threads}
            assert error.hint
        await s.later(1)
        later = await s.refused(s.w.tool("quick"))
        assert later.data["seconds"] == 3.0
        await s.let_go()
        assert await s.w.tool("quick").result() == 1
        assert await s.w.open() == 1


@pytest.mark.parametrize("kind", ["stay", "stay_deaf"])
async def test_a_tool_that_returns_within_the_grace_fails_nobody(kind: str) -> None:
    async with Worlds(1) as s:
        await s.leave_behind(kind)
        waiting = s.w.tool("quick")
        await s.later(GRACE - 0.01)
        await asyncio.sleep(0)
        assert not waiting.is_answered
        await s.let_go()
        assert await waiting.result() == 1
        await s.later()
        assert await s.w.tool("quick").result() == 1


async def test_one_that_returns_and_another_that_stays_have_a_grace_each() -> None:
    async with Worlds(1) as s:
        await s.leave_behind()
        await s.later(GRACE - 0.5)
        await s.let_go()
        s.park.shut()
        await s.leave_behind()
        waiting = s.w.tool("quick")
        await s.later(1)
        await asyncio.sleep(0)
        assert not waiting.is_answered
        await s.later()
        await s.refused(waiting)


@pytest.mark.parametrize("kind", ["stay", "wait"])
async def test_a_call_that_nobody_answered_yet_gives_its_place_back_and_is_waited_for(kind: str) -> None:
    async with Worlds(2) as s:
        await s.leave_behind()
        running = s.w.tool(kind)
        await until(lambda: s.park.inside == 2 or s.lot.inside == 1)
        waiting = s.w.tool("quick")
        await s.later(10 * GRACE)
        await asyncio.sleep(0)
        assert not waiting.is_answered
        running.cancel()
        if kind == "wait":
            assert await waiting.result() == 1
        else:
            await s.later()
            await s.refused(waiting)


async def test_on_pipes() -> None:
    """Tools beside each other on one pipe take all threads and one place."""
    async with Worlds(3) as s:
        stays, written, closed = await s.w.open(), await s.w.open(caller=ONE), await s.w.open(caller=OTHER)
        await s.leave_behind("stay", 3, pipe=stays)
        tool, write = s.w.tool("quick", pipe=stays), s.w.write(written, "text", caller=ONE)
        close = s.w.close(closed, caller=OTHER)
        await s.later()
        for asked in (tool, write, close):
            assert "worker.stay (3, for 2.0 s)" in (await s.refused(asked)).message
        body = await s.w.close(stays).answer()
        assert body["error"]["code"] == "pipe_failed"
        assert (await s.w.tool("quick_on_loop", pipe=written, caller=ONE).error()).code == "pipe_failed"
        await s.later()
        refused = s.w.close(written, caller=ONE)
        await s.refused(refused)
        opened = s.w.ask(Open())  # all three pipes are over, and their places wait for threads
        await s.later()
        await s.refused(opened)
        await s.let_go()
        for _ in range(3):
            await s.w.open()


async def test_an_async_tool_that_ignores_its_cancel_keeps_nobody_from_closing_its_pipe() -> None:
    async with Worlds(1) as s:
        pipe = await s.w.open()
        await s.leave_behind("stay_deaf", pipe=pipe)
        close, opened = s.w.close(pipe), s.w.ask(Open())
        await asyncio.sleep(0)
        assert not close.is_answered
        await s.later()
        assert (await close.answer())["error"]["code"] == "pipe_failed"
        await s.later()
        await s.refused(opened)
        await s.let_go()
        await s.w.open()


async def test_a_write_that_stays_is_named() -> None:
    async with Worlds(1) as s:
        pipe = await s.w.open()
        write = s.w.write(pipe, "stay", timeout=1)
        await until(lambda: s.park.inside == 1)
        await s.later(1)
        assert (await write.error()).code == "tool_timeout"
        waiting = s.w.ask(Open())
        await s.later()
        assert "write (1, for 2.0 s)" in (await s.refused(waiting)).message
        assert (await s.w.close(pipe).answer())["error"]["code"] == "tool_timeout"
        await s.let_go()


async def test_the_one_thread_of_a_node_is_a_place() -> None:
    async with Worlds(3) as s:
        await s.leave_behind("stay_same")
        waiting = s.w.tool("quick_same")
        assert await s.w.tool("quick").result() == 1
        await s.later()
        assert "it is held by" in (await s.refused(waiting)).message
        await s.let_go()
        assert await s.w.tool("quick_same").result() == 3


async def test_a_caller_that_lends_its_place_to_a_tool_that_stays_is_told() -> None:
    async with Worlds(1) as s:
        assert await s.w.tool("outer", tool="gather").result() == "tool_failed"  # its input is missing
        outer = s.w.tool("outer", tool="stay_same")
        await until(lambda: s.park.inside == 1)
        outer.cancel()
        waiting = s.w.tool("quick")
        await s.later()
        await s.refused(waiting)
        await s.let_go()
        assert await s.w.tool("quick").result() == 1


async def test_many_threads_of_one_call_are_as_many_places() -> None:
    async with Worlds(2) as s:
        gather = s.w.tool("gather", tool="stay", times=2)
        await until(lambda: s.park.inside == 2)
        assert gather.cancel()
        waiting = s.w.tool("quick")
        await s.later()
        assert "worker.stay (2, for 2.0 s)" in (await s.refused(waiting)).message
        assert await s.w.tool("quick_on_loop").result() == 2
        await s.let_go()
        assert await s.w.tool("quick").result() == 1


async def test_a_call_whose_inner_tool_timed_out_and_stays_has_its_own_place() -> None:
    """The inner call is over and its thread is not; the outer call is no more to blame than anybody else."""
    async with Worlds(2) as s:
        running = s.w.tool("gather", tool="wait_for_both", times=1)
        assert (await running.error()).code == "tool_failed"
        outer = [s.w.tool("gather", tool="stay_for_5", times=1) for _ in range(2)]
        await until(lambda: s.park.inside == 2)
        await s.later(5)
        assert {(await asked.error()).code for asked in outer} == {"tool_timeout"}
        waiting = s.w.tool("quick")
        await s.later()
        assert "worker.stay_for_5 (2" in (await s.refused(waiting)).message
        await s.let_go()


async def test_it_is_in_the_log_once_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "rrext.engine")
    async with Worlds(1) as s:
        for times in (1, 2):
            await s.leave_behind("stay_deaf")
            for _ in range(3):
                waiting = s.w.tool("quick")
                await s.later()
                await s.refused(waiting)
            assert [record.message.count("worker.stay_deaf (1") for record in caplog.records] == [1] * times
            await s.let_go()
            s.deaf.gate.clear()
