"""Tasks in workers: what the server knows of one, the pool of processes, and the loaders, of pipelines of clients and of
those that the operator names, which run as long as the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from rrext.engine.interface.task_identity import TaskIdentity, ToolNames
from rrext.engine.tasks.registry import FinishedTask, already_running
from rrext.errors import RrextError, ShuttingDown, TaskAlreadyRunning, TaskLost, TaskNotRegistered, Unavailable
from rrext.pipefile.resources import NO_RESOURCES
from rrext.tasks.fork_server import WorkerStarter
from rrext.tasks.worker import ANSWER_PATIENCE, Worker
from rrext.tasks.worker_process import WorkerProcess
from rrext.threads import shielded

if TYPE_CHECKING:
    from collections.abc import Callable

    from rrext.engine.host.host import Host
    from rrext.pipefile.resources import Resources
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.task_engine import TaskEngine
    from rrext.tasks.worker import Home, WorkerLink


class RemoteTask(TaskIdentity):
    """The names of a task, its worker, and its last known status."""

    __slots__ = (
        "_latest",
        "_text_type",
        "_tool_names",
        "is_finished",
        "memory",
        "offers",
        "open_pipes",
        "unavailable",
        "worker",
    )

    def __init__(self, described: dict[str, Any], options: dict[str, Any], worker: Worker, now: float) -> None:
        super().__init__(
            token=described["token"],
            public_token=described["publicToken"],
            name=described["name"],
            project_id=described["projectId"],
            source=described["source"],
            provider=described["provider"],
            description=described["description"],
            pipeline=described["pipeline"],
            options=options,
            active=worker.calls,
            now=now,
        )
        self.worker = worker
        self.latest = described["status"]
        self.is_finished = False
        self.open_pipes = 0
        self._tool_names = ToolNames(*described["toolNames"])
        self.offers: list[dict[str, Any]] = described["offers"]
        self._text_type: str = described["textType"]
        self.unavailable: list[dict[str, Any]] = described["unavailable"]
        self.memory: int = described["memory"]
        """The bytes that its pipeline says it needs, and may use; 0 if it says nothing."""

    @property
    def latest(self) -> dict[str, Any]:
        """The status as the worker told it last. It is kept as JSON, which needs a fifth of the memory."""
        return msgspec.json.decode(self._latest)

    @latest.setter
    def latest(self, status: dict[str, Any]) -> None:
        self._latest = msgspec.json.encode(status)

    @property
    def tool_names(self) -> ToolNames:
        return self._tool_names

    @property
    def text_type(self) -> str:
        return self._text_type

    def take_statuses(self, told: dict[str, Any]) -> None:
        """Take the answer of the worker to a question for its status. After the end of the task the answer has no status."""
        if told["statuses"]:
            self.take_status(told["statuses"][0], told["totals"])

    def take_status(self, status: dict[str, Any], totals: dict[str, int]) -> None:
        """Take what the worker tells of the task."""
        self.latest = status
        self.open_pipes, self.calls = totals["pipes"], totals["calls"]
        self.finished_count, self.failed_count = totals["completed"], totals["failed"]


MAX_STARTS: Final = 4
"""Processes that start at once: each start takes hundredths of a second of a processor, which running tasks need too, or, where
none is forked, half of one."""

START_TIME: Final = 120.0
"""Seconds from the start of a process until it has imported the code of the nodes, which takes many of them for large libraries
from a slow disk: a process whose import never ends would keep its place among those that start."""

log: Final = logging.getLogger("rrext.tasks")


LOAD_ATTEMPTS: Final = 3
"""Nodes on which a pipeline is placed and loaded, one after the other, if each fails or vanishes."""

LOAD_PATIENCE: Final = 30.0
"""Seconds in which another attempt begins."""


class LoadAttempts:
    """What is left of the attempts to place and load a pipeline, of which nothing has begun. On the loop of `host`."""

    def __init__(self, host: Host, most: int = LOAD_ATTEMPTS) -> None:
        self._loop = host.loop
        self._left = most
        self.until: float = self._loop.time() + LOAD_PATIENCE
        self.latest: Worker | None = None
        """The process that was started last."""
        self.avoid: frozenset[str] = frozenset()
        """The numbers of the nodes that failed."""

    def may_go_on(self, node: str) -> bool:
        """Count an attempt that failed on a node; whether another one may follow."""
        self.avoid |= {node}
        self._left -= 1
        return self._left > 0 and self._loop.time() < self.until

    def may_go_on_without(self, worker: Worker) -> bool:
        """The same for a worker that has ended: only one that vanished with its machine is replaced."""
        link = worker.link
        return not link.is_here and link.exit_code is None and self.may_go_on(link.node_number)


class WorkerLinks(Protocol):
    """Starts the processes of workers: on this machine, or on others. On the loop."""

    async def start(self, settings: WorkerSettings, resources: Resources, attempts: LoadAttempts) -> WorkerLink:
        """Start a process with these settings. Raises `Unavailable`."""
        ...

    @property
    def parent(self) -> int:
        """The process of this machine whose children they are; 0 if there is none."""
        ...

    async def close(self, seconds: float) -> None:
        """End what starts them, within `seconds`. The workers have ended."""
        ...


class LocalLinks:
    """Starts processes on this machine, whatever resources they want."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._starter = WorkerStarter()

    @property
    def parent(self) -> int:
        """The process whose children they are."""
        return self._starter.parent

    async def start(self, settings: WorkerSettings, resources: Resources, attempts: LoadAttempts) -> WorkerProcess:
        """Start a process, in a thread. Raises `Unavailable`."""
        try:
            return await self._host.in_thread(WorkerProcess, settings, self._starter)
        except OSError as error:
            raise Unavailable(f"the process of a pipeline cannot be started: {error.strerror}") from None

    async def close(self, seconds: float) -> None:
        """End the fork server."""
        self._starter.close()


