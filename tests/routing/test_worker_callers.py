"""Who calls: a worker and the server mean the same caller by a number, whoever else comes and goes."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any

from routed_engine import Noted, routed, tool_of, until

from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Open
from rrext.errors import Cancelled


async def test_the_number_of_a_caller_never_means_another() -> None:
    callers = [Caller(f"c{number}", user_id=f"u{number}") for number in range(4)]
    async with routed() as world:
        worker = await world.execute("a")
        for caller in callers:
            await world.tool("a", "pid", caller)
        numbers = {number: worker.caller_of(number) for number in range(20)}
        world.engine.disconnect("c0")
        await world.tool("a", "pid", Caller("c9", user_id="u9"))
        after = {number: worker.caller_of(number) for number in range(20)}
        assert {each for each in after.values() if each is not None} >= set(callers[1:])
        assert all(after[number] in (None, before) for number, before in numbers.items() if before is not None)


async def test_the_end_of_a_connection_costs_the_same_with_many_others() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        os.kill(worker.process.pid, signal.SIGSTOP)
        calls = [Noted(world.engine, tool_of("a", "pid"), Caller(f"c{number}")) for number in range(300)]
        sent = worker.outbox.size
        for number, noted in enumerate(calls[:250]):
            noted.call.cancel("cancelled", AssertionError())  # type: ignore[arg-type]
            world.engine.disconnect(f"c{number}")
        assert worker.outbox.size - sent < 250 * 1000
        os.kill(worker.process.pid, signal.SIGCONT)
        await until(lambda: all(noted.answers for noted in calls))


async def test_a_connection_that_ends_while_its_open_is_answered_leaves_no_pipe_and_no_caller() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        caller = Caller("c")
        opening = Noted(world.engine, Open(token="a", mime_type="text/plain"), caller)
        assert select.select([worker.process.read_fd], [], [], 30)[0]  # the answer is on its way
        opening.call.cancel("disconnected", Cancelled())
        world.engine.disconnect("c")
        told = await worker.ask("worker_status", {})
        assert told["totals"]["pipes"] == 0
        assert not any(worker.caller_of(number) for number in range(5))


async def test_events_of_a_pipeline_reach_who_subscribed_while_it_was_loaded() -> None:
    async with routed() as world:
        told: list[object] = []
        worker = await world.engine.pool.take()
        load = worker.ask

        async def subscribe(command: str, *given: Any) -> object:
            world.engine.subscribe(Filter(kinds=frozenset(["call_started"])), told.append)
            await until(lambda: world.engine.host.events.watches_calls)
            return await load(command, *given)

        worker.ask = subscribe  # type: ignore[method-assign]

        async def take() -> object:
            return worker

        world.engine.pool.take = take  # type: ignore[method-assign, assignment]
        await world.execute("a")
        await world.tool("a", "pid")
        began = time.monotonic()
        await until(lambda: told or time.monotonic() - began > 10)
        assert told
