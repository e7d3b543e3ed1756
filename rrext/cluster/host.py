"""A host: a process on a node of a cluster that starts workers for one server, tells it of them, and ends with it.

Calls go from the server to the workers themselves; the host has the control connection alone. It runs no tool, so it always
answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from rrext.cluster import messages
from rrext.cluster.certificates import new_identity
from rrext.cluster.control import Control
from rrext.cluster.placement import HOST_PATIENCE, HostAddress, HostStart
from rrext.errors import RrextError
from rrext.limits import DEFAULTS
from rrext.pipefile.catalog.plugins import packages_with_nodes
from rrext.tasks import distant_server
from rrext.tasks.families import MEMORY_INTERVAL, Excess, Families, Sweeps, kill, sweep
from rrext.tasks.fork_server import WorkerStarter
from rrext.tasks.settings import Listening, WorkerSettings
from rrext.tasks.worker_process import WorkerProcess
from rrext.threads import Workers, in_thread
from rrext.transports.tls import TlsEnd, accept, context_of, listen

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

START_PATIENCE: Final = 1.0
"""Seconds after which a worker that does not listen yet is looked at: it may have been stopped."""

END_PATIENCE: Final = 2.0
"""Seconds in which killed workers have ended; then the host ends without them, and their watchdogs kill what is left."""

log: Final = logging.getLogger("rrext.cluster")


class HostedWorker:
    """A worker that the host has started, as `number` of the server. It hears of its process."""

    def __init__(self, host: WorkerHost, number: int, process: WorkerProcess, certificate: str) -> None:
        self.number = number
        self.memory = 0
        self.process = process
        self.certificate = certificate
        self.port = 0
        self.listens: asyncio.Future[None] = host.loop.create_future()
        """Done when it listens, and when it has ended before."""
        self.has_ended = False
        self._host = host
        self._said = b""
        process.sink(host.loop)
        process.watch(host.loop, self)

    def readable(self) -> None:
        """Take the port, which is all that comes."""
        port = distant_server.PORT
        buffer = bytearray(port.size)
        try:
            count = self.process.receive(memoryview(buffer))
        except BlockingIOError:
            return
        self._said += buffer[:count]
        if not count or len(self._said) >= port.size:
            self.process.stop_reading()
        if len(self._said) >= port.size and not self.listens.done():
            (self.port,) = port.unpack(self._said[: port.size])
            self.listens.set_result(None)

    def wrote_stderr(self, text: bytes) -> None:
        """Pass it on. While the server reads nothing it is dropped, as nobody else has an interest."""
        if not self._host.control.is_full:
            self._host.control.send(messages.Wrote(self.number, text))

    def note_excess(self, excess: Excess) -> None:
        """Tell the server why the worker is killed."""
        self._host.control.send(messages.Exceeded(self.number, excess))

    def exited(self) -> None:
        """Tell the server how it ended, after all that it wrote."""
        self.has_ended = True
        if not self.listens.done():
            self.listens.set_result(None)
        self.process.stop_reading()
        self.process.close()
        self._host.ended(self)


class WorkerHost:
    """The workers of one server, and the control connection. On its loop, until `over` is done."""

    def __init__(self, tls: TlsEnd, loop: asyncio.AbstractEventLoop, start: HostStart) -> None:
        self.loop = loop
        self.over: asyncio.Future[None] = loop.create_future()
        self._start = start
        self._threads = Workers()
        self._settings = WorkerSettings(number=0, limits=DEFAULTS)
        self._workers: set[HostedWorker] = set()
        """All whose process has not ended."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweeps = Sweeps(self._spawn, partial(in_thread, self._threads, sweep))
        self._starter = WorkerStarter(distant_server.__name__)
        self._families = Families(lambda: self._starter.parent)
        self._watching_memory = False
        self.control = Control(tls, loop, msgspec.json.Decoder(messages.ToHost), self._take, self._lost)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- what the server says

    def _take(self, message: messages.ToHost | messages.FromHost) -> None:
        match message:
            case messages.Greeting():
                self._greet(message)
            case messages.Start():
                self._spawn(self._give(message))
            case messages.Signal():
                for worker in self._named(message.worker):
                    worker.process.signal_group(message.number)
            case messages.Limit():
                for worker in self._named(message.worker):
                    self._bound(worker, message.memory)
            case messages.Look():
                self._spawn(self._look(message.worker))
            case messages.End():
                self.control.end("the server ended it")
            case _:
                log.error("a server sent what only hosts send: %s", type(message).__name__)

    def _named(self, number: int) -> list[HostedWorker]:
        return [worker for worker in self._workers if worker.number == number]

    def _greet(self, greeting: messages.Greeting) -> None:
        self.control.send(
            messages.Greeting(messages.own_versions(), messages.hashes_of_modules(greeting.nodes), packages_with_nodes())
        )
        self._settings = WorkerSettings(number=0, limits=greeting.limits or DEFAULTS)

    async def _look(self, number: int) -> None:
        stopped = [await worker.process.is_stopped() for worker in self._named(number)]
        self.control.send(messages.Looked(number, any(stopped)))

    # -- starts

    async def _give(self, start: messages.Start) -> None:
        """Give the server a worker, which listens."""
        try:
            worker = await self._new(start.worker)
        except (OSError, RrextError) as error:
            self.control.send(messages.StartFailed(start.worker, str(error)))
            return
        if start.memory:
            self._bound(worker, start.memory)
        self.control.send(messages.Started(start.worker, worker.process.pid, worker.port, worker.certificate))

    async def _new(self, number: int) -> HostedWorker:
        """Start a worker, and return when it listens. Raises `OSError` and `RrextError`."""
        process, certificate = await in_thread(self._threads, self._started)
        worker = HostedWorker(self, number, process, certificate)
        self._workers.add(worker)
        while not (await asyncio.wait([worker.listens], timeout=START_PATIENCE))[0]:
            if await process.is_stopped():
                process.signal_group(signal.SIGKILL)
        if not worker.port:
            raise OSError(f"the process of a worker ended: {process.how}")
        return worker

    def _started(self) -> tuple[WorkerProcess, str]:
        """A new process with its certificate. In a thread."""
        identity = new_identity("rrext-worker")
        listening = Listening(self._start.listen, identity.certificate, identity.key, self._start.certificate)
        return WorkerProcess(msgspec.structs.replace(self._settings, listening=listening), self._starter), identity.certificate

    def ended(self, worker: HostedWorker) -> None:
        """Forget a worker that has ended, with all that it left behind."""
        self._workers.discard(worker)
        if not self.control.is_over:
            self.control.send(messages.Ended(worker.number, worker.process.exit_code, worker.process.how))
        self._sweeps.add(worker.process.mark)

    # -- memory

    def _bound(self, worker: HostedWorker, memory: int) -> None:
        worker.memory = memory
        if memory and not self._watching_memory:
            self._watching_memory = True
            self._spawn(self._watch_memory())

    async def _watch_memory(self) -> None:
        """Kill workers that use too much memory with all that they started."""
        while True:
            await asyncio.sleep(MEMORY_INTERVAL)
            limited = {worker.number: worker for worker in self._workers if worker.memory}
            marks = {number: (worker.process.pid, worker.process.mark) for number, worker in limited.items()}
            limits = {number: worker.memory for number, worker in limited.items()}
            for excess in await in_thread(self._threads, self._families.over, marks, limits):
                worker = limited[excess.family]
                if not worker.has_ended:
                    worker.note_excess(excess)
                    worker.process.signal_group(signal.SIGKILL)
                    kill(excess.pids)

    # -- the end

    def _lost(self, why: str) -> None:
        log.info("the host ends: %s", why)
        self._spawn(self._end())

    async def _end(self) -> None:
        """Kill all workers, and return when they have ended with what they started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_PATIENCE):
                while self._workers:
                    for worker in self._workers:
                        worker.process.signal_group(signal.SIGKILL)
                    await asyncio.sleep(0.01)
                await self._sweeps.done()
        self._starter.close()
        self.over.set_result(None)


def run_host(start: HostStart, announce: Any, lifeline: int) -> None:
    """Be a host until its server is gone, or the other end of `lifeline`. `announce` is told where it listens."""
    identity = new_identity("rrext-host")
    listener = listen(start.listen)
    port = listener.getsockname()[1]
    announce(HostAddress(start.listen, port, identity.certificate, start.node, start.number, os.getpid()))
    context = context_of(identity, start.certificate)
    tls = accept(listener, context, start.certificate, lifeline=lifeline, patience=HOST_PATIENCE)
    if tls is not None:
        asyncio.run(_serve(tls, start, lifeline))


async def _serve(tls: TlsEnd, start: HostStart, lifeline: int) -> None:
    loop = asyncio.get_running_loop()
    host = WorkerHost(tls, loop, start)
    loop.add_signal_handler(signal.SIGTERM, partial(host.control.end, "SIGTERM"))
    loop.add_reader(lifeline, partial(host.control.end, "who started it is gone"))
    await host.over


def main() -> None:
    """Read a `HostStart` from stdin, tell the address on stdout, and be a host."""
    start = msgspec.json.decode(sys.stdin.buffer.readline(), type=HostStart)

    def announce(address: HostAddress) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(address) + b"\n")
        sys.stdout.buffer.flush()

    run_host(start, announce, 0)
    os._exit(0)


if __name__ == "__main__":
    main()
