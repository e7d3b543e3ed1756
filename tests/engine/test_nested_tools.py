"""Tools that call tools: with one thread in every combination, as deep as is allowed, under the caller's deadline."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise, product
from typing import Any

import pytest
from engine_world import AsyncPark, Park, pipeline_of, until, world

from rrext.errors import Cancelled, InvalidPipeline, ToolError, ToolTimeout
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


class Chain(Node):
    """Each tool calls the first of the ways that it is given, with the rest of them."""

    provider = "chain"

    @tool_function
    def pool(self, ways: list[str], ctx: ToolContext) -> list[str]:
        return ["pool", *(ctx.call_blocking("chain", ways[0], {"ways": ways[1:]}) if ways else [])]

    @tool_function
    async def coro(self, ways: list[str], ctx: ToolContext) -> list[str]:
        return ["coro", *(await ctx.call("chain", ways[0], {"ways": ways[1:]}) if ways else [])]

    @tool_function(thread="same")
    def same(self, ways: list[str], ctx: ToolContext) -> list[str]:
        return ["same", *(ctx.call_blocking("chain", ways[0], {"ways": ways[1:]}) if ways else [])]

    @tool_function(thread="main")
    def main(self, ways: list[str], ctx: ToolContext) -> list[str]:
        return ["main", *(ctx.call_blocking("chain", ways[0], {"ways": ways[1:]}) if ways else [])]

    @tool_function
    def chunks(self, ways: list[str], ctx: ToolContext):
        yield "chunks"
        if ways:
            yield from ctx.call_blocking("chain", ways[0], {"ways": ways[1:]})

    @tool_function
    async def chunks_async(self, ways: list[str], ctx: ToolContext):
        yield "chunks_async"
        for chunk in await ctx.call("chain", ways[0], {"ways": ways[1:]}) if ways else []:
            yield chunk


WAYS = ("pool", "coro", "same", "main", "chunks", "chunks_async")


def waits_on_the_loop(ways: tuple[str, ...]) -> bool:
    """Whether a tool of the loop's thread would have to wait there for one that needs the loop."""
    for here, there in pairwise(ways):
        if here == "main" and there in ("coro", "chunks_async", "same"):
            return True
    # What `main` calls runs where `main` does, and what that calls, too.
    on_loop = False
    for here, there in pairwise(ways):
        on_loop = here == "main" or (on_loop and here in ("pool", "chunks"))
        if on_loop and there in ("coro", "chunks_async", "same"):
            return True
    return False


@pytest.mark.promise("call:nested:no-deadlock")
@pytest.mark.parametrize("on_pipe", [False, True], ids=["borrowed", "pipe"])
async def test_every_combination_of_three_finishes_with_one_thread(on_pipe: bool) -> None:
    async with world(Chain, threads=1) as w:
        pipe = await w.open() if on_pipe else None
        for ways in product(WAYS, repeat=3):
            asked = w.tool(ways[0], ways=list(ways[1:]), pipe=pipe)
            if waits_on_the_loop(ways):
                error = await asked.error()
                assert "runs on the event loop's thread and cannot wait" in error.message, ways
            else:
                assert await asked.result() == list(ways), ways
        if pipe is not None:
            await w.close(pipe).answer()
        await w.at_rest()


@pytest.mark.promise("call:nested:no-deadlock")
async def test_many_at_once_with_two_threads() -> None:
    async with world(Chain, threads=2) as w:
        plans = list(product(("pool", "coro", "same", "chunks"), repeat=3))
        asked = [(w.tool(ways[0], ways=list(ways[1:])), list(ways)) for ways in plans]
        for one, ways in asked:
            assert await one.result() == ways
        await w.at_rest()
        assert w.task.sync_places.used == 0


@pytest.mark.promise("call:nested:no-deadlock")
async def test_two_nodes_with_threads_of_their_own_that_call_each_other() -> None:
    class Left(Node):
        provider = "left"

        @tool_function(thread="same")
        def ask(self, there: bool, ctx: ToolContext) -> str:
            return ctx.call_blocking("right", "ask", {"there": False}) if there else "left"

    class Right(Node):
        provider = "right"

        @tool_function(thread="same")
        def ask(self, there: bool, ctx: ToolContext) -> str:
            return ctx.call_blocking("left", "ask", {"there": False}) if there else "right"

    async with world(Left, Right, threads=8) as w:
        for _ in range(30):
            asked = [w.tool("ask", node=node, there=True) for node in ("left", "right") * 4]
            assert [await one.result() for one in asked] == ["right", "left"] * 4
        await w.at_rest()


