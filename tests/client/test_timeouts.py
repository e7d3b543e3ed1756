"""Deadlines on the client's side, on clocks that tests move by hand."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio.testing
from scripted_peer import EchoPipes, connected, settle

from rrext.client.endpoint import DeadlineWatch, PendingCall
from rrext.client.event_loop import EventLoop
from rrext.errors import ToolTimeout

pytestmark = pytest.mark.anyio


class HandMovedLoop(asyncio.SelectorEventLoop):
    """Its time stands still but for `jump`."""

    moved = 0.0

    def time(self) -> float:
        return self.moved

    def jump(self, seconds: float) -> None:
        self.moved += seconds


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {
        "asyncio": {"loop_factory": HandMovedLoop},
        "trio": {"clock": trio.testing.MockClock()},
    }
    return request.param, options[request.param]


class Clock:
    def __init__(self, jump: Callable[[float], None]) -> None:
        self.jump = jump

    async def pass_time(self, seconds: float) -> None:
        """Let everybody see that so many seconds passed."""
        self.jump(seconds)
        await settle()


@pytest.fixture
async def clock(anyio_backend: tuple[str, dict[str, Any]]) -> Clock:
    name, options = anyio_backend
    return Clock(options["clock"].jump if name == "trio" else asyncio.get_running_loop().jump)  # type: ignore[attr-defined]


@pytest.mark.parametrize("answered_late", [False, True])
async def test_a_call_that_times_out_here_is_cancelled_in_the_server(answered_late: bool, dialect: Any, clock: Clock) -> None:
    async with connected(dialect=dialect, patience=math.inf) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ToolTimeout, match='"slow" did not finish within 5 s'):
                    await client.tool(tool="slow", timeout=5)

            tasks.start_soon(call)
            request = await peer.take("tool")
            await clock.pass_time(5.5)
            assert not peer.requests.statistics().current_buffer_used  # the server has a second to say it itself
            await clock.pass_time(1)
        assert (await peer.take("cancel")).arguments == {"requestId": request.id}
        if answered_late:
            await peer.answer(request, {"result": 1})
        peer.handler = EchoPipes()
        assert await client.tool(tool="echo")


async def test_the_servers_own_timeout_is_the_one_that_is_raised(clock: Clock) -> None:
    async with connected(patience=math.inf) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(ToolTimeout, match="the server says so"):
                await client.tool(tool="slow", timeout=5)

        tasks.start_soon(call)
        request = await peer.take("tool")
        await clock.pass_time(5.5)
        await peer.fail(request, ToolTimeout("the server says so"))


async def test_progress_keeps_a_call_alive(clock: Clock) -> None:
    async with connected(patience=math.inf) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            assert await client.tool(tool="long", timeout=10, reset_on_progress=True) == "done"

        tasks.start_soon(call)
        request = await peer.take("tool")
        for step in range(7):
            await clock.pass_time(9)
            await peer.progress(request, step)
            await settle()
        await peer.answer(request, {"result": "done"})


async def test_without_progress_the_time_is_up(clock: Clock) -> None:
    async with connected(patience=math.inf) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ToolTimeout, match="no progress within 10 s"):
                    await client.tool(tool="long", timeout=10, reset_on_progress=True)

            tasks.start_soon(call)
            request = await peer.take("tool")
            await clock.pass_time(9)
            await peer.progress(request, 1)
            await settle()
            await clock.pass_time(9)
            assert not peer.requests.statistics().current_buffer_used
            await clock.pass_time(2)
        await peer.take("cancel")


async def test_the_total_wins_over_progress(clock: Clock) -> None:
    async with connected(patience=math.inf) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ToolTimeout, match="within 30 s in all"):
                    await client.tool(tool="long", timeout=10, reset_on_progress=True, max_total=30)

            tasks.start_soon(call)
            request = await peer.take("tool")
            for step in range(4):
                await clock.pass_time(8)
                await peer.progress(request, step)
                await settle()
        await peer.take("cancel")


async def test_a_timeout_of_any_request_is_the_clients_own_alone(clock: Clock, dialect: Any) -> None:
    async with connected(dialect=dialect, patience=math.inf) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ToolTimeout, match='"rrext_ping" did not finish within 3 s'):
                    await client.request("rrext_ping", timeout=3)

            tasks.start_soon(call)
            request = await peer.take("rrext_ping")
            await clock.pass_time(4)
        assert request.arguments == {}
        await peer.take("cancel")


async def test_what_callbacks_do_after_the_answer_is_not_under_the_deadline(clock: Clock) -> None:
    gate = anyio.Event()
    seen: list[Any] = []

    async def slow(chunk: Any) -> None:
        seen.append(chunk)
        await gate.wait()

    async with connected(patience=math.inf) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            assert await client.tool(tool="t", timeout=5, on_chunk=slow) == "done"

        tasks.start_soon(call)
        request = await peer.take("tool")
        await peer.chunk(request, 0, "a")
        await peer.chunk(request, 1, "b")
        await peer.answer(request, {"result": "done"})
        await settle()
        await clock.pass_time(100)
        gate.set()
    assert seen == ["a", "b"]


async def test_a_callback_that_waits_when_time_is_up_is_cancelled(clock: Clock) -> None:
    seen: list[Any] = []

    async def stuck(chunk: Any) -> None:
        seen.append(chunk)
        await anyio.sleep_forever()

    async with connected(patience=math.inf) as (client, peer):
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ToolTimeout, match="within 5 s"):
                    await client.tool(tool="t", timeout=5, on_chunk=stuck)

            tasks.start_soon(call)
            request = await peer.take("tool")
            await peer.chunk(request, 0, "a")
            await peer.chunk(request, 1, "b")
            await settle()
            await clock.pass_time(7)
        await peer.take("cancel")
    assert seen == ["a"]


async def test_calls_that_are_over_do_not_wait_for_their_deadlines_in_memory() -> None:
    deadlines = DeadlineWatch(EventLoop())
    late, soon = PendingCall("late"), PendingCall("soon")
    late.due, soon.due = 30, 5
    deadlines.add(soon)
    for _ in range(1000):
        call = PendingCall("quick")
        call.due = 30
        deadlines.add(call)
        deadlines.drop(call)
    deadlines.add(late)
    assert repr(deadlines) == "<DeadlineWatch of 2 calls>"
