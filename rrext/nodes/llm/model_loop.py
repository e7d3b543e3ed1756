"""`ModelLoop`: one thread of this process with an event loop of its own, for the packages that talk to models.

They take a second to import and milliseconds for each turn: a hundred agents on the engine's loop would make it late by 0.4 s.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, ClassVar, Final, TypeVar

from rrext.threads import start_thread

T = TypeVar("T")

WINDOW: Final = 64
"""Items of a stream that may wait for their reader."""


async def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs on the loop of another thread. A cancel reaches it; context variables are copied."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


class ModelLoop:
    """The thread and its loop, from the first use to the end of the process."""

    _lock: ClassVar = threading.Lock()
    _shared: ClassVar[ModelLoop | None] = None

    def __init__(self) -> None:
        """Starts the thread. Raises `NoThread`."""
        self.loop = asyncio.new_event_loop()
        self._process = os.getpid()
        start_thread(self.loop.run_forever, "rrext-models")

    @classmethod
    def shared(cls) -> ModelLoop:
        """The one of this process. From any thread. Raises `NoThread`."""
        with cls._lock:
            if cls._shared is None or cls._shared._process != os.getpid():  # a thread does not survive a fork
                cls._shared = cls()
            return cls._shared

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs on this loop, from that of another thread; see `run_on`."""
        return await run_on(self.loop, work)

    async def stream(self, generate: Callable[..., AsyncGenerator[T, None]], *args: Any) -> AsyncGenerator[T, None]:
        """The items of an async generator that runs on this loop, from that of another thread.

        `generate(*args)` is called there, and runs ahead of its reader by `WINDOW` items. Close the generator (`aclosing`) to
        cancel it.
        """
        arrived: asyncio.Queue[tuple[T, ...]] = asyncio.Queue()
        window, here = asyncio.Semaphore(WINDOW), asyncio.get_running_loop()

        async def pump() -> None:
            async with aclosing(generate(*args)) as items:
                async for item in items:
                    await window.acquire()
                    here.call_soon_threadsafe(arrived.put_nowait, (item,))

        pumping = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pump(), self.loop))
        pumping.add_done_callback(lambda _: arrived.put_nowait(()))
        try:
            while item := await arrived.get():
                self.loop.call_soon_threadsafe(window.release)
                yield item[0]
            await pumping
        finally:
            pumping.cancel()
