"""Threads that run the calls of sync tools and of libraries: a pool, and a private thread of a node.

Threads are daemons, because a stuck tool must not keep the process alive. The pool reuses them last in, first out: the stack of
the thread that finished last is still in the cache. A hop costs one futex wake, a third of `anyio.to_thread`, and the thread
itself delivers the result, so the event loop is not woken for it.

Each job runs in an empty context of its own: a `ContextVar` that one call sets is unset in the next.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from rrext.errors import Unavailable
from rrext.limits import HEAPS, MAX_PARSE_FAILURES, MIB, THREAD_SWITCH_INTERVAL

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from asyncio import Future as AsyncFuture
    from concurrent.futures import Future
    from types import ModuleType

ARENA_MAX: Final = "MALLOC_ARENA_MAX"
FEW_HEAPS: Final = {ARENA_MAX: str(HEAPS)}
"""A variable for a new process that will have many threads: told at its start, glibc costs it no library to be told by."""
MUCH_DROPPED: Final = MIB
"""Bytes that a lost peer did not read, above which free memory is given back: a crowd of such peers leaves hundreds of MiB."""
TRIM_DELAYS: Final = 1.0, 7.0
"""Seconds until it is, and is again: their calls end meanwhile, and many peers cost few acts of tens of milliseconds."""

T = TypeVar("T")
Job = Callable[[], object]

log: Final = logging.getLogger("rrext.threads")


class NoThread(Unavailable):
    """The system refuses to start a thread, and without it nothing goes on."""

    def __init__(self) -> None:
        super().__init__("the system gives no thread, and one is needed: raise the limits for it (ulimit -u, ulimit -v)")


def start_thread(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """Start a thread that does not keep the process alive. Raises `NoThread`."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError):
        raise NoThread from None
    return thread


def prepare_for_many() -> None:
    """Let this process have many threads: they take short turns, and share few heaps, unless the environment says how many."""
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL)
    told = os.environ.get(ARENA_MAX)
    if told is None:
        arena_max = -8
        _call_glibc("mallopt", arena_max, HEAPS)
    elif told == FEW_HEAPS[ARENA_MAX]:  # the children of this process may want more
        del os.environ[ARENA_MAX]


def give_back_memory() -> None:
    """Give the system what is free between the blocks of the heaps, which may take tens of milliseconds."""
    _call_glibc("malloc_trim", 0)


class _Trim:
    """Gives memory back after much was dropped: the C library keeps it else, between what is still in use."""

    _due: ClassVar[set[float]] = set()
    """The delays whose acts are to come."""
    _has_cycles: ClassVar[bool] = False
    """Whether the last act collects garbage before, which stops all else for a tenth of a second or more."""

    @classmethod
    def soon(cls, loop: AbstractEventLoop, *, in_cycles: bool) -> None:
        """Give back once after each delay for all that is dropped meanwhile."""
        if in_cycles:
            cls._has_cycles = True
        for delay in TRIM_DELAYS:
            if delay not in cls._due:
                cls._due.add(delay)
                loop.call_later(delay, cls._begin, delay)

    @classmethod
    def _begin(cls, delay: float) -> None:
        cls._due.discard(delay)
        if cls._has_cycles and delay == TRIM_DELAYS[-1]:
            cls._has_cycles = False
            gc.collect()
        with suppress(NoThread):
            start_thread(give_back_memory, "rrext-trim")


def note_dropped(loop: AbstractEventLoop, nbytes: int, *, in_cycles: bool = False) -> None:
    """Note that a peer is lost who did not read so many bytes, or sent them: of many, free memory is given back. `in_cycles`
    if code of others keeps them in cycles, which may not be collected for hours.
    """
    if nbytes > MUCH_DROPPED:
        _Trim.soon(loop, in_cycles=in_cycles)


