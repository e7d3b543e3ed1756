"""The short ways of a call: quick sync tools on the reading thread, async tools in the batch. Same rules, less waiting."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import pytest
from engine_world import Asked, AsyncPark, Park, World, until, world

from rrext.engine.host.places import FairLock, LockTurn
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Tool
from rrext.engine.tasks.routes import Route
from rrext.errors import Cancelled, InvalidArguments
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolCallbacks, ToolContext
from rrext.tools.decorator import tool_function


class Settled:
    """An availability rule that the settings decide."""

    by_settings = True
    opens = True

    def __call__(self, node: Any, ctx: ToolContext | None) -> bool:
        assert node.config == {}
        return self.opens


class Shut(Settled):
    """One that is shut."""

    opens = False


def tools(park: Park, lot: AsyncPark, log: list[Any]) -> type[Node]:
    class Tools(Node):
        provider = "some_tools"
        lanes = {"text": ()}

        @tool_function
        def quick(self, text: str = "") -> str:
            if text == "raise":
                raise ValueError("as asked")
            if text == "stay":
                park.stay()
            return text

        @tool_function
        def chunks(self, text: str = "") -> Iterator[str]:
            if text == "stay":
                park.stay()
            yield text

        @tool_function
        def with_context(self, text: str = "", *, ctx: ToolContext) -> str | None:
            if text == "stay":
                ctx.on_cancel(lambda: log.append(ctx.token.reason))
                park.stay()
                ctx.check()
            if text == "call":
                return ctx.call_blocking("some_tools", "coro", {"text": "called"})
            return ctx.connection_id if text == "who" else None

        @tool_function(available=Settled())
        def with_open_switch(self) -> None: ...

        @tool_function(available=Shut())
        def with_shut_switch(self) -> None: ...

        @tool_function(timeout=5)
        def with_timeout(self) -> None: ...

        @tool_function
        def note(self, text: str = "") -> None:
            log.append(text)

        @tool_function(timeout=5)
        def late(self, text: str = "") -> None:
            if text == "stay":
                park.stay()

        @tool_function(available=lambda ctx: True)
        def with_predicate(self) -> None: ...

        @tool_function(thread="same")
        def same(self) -> None: ...

        @tool_function
        async def coro(self, text: str = "") -> str:
            log.append(text)
            if text == "stay":
                await lot.stay()
            return text

        @tool_function
        async def coro_context(self, ctx: ToolContext) -> None: ...

        def write_text(self, text: str) -> None: ...

    return Tools


async def learn(w: World, tool: str = "quick") -> Route:
    """Call the tool until it counts as quick."""
    route = w.task.routes.only("some_tools", tool)
    assert route is not None
    while not route.quick:
        await w.tool(tool).answer()
    return route


async def on_reading_thread(w: World, *asked: Asked) -> list[bool]:
    """What was taken, by a thread that may block."""
    taken: list[bool] = []
    done = threading.Event()

    def read() -> None:
        taken.extend(w.engine.start_here(one.call) for one in asked)
        done.set()

    w.engine.host.workers.run(read)
    await until(done.is_set)
    for one, took in zip(asked, taken, strict=True):
        if not took:
            w.asked.remove(one)
    return taken


def call(w: World, tool: str, **given: Any) -> Asked:
    timeout, pipe = given.pop("timeout", None), given.pop("pipe", None)
    return w.asked_for(Tool(tool=tool, node_id="some_tools", input=given, timeout=timeout, pipe_id=pipe))


async def test_a_quick_tool_is_answered_before_the_reading_thread_goes_on() -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        await learn(w)
        asked = [call(w, "quick", text="a"), call(w, "quick", text="raise"), call(w, "quick", wrong=1)]
        assert await on_reading_thread(w, *asked) == [True] * 3
        assert await asked[0].result() == "a"
        assert "as asked" in (await asked[1].error()).message
        assert isinstance(await asked[2].error(), InvalidArguments)
        await w.at_rest()


@pytest.mark.parametrize("tool", ["with_predicate", "with_shut_switch", "same"])
async def test_tools_that_others_have_a_say_in_are_never_taken(tool: str) -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        for _ in range(5):
            if tool == "with_shut_switch":
                assert (await w.tool(tool).error()).code == "unavailable"
            else:
                await w.tool(tool).answer()
        assert await on_reading_thread(w, call(w, tool)) == [False]
        assert not w.task.routes.only("some_tools", tool).quick


@pytest.mark.parametrize("why", ["pipe in use", "no place", "no sync place", "line", "async"])
async def test_a_call_that_may_have_to_wait_is_not_taken(why: str) -> None:
    async with world(tools(Park(), AsyncPark(), []), threads=1) as w:
        await learn(w)
        held: list[Callable[[], None]] = []
        pipe = None
        if why == "pipe in use":
            pipe = await w.open()
            found = w.engine._pipes.at(pipe)
            assert found is not None
            held.append(found.lock.enter(exclusive=True).release)
        if why == "no place":
            held.append(w.task.places.take().release)
        if why == "no sync place":
            held.append(w.task.sync_places.take().release)
        if why == "line":
            first, second = w.task.places.take(), w.task.places.take()
            held += [first.release, second.release]
        asked = call(w, "coro" if why == "async" else "quick", pipe=pipe)
        assert await on_reading_thread(w, asked) == [False]
        assert asked.answers == []
        for release in held:
            release()
        assert w.task.places.used == (1 if pipe else 0)
        assert w.task.sync_places.used == 0


@pytest.mark.parametrize("why", ["not learnt", "short timeout", "generator"])
async def test_a_tool_that_may_take_its_time_goes_from_the_reading_thread_to_a_worker(why: str) -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), [])) as w:
        if why == "short timeout":
            await learn(w)
        tool = "chunks" if why == "generator" else "quick"
        asked = call(w, tool, text="stay", timeout=0.01 if why == "short timeout" else None)
        assert await on_reading_thread(w, asked) == [True]
        await until(lambda: park.inside)
        assert not asked.is_answered
        park.let_go()
        await asked.answer()
        await w.at_rest()


@pytest.mark.parametrize("how", ["plain", "pipe", "timeout", "own timeout", "watched"])
async def test_what_a_quick_call_asks_for_besides_changes_nothing(how: str) -> None:
    callbacks = {"callbacks": ToolCallbacks()} if how == "watched" else {}
    tool = "with_timeout" if how == "own timeout" else "quick"
    async with world(tools(Park(), AsyncPark(), []), threads=2, **callbacks) as w:
        await learn(w, tool)
        pipe = await w.open() if how == "pipe" else None
        asked = call(w, tool, timeout=5 if how == "timeout" else None, pipe=pipe)
        assert await on_reading_thread(w, asked) == [True]
        assert len(asked.answers) == 1
        assert w.task.places.used == (1 if pipe else 0)
        assert (w.task.sync_places.used, w.task.active) == (0, set())


async def test_a_quick_tool_that_stays_ends_at_its_deadline_too() -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), []), threads=2) as w:
        await learn(w)
        asked = call(w, "quick", text="stay", timeout=5)
        w.engine.host.workers.run(lambda: w.engine.start_here(asked.call))
        await until(lambda: park.inside)
        assert asked.call.work is not None
        asked.call.work.overstay()
        await asyncio.sleep(0)
        w.clock.advance(5)
        assert (await asked.error()).code == "tool_timeout"
        park.let_go()
        await w.at_rest()


async def test_a_call_of_a_pipeline_that_is_gone_is_answered_where_it_is_read() -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        await w.terminate()
        asked = call(w, "quick")
        assert await on_reading_thread(w, asked) == [True]
        assert (await asked.error()).code == "TASK_NOT_REGISTERED"


async def test_a_quick_tool_that_stays_can_be_cancelled_and_its_objects_are_not_used_again() -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), []), threads=2) as w:
        await learn(w)
        asked = call(w, "quick", text="stay")
        w.engine.host.workers.run(lambda: w.engine.start_here(asked.call))
        await until(lambda: park.inside)
        spare = list(w.task.spare)
        assert asked.cancel()
        assert not w.task.routes.only("some_tools", "quick").quick
        assert (w.task.places.used, w.task.sync_places.used) == (1, 1)
        park.let_go()
        await w.at_rest()
        assert w.task.spare == spare  # the objects of the cancelled call are nobody's


async def test_a_tool_whose_switch_is_on_for_good_is_taken() -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        await learn(w, "with_open_switch")
        assert await on_reading_thread(w, call(w, "with_open_switch")) == [True]
        await w.at_rest()


async def test_a_tool_that_knows_of_its_call_is_taken_and_knows_as_much_as_elsewhere() -> None:
    log: list[Any] = []
    async with world(tools(Park(), AsyncPark(), log)) as w:
        await learn(w, "with_context")
        asked = [call(w, "with_context", text="who"), call(w, "with_context", wrong=1), call(w, "with_context", text="call")]
        assert await on_reading_thread(w, *asked) == [True] * 3
        assert await asked[0].result() == asked[0].call.caller.connection_id
        assert isinstance(await asked[1].error(), InvalidArguments)
        assert await asked[2].result() == "called"
        await w.at_rest()
        assert (w.task.places.used, w.task.sync_places.used) == (0, 0)


async def test_a_cancel_reaches_the_context_of_a_tool_that_was_taken() -> None:
    park, log = Park(), []
    async with world(tools(park, AsyncPark(), log), threads=2) as w:
        await learn(w, "with_context")
        asked = call(w, "with_context", text="stay")
        w.engine.host.workers.run(lambda: w.engine.start_here(asked.call))
        await until(lambda: park.inside)
        assert asked.cancel()
        assert log == ["cancelled"]
        assert (w.task.places.used, w.task.sync_places.used) == (1, 1)
        park.let_go()
        await w.at_rest()
        assert not w.task.routes.only("some_tools", "with_context").quick_alone


async def test_what_takes_a_little_longer_is_taken_alone_only() -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        route = await learn(w)
        limit = w.engine.limits.quick
        route.learn(0.5 * limit, limit)
        among, alone = call(w, "quick", text="a"), call(w, "quick", text="a")
        assert w.engine.start_here(alone.call, alone=True)
        assert alone.is_answered
        assert w.engine.start_here(among.call)
        assert await among.result() == "a"
        route.learn(0.95 * limit, limit)
        assert not route.quick_alone
        await w.at_rest()


async def test_a_slow_run_unlearns_that_a_tool_is_quick() -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), [])) as w:
        route = await learn(w)
        asked = call(w, "quick", text="stay")
        assert w.engine.start(asked.call)
        await until(lambda: park.inside)
        await asyncio.to_thread(threading.Event().wait, 0.002)
        park.let_go()
        await asked.answer()
        await w.at_rest()
        assert not route.quick


async def test_async_tools_begin_inside_the_batch_that_asked_for_them() -> None:
    log: list[Any] = []
    async with world(tools(Park(), AsyncPark(), log)) as w:
        await w.tool("coro").answer()
        log.clear()
        asked = [call(w, "coro", text=str(n)) for n in range(5)]
        done = asyncio.get_running_loop().create_future()

        def batch() -> None:
            w.engine.batch.is_collecting = True
            for one in asked:
                w.engine.start(one.call)
            w.engine.batch.is_collecting = False
            w.engine.batch.end()
            log.append("end")
            done.set_result([one.is_answered for one in asked])

        # The first batch makes the fiber, so it is asked twice.
        asked, first = asked[:1], asked[1:]
        asyncio.get_running_loop().call_soon(batch)
        await done
        await asyncio.sleep(0)
        asked, done = first, asyncio.get_running_loop().create_future()
        log.clear()
        asyncio.get_running_loop().call_soon(batch)
        assert await done == [True] * 4
        assert log == ["1", "2", "3", "4", "end"]
        await w.at_rest()


async def test_a_call_on_the_short_way_does_not_overtake_one_that_waits_for_a_place() -> None:
    log: list[Any] = []
    park, lot = Park(), AsyncPark()
    async with world(tools(park, lot, log), threads=1) as w:
        first = w.tool("quick", text="stay")
        await until(lambda: park.inside)
        waits = w.tool("coro", text="first in line")
        late = call(w, "coro", text="late")
        w.engine.start(late.call)
        park.let_go()
        for asked in (first, waits, late):
            await asked.answer()
        assert log == ["first in line", "late"]


async def test_who_calls_is_who_the_short_way_says_it_is() -> None:
    seen: list[Any] = []

    class Who(Node):
        provider = "some_tools"

        @tool_function
        async def coro(self, ctx: ToolContext) -> None:
            seen.append(ctx.user_id)

    async with world(Who) as w:
        for user in ("ann", "bob", None):
            await w.tool("coro", caller=Caller("c", user_id=user)).answer()
        assert seen == ["ann", "bob", None]


async def test_the_time_of_the_last_use_moves_on_the_short_way_too() -> None:
    async with world(tools(Park(), AsyncPark(), [])) as w:
        await learn(w)
        w.task.ttl = 100
        w.clock.advance(50)
        assert await on_reading_thread(w, call(w, "quick")) == [True]
        assert w.task.last_used == 50


async def test_a_call_that_is_cancelled_in_the_batch_that_asked_for_it_never_runs_and_gives_back_once() -> None:
    lot, log = AsyncPark(), []
    async with world(tools(Park(), lot, log), threads=2) as w:
        w.engine.batch.is_collecting = True  # the first one of this engine: no task waits yet to run what it asks for
        withdrawn = w.tool("coro", text="withdrawn")
        assert withdrawn.cancel()
        w.engine.batch.is_collecting = False
        w.engine.batch.end()
        await w.at_rest()
        w.engine.batch.is_collecting = True
        staying, withdrawn = w.tool("coro", text="stay"), w.tool("coro", text="withdrawn")
        assert withdrawn.cancel()
        w.engine.batch.is_collecting = False
        w.engine.batch.end()  # the first one keeps the task, so the others would get some of their own
        await until(lambda: lot.inside == 1)
        assert w.task.places.used == 1
        lot.let_go()
        assert await staying.result() == "stay"
        await w.at_rest()
        assert log == ["stay"]


@pytest.mark.parametrize("timeout", [None, 3])
async def test_a_tool_that_is_done_after_its_deadline_timed_out_though_nobody_watched(timeout: float | None) -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), [])) as w:
        await learn(w, "late")
        asked = call(w, "late", text="stay", timeout=timeout)
        w.engine.host.workers.run(lambda: w.engine.start_here(asked.call))
        await until(lambda: park.inside)
        w.clock.advance(timeout or 5)  # the reading thread's calls are watched once one stays, and nobody looked yet
        park.let_go()
        assert (await asked.error()).code == "tool_timeout"
        await w.at_rest()


class Racing(set[Any]):
    """The calls of a task, with somebody who is as fast as the thread that begins one."""

    def __init__(self, meanwhile: Callable[[Any], object]) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def add(self, call: Any) -> None:
        self.meanwhile(call)
        super().add(call)


@pytest.mark.parametrize("is_terminated", [False, True])
async def test_a_call_that_is_answered_while_the_reading_thread_decides_never_runs(is_terminated: bool) -> None:
    log: list[Any] = []
    async with world(tools(Park(), AsyncPark(), log)) as w:
        await learn(w, "note")
        log.clear()

        def meanwhile(call: Any) -> None:
            if is_terminated:
                w.engine._retire(w.task)
            else:
                call.cancel("disconnected", Cancelled())

        w.task.active = Racing(meanwhile)
        asked = call(w, "note", text="too late")
        assert w.engine.start_here(asked.call)
        assert (await asked.error()).code == "cancelled"
        await w.at_rest()
        assert log == []


async def test_a_call_that_was_answered_before_the_loop_got_it_never_begins() -> None:
    log: list[Any] = []
    async with world(tools(Park(), AsyncPark(), log)) as w:
        for tool in ("note", "coro"):
            asked = call(w, tool, text="too late")
            assert asked.cancel()
            w.engine.start(asked.call)
        await w.at_rest()
        assert log == []


async def test_a_pipe_that_is_freed_while_the_reading_thread_decides_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    async with world(tools(Park(), AsyncPark(), log)) as w:
        await learn(w, "note")
        log.clear()
        pipe_id = await w.open()
        enter, pipes = FairLock.enter, w.engine._pipes
        pipe = pipes.at(pipe_id)
        assert pipe is not None

        def too_late(lock: FairLock, exclusive: bool) -> LockTurn:
            pipes.remove(pipe)
            pipe.free()
            return enter(lock, exclusive)

        monkeypatch.setattr(FairLock, "enter", too_late)
        asked = call(w, "note", text="too late", pipe=pipe_id)
        assert not w.engine.start_here(asked.call)
        w.engine.start(asked.call)
        assert (await asked.error()).code == "pipe_not_open"
        await w.at_rest()
        assert log == []


async def test_what_was_cancelled_in_line_for_a_thread_waits_for_no_collector() -> None:
    park = Park()
    async with world(tools(park, AsyncPark(), []), threads=1) as w:
        pipe_id = await w.open()
        holder = call(w, "quick", text="stay", pipe=pipe_id)
        w.engine.start(holder.call)
        await until(lambda: park.inside)
        asked = call(w, "quick", text="in line", pipe=pipe_id)
        w.engine.start(asked.call)
        assert w.task.sync_places.waiting == 1
        run = ref(asked.call.work)
        gc.disable()
        try:
            assert asked.cancel()
            assert run() is None
        finally:
            gc.enable()
        park.let_go()
        await w.close(pipe_id).answer()
        await w.at_rest()
