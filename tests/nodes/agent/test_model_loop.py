"""The thread of the packages that talk to models: results, failures, cancels and streams pass from loop to loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar

import pytest

from rrext.nodes.llm.model_loop import WINDOW, ModelLoop, run_on

pytestmark = pytest.mark.anyio
NAME: ContextVar[str] = ContextVar("NAME", default="")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_coroutine_runs_on_the_other_thread_and_comes_back_with_context_variables() -> None:
    here, loop = asyncio.get_running_loop(), ModelLoop.shared()
    NAME.set("ada")

    async def inner() -> tuple[str, int]:
        return NAME.get(), threading.get_ident()

    async def outer() -> tuple[str, tuple[str, int]]:
        return threading.current_thread().name, await run_on(here, inner())

    assert await loop.run(outer()) == ("rrext-models", ("ada", threading.get_ident()))
    assert ModelLoop.shared() is loop


async def test_a_failure_is_raised_and_a_cancel_reaches_the_coroutine() -> None:
    loop, began, ended = ModelLoop.shared(), asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def failing() -> None:
        raise LookupError("gone")

    async def stuck() -> None:
        here.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            here.call_soon_threadsafe(ended.set)

    with pytest.raises(LookupError, match="gone"):
        await loop.run(failing())
    task = asyncio.ensure_future(loop.run(stuck()))
    await began.wait()
    task.cancel()
    await ended.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_stream_keeps_its_order_waits_for_a_slow_reader_and_ends_with_the_failure() -> None:
    made: list[int] = []

    async def counted() -> AsyncGenerator[int, None]:
        for number in range(3 * WINDOW):
            made.append(number)
            yield number
        raise LookupError("the end")

    read: list[int] = []

    async def reading() -> None:
        async with aclosing(ModelLoop.shared().stream(counted)) as items:
            async for item in items:
                read.append(item)
                await asyncio.sleep(0)
                assert len(made) <= len(read) + WINDOW + 1

    with pytest.raises(LookupError, match="the end"):
        await reading()
    assert read == list(range(3 * WINDOW))


async def test_a_stream_that_is_left_closes_its_generator() -> None:
    here, closed = asyncio.get_running_loop(), asyncio.Event()

    async def endless() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            here.call_soon_threadsafe(closed.set)

    async with aclosing(ModelLoop.shared().stream(endless)) as items:
        assert await anext(items) == 1
    await closed.wait()