class WorkerPool:
    """Starts workers with these settings, a few at once. On the loop."""

    def __init__(self, host: Host, home: Home, settings: WorkerSettings, links: WorkerLinks) -> None:
        self._host = host
        self._home = home
        self._settings = settings
        self.links = links
        self._number = settings.number
        self._starts = asyncio.Semaphore(MAX_STARTS)
        self._warm: asyncio.Task[Worker] | None = None
        self.workers: dict[int, Worker] = {}
        """The workers that have not ended, by number."""
        self.starting: set[asyncio.Task[Worker]] = set()
        """The starts that are under way."""
        self.first_current = 0
        """The number of the first worker with the current code of nodes: loads in workers before it are made again."""
        self.is_closed = False

    async def renew(self) -> None:
        """Start a worker with changed code of nodes, in the place of the one that was started ahead, and use no former one for
        loads any more. Raises `RrextError`, and changes nothing, if none starts; a cancel ends the one that starts.
        """
        attempts = LoadAttempts(self._host, 1)
        start = self._begin(NO_RESOURCES, self.links, attempts, waits=False)  # imports of broken code may keep all of them
        try:
            worker = await shielded(start)
        except asyncio.CancelledError:
            if attempts.latest is not None and not attempts.latest.ready.done():
                attempts.latest.expects_end = True
                attempts.latest.kill()  # its import may hang
            self._host.spawn(self._end(start), "end of a worker that nobody wants")
            raise
        self.first_current = worker.number
        warm, self._warm = self._warm, start
        if warm is not None:
            self._host.spawn(self._end(warm), "end of a worker with former code")
        for former in self.workers.values():
            if former.number < worker.number and not former.ready.done():
                former.kill()  # who waits for it gets another one

    def warm_up(self) -> None:
        """Start a worker ahead of its use, if none is."""
        if self._warm is None and not self.is_closed:
            self._warm = self._begin(NO_RESOURCES, self.links, LoadAttempts(self._host, 1))
            self._warm.add_done_callback(_log_failure)

    def drop_warm(self, is_unwanted: Callable[[Worker], bool]) -> None:
        """End the worker that was started ahead of its use if nobody wants it there, and start another. One that still starts
        ends too: where it will be is not known.
        """
        warm = self._warm
        if warm is not None and not (
            warm.done() and (warm.cancelled() or warm.exception() is not None or not is_unwanted(warm.result()))
        ):
            self._warm = None
            self._host.spawn(self._end(warm), "end of a worker that nobody wants")
            self.warm_up()

    async def take(
        self, resources: Resources = NO_RESOURCES, links: WorkerLinks | None = None, attempts: LoadAttempts | None = None
    ) -> Worker:
        """A worker without a task: the warm one, else a new one, as for all that want resources, or `links` of their own.
        Raises `Unavailable`.
        """
        attempts = attempts or LoadAttempts(self._host)
        if not resources.is_empty or links is not None:
            return await self._started(self._begin(resources, links or self.links, attempts))
        warm, self._warm = self._warm, None
        if warm is not None:
            try:
                worker = await self._started(warm)
            except RrextError:
                if not attempts.may_go_on(""):  # it may be possible by now
                    raise
            else:
                if not worker.is_over and not await worker.link.is_stopped():
                    return worker
                worker.expects_end = True
                worker.kill()
        return await self._started(self._begin(NO_RESOURCES, self.links, attempts))

    def _begin(
        self, resources: Resources, links: WorkerLinks, attempts: LoadAttempts, *, waits: bool = True
    ) -> asyncio.Task[Worker]:
        places = self._starts if waits else nullcontext()
        start = self._host.loop.create_task(self._start(resources, links, attempts, places), name="start of a worker")
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
            return await shielded(start)
        except asyncio.CancelledError:
            if self._warm is None:
                self._warm = start
            else:
                self._host.spawn(self._end(start), "end of a worker that nobody wants")
            raise

    async def _end(self, start: asyncio.Task[Worker]) -> None:
        with suppress(RrextError):
            await (await start).stop(STOP_MARGIN)

    async def _start(
        self, resources: Resources, links: WorkerLinks, attempts: LoadAttempts, places: AbstractAsyncContextManager[None]
    ) -> Worker:
        async with places:
            while True:
                worker = await self._start_once(resources, links, attempts)
                if not worker.is_over:
                    return worker
                if self.is_closed:
                    break
                if worker.number < self.first_current:
                    continue
                if not attempts.may_go_on_without(worker):
                    raise worker.error()
        raise ShuttingDown("the server ends")

    async def _start_once(self, resources: Resources, links: WorkerLinks, attempts: LoadAttempts) -> Worker:
        """Start a worker, and return when it is ready or has ended."""
        if self.is_closed:
            raise ShuttingDown("the server ends")
        self._number += 1
        number = self._number
        settings = msgspec.structs.replace(self._settings, number=number)
        link = await links.start(settings, resources, attempts)
        worker = self.workers[number] = attempts.latest = Worker(number, link, self._host, self._home)
        if self.is_closed:
            worker.expects_end = True
            worker.kill()
        until = self._host.loop.time() + START_TIME
        while not (await asyncio.wait([worker.ready], timeout=ANSWER_PATIENCE))[0]:
            is_late = self._host.loop.time() > until
            if is_late or await link.is_stopped():
                worker.expects_end = True
                worker.kill()
                raise _late_start() if is_late else await worker.silence()
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