async def test_a_crowd_before_one_own_thread_does_not_pile_up_on_its_stack() -> None:
    """Each waits on the node's thread for the loop; if the thread took the next one meanwhile, all would lie on it."""
    deepest, threads = 0, set()

    class Crowd(Node):
        provider = "crowd"

        @tool_function(thread="same")
        def wait(self, ctx: ToolContext) -> int:
            nonlocal deepest
            import sys

            depth, frame = 0, sys._getframe()
            while frame.f_back is not None:
                frame, depth = frame.f_back, depth + 1
            deepest = max(deepest, depth)
            threads.add(threading.get_ident())
            return ctx.call_blocking("crowd", "look")

        @tool_function
        async def look(self) -> int:
            await asyncio.sleep(0)
            return 1

    async with world(Crowd, threads=64) as w:
        pipe = await w.open()
        asked = [w.tool("wait", pipe=pipe) for _ in range(300)]
        assert [await one.result() for one in asked] == [1] * 300
        await w.close(pipe).answer()
        await w.at_rest()
    assert deepest < 40
    assert len(threads) == 1


async def test_depth_is_capped_and_the_chain_is_named() -> None:
    async with world(Chain) as w:
        assert await w.tool("pool", ways=["coro"] * 7).result()
        error = await w.tool("pool", ways=["coro"] * 8).error()
        assert error.code == "tool_failed"
        chain = ["chain.pool", *["chain.coro"] * 8]
        assert " → ".join(chain) in error.message
        assert error.data == {"limit": "call_depth", "chain": chain}


def test_a_circle_of_control_edges_is_refused_when_it_is_loaded() -> None:
    class One(Node):
        provider = "one"
        class_types = ("agent", "tool")
        invoke = {"tool": {}}

        @tool_function
        def x(self) -> int:
            return 1

    class Two(One):
        provider = "two"

    pipeline = pipeline_of(One, Two)
    one, two = pipeline["components"][1:]
    one["control"].append({"classType": "tool", "from": "two"})
    two["control"].append({"classType": "tool", "from": "one"})

    async def load() -> None:
        async with world(One, Two, pipeline=pipeline):
            pass

    with pytest.raises(InvalidPipeline):
        asyncio.run(load())


# -- deadline, cancel, context


class Outer(Node):
    provider = "outer"

    @tool_function
    async def coro(self, tool: str, ctx: ToolContext) -> Any:
        try:
            return await ctx.call("inner", tool)
        except ToolError as error:
            return f"caught {error.code}: {error.message}"

    @tool_function
    def sync(self, tool: str, ctx: ToolContext) -> Any:
        try:
            return ctx.call_blocking("inner", tool)
        except ToolError as error:
            return f"caught {error.code}: {error.message}"

    @tool_function
    async def survives(self, tool: str, ctx: ToolContext) -> str:
        try:
            await ctx.call("inner", tool)
        except ToolTimeout as error:
            return error.message
        except ToolError as error:
            return f"failed {error.data['exception']}"
        return "in time"

    @tool_function
    def survives_sync(self, tool: str, ctx: ToolContext) -> str:
        try:
            ctx.call_blocking("inner", tool)
        except ToolTimeout as error:
            return error.message
        except ToolError as error:
            return f"failed {error.data['exception']}"
        return "in time"


def inner(park: Park, lot: AsyncPark, seen: list[Any]) -> type[Node]:
    class Inner(Node):
        provider = "inner"

        @tool_function
        async def stay(self) -> None:
            await lot.stay()

        @tool_function
        def stay_sync(self, ctx: ToolContext) -> str:
            park.stay()
            seen.append(ctx.token.reason)
            return "stayed"

        @tool_function(timeout=3)
        async def short(self) -> None:
            await lot.stay()

        @tool_function(timeout=3)
        async def own_timeout(self) -> None:
            raise TimeoutError("its own")

        @tool_function(timeout=30)
        def see(self, ctx: ToolContext) -> list[Any]:
            return [ctx.user_id, ctx.meta, ctx.request_id, ctx.remaining(), ctx.node_id]

        @tool_function
        async def cancels_itself(self) -> None:
            task = asyncio.current_task()
            assert task is not None
            raise asyncio.CancelledError

        @tool_function
        def cancels_itself_sync(self) -> None:
            raise asyncio.CancelledError

        @tool_function
        async def awaits_the_cancelled(self) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        @tool_function
        def fails(self) -> None:
            raise ToolError("sorry", code="own_code", hint="try again", data={"x": 1})

    return Inner


