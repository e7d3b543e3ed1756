"""Exactly one answer to each call, whatever happens to it and in whatever order."""

from __future__ import annotations

import asyncio
import logging
import threading
from random import Random
from typing import Any

import pytest
from engine_world import Asked, AsyncPark, Park, World, until, world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, ListTools, Open, TaskStatus, Terminate, Tool, Write
from rrext.errors import Cancelled, InvalidArguments, ToolError, ToolTimeout, Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


def kinds(park: Park, lot: AsyncPark) -> type[Node]:
    """One tool of every kind; each stays in its park first, and then does what its input says."""

    def end(how: str) -> str:
        if how == "raise":
            raise ValueError("as asked")
        return how

    class Kinds(Node):
        provider = "kinds"
        lanes = {"text": ()}

        @tool_function
        def sync(self, how: str) -> str:
            park.stay()
            return end(how)

        @tool_function
        def sync_ctx(self, how: str, ctx: ToolContext) -> str:
            park.stay()
            ctx.check()
            return end(how)

        @tool_function
        async def coro(self, how: str) -> str:
            await lot.stay()
            return end(how)

        @tool_function
        async def coro_ctx(self, how: str, ctx: ToolContext) -> str:
            await lot.stay()
            return end(how)

        @tool_function
        def chunks(self, how: str):
            park.stay()
            yield end(how)

        @tool_function
        async def chunks_async(self, how: str):
            await lot.stay()
            yield end(how)

        @tool_function(thread="same")
        def same(self, how: str) -> str:
            park.stay()
            return end(how)

        @tool_function(available=lambda ctx: True)
        def asked(self, how: str) -> str:
            park.stay()
            return end(how)

        def write_text(self, text: str) -> None:
            park.stay()
            end(text)

    return Kinds


TOOLS = ("sync", "sync_ctx", "coro", "coro_ctx", "chunks", "chunks_async", "same", "asked")
SYNC = ("sync", "sync_ctx", "chunks", "same", "asked")


@pytest.mark.parametrize("how", ["return", "raise"])
@pytest.mark.parametrize("tool", TOOLS)
async def test_a_call_that_ends_by_itself(tool: str, how: str) -> None:
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot)) as w:
        park.let_go(), lot.let_go()
        asked = w.tool(tool, how=how)
        if how == "return":
            assert await asked.result() in ("return", ["return"])
        else:
            error = await asked.error()
            assert isinstance(error, ToolError)
            assert "ValueError: as asked" in error.message
        await w.at_rest()


@pytest.mark.parametrize("fate", ["cancelled", "timeout", "disconnected", "terminated"])
@pytest.mark.parametrize("tool", TOOLS)
async def test_a_call_that_is_stopped_while_it_runs(tool: str, fate: str) -> None:
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot)) as w:
        asked = w.tool(tool, how="return", timeout=5)
        await until(lambda: park.inside or lot.inside)
        if fate == "timeout":
            w.clock.advance(5)
            assert isinstance(await asked.error(), ToolTimeout)
        elif fate == "terminated":
            ended = w.ask(Terminate())
            assert "terminated" in (await asked.error()).message
            if tool in SYNC:
                assert not ended.is_answered  # what the pipeline shares is not closed below a tool that runs
                park.let_go()
            assert await ended.answer() == {}
        else:
            assert asked.cancel(fate)
            assert isinstance(await asked.error(), Cancelled)
        assert not asked.cancel()
        if tool in SYNC and fate != "terminated":
            assert not w.is_at_rest  # the thread holds its places
            park.let_go()
        await w.at_rest()
        assert lot.cancelled == (tool not in SYNC)


@pytest.mark.promise("cancel:queued:never-runs")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("turns", range(6))
async def test_a_call_that_is_cancelled_before_its_tool_began_never_runs(tool: str, turns: int) -> None:
    """At each turn of the loop on the way to its tool, with its only place taken."""
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot), threads=1) as w:
        first = w.tool("sync", how="return")
        await until(lambda: park.inside)
        asked = w.tool(tool, how="return")
        for _ in range(turns):
            await asyncio.sleep(0)
        assert asked.cancel()
        park.let_go(), lot.let_go()
        await first.answer()
        await w.at_rest()
        assert (park.visits, lot.visits) == (1, 0)


