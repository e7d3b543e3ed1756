"""The hosts of a server, and their workers: where `WorkerPool` gets the links of tasks that run in a cluster."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rrext.cluster import messages
from rrext.cluster.control import Control
from rrext.cluster.placement import TASKS_PER_HOST, HostAddress, NodeFailed, Placement
from rrext.errors import ShuttingDown, Unavailable
from rrext.pipefile.catalog.plugins import is_file, packages_with_nodes
from rrext.pipefile.resources import Resources
from rrext.tasks.remote_tasks import LOAD_PATIENCE
from rrext.tasks.worker import ANSWER_PATIENCE
from rrext.tasks.worker_process import Stderr
from rrext.transports.tls import HANDSHAKE_PATIENCE, SILENCE, TlsEnd, TlsSink, connect, context_of

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.limits import Limits
    from rrext.tasks.remote_tasks import LoadAttempts
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.worker import LinkEvents
    from rrext.transports.tls import Identity

HASH_SHOWN: Final = 12
"""Characters of a hash that a message shows."""

LOOK_PATIENCE: Final = 1.0
"""Seconds in which a host tells whether a worker is stopped."""

LAST_BYTES: Final = 1.0
"""Seconds between the end of a worker and the last bytes of its connection."""

SILENCE_INTERVAL: Final = 2.0
"""Seconds between two looks at the acknowledgements of all connections."""

log: Final = logging.getLogger("rrext.cluster")


class DistantWorker:
    """The process of a worker on another machine: its own connection for calls, and its host's for all else."""

    __slots__ = (
        "_before", "_ended", "_host", "_is_told", "_loop", "_lost", "_reads", "_sink", "_tls", "_worker",
        "node_number", "number", "pid", "stderr",
    )  # fmt: skip

    mark = 0
    is_here = False

    def __init__(self, number: int, started: messages.Started, tls: TlsEnd, host: HostLink) -> None:
        self.number = number
        self.pid = started.pid
        self.node_number = host.address.number
        self.stderr = Stderr()
        self._tls = tls
        self._host = host
        self._loop = host.loop
        self._worker: LinkEvents | None = None
        self._reads = False
        self._ended: messages.Ended | None = None
        self._lost = ""
        self._is_told = False
        self._before: list[messages.Wrote | messages.Exceeded] = []

    def __repr__(self) -> str:
        return f"<DistantWorker {self.number} at {self._host.node}>"

    # -- for its `Worker`

    def sink(self, loop: asyncio.AbstractEventLoop) -> TlsSink:
        """Where bytes for it are written."""
        self._sink = TlsSink(self._tls, self._tls.fileno, loop)
        return self._sink

    def watch(self, loop: asyncio.AbstractEventLoop, worker: LinkEvents) -> None:
        """Tell what comes from the process, and its end."""
        self._worker = worker
        self._reads = True
        loop.add_reader(self._tls.fileno, self._readable)
        for message in self._before:
            self.take(message)
        if self._ended is not None or self._lost:
            loop.call_soon(self._tell_end)

    def _readable(self) -> None:
        if self._reads and self._worker is not None:
            self._worker.readable()
            if self._reads and self._tls.has_pending:
                self._loop.call_soon(self._readable)

    def receive(self, buffer: memoryview) -> int:
        """Read bytes that have arrived; 0 at the end."""
        return self._tls.receive(buffer)

    @property
    def has_input(self) -> bool:
        """Whether bytes wait to be read, or their end."""
        return self._tls.has_input

    def stop_reading(self) -> None:
        """Tell no more of bytes: they have ended."""
        self._reads = False
        self._loop.remove_reader(self._tls.fileno)
        if self._ended is not None:
            self._loop.call_soon(self._tell_end)

    async def is_stopped(self) -> bool:
        """Whether a signal, or a debugger, has stopped it, as its host says."""
        return await self._host.is_stopped(self.number)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants, through its host."""
        if self._ended is None and not self._lost:
            self._host.send(messages.Signal(self.number, number))

    def bound(self, memory: int) -> None:
        """Bound the memory of the process and its descendants, for which its host looks."""
        self._host.send(messages.Limit(self.number, memory))

    @property
    def node(self) -> str:
        """The name of the node where it runs."""
        return self._host.node

    @property
    def versions(self) -> messages.Versions:
        """Those of its host."""
        return self._host.versions

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        if self._ended is not None:
            return f"{self._ended.how}, on node {self._host.node}"
        return f"the connection to its host on node {self._host.node} was lost: {self._lost}" if self._lost else "it still runs"

    @property
    def exit_code(self) -> int | None:
        """Its exit code; that of a killed one is the number of the signal, below zero. None if nobody saw it."""
        return None if self._ended is None else self._ended.exit_code

    def close(self) -> None:
        """Close its connection."""
        self._sink.close()
        self._tls.close()
        self._host.forget(self)

    # -- for its host

    def take(self, message: messages.Wrote | messages.Exceeded) -> None:
        """Take what the host tells."""
        if self._worker is None:
            self._before.append(message)
        elif isinstance(message, messages.Wrote):
            self.stderr.add(message.text)
            self._worker.wrote_stderr(message.text)
        else:
            self._worker.note_excess(message.excess)

    def ended(self, ended: messages.Ended) -> None:
        """The process has ended; what it sent before may still be on its way."""
        self._ended = ended
        if self._reads:
            self._loop.call_later(LAST_BYTES, self._tell_end)
        elif self._worker is not None:
            self._tell_end()

    def lost(self, why: str) -> None:
        """The host is gone, and the process with it."""
        if self._ended is None:
            self._lost = why
            if self._worker is not None:
                self._tell_end()

    def look(self) -> None:
        """Give up a connection whose network is gone."""
        if self._ended is None and self._tls.is_silent:
            log.error("worker %d on node %s acknowledges nothing: it is lost", self.number, self._host.node)
            self._host.send(messages.Signal(self.number, signal.SIGKILL))
            self.lost(f"nothing was acknowledged for {SILENCE:g} seconds")

    def _tell_end(self) -> None:
        if not self._is_told and self._worker is not None:
            self._is_told = True
            self._worker.exited()


class HostLink:
    """A host, as its server reaches it. On the loop."""

    def __init__(
        self,
        address: HostAddress,
        tls: TlsEnd,
        loop: asyncio.AbstractEventLoop,
        holds: Resources,
        unused: Callable[[HostLink], object],
    ) -> None:
        """`unused` is told when it has one worker less, or is gone."""
        self.address = address
        self.node = address.node
        self.holds = holds
        self.loop = loop
        self.workers: dict[int, DistantWorker] = {}
        self.reserved = 0
        """Places of workers that start."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self._unused = unused
        self._greeting: asyncio.Future[messages.Greeting] = loop.create_future()
        self._starts: dict[int, asyncio.Future[messages.Started]] = {}
        self._looks: dict[int, asyncio.Future[bool]] = {}
        self._early: dict[int, list[messages.Wrote | messages.Exceeded | messages.Ended]] = {}
        """What was told of workers whose connection is not there yet."""
        self._control = Control(tls, loop, msgspec.json.Decoder(messages.FromHost), self._take, self._lost)

    @property
    def is_over(self) -> bool:
        """Whether it is gone."""
        return self._control.is_over

    @property
    def versions(self) -> messages.Versions:
        """Those of a host that has greeted."""
        return self._greeting.result().versions

    @property
    def has_room(self) -> bool:
        """Whether it may have a further worker."""
        most = TASKS_PER_HOST if self.holds.is_empty else 1
        return not self.is_over and len(self.workers) + self.reserved < most

    def send(self, message: messages.ToHost) -> None:
        """Send a message, if the host is there."""
        if not self.is_over:
            self._control.send(message)

    async def greet(self, nodes: Mapping[str, str], packages: Mapping[str, str], limits: Limits) -> None:
        """Tell the versions, and hear those of the host. Raises `Unavailable` if they differ."""
        own = messages.own_versions()
        self.send(messages.Greeting(own, dict(nodes), dict(packages), limits))
        try:
            async with asyncio.timeout(HANDSHAKE_PATIENCE):
                other = await self._greeting
        except TimeoutError:
            raise Unavailable(f"the host on node {self.node} does not answer") from None
        if other.versions != own:
            raise Unavailable(
                f"node {self.node} has {other.versions}, and this server {own}", hint="install the same versions on all nodes"
            )
        for name, found in nodes.items():
            if (there := other.nodes.get(name, "")) != found or not found:  # which nobody could compare
                hashes = f"{there[:HASH_SHOWN] or 'none'} there, {found[:HASH_SHOWN] or 'none'} here"
                raise Unavailable(
                    f"node {self.node} has another module {name} than this server, for --nodes {name}: {hashes}",
                    hint="install the same on all nodes, or name a file: its content is sent",
                )
        for name, version in packages.items():
            if (there := other.packages.get(name, "none")) != version:
                raise Unavailable(
                    f"node {self.node} has another package {name} than this server: {there} there, {version} here",
                    hint="install the same packages with nodes on all nodes",
                )

    async def start(self, number: int, memory: int) -> messages.Started:
        """Let the host start a worker. Raises `Unavailable`."""
        started = self._starts[number] = self.loop.create_future()
        self._early[number] = []
        try:
            self.send(messages.Start(number, memory))
            if self.is_over:
                raise Unavailable(f"the host on node {self.node} is gone")
            return await started
        except BaseException:
            self.give_up(number)
            raise

    def give_up(self, number: int) -> None:
        """End a worker to which nobody is connected, now or as soon as it is told."""
        self._starts.pop(number, None)
        self._early.pop(number, None)
        self.send(messages.Signal(number, signal.SIGKILL))

    def add(self, worker: DistantWorker) -> None:
        """Pass on what is told of a worker from now on, and what was."""
        self.workers[worker.number] = worker
        for message in self._early.pop(worker.number, ()):
            self._pass_on(worker, message)
        if self.is_over:
            worker.lost("it ended")

    def forget(self, worker: DistantWorker) -> None:
        """Forget a worker that has ended."""
        self.workers.pop(worker.number, None)
        self._unused(self)

    async def is_stopped(self, number: int) -> bool:
        """Whether a worker is stopped; False if the host does not tell in time."""
        if self.is_over:
            return False
        answer = self._looks.get(number)
        if answer is None:
            answer = self._looks[number] = self.loop.create_future()
            self.send(messages.Look(number))
        done, _ = await asyncio.wait([answer], timeout=LOOK_PATIENCE)
        return bool(done) and answer.result()

    def end(self) -> None:
        """End the host with all its workers."""
        self.send(messages.End())

    def _take(self, message: messages.ToHost | messages.FromHost) -> None:
        match message:
            case messages.Greeting():
                if not self._greeting.done():
                    self._greeting.set_result(message)
            case messages.Started() | messages.StartFailed():
                start = self._starts.pop(message.worker, None)
                if start is None or start.done():
                    self.send(messages.Signal(message.worker, signal.SIGKILL))
                elif isinstance(message, messages.Started):
                    start.set_result(message)
                else:
                    start.set_exception(Unavailable(f"node {self.node} cannot start a worker: {message.why}"))
            case messages.Looked():
                if (look := self._looks.pop(message.worker, None)) is not None and not look.done():
                    look.set_result(message.is_stopped)
            case messages.Wrote() | messages.Exceeded() | messages.Ended():
                worker = self.workers.get(message.worker)
                if worker is not None:
                    self._pass_on(worker, message)
                elif message.worker in self._early:
                    self._early[message.worker].append(message)
            case _:
                log.error("a host sent what only servers send: %s", type(message).__name__)

    def _pass_on(self, worker: DistantWorker, message: messages.Wrote | messages.Exceeded | messages.Ended) -> None:
        if isinstance(message, messages.Ended):
            worker.ended(message)
        else:
            worker.take(message)

    def _lost(self, why: str) -> None:
        log.log(logging.INFO if not self.workers else logging.ERROR, "the host on node %s is lost: %s", self.node, why)
        gone = Unavailable(f"the host on node {self.node} is lost: {why}")
        for waiting in (self._greeting, *self._starts.values()):
            if not waiting.done():
                waiting.set_exception(gone)
                waiting.exception()  # somebody may wait no more
        for look in self._looks.values():
            if not look.done():
                look.set_result(False)
        for worker in list(self.workers.values()):
            worker.lost(why)
        self.ended.set_result(None)
        self._unused(self)


