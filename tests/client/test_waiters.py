"""A task of asyncio that is woken by what was read runs at once, and is cancelled as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from rrext.client.endpoint import Endpoint
from rrext.client.event_loop import EventLoop, Waiter
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def begun(waiter: Waiter, told: list[str], name: str, error: type[BaseException] | None = None) -> asyncio.Task[None]:
    """A task that waits, and says when it goes on."""

    async def wait() -> None:
        await waiter.wait()
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
        loop.begin_reading()
        first.wake()
        told.append("woken")
        second.wake()
        loop.end_reading()
        told.append("read")

    await in_callback(read)
    assert told == ["first", "woken", "second", "read"]
    await asyncio.gather(*tasks)


async def test_a_task_that_is_woken_by_another_task_runs_in_the_next_iteration() -> None:
    loop, told = EventLoop(), list[str]()
    waiter = loop.waiter()
    task = await begun(waiter, told, "woken")
    loop.begin_reading()
    waiter.wake()
    loop.end_reading()
    told.append("read")
    await task
    assert told == ["read", "woken"]


async def test_a_task_that_is_woken_by_one_that_runs_at_once_runs_in_the_next_iteration() -> None:
    loop, told = EventLoop(), list[str]()
    first, second = loop.waiter(), loop.waiter()

    async def wake_the_second() -> None:
        await first.wait()
        second.wake()
        told.append("first")

    tasks = [asyncio.create_task(wake_the_second()), await begun(second, told, "second")]

    def read() -> None:
        loop.begin_reading()
        first.wake()
        loop.end_reading()
        told.append("read")

    await in_callback(read)
    await asyncio.gather(*tasks)
    assert told == ["first", "read", "second"]


async def test_a_cancel_reaches_the_task_with_its_message_and_the_wake_that_comes_after_does_no_harm() -> None:
    loop, told = EventLoop(), list[str]()
    waiter = loop.waiter()
    task = await begun(waiter, told, "went on")
    task.cancel("enough")
    task.cancel("again")

    def read() -> None:
        loop.begin_reading()
        waiter.wake()
        loop.end_reading()

    await in_callback(read)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == []


async def test_a_cancel_scope_ends_the_wait() -> None:
    waiter = EventLoop().waiter()
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await waiter.wait()
    assert scope.cancelled_caught


async def test_a_task_that_ends_the_loop_leaves_the_others_answered() -> None:
    told, ended = list[str](), list[BaseException]()

    class Silent:
        """A channel that takes all and brings nothing."""

        def write_now(self, pieces: Any) -> list[Any]:
            return []

    connection = ClientConnection(ContentLength())
    endpoint = Endpoint(cast("Any", Silent()), connection, explain=cast("Any", None), on_event=cast("Any", None))

    async def call(name: str, error: type[BaseException] | None = None) -> None:
        await endpoint.call("rrext_ping", {})
        told.append(name)
        if error is not None:
            raise error

    tasks = [asyncio.create_task(call("first", KeyboardInterrupt)), asyncio.create_task(call("second"))]
    await asyncio.sleep(0)

    def read() -> None:
        server = ServerConnection(ContentLength())
        answers = b"".join(server.result(1, "rrext_ping", b"{}") + server.result(2, "rrext_ping", b"{}"))
        endpoint.get_buffer()[: len(answers)] = answers
        try:
            endpoint.buffer_updated(len(answers))
        except KeyboardInterrupt as error:
            ended.append(error)

    await in_callback(read)
    await tasks[1]
    assert told == ["first", "second"]
    assert [type(error) for error in ended] == [KeyboardInterrupt]
    assert isinstance(tasks[0].exception(), KeyboardInterrupt)


async def test_a_wake_before_the_wait_ends_it_at_once() -> None:
    waiter = EventLoop().waiter()
    waiter.wake()
    waiter.wake()
    with anyio.fail_after(5):
        await waiter.wait()