def _late_start() -> Unavailable:
    return Unavailable(
        f"the process of a pipeline did not import the code of the nodes within {START_TIME:g} seconds",
        hint="look for an import that never ends",
    )


def _log_failure(warm: asyncio.Task[Worker]) -> None:
    """Log a failed start once; the next one is told to its caller."""
    if not warm.cancelled() and (error := warm.exception()) is not None and not isinstance(error, ShuttingDown):
        log.warning("no process could be started ahead: %s", error)


STOP_MARGIN: Final = 2.0
"""Seconds beyond the time of its calls in which a worker ends; then it is killed."""


class RemoteLoader:
    """Makes the tasks of an engine, each in a worker."""

    def __init__(self, engine: TaskEngine) -> None:
        self._engine = engine

    async def load(
        self, pipeline: dict[str, Any] | str | bytes, *, replaces: RemoteTask | FinishedTask | None = None, **options: Any
    ) -> RemoteTask:
        """Load a pipeline in a worker, as `TaskLoader.load` says. A task that `replaces` another is returned before it
        begins.
        """
        token, owner, remote = options.get("token"), options.get("owner"), options.get("remote", False)
        use_existing = options.get("use_existing", False)
        running = None if token is None else self._engine.tasks.running(token, owner if remote else None)
        if use_existing and running is not None:
            return running  # a client may join a pipeline that it could not load
        is_new = remote and not isinstance(replaces, RemoteTask)
        may_join = use_existing and token is None  # which is known after the load
        with self._engine.tasks.room(owner, extra=may_join) if is_new else nullcontext():
            try:
                task = await self._loaded_somewhere(pipeline, options, is_restart=replaces is not None)
            finally:
                self._engine.pool.warm_up()
            worker = task.worker
            try:
                same = self._engine.tasks.find_same(token, task)
                if same is not None and use_existing:
                    self.drop(worker)
                    return same
                if same is not None and same is not replaces:
                    raise already_running()
                if is_new and may_join:
                    self._engine.tasks.require_room(owner, more=0)
                if replaces is None:
                    self._engine.begin(task)
                elif worker.is_over:  # before it has the place of the other one
                    raise worker.error()
            except BaseException:
                self.drop(worker)
                raise
            return task

    async def _loaded_somewhere(
        self, pipeline: dict[str, Any] | str | bytes, options: dict[str, Any], *, is_restart: bool
    ) -> RemoteTask:
        """Load a pipeline; on another machine if one vanishes meanwhile, as nothing of the pipeline has begun."""
        resources, more = await self._engine.prepare(pipeline, options)
        attempts = LoadAttempts(self._engine.host)
        while True:
            worker = await self._engine.pool.take(resources, attempts=attempts)
            try:
                task = await self._loaded_in(worker, pipeline, options, more, is_restart=is_restart)
            except BaseException as error:
                self.drop(worker)
                if not isinstance(error, TaskLost) or not attempts.may_go_on_without(worker):
                    raise
            else:
                if worker.number >= self._engine.pool.first_current:
                    return task
                self.drop(worker)

    async def _loaded_in(
        self,
        worker: Worker,
        pipeline: dict[str, Any] | str | bytes,
        options: dict[str, Any],
        more: dict[str, Any],
        *,
        is_restart: bool,
    ) -> RemoteTask:
        self._engine.subscribe_worker(worker)
        self._engine.stderr.learn(options.get("env") or {})
        given = {"options": {**options, "use_existing": False}, "isRestart": is_restart, **more}
        text = None
        if isinstance(pipeline, dict):
            given["pipeline"] = pipeline
        else:
            text = pipeline.encode() if isinstance(pipeline, str) else pipeline
        described = await worker.ask_living("worker_load", given, text)
        kept = {name: value for name, value in options.items() if name not in ("token", "source", "use_existing")}
        task = worker.task = RemoteTask(described, kept, worker, self._engine.host.clock.now())
        if task.memory:
            worker.link.bound(worker.memory_limit)
            self._engine.watch_memory()
        return task

    def drop(self, worker: Worker) -> None:
        """End a worker whose task never began."""
        worker.task, worker.expects_end = None, True
        self._engine.host.spawn(worker.stop(STOP_MARGIN), f"end of worker {worker.number}")


