"""What a call leaves behind: no circles for the collector, nothing that grows, nothing for the next call to find."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextvars import ContextVar
from sys import getrefcount
from typing import Any

import pytest
from engine_world import World, until, world

from rrext.engine.events.records import Filter
from rrext.engine.interface.call import ANONYMOUS, Call
from rrext.engine.interface.operations import Tool, Write
from rrext.errors import ToolError
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

who: ContextVar[str] = ContextVar("who", default="nobody")


class Plain(Node):
    provider = "plain"
    lanes = {"text": ()}

    @tool_function
    def sync(self, a: int) -> int:
        return a

    @tool_function
    def sync_ctx(self, a: int, ctx: ToolContext) -> int:
        return a

    @tool_function
    async def coro(self, a: int) -> int:
        return a

    @tool_function
    async def coro_ctx(self, a: int, ctx: ToolContext) -> int:
        await asyncio.sleep(0)
        return a

    @tool_function
    async def nested(self, a: int, ctx: ToolContext) -> int:
        return await ctx.call("plain", "coro", {"a": a})

    @tool_function
    def chunks(self, a: int):
        yield a

    @tool_function(available=lambda ctx: True)
    def asked(self, a: int, ctx: ToolContext) -> int:
        return a

    @tool_function(thread="same")
    def same(self, a: int) -> int:
        return a

    @tool_function
    def fails(self, a: int) -> int:
        raise ValueError("as asked")

    @tool_function
    async def fails_async(self, a: int) -> int:
        raise ToolError("as asked")

    def write_text(self, text: str) -> None: ...


TOOLS = ("sync", "sync_ctx", "coro", "coro_ctx", "nested", "chunks", "asked", "same", "fails", "fails_async")


class Quiet:
    """Takes answers and keeps nothing."""

    def __init__(self) -> None:
        self.count = 0

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self.count += 1

    def fail(self, call: Call, error: Any) -> None:
        self.count += 1


async def many(w: World, operation: Any, count: int, *, batch: bool = False) -> None:
    quiet = Quiet()
    for number in range(count):
        w.engine.start(Call(operation, quiet, ANONYMOUS, number))
        while quiet.count <= number:
            await asyncio.sleep(0)


@pytest.fixture
def no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured log records keep tracebacks, and those keep frames."""
    import logging

    monkeypatch.setattr(logging.getLogger("rrext"), "disabled", True)
    for name in ("rrext.failures", "rrext.engine"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


@pytest.mark.parametrize("tool", TOOLS)
async def test_hundreds_of_calls_leave_next_to_nothing_for_the_collector(tool: str, no_log: None) -> None:
    async with world(Plain) as w:
        await many(w, Tool(tool=tool, input={"a": 1}), 50)
        found: list[int] = []
        while not found or (min(found) >= 100 and len(found) < 3):
            found.append(await circles_after(w, tool, 300))
        assert min(found) < 100, f"{found} objects in circles after 300 calls each"


@pytest.mark.parametrize("tool", TOOLS)
async def test_calls_that_are_watched_leave_no_more(tool: str, no_log: None) -> None:
    async with world(Plain) as w:
        w.engine.subscribe(Filter(data=True), lambda event: None)
        await many(w, Tool(tool=tool, input={"a": 1}), 50)
        found = [await circles_after(w, tool, 300) for _ in range(3)]
        assert min(found) < 100, f"{found} objects in circles after 300 calls each"


async def circles_after(w: World, tool: str, calls: int) -> int:
    """How many objects a collection finds after so many calls. What earlier tests left can come to light in one of them."""
    gc.collect()
    gc.disable()
    try:
        await many(w, Tool(tool=tool, input={"a": 1}), calls)
        return gc.collect()
    finally:
        gc.enable()


async def test_calls_with_input_that_does_not_fit_leave_nothing_either(no_log: None) -> None:
    async with world(Plain) as w:
        for operation in (Tool(tool="sync", input={"b": 1}), Tool(tool="nothing"), Tool(tool="coro", input={})):
            await many(w, operation, 20)
            gc.collect()
            gc.disable()
            try:
                await many(w, operation, 300)
                assert gc.collect() < 100
            finally:
                gc.enable()


async def test_writes_leave_next_to_nothing_for_the_collector(no_log: None) -> None:
    async with world(Plain) as w:
        pipe = await w.open()
        await many(w, Write(pipe_id=pipe, data="x"), 20)
        gc.collect()
        gc.disable()
        try:
            await many(w, Write(pipe_id=pipe, data="x"), 500)
            assert gc.collect() < 100
        finally:
            gc.enable()


async def test_nothing_grows_with_the_number_of_calls(no_log: None) -> None:
    async with world(Plain) as w:

        def kept() -> int:
            gc.collect()
            return len(gc.get_objects())

        async def round_() -> None:
            for tool in TOOLS:
                await many(w, Tool(tool=tool, input={"a": 1}, timeout=100), 100)
            for _ in range(20):
                pipe = await w.open()
                await w.close(pipe).answer()
            w.asked.clear()

        await round_()
        await round_()
        before = kept()
        for _ in range(3):
            await round_()
        assert kept() - before < 600


# -- what one call leaves for the next


def marking(seen: list[str]) -> type[Node]:
    class Marking(Node):
        provider = "marking"
        lanes = {"text": ()}

        @tool_function
        def sync(self) -> None:
            seen.append(who.get())
            who.set("me")

        @tool_function
        async def coro(self) -> None:
            seen.append(who.get())
            who.set("me")

        @tool_function(thread="same")
        def same(self) -> None:
            seen.append(who.get())
            who.set("me")

        @tool_function
        def chunks(self):
            seen.append(who.get())
            who.set("me")
            yield 1

        def write_text(self, text: str) -> None:
            seen.append(who.get())
            who.set("me")

    return Marking


@pytest.mark.parametrize("tool", ["sync", "coro", "same", "chunks"])
async def test_a_context_variable_of_one_call_is_unknown_to_the_next(tool: str) -> None:
    seen: list[str] = []
    async with world(marking(seen)) as w:
        for _ in range(10):
            await w.tool(tool).answer()
        pipe = await w.open()
        for _ in range(5):
            await w.write(pipe, "x").answer()
        assert seen == ["nobody"] * 15


async def test_a_context_variable_is_unknown_to_the_next_also_on_the_reading_thread() -> None:
    seen: list[str] = []
    async with world(marking(seen)) as w:
        route = w.task.routes.only("marking", "sync")
        assert route is not None
        while not route.quick:
            await w.tool("sync").answer()
        seen.clear()
        done = threading.Event()
        asked = [w.asked_for(Tool(tool="sync")) for _ in range(10)]

        def read() -> None:
            for one in asked:
                assert w.engine.start_here(one.call)
            done.set()

        w.engine.host.workers.run(read)
        await until(done.is_set)
        assert seen == ["nobody"] * 10
        await w.at_rest()


async def test_a_call_that_is_cancelled_gives_its_node_objects_to_nobody() -> None:
    used: list[Any] = []

    class Used(Node):
        provider = "used"

        @tool_function
        async def stay(self) -> None:
            used.append(self)
            await asyncio.Event().wait()

        @tool_function
        async def stay_nested(self, ctx: ToolContext) -> None:
            await ctx.call("used", "stay")

        @tool_function
        async def quick(self) -> None:
            used.append(self)

    async with world(Used) as w:
        for _ in range(3):
            await w.tool("quick").answer()
        assert used[0] is used[1] is used[2]
        for tool in ("stay", "stay_nested"):
            used.clear()
            asked = w.tool(tool)
            await until(lambda: used)
            asked.cancel()
            await w.at_rest()
            await w.tool("quick").answer()
            stopped, next_one = used
            assert stopped is not next_one


async def test_two_calls_that_run_never_share_node_objects() -> None:
    inside: dict[int, int] = {}
    shared: list[int] = []

    class Alone(Node):
        provider = "alone"

        @tool_function
        def sync(self) -> None:
            self._enter()
            threading.Event().wait(0.0005)
            inside[id(self)] -= 1

        @tool_function
        async def coro(self) -> None:
            self._enter()
            await asyncio.sleep(0)
            inside[id(self)] -= 1

        def _enter(self) -> None:
            inside[id(self)] = inside.get(id(self), 0) + 1
            if inside[id(self)] > 1:
                shared.append(id(self))

    async with world(Alone, threads=8) as w:
        for number in range(300):
            asked = w.tool("sync" if number % 3 else "coro")
            if number % 7 == 0:
                asked.cancel()
            if number % 5 == 0:
                await asyncio.sleep(0)
        await w.at_rest()
        assert shared == []


@pytest.mark.parametrize("tool", ["sync", "coro", "sync_ctx", "nested"])
async def test_what_a_call_was_given_is_kept_by_nobody_once_it_is_answered(tool: str) -> None:
    async with world(Plain) as w:
        given = {"a": 1}
        free = getrefcount(given)
        quiet = Quiet()
        w.engine.start(Call(Tool(tool=tool, input=given, timeout=1000), quiet, received=w.clock.now()))
        await until(lambda: quiet.count)
        await until(lambda: getrefcount(given) <= free)