@pytest.mark.promise("cancel:queued:never-runs")
@pytest.mark.parametrize("tool", ["sync", "sync_ctx"])
async def test_a_call_that_waits_for_a_thread_only_and_is_cancelled_never_runs(tool: str) -> None:
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot), threads=2) as w:
        lent = [w.task.sync_places.take() for _ in range(2)]
        asked = w.tool(tool, how="return")
        assert w.task.sync_places.waiting == 1
        assert asked.cancel()
        for place in lent:
            place.release()
        await w.at_rest()
        assert park.visits == 0


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_deadline_that_passed_before_the_call_began_lets_nothing_run(tool: str) -> None:
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot)) as w:
        park.let_go(), lot.let_go()
        asked = Asked()
        from rrext.engine.interface.call import Call

        asked.call = Call(Tool(tool=tool, input={"how": "return"}, timeout=2), asked, request_id=1, received=w.clock.now())
        w.asked.append(asked)
        w.clock.advance(2)
        w.engine.start(asked.call)
        assert isinstance(await asked.error(), ToolTimeout)
        await w.at_rest()
        assert (park.visits, lot.visits) == (0, 0)


EVENTS = ("let go", "cancel", "timeout", "turn", "turns", "disconnect", "another")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    calls=st.lists(st.tuples(st.sampled_from(TOOLS), st.sampled_from(["return", "raise", "wrong"]), st.booleans()), max_size=6),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5)), max_size=12),
    threads=st.integers(1, 3),
)
@pytest.mark.promise("call:answer:exactly-one")
def test_any_interleaving_of_calls_and_what_ends_them(calls: Any, events: Any, threads: int) -> None:
    async def run() -> None:
        park, lot = Park(), AsyncPark()
        async with world(kinds(park, lot), threads=threads) as w:

            def begin(tool: str, how: str, late: bool) -> None:
                given = {"how": how} if how != "wrong" else {"hwo": 1}
                w.tool(tool, given, timeout=3 if late else None)

            for call in calls:
                begin(*call)
            for event, which in events:
                await happen(w, event, which, park, lot, begin, calls)
            park.let_go(), lot.let_go()
            await w.at_rest()
            assert park.peak <= threads
            for asked in w.asked:
                if isinstance(asked.call.operation, Tool) and "hwo" in asked.call.operation.input:
                    (answer,) = asked.answers
                    assert isinstance(answer, InvalidArguments | Cancelled | ToolTimeout | Unavailable)

    asyncio.run(run())


async def happen(w: World, event: str, which: int, park: Park, lot: AsyncPark, begin: Any, calls: Any) -> None:
    if event == "let go":
        park.let_go(), lot.let_go()
    elif event == "cancel" and w.asked:
        w.asked[which % len(w.asked)].cancel()
    elif event == "timeout":
        w.clock.advance(3)
    elif event == "turn":
        await asyncio.sleep(0)
    elif event == "turns":
        await asyncio.sleep(0.001)
    elif event == "disconnect":
        for asked in w.asked:
            asked.cancel("disconnected")
        w.engine.disconnect("local")
    elif event == "another" and calls:
        begin(*calls[which % len(calls)])


@pytest.mark.promise("cancel:next-call-unharmed")
@pytest.mark.parametrize("tool", ["sync", "sync_ctx", "coro", "coro_ctx", "chunks", "asked"])
async def test_two_hundred_calls_are_cancelled_at_all_moments_and_the_next_is_unharmed(tool: str) -> None:
    park, lot = Park(), AsyncPark()
    random = Random(tool)
    async with world(kinds(park, lot), threads=2) as w:
        park.let_go(), lot.let_go()
        for _ in range(200):
            asked = w.tool(tool, how="return")
            for _ in range(random.randrange(5)):
                await asyncio.sleep(0)
            asked.cancel()
            assert await w.tool(tool, how="return").result() in ("return", ["return"])
        await w.at_rest()


@pytest.mark.promise("pool:limit:true")
async def test_a_storm_of_calls_and_cancels_never_runs_more_than_the_limit() -> None:
    inside, peak, lock = 0, 0, threading.Lock()
    random = Random(7)

    class Busy(Node):
        provider = "busy"

        @tool_function
        def sync(self, ctx: ToolContext) -> int:
            nonlocal inside, peak
            with lock:
                inside += 1
                peak = max(peak, inside)
            stop = threading.Event()
            ctx.on_cancel(stop.set)
            stop.wait(0.001)
            with lock:
                inside -= 1
            return 1

        @tool_function
        async def coro(self, ctx: ToolContext) -> int:
            return await ctx.call("busy", "sync", {})

    async with world(Busy, threads=3) as w:
        for number in range(600):
            asked = w.tool(random.choice(["sync", "coro"]))
            if number % 3 == 0:
                await asyncio.sleep(0)
            if random.random() < 0.5:
                random.choice(w.asked[-20:]).cancel()
            assert asked.call.settled or w.task.places.used <= 3
        await w.at_rest()
        assert 0 < peak <= 3


