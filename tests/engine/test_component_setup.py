"""What node objects share: set up once at first use, tried again after a failure, left once at unload, never entered again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engine_world import AsyncPark, Park, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import ListTools, Open, Terminate
from rrext.errors import Cancelled, ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function


def sharing(log: list[Any], entering: Any = None, leaving: Any = None) -> type[Node]:
    """A node whose setup is logged, with the task that ran it."""

    class Sharing(Node):
        provider = "sharing"
        lanes = {"text": ()}

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any) -> AsyncIterator[str]:
            log.append(("enter", asyncio.current_task()))
            if entering is not None:
                await entering()
            try:
                yield f"shared {len(log)}"
            finally:
                log.append(("leave", asyncio.current_task()))
                if leaving is not None:
                    await leaving()

        @tool_function
        def sync(self) -> str:
            return self.shared

        @tool_function
        async def coro(self) -> str:
            return self.shared

        @tool_function(available=lambda node, ctx: node.shared.startswith("shared"))
        def asked(self) -> str:
            return self.shared

        def write_text(self, text: str) -> None:
            assert self.shared

    return Sharing


def steps(log: list[Any]) -> list[str]:
    return [what for what, _ in log]


async def test_it_is_entered_at_first_use_by_one_of_many_and_left_once_by_the_same_task() -> None:
    log: list[Any] = []
    lot = AsyncPark()
    async with world(sharing(log, lot.stay)) as w:
        assert log == []
        asked = [w.tool(tool) for tool in ("sync", "coro", "asked")] + [w.ask(Open()), w.ask(ListTools())]
        await until(lambda: lot.inside)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(one.is_answered for one in asked)
        lot.let_go()
        for one in asked:
            await one.answer()
        assert await w.tool("sync").result() == "shared 1"
        assert steps(log) == ["enter"]
        await w.terminate()
    assert steps(log) == ["enter", "leave"]
    assert log[0][1] is log[1][1]


async def test_a_failure_fails_those_who_waited_and_the_next_call_tries_again() -> None:
    log: list[Any] = []
    moods = [ConnectionError("no route"), ToolError("not yet", code="warming_up"), None]

    async def entering() -> None:
        await asyncio.sleep(0)
        mood = moods.pop(0)
        if mood is not None:
            raise mood

    async with world(sharing(log, entering)) as w:
        first = [w.tool("sync"), w.tool("coro")]
        for asked in first:
            error = await asked.error()
            assert error.message == 'Node "sharing" could not be set up: ConnectionError: no route'
        assert (await w.tool("sync").error()).code == "warming_up"
        assert await w.tool("sync").result() == "shared 3"
        assert steps(log) == ["enter"] * 3
        await w.at_rest()


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration()], ids=repr)
async def test_a_setup_that_raises_what_it_should_not_fails_its_calls_and_nothing_else(raised: BaseException) -> None:
    async def entering() -> None:
        raise raised

    async with world(sharing([], entering)) as w:
        error = await w.tool("coro").error()
        assert error.code == "tool_failed"
        assert "sharing" in error.message
        assert (await w.tool("sync").error()).code == "tool_failed"
        await w.at_rest()


async def test_who_is_not_trusted_does_not_read_why() -> None:
    async def entering() -> None:
        raise ConnectionError("postgres://user:secret@host")

    async with world(sharing([], entering)) as w:
        for trusted in (True, False):
            error = await w.tool("sync", caller=Caller("c", trusted=trusted)).error()
            assert ("secret" in error.message) is trusted
            assert "ConnectionError" in error.message


async def test_who_stops_waiting_does_not_stop_the_setup() -> None:
    log: list[Any] = []
    lot = AsyncPark()
    async with world(sharing(log, lot.stay)) as w:
        first, second = w.tool("sync", timeout=2), w.tool("sync")
        await until(lambda: lot.inside)
        w.clock.advance(2)
        await first.error()
        lot.let_go()
        assert await second.result()
        assert steps(log) == ["enter"]


async def test_unloading_while_it_is_entered_fails_who_waits_and_it_is_not_entered_again() -> None:
    log: list[Any] = []
    lot = AsyncPark()
    async with world(sharing(log, lot.stay)) as w:
        call, listing = w.tool("sync"), w.ask(ListTools())
        await until(lambda: lot.inside)
        assert await w.terminate() == {}
        assert isinstance(await call.error(), Cancelled)
        assert await listing.answer() == {"tools": []}
        component = w.task.components["sharing"]
        with pytest.raises(Cancelled):
            await component.ensure(w.engine.host, trusted=True)
        assert steps(log) == ["enter"]
        assert lot.cancelled == 1
        await w.at_rest()


async def test_unloading_before_the_setups_first_step_leaves_nobody_waiting() -> None:
    log: list[Any] = []
    async with world(sharing(log)) as w:
        component = w.task.components["sharing"]
        waiting = asyncio.ensure_future(component.ensure(w.engine.host, trusted=True))
        await asyncio.sleep(0)
        await component.close(1)
        with pytest.raises(Cancelled):
            await waiting
        assert log == []


async def test_after_unloading_it_counts_as_set_up_no_more() -> None:
    log: list[Any] = []
    async with world(sharing(log)) as w:
        await w.tool("sync").answer()
        component = w.task.components["sharing"]
        await w.terminate()
        assert not component.ready
        with pytest.raises(Cancelled):
            await component.ensure(w.engine.host, trusted=True)
        assert steps(log) == ["enter", "leave"]


async def test_what_is_shared_is_closed_after_the_calls_that_use_it_have_returned() -> None:
    log: list[str] = []
    park = Park()

    class Uses(Node):
        provider = "uses"
        lanes = {"text": ()}

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any) -> AsyncIterator[None]:
            yield
            log.append("shared closed")

        @tool_function
        def sync(self) -> None:
            park.stay()
            log.append("sync returned")

        @tool_function
        async def coro(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                log.append("coro unwound")

        def open(self, entry: Any) -> None: ...

        def close(self) -> None:
            log.append("node closed")

    async with world(Uses) as w:
        await w.open()
        calls = [w.tool("sync"), w.tool("coro")]
        await until(lambda: park.inside)
        await asyncio.sleep(0)
        ended = w.ask(Terminate())
        for call in calls:
            assert isinstance(await call.error(), Cancelled)
        await until(lambda: len(log) == 2)
        assert not ended.is_answered
        park.let_go()
        await ended.answer()
        assert sorted(log[:3]) == ["coro unwound", "node closed", "sync returned"]
        assert log[3:] == ["shared closed"]


async def test_a_stuck_call_or_a_stuck_teardown_holds_up_an_unload_only_for_a_while(caplog: Any) -> None:
    park = Park()

    class Stuck(Node):
        provider = "stuck"

        @classmethod
        @asynccontextmanager
        async def setup(cls, config: Any) -> AsyncIterator[None]:
            try:
                yield
            finally:
                await asyncio.shield(asyncio.Event().wait())

        @tool_function
        def stay(self) -> None:
            park.stay()

    async with world(Stuck, drain=0.05) as w:
        call = w.tool("stay")
        await until(lambda: park.inside)
        assert await w.terminate() == {}
        assert isinstance(await call.error(), Cancelled)
        assert "was not left within" in caplog.text
        assert "still run after" in caplog.text
        park.let_go()
        await w.at_rest()


async def test_an_unload_whose_caller_is_gone_is_finished_all_the_same() -> None:
    log: list[Any] = []
    lot = AsyncPark()
    async with world(sharing(log, leaving=lot.stay)) as w:
        await w.tool("sync").answer()
        ended = w.ask(Terminate())
        await until(lambda: lot.inside)
        assert ended.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert lot.inside
        lot.let_go()
        await until(lambda: not lot.inside)
        assert lot.cancelled == 0


# -- what this machine cannot run


async def test_a_node_that_cannot_run_here_is_asked_in_a_thread_until_it_can() -> None:
    asked: list[int] = []

    class Missing(Node):
        provider = "missing"

        @classmethod
        def unavailable(cls) -> str | None:
            asked.append(threading.get_ident())
            return "no such library: pip install it" if len(asked) < 3 else None

        @tool_function
        def work(self) -> int:
            return 1

    async with world(Missing) as w:
        error = await w.tool("work").error()
        assert isinstance(error, Unavailable)
        assert "pip install it" in error.message
        assert await w.tools() == []
        assert await w.tools() == ["work"]
        assert await w.tool("work").result() == 1
        assert len(asked) == 3
        assert threading.get_ident() not in asked


@pytest.mark.parametrize("raised", [ValueError("hm"), SystemExit(2)], ids=repr)
async def test_a_node_that_cannot_say_whether_it_can_run_cannot(raised: BaseException) -> None:
    class Odd(Node):
        provider = "odd"

        @classmethod
        def unavailable(cls) -> str | None:
            raise raised

        @tool_function
        def work(self) -> int:
            return 1

    async with world(Odd) as w:
        error = await w.tool("work").error()
        assert isinstance(error, Unavailable)
        assert type(raised).__name__ in error.message
        await w.at_rest()


async def test_an_object_needs_only_those_who_take_part_in_it() -> None:
    class Broken(Node):
        provider = "broken"

        @classmethod
        def unavailable(cls) -> str | None:
            return "it is not there"

        @tool_function
        def work(self) -> int:
            return 1

    async with world(sharing([]), Broken) as w:
        pipe = await w.open()
        await w.write(pipe, "x").answer()
        assert isinstance(await w.tool("work", pipe=pipe).error(), Unavailable)
        assert "error" not in await w.close(pipe).answer()


# -- threads of one's own


async def test_same_is_one_thread_for_all_calls_and_objects_of_a_component() -> None:
    seen: list[int] = []

    class Bound(Node):
        provider = "bound"
        lanes = {"text": ()}

        @tool_function(thread="same")
        def where(self) -> None:
            seen.append(threading.get_ident())

        @tool_function(thread="main")
        def main(self) -> bool:
            return threading.get_ident() == loop_thread

        def write_text(self, text: str) -> None: ...

    loop_thread = threading.get_ident()
    async with world(Bound) as w:
        pipe = await w.open()
        asked = [w.tool("where", pipe=which) for which in (None, pipe) * 10]
        for one in asked:
            await one.answer()
        assert len(set(seen)) == 1
        assert loop_thread not in seen
        assert await w.tool("main").result()


async def test_a_stuck_own_thread_keeps_its_call_s_places_and_those_behind_can_be_cancelled() -> None:
    park = Park()

    class Bound(Node):
        provider = "bound"

        @tool_function(thread="same")
        def stay(self, ctx: ToolContext) -> int:
            park.stay()
            return 1

    async with world(Bound, threads=3) as w:
        first, second, third = (w.tool("stay") for _ in range(3))
        await until(lambda: park.inside)
        first.cancel()
        second.cancel()
        await first.error(), await second.error()
        for _ in range(10):
            await asyncio.sleep(0)
        assert w.task.sync_places.used == 1
        assert w.task.places.used == 2
        park.let_go()
        assert await third.result() == 1
        await w.at_rest()
        assert park.visits == 2
