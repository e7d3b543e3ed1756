"""The engine as its callers see it: a face decodes an operation and calls `Engine.start`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrext.engine.interface.call import ANONYMOUS, Call, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import Cancelled

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventSink, Subscription
    from rrext.engine.events.records import Filter


class Engine:
    """Runs operations. Subclasses implement `start`; the rest has sensible defaults."""

    def start(self, call: Call, *, alone: bool = False) -> bool:
        """Begin the call; it is answered once, perhaps before this returns. On the event loop's thread; it never blocks.

        Returns whether the call is quick: nothing has to be waited for, and it takes less time than a hop to another thread
        is worth. `alone` says that no other call waits for this thread meanwhile. Raises nothing.
        """
        raise NotImplementedError

    def start_here(self, call: Call, *, alone: bool = False) -> bool:
        """Begin the call on the thread that reads requests, which may block: run a quick call to its end, give a slow `def`
        tool to a worker. False leaves the call as it is, for `start`. Raises nothing.
        """
        return False

    async def ask(
        self, operation: Operation, caller: Caller = ANONYMOUS, *, data: bytes | None = None, feed: Feed | None = None
    ) -> tuple[bytes, bytes | None]:
        """The encoded body of the answer, and the raw bytes of a result that is bytes. Raises the operation's failure.

        For callers in this process, on the engine's loop. Cancelling the caller's task cancels the operation.
        """
        import asyncio  # a command that asks another process has no loop

        from rrext.engine.interface.awaited import AwaitedAnswer

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

        Events are the records of `rrext.engine.events.records`, plain data that JSON can hold; times are seconds, sizes
        bytes, secrets are replaced by their names. A sink is called by the thread in which something happens, perhaps by
        several at once; it must not block, as the call waits for it. One that raises is logged, and gets no more. The
        events of one call come in their order, from `CallStarted` to one `CallEnded`, which comes before the answer leaves;
        so do those of one pipe, from `PipeOpened` to `PipeClosed`, and of one task. Between calls there is no order. What began
        before the subscription is heard of from then on. Calls that are refused or cancelled before the engine has them
        have no events. Nothing is kept for a sink: one that is slower than the events brings a queue with a bound of its own.
        Raises `InvalidArguments` for a kind that does not exist.
        """
        raise NotImplementedError

    def begin_batch(self) -> None:
        """Several calls may be started before the loop's next turn; `end_batch` says that they were."""

    def end_batch(self) -> None:
        """All calls of the batch were started; what can run at once, runs."""

    def disconnect(self, connection_id: str) -> None:
        """A connection is gone: its pipes are freed. The face has cancelled its calls before."""

    async def aclose(self) -> None:
        """Unload everything."""
