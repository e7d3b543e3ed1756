"""The interface of an engine: a face decodes an operation and calls `Engine.start`, or awaits `Engine.ask`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from rrext.engine.interface.call import ANONYMOUS, Call, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import Cancelled, RrextError

if TYPE_CHECKING:
    import asyncio

    from rrext.engine.events.hub import EventSink, Subscription
    from rrext.engine.events.records import Filter
    from rrext.engine.interface.clients import ConnectedClient
    from rrext.engine.interface.task_identity import TaskIdentity, ToolNames
    from rrext.engine.interface.totals import CallTimes, Totals
    from rrext.tools.context import CancelReason


class CallBatch:
    """Calls that a face starts before the loop's next iteration, while `is_collecting`. With `jobs` then, it runs `end`."""

    __slots__ = ("is_collecting", "jobs")

    def __init__(self, jobs: Any = ()) -> None:
        self.is_collecting = False
        self.jobs = jobs

    def end(self) -> None:
        """Run those calls of the batch that can run at once."""


class Engine:
    """Runs operations. Subclasses implement `start`; the rest has sensible defaults."""

    batch: CallBatch = CallBatch()
    """The batch of calls in which a face may start several."""

    times: CallTimes | None = None
    """The times of its calls, if somebody asks for them."""

    @cached_property
    def clients(self) -> dict[str, ConnectedClient]:
        """The connected clients, by connection id. A face adds each, and removes it at its end."""
        return {}

    def start(self, call: Call, *, alone: bool = False) -> bool:
        """Begin the call; it is answered once, perhaps before this returns. On the event loop's thread; it never blocks.

        Returns whether the call is quick: it need not wait, and is so short that a hop to another thread would cost more.
        `alone` says that no other call waits for this thread meanwhile. Raises nothing.
        """
        raise NotImplementedError

    def start_here(self, call: Call, *, alone: bool = False) -> bool:
        """Begin the call on the thread that reads requests, which may block: run a quick call to its end, give a slow `def`
        tool to a worker. False leaves the call as it is, for `start`. Raises nothing.
        """
        return False

    def withdraw(self, operation: Operation, caller: Caller, reason: CancelReason = "cancelled") -> None:
        """Let a `write` or a `close` that was stopped before it could begin have its effect on the pipe: the pipe fails or is
        freed. On the event loop's thread.
        """

    async def ask(
        self, operation: Operation, caller: Caller = ANONYMOUS, *, data: bytes | None = None, feed: Feed | None = None
    ) -> tuple[bytes, bytes | None]:
        """Run an operation and return its encoded body, with the raw bytes of a `bytes` result. Raises the operation's error.

        For callers in this process, on the engine's loop. Cancelling the caller's task cancels the operation.
        """
        import asyncio  # a command that queries another process has no loop

        answer = AwaitedAnswer(asyncio.get_running_loop())
        call = Call(operation, answer, caller, data=data, feed=feed)
        self.start(call)
        try:
            return await answer.future
        except asyncio.CancelledError:
            call.cancel("cancelled", Cancelled())
            raise

    def subscribe(self, filter: Filter, sink: EventSink) -> Subscription:
        """Hand every event that fits the filter to `sink(event)`, until the subscription is cancelled. From any thread.

        Events are the records of `rrext.engine.events.records`, plain data that JSON can hold; times are in seconds, sizes
        in bytes, secrets are replaced by their names. The sink is called on the thread of the event, perhaps on several at
        once; it must not block, because the call waits for it. A sink that raises is logged and gets no more events. The
        events of one call are in order, from `CallStarted` to one `CallEnded`, which comes before the answer is sent; so are
        those of one pipe, from `PipeOpened` to `PipeClosed`, and of one task. Events of different calls have no order. Of
        calls and pipes that began before the subscription the sink gets the later events. Calls that are refused or
        cancelled before the engine has them have no events. The engine queues nothing: a slow sink needs its own bounded
        queue. Raises `InvalidArguments` for a kind that does not exist.
        """
        raise NotImplementedError

    def task_with_key(self, public_token: str) -> TaskIdentity | None:
        """The running pipeline that a public token is the key of, for sending data to it; None for a wrong one."""
        raise NotImplementedError

    async def text_type(self, token: str, caller: Caller) -> str:
        """The MIME type of a text for a pipeline. Raises `TaskNotRegistered` if the caller sees none of this token."""
        raise NotImplementedError

    def tool_names(self) -> list[ToolNames]:
        """What the tools of each pipeline are called."""
        raise NotImplementedError

    async def totals(self) -> Totals:
        """The numbers of all pipelines, also of those that have ended."""
        raise NotImplementedError

    def disconnect(self, connection_id: str) -> None:
        """Free the pipes of a connection that ended. The face must have cancelled its calls before."""

    async def aclose(self) -> None:
        """Unload all pipelines."""


class AwaitedAnswer:
    """The answer for a coroutine of this process: takes it in any thread, and settles `future` on the loop."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.future: asyncio.Future[tuple[bytes, bytes | None]] = loop.create_future()

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._settle, (body, tail), None)

    def fail(self, call: Call, error: RrextError) -> None:
        self._loop.call_soon_threadsafe(self._settle, None, error)

    def _settle(self, value: tuple[bytes, bytes | None] | None, error: RrextError | None) -> None:
        if self.future.done():
            return
        if value is not None:
            self.future.set_result(value)
        elif error is not None:
            self.future.set_exception(error)
