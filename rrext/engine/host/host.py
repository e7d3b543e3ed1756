"""Services for running calls: the loop, the clock, threads, limits, deadlines, and event subscribers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.clock import Clock, LoopClock
from rrext.connections import NO_CONNECTIONS, Connections
from rrext.engine.events.hub import EventHub
from rrext.engine.host.deadline_timer import DeadlineTimer
from rrext.engine.host.eager_runner import EagerRunner
from rrext.engine.host.large_results import LargeResults
from rrext.engine.host.left_behind import LeftBehind
from rrext.engine.host.places import HeldPlace, LockTurn, Place, Places
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Tool
from rrext.errors import ShuttingDown, ToolError, ToolTimeout
from rrext.limits import Limits
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
        self.connections = NO_CONNECTIONS if connections is None else connections
        self.shared_connections = self.connections.shared()
        """The connections for pipelines and requests of callers that are not trusted."""
        self._providers: ProviderPool | None = None
        self.connections.known_to(self.redactor)
        self.deadlines = DeadlineTimer(self.clock, self.expire, self.post)
        self._tasks: set[asyncio.Task[None]] = set()
        self.tool_run: Any = None
        """The class of tool runs, set by `ToolCalls`, whose layer is above this one."""
        self.events = EventHub(self.clock, self.redactor, limits, watches_calls=callbacks is not SILENT, post=self.post)

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
