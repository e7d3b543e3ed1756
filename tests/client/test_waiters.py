"""A task of asyncio that is woken by what was read runs at once, and is cancelled as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from rrext.client.event_loop import EventLoop, Waiter

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def begun(waiter: Waiter, told: list[str], name: str, error: type[BaseException] | None = None) -> asyncio.Task[None]:
    """A task that waits, and says when it goes on."""

    async def wait() -> None:
        await waiter
        told.append(name)
        if error is not None:
            raise error

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def in_callback(function: Callable[[], None]) -> None:
    """Call a function as the loop calls who reads: in no task."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            function()
        finally:
            done.set_result(None)

    asyncio.get_running_loop().call_soon(call)
    await done


async def test_a_task_runs_within_the_callback_that_read_its_answer() -> None:
    loop, told = EventLoop(), list[str]()
    first, second = loop.waiter(), loop.waiter()
    tasks = [await begun(first, told, "first"), await begun(second, told, "second")]

    def read() -> None:
        loop.held = []
        first.wake()
        second.wake()
        told.append("read")
        loop.step()
        told.append("stepped")

    await in_callback(read)
    assert told == ["read", "first", "second", "stepped"]
    await asyncio.gather(*tasks)


async def test_a_task_that_is_woken_by_another_task_runs_in_the_next_turn() -> None:
    loop, told = EventLoop(), list[str]()
    waiter = loop.waiter()
    task = await begun(waiter, told, "woken")
    loop.held = []
    waiter.wake()
    loop.step()
    told.append("stepped")
    await task
    assert told == ["stepped", "woken"]


async def test_a_cancel_reaches_the_task_with_its_message_and_the_wake_that_comes_after_does_no_harm() -> None:
    loop, told = EventLoop(), list[str]()
    waiter = loop.waiter()
    task = await begun(waiter, told, "went on")
    task.cancel("enough")
    task.cancel("again")

    def read() -> None:
        loop.held = []
        waiter.wake()
        loop.step()

    await in_callback(read)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == []


async def test_a_cancel_scope_ends_the_wait() -> None:
    waiter = EventLoop().waiter()
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await waiter
    assert scope.cancelled_caught


async def test_a_task_that_ends_the_loop_leaves_the_others_woken() -> None:
    loop, told = EventLoop(), list[str]()
    first, second = loop.waiter(), loop.waiter()
    tasks = [await begun(first, told, "first", KeyboardInterrupt), await begun(second, told, "second")]
    seen: list[type[BaseException]] = []

    def read() -> None:
        loop.held = []
        first.wake()
        second.wake()
        try:
            loop.step()
        except KeyboardInterrupt as error:
            seen.append(type(error))

    await in_callback(read)
    await tasks[1]
    assert seen == [KeyboardInterrupt]
    assert told == ["first", "second"]
    assert isinstance(tasks[0].exception(), KeyboardInterrupt)


async def test_a_wake_before_the_wait_ends_it_at_once() -> None:
    waiter = EventLoop().waiter()
    waiter.wake()
    waiter.wake()
    with anyio.fail_after(5):
        await waiter
