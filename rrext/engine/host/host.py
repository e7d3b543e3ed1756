"""The surroundings of running calls: `Host` has the loop, the clock, threads, limits, and the hub of events.

`DeadlineTimer` ends calls at their deadlines, `EagerRunner` runs the first steps of async tools, `ThreadWork` is work in a
thread that the loop can abandon.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from itertools import count
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from weakref import ref

from rrext.clock import Clock, LoopClock, Timer
from rrext.connections import NO_CONNECTIONS, Connections
from rrext.engine.events.hub import EventHub
from rrext.engine.host.large_results import LargeResults
from rrext.engine.host.left_behind import LeftBehind
from rrext.engine.host.places import HeldPlace, LockTurn, Place, Places
from rrext.engine.interface.call import Call
from rrext.engine.interface.engine import CallBatch
from rrext.engine.interface.operations import Tool
from rrext.errors import ShuttingDown, ToolError, ToolTimeout
from rrext.limits import MIN_SWEEP_ENTRIES, Limits
from rrext.secrets.redaction import Redactor
from rrext.threads import OwnThread, Workers, in_thread
from rrext.tools.context import SILENT, CancelToken, ToolCallbacks

if TYPE_CHECKING:
    from rrext.connections import Connection
    from rrext.providers.provider import ProviderPool, ToolProvider


T = TypeVar("T")

log: Final = logging.getLogger("rrext.engine")


class Host:
    """Services for the calls of one engine, on one asyncio loop."""

    __slots__ = (
        "_providers", "_tasks", "callbacks", "clock", "connections", "deadlines", "engine", "events", "limits", "loop",
        "packages", "redactor", "results", "runner", "shared_connections", "tool_run", "wait", "workers",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: Limits,
        clock: Clock | None = None,
        callbacks: ToolCallbacks = SILENT,
        redactor: Redactor | None = None,
        wait: float | None = None,
        connections: Connections | None = None,
        packages: Sequence[str] = (),
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.clock: Clock = clock or LoopClock(loop)
        self.workers = Workers()
        self.runner = EagerRunner(loop)
        self.results = LargeResults(self.clock, of_user=limits.max_user_bytes)
        self.callbacks = callbacks
        self.redactor = redactor or Redactor()
        self.wait = wait
        self.packages = packages
        self.engine: Any = None
        """The engine itself, whose layer is above this one."""
        self._providers: ProviderPool | None = None
        self.use(NO_CONNECTIONS if connections is None else connections)
        self.deadlines = DeadlineTimer(self.clock, self.expire, self.post)
        self._tasks: set[asyncio.Task[None]] = set()
        self.tool_run: Any = None
        """The class of tool runs, set by `ToolCalls`, whose layer is above this one."""
        self.events = EventHub(self.clock, self.redactor, limits, watches_calls=callbacks is not SILENT, post=self.post)

    def use(self, connections: Connections) -> None:
        """Take other connections, before the first pipeline."""
        self.connections = connections
        self.shared_connections = connections.shared()
        """The connections for pipelines and requests of callers that are not trusted."""
        connections.known_to(self.redactor)

    def post(self, action: Callable[..., object], *args: Any) -> None:
        """Run `action` on the loop's thread soon. Nothing happens if the loop is closed: no call is left to notify."""
        try:
            self.loop.call_soon_threadsafe(action, *args)
        except RuntimeError:
            log.debug("the loop is closed: %r is not run", action)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function that imports or blocks on a thread, and return or raise its outcome."""
        return await in_thread(self.workers, function, *args)

    async def provider_of(self, connection: Connection) -> ToolProvider:
        """The provider of tools behind a connection, made at its first use."""
        if self._providers is None:
            from rrext.providers.provider import ProviderPool  # few pipelines have tools outside

            self._providers = ProviderPool(self)
        return await self._providers.get(connection)

    def spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        """Run a coroutine that reports its own failures; its task is referenced until it is done."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def limit(self, call: Call, own_timeout: float | None = None) -> float | None:
        """Set and return the call's deadline on the clock: the shorter of the request's and the tool's timeout."""
        seconds = call.operation.timeout
        if seconds is None or (own_timeout is not None and own_timeout < seconds):
            seconds = own_timeout
        if seconds is None:
            return None
        call.seconds = seconds
        call.deadline = (call.received if call.received is not None else self.clock.now()) + seconds
        return call.deadline

    def watch(self, call: Call) -> None:
        """Stop the call at its deadline, if it has one."""
        if call.deadline is not None:
            self.deadlines.add(call.deadline, call)

    def is_late(self, call: Call) -> bool:
        """Whether the caller's deadline passed before the call began."""
        asked = call.operation.timeout
        return asked is not None and call.received is not None and self.clock.now() >= call.received + asked

    async def granted(self, turn: Place | HeldPlace | LockTurn) -> None:
        """Wait until the turn is granted. The caller releases it, also after a cancel."""
        if not turn.granted:
            await self.woken(turn.when_granted)

    async def woken(self, ask: Callable[[Callable[[], None]], bool]) -> None:
        """Pass a wake function to `ask` and wait until it is called, in any thread; return at once if `ask` returns False."""
        woken: asyncio.Future[None] = self.loop.create_future()
        if ask(lambda: self.post(_wake, woken)):
            await woken

    def left_behind(self, places: Places) -> LeftBehind:
        """The record of answered calls that still hold some of `places`. On the loop's thread."""
        if places.left_behind is None:
            places.left_behind = LeftBehind(places, self)
        return places.left_behind

    def from_thread(self, work: Coroutine[Any, Any, T], token: CancelToken) -> T:
        """Run a coroutine on the loop from a worker thread and return its result; stop waiting when `token` is cancelled.

        A node's own thread serves its queue meanwhile, because the coroutine may need a tool that runs only there.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise ShuttingDown("the server has ended") from None
        cancel = future.cancel
        token.on_cancel(cancel)
        try:
            own = OwnThread.current()
            if own is not None:
                own.serve_until(future)
            return future.result()
        except FutureCancelled:
            token.check()
            raise ToolError("what was waited for was cancelled from inside") from None
        finally:
            token.forget(cancel)  # otherwise each wait of a tool would leave a listener behind
            del future, cancel  # breaks a cycle: the failure's traceback references this frame

    def expire(self, call: Call) -> None:
        """Answer a call whose deadline has passed, and stop its run."""
        call.cancel("timeout", self.lateness(call))

    def lateness(self, call: Call) -> ToolTimeout:
        """Make the error of a call that missed its deadline."""
        operation = call.operation
        what = f'Tool "{operation.tool}"' if isinstance(operation, Tool) else type(operation).__name__.lower()
        seconds = call.seconds or operation.timeout
        return ToolTimeout(f"{what} did not finish within {seconds:g} s", data={"timeout": seconds})

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with an error nobody took", task.get_name(), exc_info=error)

    async def aclose(self) -> None:
        """Close the providers, stop the deadline timer and the workers, and cancel the spawned tasks; a task that does not
        end is left behind."""
        if self._providers is not None:
            await self._providers.aclose()
        self.deadlines.stop()
        self.runner.stop()
        self.workers.stop()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=self.limits.drain)
            for task in stuck:
                log.warning("%s does not end", task.get_name())
        self.events.close()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


class DeadlineTimer:
    """Calls `expire(call)` on the loop's thread for each call that is unsettled at its deadline: one timer for the earliest,
    for any number of calls.

    Most calls are answered long before their deadline. One loop timer per call would be made and cancelled for nothing, and
    from other threads. Here a settled call is dropped when its deadline comes, or when half of all entries are settled. Calls
    are referenced weakly, so that a call's arguments, which may be megabytes, are not kept until its deadline.
    """

    def __init__(self, clock: Clock, expire: Callable[[Call], None], call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._expire = expire
        self._call_soon = call_soon
        self._heap: list[tuple[float, int, ref[Call]]] = []
        self._numbers = count()
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._wakes_at = float("inf")
        self._sweep_at = MIN_SWEEP_ENTRIES
        self._is_stopped = False

    def add(self, when: float, call: Call) -> None:
        """Watch `call` until the time `when` of the clock. From any thread."""
        with self._lock:
            heappush(self._heap, (when, next(self._numbers), ref(call)))
            if len(self._heap) > self._sweep_at:
                self._heap = [entry for entry in self._heap if _open(entry[2])]
                heapify(self._heap)
                self._sweep_at = max(MIN_SWEEP_ENTRIES, 2 * len(self._heap))
            earlier = when < self._wakes_at
            if earlier:
                self._wakes_at = when
        if earlier:
            self._call_soon(self._arm)

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, even of an answered call: otherwise each call would set the timer anew."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._is_stopped:
                return
            self._wakes_at = self._heap[0][0] if self._heap else float("inf")
            wakes_at = self._wakes_at
        self._timer = None
        if wakes_at != float("inf"):
            self._timer = self._clock.call_later(max(0.0, wakes_at - self._clock.now()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.now()
        due: list[ref[Call]] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heappop(self._heap)[2])
            while self._heap and not _open(self._heap[0][2]):
                heappop(self._heap)
        for entry in due:
            call = _open(entry)
            if call is not None:
                self._ring_for(call)
        self._arm()

    def _ring_for(self, call: Call) -> None:
        try:
            self._expire(call)
        except Exception:
            log.exception("%r could not be stopped at its deadline", call)  # go on with the others

    def stop(self) -> None:
        """Cancel the timer."""
        with self._lock:
            self._heap.clear()
            self._is_stopped = True
            self._wakes_at = float("-inf")  # so no deadline is earlier
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _open(entry: ref[Call]) -> Call | None:
    """The call behind a weak reference, if it is not answered yet."""
    call = entry()
    return call if call is not None and not call.settled else None


class Runnable(Protocol):
    """An async call that is ready to run. `task` is the task that runs it."""

    task: asyncio.Task[None] | None

    def start(self) -> None:
        """Run in a task of its own."""
        ...

    async def main(self) -> None:
        """Run in the current task, which is `task`. Raises nothing."""
        ...


class EagerRunner(CallBatch):
    """Collects async calls of a batch, and runs their first steps at its end, without waiting for another iteration of the
    loop. On the loop's thread.

    An asyncio task begins one iteration after it was made, and most async tools of a tool server finish in their first step. So
    one task, the fiber, waits for work. After a batch of requests was read, the fiber is woken inside the callback that read
    them, and awaits one tool after the other. A tool that suspends keeps the fiber as its own task, with cancel, timeouts,
    task groups and its own context, and another fiber is made. The remaining calls of the batch get tasks of their own.

    This needs a future that wakes its waiter at once, and the task's reference count, which shows whether a tool kept the
    task. Python 3.11 has no eager tasks, and a task for each call costs 4 µs more of 43 when calls come one at a time, and a
    fifth more of the server's time with 64 in flight (one core, November 2026).
    """

    __slots__ = ("_fiber", "_loop")

    jobs: deque[Runnable]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(deque())
        self._loop = loop
        self._fiber: _Fiber | None = None

    def add(self, job: Runnable) -> None:
        """Run `job` with the current batch; outside of a batch, in a task of its own."""
        if self.is_collecting:
            self.jobs.append(job)
        else:
            job.start()

    def end(self) -> None:
        """Run the jobs until one suspends, and give the others tasks of their own."""
        jobs = self.jobs
        fiber = self._fiber
        if fiber is not None and fiber.is_waiting and asyncio.current_task(self._loop) is None:
            fiber.step()
        if fiber is None or fiber.is_spent:
            self._fiber = _Fiber(self._loop, jobs)  # usable from the next iteration on
        while jobs:
            jobs.popleft().start()

    def stop(self) -> None:
        """Cancel the waiting fiber."""
        if self._fiber is not None:
            self._fiber.task.cancel()


class _Fiber:
    """A task that waits for jobs, and is stepped by hand while no job suspends."""

    __slots__ = ("_bell", "_is_stepped", "_jobs", "is_spent", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, jobs: deque[Runnable]) -> None:
        self._jobs = jobs
        self._bell = _Bell(loop)
        self._is_stepped = False
        self.is_spent = False
        self.task: asyncio.Task[None] = asyncio.Task(self._main(), loop=loop, name="rrext-fiber")

    @property
    def is_waiting(self) -> bool:
        """Whether the task waits for jobs, and is not suspended inside a job."""
        return self._bell.is_awaited

    def step(self) -> None:
        """Run the jobs until all are done or one suspends."""
        self._is_stepped = True
        try:
            self._bell.ring()
        finally:
            self._is_stepped = False
            self.is_spent = not self.is_waiting

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        untouched = copy_context()
        try:
            while True:
                await self._bell
                mine = getrefcount(task)  # a job that kept the task may cancel it later, and must not hit another job
                while self._jobs:
                    job = self._jobs.popleft()
                    job.task = task
                    await job.main()
                    job.task = None
                    try:
                        is_as_it_was = not task.cancelling() and copy_context() == untouched
                    except Exception:  # comparing the values of context variables may raise
                        is_as_it_was = False
                    if not (is_as_it_was and self._is_stepped) or getrefcount(task) > mine:
                        return
        finally:
            self.is_spent = True


class _Bell:
    """A future-like object whose waiter runs inside `ring`, not one iteration of the loop later.

    It implements asyncio's protocol for foreign futures: the blocking mark, the loop, a done callback, a result.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_is_cancelled", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._is_cancelled = False

    @property
    def is_awaited(self) -> bool:
        return self._wake is not None and not self._is_cancelled

    def ring(self) -> None:
        wake, self._wake = self._wake, None
        assert wake is not None
        assert self._context is not None
        self._context.run(wake, self)

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context) -> None:
        self._wake = callback
        self._context = context

    def result(self) -> None:
        if self._is_cancelled:
            raise asyncio.CancelledError

    def cancel(self, msg: object = None) -> bool:
        if not self._is_cancelled:
            self._is_cancelled = True
            self._loop.call_soon(self.ring)
        return True