class ClusterLinks:
    """Starts workers on the hosts of a placement, up to `TASKS_PER_HOST` on each; one with resources of its own alone."""

    def __init__(self, placement: Placement, identity: Identity, host: Host, settings: WorkerSettings) -> None:
        """`identity` is that of this server, whose certificate the placement tells to its hosts."""
        self._placement = placement
        self._host = host
        self._context = context_of(identity, None)
        self._hashes = messages.hashes_of_modules(name for name in settings.nodes if not is_file(name))
        self._packages = packages_with_nodes()
        self._files = {name: Path(name).read_text(encoding="utf-8") for name in settings.nodes if is_file(name)}
        self.hosts: list[HostLink] = []
        self._placing: asyncio.Task[HostLink] | None = None
        self._draining: frozenset[str] = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        placement.when_draining(self._note_draining)

    def _note_draining(self, nodes: frozenset[str]) -> None:
        self._draining = nodes

    @property
    def parent(self) -> int:
        """None: they are on other machines."""
        return 0

    async def start(self, settings: WorkerSettings, resources: Resources, attempts: LoadAttempts) -> DistantWorker:
        """Start a worker on a node that can. Raises `Unavailable`."""
        try:
            async with asyncio.timeout_at(attempts.until):
                while True:
                    try:
                        host = await self._host_for(resources, attempts.avoid)
                    except NodeFailed as error:
                        log.warning("%s", error)
                        if not attempts.may_go_on(error.node):
                            raise Unavailable(str(error)) from None
                        continue
                    host.reserved += 1
                    try:
                        return await self._start_on(host, settings, resources)
                    except Unavailable as error:
                        log.warning("%s", error.message)
                        if not attempts.may_go_on(host.address.number):
                            raise
                    finally:
                        host.reserved -= 1
                        self._end_unused(host)
        except TimeoutError:
            raise Unavailable(f"no node of the cluster has started a process within {LOAD_PATIENCE:g} seconds") from None

    async def _host_for(self, resources: Resources, avoid: frozenset[str]) -> HostLink:
        """A host with room, else a new one."""
        if not resources.is_empty:
            return await self._place(resources, avoid)
        while True:
            for host in self.hosts:
                if host.has_room and host.holds.is_empty and host.address.number not in avoid | self._draining:
                    return host
            if self._placing is None:
                self._placing = self._host.loop.create_task(self._place(resources, avoid | self._draining))
                self._placing.add_done_callback(self._placed)
            placing = self._placing
            await asyncio.wait([placing])
            host = placing.result()
            if host.has_room:
                return host

    def _placed(self, placing: asyncio.Task[HostLink]) -> None:
        self._placing = None
        if not placing.cancelled():
            placing.exception()  # who waits for it is told

    async def _place(self, resources: Resources, avoid: frozenset[str]) -> HostLink:
        address, host = await self._placement.place(resources, avoid), None
        try:
            if self._is_closed:
                raise ShuttingDown("the server ends")
            tls = await self._host.in_thread(connect, address.address, address.port, self._context, address.certificate)
            host = HostLink(address, tls, self._host.loop, resources, self._end_unused)
            await host.greet(self._hashes, self._packages, self._host.limits)
            if self._is_closed:
                raise ShuttingDown("the server ends")
        except OSError as error:
            await self._placement.release(address)
            raise NodeFailed(address.number, f"the host on node {address.node} cannot be reached: {error}") from None
        except BaseException:
            if host is not None:
                host.end()
            await self._placement.release(address)
            raise
        self.hosts.append(host)
        if self._looking is None:
            self._looking = self._host.spawn(self._look(), "acknowledgements of workers")
        return host

    async def _start_on(self, host: HostLink, settings: WorkerSettings, resources: Resources) -> DistantWorker:
        number = settings.number
        memory = min(filter(None, (resources.memory, self._host.limits.task_memory)), default=0)
        started = await host.start(number, memory)
        message = self._told(settings).first_message
        meeting = self._host.loop.create_task(self._host.in_thread(self._met, host.address.address, started, message))
        try:
            while not (await asyncio.wait([meeting], timeout=ANSWER_PATIENCE))[0]:
                if await host.is_stopped(number):
                    host.send(messages.Signal(number, signal.SIGKILL))  # which ends the meeting
            tls = meeting.result()
        except OSError as error:
            host.give_up(number)
            raise Unavailable(f"a worker on node {host.node} cannot be reached: {error}") from None
        except BaseException:
            host.give_up(number)
            raise
        worker = DistantWorker(number, started, tls, host)
        host.add(worker)
        return worker

    def _met(self, address: str, started: messages.Started, message: bytes) -> TlsEnd:
        """Connect to a worker, and tell it its settings. In a thread."""
        tls = connect(address, started.port, self._context, started.certificate)
        try:
            tls.write_all(message)
        except BaseException:
            tls.close()
            raise
        return tls

    def _told(self, settings: WorkerSettings) -> WorkerSettings:
        """The settings of a worker that has none of our files, nor a secret that its pipeline does not name."""
        ours = {"modules": [], "log_file": None, "connections": None, "variables": {}}
        return msgspec.structs.replace(settings, node_texts=self._files, is_elsewhere=True, **ours)

    def _end_unused(self, host: HostLink) -> None:
        """End a host without workers, unless it is the one that the next task gets."""
        if host.is_over:
            if host in self.hosts:
                self.hosts.remove(host)
        elif not (host.workers or host.reserved):
            others = [other for other in self.hosts if other is not host and other.has_room and other.holds.is_empty]
            if others or self._is_closed or not host.holds.is_empty or host.address.number in self._draining:
                host.end()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_INTERVAL)
            for host in list(self.hosts):
                for worker in list(host.workers.values()):
                    worker.look()

    async def close(self, seconds: float) -> None:
        """End all hosts; they have ended within some seconds. One that is being placed ends when it comes up."""
        self._is_closed = True
        for host in list(self.hosts):
            host.end()
        ends = [host.ended for host in self.hosts]
        if ends:
            await asyncio.wait(ends, timeout=seconds)
        await self._placement.close()
