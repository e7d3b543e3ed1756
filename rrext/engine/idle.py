"""The end of what nobody uses: pipelines with a time to live, and open pipes."""

from __future__ import annotations

from collections.abc import Callable

from rrext.clock import Timer
from rrext.engine.calls.object_calls import ObjectCalls
from rrext.engine.host.host import Host
from rrext.engine.tasks.pipes import Pipes
from rrext.engine.tasks.registry import Tasks
from rrext.engine.tasks.task import Task


class IdleWatch:
    """Ends idle pipelines by `unload`, and reclaims idle pipes; asleep while nothing can become idle."""

    def __init__(
        self, host: Host, tasks: Tasks[Task], pipes: Pipes, objects: ObjectCalls, unload: Callable[[Task], object]
    ) -> None:
        self._clock = host.clock
        self._tasks = tasks
        self._pipes = pipes
        self._objects = objects
        self._unload = unload
        self._pipe_idle = host.limits.pipe_idle
        self._reaper: Timer | None = None
        self._timers: dict[Task, Timer] = {}

    def stop(self) -> None:
        """Watch pipes no more."""
        if self._reaper is not None:
            self._reaper.cancel()

    def watch_task(self, task: Task) -> None:
        """End a pipeline after its `ttl` idle seconds, if it has one."""
        if task.ttl:
            self._wait(task, task.ttl)

    def _wait(self, task: Task, seconds: float) -> None:
        self._timers[task] = self._clock.call_later(seconds, lambda: self._look_at(task))

    def forget_task(self, task: Task) -> None:
        """Watch a task no more that ends: its timer would keep it, with its pipeline, for the whole time."""
        if (timer := self._timers.pop(task, None)) is not None:
            timer.cancel()

    def _look_at(self, task: Task) -> None:
        if task.stopping or not task.ttl:
            return
        now = task.now()
        if task.is_busy:
            task.last_used = now
        idle = now - task.last_used
        if idle >= task.ttl:
            self._unload(task)
        else:
            self._wait(task, task.ttl / 4 if task.is_busy else task.ttl - idle)

    def watch_pipes(self) -> None:
        """Reclaim pipes that are idle too long, while any is open."""
        if self._reaper is None:
            self._reaper = self._clock.call_later(self._pipe_idle / 4, self._reap)

    def _reap(self) -> None:
        self._reaper = None
        now = self._clock.now()
        for pipe in self._pipes.idle_since(now - self._pipe_idle):
            self._objects.reclaim(pipe, "idle", idle=now - pipe.last_used)
        if self._pipes.any_known or any(task.places.used or task.places.waiting for task in self._tasks):
            self.watch_pipes()
