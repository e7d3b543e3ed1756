"""Where a sync callable meets a thread.

Threads are daemons, because a stuck tool must not keep the process alive. They are reused last in, first out: the
thread that just finished is the one whose stack is warm. A hop costs one futex wake, about a third of what
`anyio.to_thread` costs, and results are delivered by the thread itself, so the event loop is not woken for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["OwnThread", "Workers"]

Job = Callable[[], None]

log: Final = logging.getLogger("rrext.workers")


class Workers:
    """As many threads as there are jobs at once; callers bound that by their own limits.

    `run` never blocks and never refuses. A job must not raise; one that does is logged as a bug.
    """

    __slots__ = ("_parked", "_started")

    def __init__(self) -> None:
        self._parked: list[_Worker] = []
        self._started = 0

    def run(self, job: Job) -> None:
        """Run `job` on a thread, now."""
        try:
            worker = self._parked.pop()  # atomic: two callers never get the same thread
        except IndexError:
            self._started += 1
            worker = _Worker(self._parked, f"rrext-worker-{self._started}")
        worker.give(job)

    def __repr__(self) -> str:
        return f"<Workers started={self._started} parked={len(self._parked)}>"


class _Worker:
    __slots__ = ("_job", "_parked", "_wake")

    def __init__(self, parked: list[_Worker], name: str) -> None:
        self._parked = parked
        self._wake = threading.Lock()
        self._wake.acquire()
        self._job: Job | None = None
        threading.Thread(target=self._main, name=name, daemon=True).start()

    def give(self, job: Job) -> None:
        self._job = job
        self._wake.release()

    def _main(self) -> None:
        while True:
            self._wake.acquire()
            job, self._job = self._job, None
            if job is not None:
                _guarded(job)
            del job  # a parked thread must not keep a call's input and result alive
            self._parked.append(self)


class OwnThread:
    """One thread that runs its jobs in order: for libraries that are bound to the thread which made them."""

    __slots__ = ("_jobs",)

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        threading.Thread(target=self._main, name=name, daemon=True).start()

    @staticmethod
    def current() -> OwnThread | None:
        """The object whose thread this is, if it is one's."""
        return getattr(_here, "own", None)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return self.current() is self

    def run(self, job: Job) -> None:
        """Run `job` on the thread, after those before it."""
        self._jobs.put(job)

    def serve_until(self, future: Future[Any]) -> None:
        """On this thread, inside a job: run further jobs until `future` is done."""
        done = threading.Event()  # a job that does nothing but end the wait of this very call
        future.add_done_callback(lambda _: self._jobs.put(done.set))
        while not done.is_set():
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)
                return
            _guarded(job)

    def stop(self) -> None:
        """End the thread after the jobs it has."""
        self._jobs.put(None)

    def _main(self) -> None:
        _here.own = self
        while (job := self._jobs.get()) is not None:
            _guarded(job)
            del job


_here = threading.local()  # which OwnThread this thread belongs to: a fact of the thread, not of the process


def _guarded(job: Job) -> None:
    try:
        job()
    except BaseException:  # a thread that dies would lose its place for ever
        log.exception("a job failed outside of its call")