async def test_threads_that_answer_and_a_loop_that_cancels_meet_at_every_instruction() -> None:
    """Real races between a thread that ends its call and the loop that ends it: one of them answers."""

    class Quick(Node):
        provider = "quick"
        lanes = {"text": ()}

        @tool_function
        def now(self) -> int:
            return 1

        def write_text(self, text: str) -> None: ...

    async with world(Quick, threads=4) as w:
        kinds_of_answer = set()
        for round_ in range(400):
            calls = [w.tool("now") for _ in range(4)]
            spin = round_ % 40
            for _ in range(spin):
                threading.get_ident()
            for asked in calls:
                asked.cancel()
            await asyncio.gather(*(asked._news.wait() for asked in calls))
            kinds_of_answer |= {type(asked.answers[0]) for asked in calls}
        await w.at_rest()
        assert Cancelled in kinds_of_answer


@pytest.mark.parametrize("operation", [ListTools(), TaskStatus(), Terminate(), Tool(tool="coro", input={"how": "x"}), Open()])
async def test_an_operation_that_is_cancelled_before_it_began_has_no_effect(operation: Any) -> None:
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot)) as w:
        park.let_go(), lot.let_go()
        asked = w.ask(operation)
        assert asked.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert "sync" in await w.tools()
        await w.at_rest()
        assert lot.visits == 0
        assert len(w.engine._pipes) == 0


@pytest.mark.parametrize(
    "operation", [Tool(tool="sync", pipe_id=9), Write(pipe_id=9, data="x"), Close(pipe_id=9), Write(pipe_id=1)]
)
async def test_an_operation_that_is_refused_at_once_is_answered_once(operation: Any) -> None:
    async with world(kinds(Park(), AsyncPark())) as w:
        asked = w.ask(operation)
        assert asked.is_answered
        await w.at_rest()


async def test_a_bug_of_ours_is_answered_masked_and_holds_nothing(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def broken(workers: Any, job: Any) -> None:
        raise RuntimeError("no thread at all")

    async with world(kinds(Park(), AsyncPark())) as w:
        monkeypatch.setattr(type(w.engine.host.workers), "run", broken)
        error = await w.tool("sync", how="return").error()
        assert error.code == "internal"
        assert "no thread" not in error.message
        assert "no thread at all" in caplog.text
        await w.at_rest()


async def test_a_call_is_answered_though_the_log_cannot_be_written() -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space")

    handler = Full()
    logging.getLogger("rrext").addHandler(handler)
    try:
        park, lot = Park(), AsyncPark()
        async with world(kinds(park, lot)) as w:
            park.let_go(), lot.let_go()
            for tool in TOOLS:
                assert (await w.tool(tool, how="raise").error()).code in ("tool_failed", "internal")
            await w.at_rest()
    finally:
        logging.getLogger("rrext").removeHandler(handler)


async def test_who_a_call_is_answered_to_sees_it_once_also_if_that_raises(caplog: Any) -> None:
    """An answer that cannot be given is a bug of the face; it costs no place and no thread."""

    class Broken:
        def succeed(self, call: Any, body: bytes, tail: bytes | None) -> None:
            raise RuntimeError("a broken face")

        fail = succeed

    from rrext.engine.interface.call import Call

    loop = asyncio.get_running_loop()
    told = loop.get_exception_handler()
    loop.set_exception_handler(lambda loop, context: None)  # now and then it is the loop that gives the answer
    park, lot = Park(), AsyncPark()
    async with world(kinds(park, lot), threads=1) as w:
        park.let_go(), lot.let_go()
        for _ in range(3):
            w.engine.start(Call(Tool(tool="sync", input={"how": "x"}), Broken(), Caller(), 1))  # type: ignore[arg-type]
        assert await w.tool("sync", how="fine").result() == "fine"
        await w.at_rest()
    loop.set_exception_handler(told)