def _call_glibc(name: str, *numbers: int) -> None:
    """Call a function of glibc, without the interpreter's lock; nothing with another C library."""
    if sys.platform == "linux":
        with suppress(ImportError, OSError):
            import _ctypes  # a fifth of the time and half of the memory of `ctypes`

            library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType]
            _ctypes.call_function(_ctypes.dlsym(library, name), numbers)


def imported(name: str) -> ModuleType:
    """A module, imported on a thread.

    CPython 3.11 may fail to parse a text while another thread does, as one that formats a traceback; anyio parses itself at its
    import. The import is tried again then.
    """
    for _ in range(MAX_PARSE_FAILURES):
        try:
            return import_module(name)
        except SystemError:
            log.debug("importing %s again", name, exc_info=True)
    return import_module(name)


class Workers:
    """A pool with as many threads as there are jobs at once; limits of the callers bound that number.

    `run` never blocks and never refuses: if the system gives no more threads, a job waits for a running one. A job must not
    raise; an exception of a job is logged as a bug.
    """

    __slots__ = ("_started", "backlog", "is_fork", "is_stopped", "parked")

    def __init__(self) -> None:
        self.parked: list[_Worker] = []
        self.backlog: deque[Job] = deque()
        self.is_stopped: bool = False
        self.is_fork: bool = False
        """Whether this process is a forked child: a worker that finishes its job there ends the process."""
        self._started = 0

    def run(self, job: Job) -> None:
        """Run `job` on a thread, now. Raises `NoThread` if the pool has no thread and the system gives none."""
        try:
            worker = self.parked.pop()  # atomic: two callers never get the same thread
        except IndexError:
            worker = self._start(job)
            if worker is None:
                return
        worker.give(job)

    def run_now(self, job: Job) -> bool:
        """Run `job` on an idle or new thread; False if there is none."""
        try:
            worker = self.parked.pop()
        except IndexError:
            worker = self._new()
        if worker is not None:
            worker.give(job)
        return worker is not None

    def _new(self) -> _Worker | None:
        try:
            worker = _Worker(self, f"rrext-worker-{self._started + 1}")
        except NoThread:
            return None
        self._started += 1
        return worker

    def _start(self, job: Job) -> _Worker | None:
        """A new thread for `job`; None if the system gives none and the job waits in the backlog."""
        worker = self._new()
        if worker is None:
            if not self._started:
                raise NoThread
            log.warning("the system gives no more threads: a call waits for one of %d", self._started)
            self.backlog.append(job)
            try:
                self.parked.pop().give(_nothing)  # a worker may have parked before it could see the job
            except IndexError:
                pass
        return worker

    def stop(self) -> None:
        """End idle threads now and busy ones after their job. A later `run` still gets a thread."""
        self.is_stopped = True
        while self.parked:
            try:
                self.parked.pop().give(None)
            except IndexError:  # another thread took the last one for a job
                return

    def __repr__(self) -> str:
        return f"<Workers started={self._started} parked={len(self.parked)}>"


class _Worker:
    __slots__ = ("_all", "_job", "_wake")

    def __init__(self, workers: Workers, name: str) -> None:
        self._all = workers
        self._wake = threading.Lock()
        self._wake.acquire()
        self._job: Job | None = None
        start_thread(self._main, name)

    def give(self, job: Job | None) -> None:
        self._job = job
        self._wake.release()

    def _main(self) -> None:
        while True:
            self._wake.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            while job is not None:
                Context().run(_guarded, job)
                if self._all.is_fork:
                    os._exit(0)
                job = self._waiting_job() if self._all.backlog else None
            if self._all.is_stopped:
                return
            self._all.parked.append(self)

    def _waiting_job(self) -> Job | None:
        try:
            return self._all.backlog.popleft()
        except IndexError:  # another thread took it
            return None


async def shielded(work: AsyncFuture[T]) -> T:
    """The result of a future or a task, which goes on when the caller is cancelled.

    This is `asyncio.shield`, but for one thing: since Python 3.14 that logs a failure which comes after the cancel.
    """
    from asyncio import wait

    if not work.done():
        work.add_done_callback(_seen)
        await wait((work,))
    return work.result()


