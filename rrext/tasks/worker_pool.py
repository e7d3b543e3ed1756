"""The workers of an engine: one is always started ahead of its use."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from rrext.errors import RrextError, ShuttingDown, Unavailable
from rrext.tasks.remote_loader import STOP_MARGIN
from rrext.tasks.worker import ANSWER_PATIENCE, Worker
from rrext.tasks.worker_process import WorkerProcess

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.worker import Home

MAX_STARTS: Final = 4
"""Processes that start at once: each start takes a tenth of a second of a processor, which running tasks need too."""

log: Final = logging.getLogger("rrext.tasks")


class WorkerPool:
    """Starts workers with these settings, a few at once, in threads. On the loop."""

    def __init__(self, host: Host, home: Home, settings: WorkerSettings) -> None:
        self._host = host
        self._home = home
        self._settings = settings
        self._number = settings.number
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._warm: asyncio.Task[Worker] | None = None
        self.workers: dict[int, Worker] = {}
        """The workers that have not ended, by number."""
        self.starting: set[asyncio.Task[Worker]] = set()
        """The starts that are under way."""
        self.is_closed = False

    def warm_up(self) -> None:
        """Start a worker ahead of its use, if none is."""
        if self._warm is None and not self.is_closed:
            self._warm = self._begin()
            self._warm.add_done_callback(_seen)

    async def take(self) -> Worker:
        """A worker without a task: the warm one, else a new one. Raises `Unavailable`."""
        warm, self._warm = self._warm, None
        if warm is not None:
            try:
                worker = await self._started(warm)
            except RrextError:
                pass  # it may be possible by now
            else:
                if not worker.is_over and not worker.process.is_stopped:
                    return worker
                worker.expects_end = True
                worker.kill()
        return await self._started(self._begin())

    def _begin(self) -> asyncio.Task[Worker]:
        start = self._host.loop.create_task(self._start(), name="start of a worker")
        self.starting.add(start)
        start.add_done_callback(self._is_begun)
        return start

    def _is_begun(self, start: asyncio.Task[Worker]) -> None:
        self.starting.discard(start)
        if not start.cancelled():
            start.exception()  # who waits for the start is told, if anybody still does

    async def _started(self, start: asyncio.Task[Worker]) -> Worker:
        """Wait for a start. A worker that its caller does not want any more is the warm one, or ends."""
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            if self._warm is None:
                self._warm = start
            else:
                self._host.spawn(self._end(start), "end of a worker that nobody wants")
            raise

    async def _end(self, start: asyncio.Task[Worker]) -> None:
        with suppress(RrextError):
            await (await start).stop(STOP_MARGIN)

    async def _start(self) -> Worker:
        async with self._starts:
            if self.is_closed:
                raise ShuttingDown("the server ends")
            self._number += 1
            number = self._number
            settings = msgspec.structs.replace(self._settings, number=number)
            try:
                process = await self._host.in_thread(WorkerProcess, settings)
            except OSError as error:
                raise Unavailable(f"the process of a pipeline cannot be started: {error.strerror}") from None
            worker = self.workers[number] = Worker(number, process, self._host, self._home)
            if self.is_closed:
                worker.kill()
            while not (await asyncio.wait([worker.ready], timeout=ANSWER_PATIENCE))[0]:
                if process.is_stopped:
                    worker.expects_end = True
                    worker.kill()
                    raise worker.silence()
            if worker.is_over:
                raise ShuttingDown("the server ends") if self.is_closed else worker.error()
            return worker

    async def close(self, seconds: float) -> None:
        """End all workers; those that do not end in time are killed."""
        self.is_closed = True
        for worker in list(self.workers.values()):
            if not worker.ready.done():
                worker.expects_end = True
                worker.kill()  # it has nothing to lose
        if self.starting:
            await asyncio.wait(self.starting, timeout=seconds)
        await asyncio.gather(*(worker.stop(seconds) for worker in list(self.workers.values())))


def _seen(warm: asyncio.Task[Worker]) -> None:
    """Log a failed start once; the next one is told to its caller."""
    if not warm.cancelled() and (error := warm.exception()) is not None and not isinstance(error, ShuttingDown):
        log.warning("no process could be started ahead: %s", error)