@pytest.mark.parametrize("tool", ["stay", "stay_sync"])
@pytest.mark.parametrize("caller", ["coro", "sync"])
@pytest.mark.parametrize("fate", ["cancelled", "timeout"])
async def test_a_cancel_and_a_deadline_reach_the_callee(caller: str, tool: str, fate: str) -> None:
    park, lot, seen = Park(), AsyncPark(), []
    async with world(Outer, inner(park, lot, seen)) as w:
        asked = w.tool(caller, tool=tool, timeout=9)
        await until(lambda: park.inside or lot.inside)
        if fate == "timeout":
            w.clock.advance(9)
            assert isinstance(await asked.error(), ToolTimeout)
        else:
            asked.cancel()
            assert isinstance(await asked.error(), Cancelled)
        park.let_go()
        await w.at_rest()
        assert seen == ([fate] if tool == "stay_sync" else [])
        assert lot.cancelled == (tool == "stay")


@pytest.mark.parametrize("caller", ["survives", "survives_sync"])
async def test_the_callees_own_deadline_is_the_callers_to_catch(caller: str) -> None:
    lot = AsyncPark()
    async with world(Outer, inner(Park(), lot, [])) as w:
        asked = w.tool(caller, tool="short")
        await until(lambda: lot.inside)
        w.clock.advance(2)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asked.is_answered
        w.clock.advance(1)
        assert await asked.result() == 'Tool "short" did not finish within 3 s'
        assert lot.cancelled == 1
        assert await w.tool(caller, tool="own_timeout").result() == "failed TimeoutError"
        await w.at_rest()


async def test_the_callee_sees_the_call_of_its_caller_and_the_earlier_deadline() -> None:
    from rrext.engine.interface.call import Caller

    async with world(Outer, inner(Park(), AsyncPark(), [])) as w:
        for caller in ("coro", "sync"):
            for timeout, remaining in ((10, 10), (100, 30), (None, 30)):
                asked = w.tool(caller, tool="see", timeout=timeout, meta={"trace": 1}, caller=Caller("c", user_id="u"))
                assert await asked.result() == ["u", {"trace": 1}, asked.call.request_id, remaining, "inner"]
        await w.at_rest()


@pytest.mark.parametrize("caller", ["coro", "sync"])
@pytest.mark.parametrize("tool", ["cancels_itself", "cancels_itself_sync", "awaits_the_cancelled"])
async def test_a_callee_that_cancels_itself_is_a_failure_to_its_caller_who_goes_on(caller: str, tool: str) -> None:
    async with world(Outer, inner(Park(), AsyncPark(), [])) as w:
        answer = await w.tool(caller, tool=tool).result()
        assert answer == f'caught tool_failed: Tool "{tool}" on node "inner" was cancelled from inside'
        await w.at_rest()


@pytest.mark.parametrize("caller", ["coro", "sync"])
async def test_what_the_callee_raises_comes_through_and_what_the_caller_did_wrong_is_its_own(caller: str) -> None:
    async with world(Outer, inner(Park(), AsyncPark(), [])) as w:
        assert await w.tool(caller, tool="fails").result() == "caught own_code: sorry"
        for wrong, near in (("see_", ' Did you mean "see"?'), ("nothing", ""), (" ", "")):
            said = await w.tool(caller, tool=wrong).result()
            assert said.startswith(f'caught tool_failed: "outer.{caller}" called')
            assert said.endswith(near)
        await w.at_rest()


async def test_a_callee_that_wants_other_input_is_the_callers_failure_and_not_the_clients() -> None:
    class Wrong(Node):
        provider = "wrong"

        @tool_function
        async def ask(self, ctx: ToolContext) -> Any:
            return await ctx.call("wrong", "add", {"a": "x"})

        @tool_function
        def add(self, a: int) -> int:
            return a

    async with world(Wrong) as w:
        error = await w.tool("ask").error()
        assert error.code == "tool_failed"
        assert "/input/a" in str(error.data)


# -- places