FIRST_RELOAD_DELAY: Final = 1.0
"""Seconds before a pipeline of the operator is loaded a second time; the first time it is at once, each next one doubles."""

LAST_RELOAD_DELAY: Final = 60.0
"""The longest of these delays: a tool that always crashes takes little of the processor. After a run of this length the delays
begin anew."""


class OperatorFiles:
    """Loads files. A pipeline whose process was lost is loaded again: at once, then after growing delays while that goes on,
    and when its file changes.
    """

    def __init__(self, engine: TaskEngine) -> None:
        self._engine = engine
        self._host = engine.host
        self._delays: dict[str, float] = {}
        """Token → the seconds before the next attempt."""
        self._lost: dict[str, dict[str, Any]] = {}
        """Token → the arguments of the next attempt for a pipeline that was lost."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def load(self, **given: Any) -> RemoteTask:
        """Load a pipeline by the arguments of `RemoteLoader.load`."""
        task = await self._engine.loader.load(**given)
        self._engine.file_tokens.add(task.token)
        return task

    async def load_again(self, token: str, text: bytes | None) -> None:
        """Load a file that has changed, or the same pipeline, in the place of its task or of the one that was lost. Raises as
        `exchange` does.
        """
        async with self._turns[token]:
            while (given := self._lost.get(token)) is None:
                task = self._engine.task_of_file(token)
                try:
                    return await self._engine.exchange(task, text)
                except TaskNotRegistered:
                    if token not in self._lost:
                        raise
            await self.load(**(given if text is None else {**given, "pipeline": text}))
            del self._lost[token]

    def ended(self, task: RemoteTask, reason: str) -> None:
        """Load a pipeline of the operator again if its process was lost."""
        if reason != "lost" or not self._engine.is_of_file(task):
            return
        if self._host.clock.now() - task.began >= LAST_RELOAD_DELAY:
            self._delays.pop(task.token, None)
        self._come_back({"pipeline": task.pipeline, **task.options, "token": task.token})

    def _come_back(self, given: dict[str, Any]) -> None:
        token = given["token"]
        self._lost[token] = given
        delay = self._delays.get(token, 0.0)
        self._delays[token] = min(max(2 * delay, FIRST_RELOAD_DELAY), LAST_RELOAD_DELAY)
        log.warning("pipeline %s is loaded again in %g seconds", token, delay)

        def begin() -> None:
            self._host.spawn(self._come_back_now(token), f"pipeline {token} again")

        self._host.clock.call_later(delay, begin)

    async def _come_back_now(self, token: str) -> None:
        async with self._turns[token]:
            given = self._lost.pop(token, None)
            if given is None:
                return  # its file has changed meanwhile
            try:
                await self.load(**given)
            except ShuttingDown:
                return
            except TaskAlreadyRunning:
                self._engine.file_tokens.discard(token)
                log.warning("pipeline %s is not loaded again: a client has taken its token", token)
            except RrextError as error:
                log.error("pipeline %s cannot be loaded again: %s", token, error.message)
                self._come_back(given)
