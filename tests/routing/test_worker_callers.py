"""Who calls: a worker and the server mean the same caller by a number, whoever else comes and goes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from routed_engine import Noted, descriptor_of, routed, tool_of, until

from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Dashboard, Open
from rrext.errors import Cancelled
from rrext.tasks.worker import Worker


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
        os.kill(worker.link.pid, signal.SIGSTOP)
        calls = [Noted(world.engine, tool_of("a", "pid"), Caller(f"c{number}")) for number in range(300)]
        sent = worker.outbox.size
        for number, noted in enumerate(calls[:250]):
            noted.call.cancel("cancelled", AssertionError())  # type: ignore[arg-type]
            world.engine.disconnect(f"c{number}")
        assert worker.outbox.size - sent < 250 * 1000
        os.kill(worker.link.pid, signal.SIGCONT)
        await until(lambda: all(noted.answers for noted in calls))


async def test_a_connection_that_ends_while_its_open_is_answered_leaves_no_pipe_and_no_caller() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        caller = Caller("c")
        opening = Noted(world.engine, Open(token="a", mime_type="text/plain"), caller)
        assert select.select([descriptor_of(worker)], [], [], 30)[0]  # the answer is on its way
        opening.call.cancel("disconnected", Cancelled())
        world.engine.disconnect("c")
        told = await worker.ask("worker_status", {})
        assert told["totals"]["pipes"] == 0
        assert not any(worker.caller_of(number) for number in range(5))


async def test_a_connection_that_names_many_callers_takes_the_place_of_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.tasks.worker.MAX_CALLERS", 3)
    async with routed() as world:
        worker = await world.execute("a")

        async def number_of(connection: str, user: str) -> int:
            await world.tool("a", "pid", Caller(connection, user))
            return next(number for number in range(99) if worker.caller_of(number) == Caller(connection, user))

        other, often = await number_of("c", "ada"), await number_of("gateway", "often")
        for user in range(5):
            await world.tool("a", "pid", Caller("gateway", f"u{user}"))
            assert await number_of("gateway", "often") == often  # it called lately
        assert await number_of("c", "ada") == other
        assert sum(worker.caller_of(number) is not None for number in range(99)) == 1 + 3
        await world.engine.ask(Open(token="a", mime_type="text/plain"), Caller("gateway", "u0"))
        assert (await worker.ask("worker_status", {}))["totals"]["pipes"] == 1
        for user in range(5):
            await world.tool("a", "pid", Caller("gateway", f"v{user}"))
        world.engine.disconnect("gateway")
        assert (await worker.ask("worker_status", {}))["totals"]["pipes"] == 0
        assert [number for number in range(99) if worker.caller_of(number)] == [other]


async def test_the_end_of_a_connection_visits_those_alone_that_it_used() -> None:
    async with routed() as world:
        visited: list[Worker] = []
        workers = [await world.execute(token) for token in ("a", "b", "c")]
        for worker in workers:
            worker.disconnect = partial(lambda worker, connection: visited.append(worker), worker)  # type: ignore[method-assign]
        for token in ("a", "b"):
            await world.tool(token, "pid", Caller("c1"))
        world.engine.disconnect("c1")
        world.engine.disconnect("c2")
        assert set(visited) == set(workers[:2])


async def test_a_dashboard_asks_those_alone_that_changed() -> None:
    async with routed() as world:
        asked: list[str] = []
        for token in ("a", "b"):
            worker = await world.execute(token)
            worker.ask = noting(worker.ask, partial(asked.append, token))  # type: ignore[method-assign]

        async def calls() -> dict[str, int]:
            await world.engine.ask(Dashboard())
            return {task.token: task.latest["calls"] for task in world.engine.tasks}

        assert await calls() == {"a": 0, "b": 0}
        assert sorted(asked) == ["a", "b"]
        assert await calls() == {"a": 0, "b": 0}
        await world.tool("a", "pid")
        assert await calls() == {"a": 1, "b": 0}
        assert sorted(asked) == ["a", "a", "b"]


async def test_a_list_of_many_tasks_waits_for_no_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.tasks.task_engine.LOOKS_AT_ONCE", 1)
    async with routed() as world:
        workers = [await world.execute(token) for token in ("a", "b", "c")]
        for worker in workers:
            os.kill(worker.link.pid, signal.SIGSTOP)
        lists = [asyncio.create_task(world.engine.ask(Dashboard())) for _ in range(20)]
        await asyncio.gather(*lists)
        assert sum(len(worker._asked) for worker in workers) == 1  # one look, for all who ask
        for worker in workers:
            os.kill(worker.link.pid, signal.SIGCONT)


def noting(ask: Any, note: Callable[[], object]) -> Any:
    async def noted(command: str, *given: Any) -> Any:
        note()
        return await ask(command, *given)

    return noted


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

        async def take(*_: object, **__: object) -> object:
            return worker

        world.engine.pool.take = take  # type: ignore[method-assign, assignment]
        await world.execute("a")
        await world.tool("a", "pid")
        began = time.monotonic()
        await until(lambda: told or time.monotonic() - began > 10)
        assert told
