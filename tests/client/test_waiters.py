"""A task of asyncio that is woken by what was read runs at once, and is cancelled as any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from traceback import walk_stack
from typing import Any, cast

import anyio
import pytest

from rrext.client.endpoint import Endpoint
from rrext.client.event_loop import EventLoop, Waiter
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

MANY = 1000


@pytest.fixture(params=["in C", "in Python"], autouse=True)
async def tasks_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """asyncio has its tasks twice; debuggers and other implementations of Python have those in Python."""
    loop = asyncio.get_running_loop()
    if request.param == "in Python":
        module = cast("Any", asyncio.tasks)
        python_task = module._PyTask
        for step in ("enter_task", "leave_task", "swap_current_task"):
            if hasattr(module, f"_py_{step}"):  # since 3.14, these tell a `current_task` that `asyncio.timeout` does not ask
                monkeypatch.setattr(module, f"_py_{step}", getattr(module, f"_c_{step}"))
        loop.set_task_factory(lambda loop, coroutine, **given: python_task(coroutine, loop=loop, **given))
    yield
    loop.set_task_factory(None)


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


async def test_a_task_runs_within_the_callback_that_read_its_answer_after_all_that_was_read() -> None:
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
    assert told == ["woken", "first", "second", "read"]
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
        await first
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
        await waiter
    assert scope.cancelled_caught


class Line:
    """An endpoint over a channel that takes all; the test brings the answers, as the loop's callback does."""

    def __init__(self) -> None:
        connection = ClientConnection(ContentLength())
        self.endpoint = Endpoint(cast("Any", self), connection, explain=cast("Any", None), on_event=cast("Any", None))
        self.server = ServerConnection(ContentLength())
        self.sent = 0

    def write_now(self, pieces: Any) -> list[Any]:
        self.sent += 1
        return []

    def read(self, *numbers: int) -> None:
        """The answers of these requests arrive at once."""
        answers = b"".join(piece for number in numbers for piece in self.server.result(number, "rrext_ping", b"{}"))
        while answers:
            buffer = self.endpoint.get_buffer()
            size = min(len(buffer), len(answers))
            buffer[:size] = answers[:size]
            answers = answers[size:]
            self.endpoint.buffer_updated(size)

    async def call(self) -> Any:
        return await self.endpoint.call("rrext_ping", {})


async def test_a_task_that_ends_the_loop_leaves_the_others_answered() -> None:
    line, told, ended = Line(), list[str](), list[BaseException]()

    async def call(name: str, error: type[BaseException] | None = None) -> None:
        await line.call()
        told.append(name)
        if error is not None:
            raise error

    tasks = [asyncio.create_task(call("first", KeyboardInterrupt)), asyncio.create_task(call("second"))]
    await asyncio.sleep(0)

    def read() -> None:
        try:
            line.read(1, 2)
        except KeyboardInterrupt as error:
            ended.append(error)

    await in_callback(read)
    await tasks[1]
    assert told == ["first", "second"]
    assert [type(error) for error in ended] == [KeyboardInterrupt]
    assert isinstance(tasks[0].exception(), KeyboardInterrupt)


async def test_an_exception_of_a_task_that_runs_at_once_is_its_own() -> None:
    line = Line()

    async def fail() -> None:
        await line.call()
        raise ValueError("of this task")

    tasks = [asyncio.create_task(fail()), asyncio.create_task(line.call())]
    await asyncio.sleep(0)
    await in_callback(lambda: line.read(1, 2))
    with pytest.raises(ValueError, match="of this task"):
        await tasks[0]
    assert await tasks[1] == {}


async def test_a_thousand_answers_of_one_read_reach_their_tasks_in_order() -> None:
    line, told = Line(), list[int]()

    async def call(number: int) -> None:
        await line.call()
        told.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(MANY)]
    await asyncio.sleep(0)
    await in_callback(lambda: line.read(*range(1, MANY + 1)))
    assert told == list(range(MANY))
    await asyncio.gather(*tasks)


async def test_other_work_of_the_loop_has_its_turn_between_two_calls_of_a_task_that_calls_without_end() -> None:
    line, turns = Line(), list[int]()
    loop = asyncio.get_running_loop()

    async def call_on() -> None:
        for _ in range(MANY):
            await line.call()

    def read() -> None:
        line.read(line.sent)
        if not task.done():
            loop.call_soon(read)

    def other_work() -> None:
        turns.append(line.sent)
        if not task.done():
            loop.call_soon(other_work)

    task = asyncio.create_task(call_on())
    await asyncio.sleep(0)
    loop.call_soon(read)
    loop.call_soon(other_work)
    await task
    assert turns == [*range(2, MANY + 1), MANY]


async def test_a_call_within_the_callback_of_the_answer_does_not_nest_deeper_and_deeper() -> None:
    line, depths = Line(), set[int]()

    async def call_on() -> None:
        for _ in range(MANY):
            await line.call()
            depths.add(sum(1 for _ in walk_stack(None)))

    task = asyncio.create_task(call_on())
    await asyncio.sleep(0)
    for number in range(1, MANY + 1):
        await in_callback(lambda number=number: line.read(number))
    await task
    assert len(depths) == 1


async def test_calls_can_be_shielded_gathered_and_given_a_time() -> None:
    line = Line()

    async def ask() -> tuple[Any, ...]:
        shielded = asyncio.ensure_future(line.call())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(shielded), 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await line.call()
        shielded_answer, plain, timed = await asyncio.gather(shielded, line.call(), asyncio.wait_for(line.call(), 60))
        return shielded_answer, plain, timed

    task = asyncio.create_task(ask())
    while line.sent < 5 and not task.done():  # the call of `timeout` is cancelled by a request of its own
        await asyncio.sleep(0)
    await in_callback(lambda: line.read(*range(1, line.sent + 1)))
    assert await task == ({}, {}, {})


async def test_a_cancel_that_comes_with_the_answer_ends_the_task() -> None:
    line = Line()
    first, second = asyncio.create_task(line.call()), asyncio.create_task(line.call())
    await asyncio.sleep(0)
    first.add_done_callback(lambda _: second.cancel())

    def read() -> None:
        line.read(1)
        first.cancel()  # the answer was first
        second.cancel("too late for this one")
        line.read(2)

    await in_callback(read)
    assert await first == {}
    with pytest.raises(asyncio.CancelledError, match="too late for this one"):
        await second


async def test_a_wake_before_the_wait_ends_it_at_once() -> None:
    waiter = EventLoop().waiter()
    waiter.wake()
    waiter.wake()
    with anyio.fail_after(5):
        await waiter