def counting(park: Park) -> type[Node]:
    class Counting(Node):
        provider = "counting"

        @tool_function
        def work(self) -> int:
            park.stay()
            return 1

        @tool_function
        def from_threads(self, count: int, ctx: ToolContext) -> list[int]:
            """Threads of the tool's own that wait for tools, while the tool waits for them."""
            found: list[int] = []
            threads = [
                threading.Thread(target=lambda: found.append(ctx.call_blocking("counting", "work"))) for _ in range(count)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return found

        @tool_function
        async def from_the_loops_threads(self, count: int, ctx: ToolContext) -> list[int]:
            """An async tool has no place; what it lets wait in threads has none to lend."""
            calls = [asyncio.to_thread(ctx.call_blocking, "counting", "work") for _ in range(count)]
            return await asyncio.gather(*calls)

        @tool_function
        async def gather(self, count: int, ctx: ToolContext) -> list[int]:
            return await asyncio.gather(*(ctx.call("counting", "work") for _ in range(count)))

        @tool_function
        async def blocks(self, ctx: ToolContext) -> int:
            return ctx.call_blocking("counting", "work")

    return Counting


@pytest.mark.promise("pool:limit:true")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tool", ["from_threads", "from_the_loops_threads", "gather"])
async def test_callees_in_other_threads_count_and_finish(tool: str, threads: int) -> None:
    park = Park()
    async with world(counting(park), threads=threads) as w:
        asked = w.tool(tool, count=5)
        await until(lambda: park.inside == threads)
        for _ in range(20):
            await asyncio.sleep(0)
        park.let_go()
        assert await asked.result() == [1] * 5
        await w.at_rest()
        assert park.peak == threads


async def test_an_async_tool_that_would_block_the_loop_is_told_what_to_do() -> None:
    async with world(counting(Park())) as w:
        error = await w.tool("blocks").error()
        assert "cannot wait" in error.message
        await w.at_rest()


async def test_listeners_do_not_pile_up_on_a_call_that_calls_often() -> None:
    class Often(Node):
        provider = "often"

        @tool_function
        def ask(self, ctx: ToolContext) -> int:
            for _ in range(50):
                ctx.call_blocking("often", "look")
            return len(ctx.token._listeners or ())

        @tool_function
        async def look(self) -> int:
            return 1

    async with world(Often) as w:
        assert await w.tool("ask").result() == 0


async def test_a_callee_is_set_up_before_it_is_called_from_wherever() -> None:
    from contextlib import asynccontextmanager

    class Late(Node):
        provider = "late"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any):
            await asyncio.sleep(0)
            yield "shared"

        @tool_function
        def what(self) -> str:
            return self.shared

    class Asker(Node):
        provider = "asker"

        @tool_function
        def sync(self, ctx: ToolContext) -> str:
            return ctx.call_blocking("late", "what")

        @tool_function
        async def coro(self, ctx: ToolContext) -> str:
            return await ctx.call("late", "what")

        @tool_function(thread="main")
        def main(self, ctx: ToolContext) -> str:
            return ctx.call_blocking("late", "what")

    for tool in ("sync", "coro"):
        async with world(Late, Asker, threads=1) as w:
            assert await w.tool(tool).result() == "shared"
            assert await w.tool("main").result() == "shared"
    async with world(Late, Asker, threads=1) as w:
        assert "cannot wait" in (await w.tool("main").error()).message


async def test_results_of_callees_are_plain_data_of_their_own() -> None:
    class Plain(Node):
        provider = "plain"

        @tool_function
        def give(self) -> dict[str, Any]:
            return {"pair": (1, 2), "raw": b"abc"}

        @tool_function
        def raw(self) -> bytes:
            return b"abc"

        @tool_function
        def nan(self) -> float:
            return float("nan")

        @tool_function
        async def ask(self, tool: str, ctx: ToolContext) -> Any:
            found = await ctx.call("", tool)
            return [type(found).__name__, str(found)]

    async with world(Plain) as w:
        assert await w.tool("ask", tool="give").result() == ["dict", "{'pair': [1, 2], 'raw': 'YWJj'}"]
        assert await w.tool("ask", tool="raw").result() == ["bytes", "b'abc'"]
        assert "NaN" in (await w.tool("ask", tool="nan").error()).message


@pytest.mark.promise("call:nested:no-deadlock")
async def test_a_call_that_stands_before_a_nodes_thread_keeps_no_place_from_an_inner_call_there() -> None:
    gate, seen = asyncio.Event(), []

    class N(Node):
        provider = "n"
        lanes = {"text": ()}

        @tool_function
        async def parks(self) -> str:
            seen.append("parks")
            await gate.wait()
            return "parked"

        @tool_function(thread="same")
        def inner(self, ctx: ToolContext) -> str:
            return ctx.call_blocking("n", "parks")

        @tool_function
        async def outer(self, ctx: ToolContext) -> str:
            return await ctx.call("n", "inner")

        @tool_function(thread="same")
        def other(self) -> str:
            return "other"

    async with world(N, threads=1) as w:
        pipe = await w.open()
        first = w.tool("outer", pipe=pipe)
        await until(lambda: seen)
        second = w.tool("other", pipe=pipe)
        await until(lambda: w.task.sync_places.used)
        gate.set()
        async with asyncio.timeout(4):
            assert [await first.result(), await second.result()] == ["parked", "other"]