class ThreadWork(Generic[T]):
    """A callable that runs at most once, and can be abandoned.

    `give_up` before the begin withdraws the work. After the begin, `given_up` asks the work to stop where it can, and
    `returned` waits for its end.
    """

    __slots__ = ("_unclaimed", "_wakers", "_work", "finished", "given_up")

    def __init__(self, work: Callable[[ThreadWork[T]], T]) -> None:
        self._work = work
        self._unclaimed = [True]
        self._wakers: list[Callable[[], None]] = []
        self.finished = False
        self.given_up = False

    def __call__(self) -> T | None:
        """Run the work, in a thread."""
        try:
            self._unclaimed.pop()  # atomic: begun or withdrawn, never both
        except IndexError:
            return None
        try:
            return self._work(self)
        finally:
            self.finished = True
            for wake in self._wakers:
                wake()

    def give_up(self) -> bool:
        """Abandon the work; True if it still runs."""
        self.given_up = True
        try:
            self._unclaimed.pop()
        except IndexError:
            return not self.finished
        return False

    async def returned(self) -> None:
        """Wait until the work no longer runs."""
        loop = asyncio.get_running_loop()
        back = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(back.set)
            except RuntimeError:
                pass  # the loop is closed, so nobody waits on it

        # Added before `finished` is read: the thread sees the waker, or this coroutine sees `finished`.
        self._wakers.append(wake)
        if not self.finished:
            await back.wait()