def _seen(work: AsyncFuture[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log one as never retrieved when no caller waits any more."""
    if not work.cancelled():
        work.exception()


async def in_thread(workers: Workers, function: Callable[..., T], *args: Any) -> T:
    """Run a function on a thread of the pool, and return or raise its outcome, from a coroutine.

    A cancelled caller waits no longer; the thread goes on to its end.
    """
    import asyncio  # the other users of threads need no loop

    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = function(*args)
        except BaseException as error:
            failure = RuntimeError(str(error)) if isinstance(error, StopIteration) else error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            log.debug("the loop is closed: nobody waits for %r", function)

    workers.run(work)
    return await outcome


class OwnThread:
    """One thread that runs its jobs in order, for libraries whose objects are bound to the thread that made them."""

    __slots__ = ("_changed", "_inner", "_is_stopped", "_jobs")

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._inner: deque[Job] = deque()
        self._is_stopped = False
        start_thread(self._main, name)

    @staticmethod
    def current() -> OwnThread | None:
        """The `OwnThread` of the calling thread, if it has one."""
        return getattr(_here, "own", None)

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is this one."""
        return self.current() is self

    def run(self, job: Job) -> None:
        """Run `job` on the thread, after the jobs before it."""
        self._put(self._jobs, job)

    def run_inner(self, job: Job) -> None:
        """Run a `job` that a running call waits for: before other jobs, and also inside `serve_until`."""
        self._put(self._inner, job)

    def _put(self, jobs: deque[Job], job: Job) -> None:
        with self._changed:
            jobs.append(job)
            self._changed.notify()

    def serve_until(self, future: Future[Any]) -> None:
        """On this thread, inside a job: run inner jobs until `future` is done.

        The waiting job may depend on an inner job, through any number of threads and nodes. It never depends on the other jobs,
        and running those here would pile them up on this stack.
        """
        future.add_done_callback(self._wake)
        while (job := self._before(future, [self._inner])) is not None:
            self.serve(job)
            del job  # a waiting thread must not keep a call's input and result alive

    def next_job(self, future: Future[Any]) -> Job | None:
        """On this thread, inside a job: wait for the next job of any kind, for `serve`; None once `future` is done.

        For a job that needs a resource that the next job may hold. Callers keep the line short, because jobs pile up on this
        stack.
        """
        future.add_done_callback(self._wake)
        return self._before(future, [self._inner, self._jobs])

    def _before(self, future: Future[Any], lines: list[deque[Job]]) -> Job | None:
        with self._changed:
            while not future.done():
                for line in lines:
                    if line:
                        return line.popleft()
                self._changed.wait()
        return None

    @staticmethod
    def serve(job: Job) -> None:
        """On this thread, inside a job: run another one to its end."""
        Context().run(_guarded, job)

    def _wake(self, _: Future[Any]) -> None:
        with self._changed:
            self._changed.notify()

    def stop(self) -> None:
        """End the thread after the jobs that it has."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def _main(self) -> None:
        _here.own = self
        while (job := self._next()) is not None:
            Context().run(_guarded, job)
            del job  # see `serve_until`

    def _next(self) -> Job | None:
        with self._changed:
            while not (self._inner or self._jobs):
                if self._is_stopped:
                    return None
                self._changed.wait()
            return (self._inner or self._jobs).popleft()

    def __repr__(self) -> str:
        return f"<OwnThread jobs={len(self._jobs)} inner={len(self._inner)}{' stopped' if self._is_stopped else ''}>"


_here = threading.local()  # the OwnThread of this thread


def _guarded(job: Job) -> None:
    try:
        job()
    except BaseException:  # a thread that dies would lose its place for ever
        log.exception("a job failed outside of its call")


def _nothing() -> None:
    """Do nothing: a job that only makes a thread look at the backlog."""
