"""Loads pipelines in workers: those of clients, and those that the operator names, which run as long as the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.tasks.registry import FinishedTask, already_running
from rrext.errors import RrextError, ShuttingDown, TaskAlreadyRunning
from rrext.tasks.remote_task import RemoteTask

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.tasks.task_engine import TaskEngine
    from rrext.tasks.worker import Worker


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
        worker = await self._engine.pool.take()
        try:
            task = await self._loaded_in(worker, pipeline, options, is_restart=replaces is not None)
            same = self._engine.tasks.find_same(token, task)
            if same is not None and use_existing:
                self.drop(worker)
                return same
            if same is not None and same is not replaces:
                raise already_running()
            if remote and not isinstance(replaces, RemoteTask):
                self._engine.tasks.require_room(owner)
            if replaces is None:
                self._engine.begin(task)
        except BaseException:
            self.drop(worker)
            raise
        finally:
            self._engine.pool.warm_up()
        return task

    async def _loaded_in(
        self, worker: Worker, pipeline: dict[str, Any] | str | bytes, options: dict[str, Any], *, is_restart: bool
    ) -> RemoteTask:
        self._engine.subscribe_worker(worker)
        self._engine.stderr.learn(options.get("env") or {})
        given = {"options": {**options, "use_existing": False}, "isRestart": is_restart}
        text = None
        if isinstance(pipeline, dict):
            given["pipeline"] = pipeline
        else:
            text = pipeline.encode() if isinstance(pipeline, str) else pipeline
        described = await worker.ask_living("worker_load", given, text)
        kept = {name: value for name, value in options.items() if name not in ("token", "source", "use_existing")}
        task = worker.task = RemoteTask(described, kept, worker, self._engine.host.clock.now())
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

log: Final = logging.getLogger("rrext.tasks")


class OperatorFiles:
    """Loads files. A pipeline whose process was lost is loaded again: at once, then after growing delays while that goes on."""

    def __init__(self, host: Host, loader: RemoteLoader) -> None:
        self._host = host
        self._loader = loader
        self._tokens: set[str] = set()
        self._delays: dict[str, float] = {}
        """Token → the seconds before the next attempt."""

    async def load(self, **given: Any) -> RemoteTask:
        """Load a pipeline by the arguments of `RemoteLoader.load`."""
        task = await self._loader.load(**given)
        self._tokens.add(task.token)
        return task

    def ended(self, task: RemoteTask, reason: str) -> None:
        """Load a pipeline of the operator again if its process was lost. After a restart it is still the operator's."""
        if task.scope is not None or task.token not in self._tokens or reason == "restarted":
            return
        if reason != "lost":
            self._tokens.discard(task.token)
            return
        if self._host.clock.now() - task.began >= LAST_RELOAD_DELAY:
            self._delays.pop(task.token, None)
        self._come_back({"pipeline": task.pipeline, **task.options, "token": task.token})

    def _come_back(self, given: dict[str, Any]) -> None:
        token = given["token"]
        delay = self._delays.get(token, 0.0)
        self._delays[token] = min(max(2 * delay, FIRST_RELOAD_DELAY), LAST_RELOAD_DELAY)
        log.warning("pipeline %s is loaded again in %g seconds", token, delay)

        def begin() -> None:
            self._host.spawn(self._loaded_again(given), f"pipeline {token} again")

        self._host.clock.call_later(delay, begin)

    async def _loaded_again(self, given: dict[str, Any]) -> None:
        try:
            await self.load(**given)
        except ShuttingDown:
            return
        except TaskAlreadyRunning:
            self._tokens.discard(given["token"])
            log.warning("pipeline %s is not loaded again: a client has taken its token", given["token"])
        except RrextError as error:
            log.error("pipeline %s cannot be loaded again: %s", given["token"], error.message)
            self._come_back(given)
