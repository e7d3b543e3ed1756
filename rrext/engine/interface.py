"""The engine as its callers see it: operations of plain data in, one answer each out.

Nothing here names a node or a pipe object, so the same operations can go to a worker process or another machine. An
operation's fields are the arguments of the command of the same name (protocol.md); a face decodes them and calls
`Engine.start`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rrext.engine.log_names import request_name
from rrext.errors import Cancelled, RrextError

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventSink, Subscription
    from rrext.engine.events.records import Filter
    from rrext.tools.context import CancelReason

__all__ = [
    "ANONYMOUS",
    "Answer",
    "Call",
    "Caller",
    "Close",
    "Engine",
    "Execute",
    "Feed",
    "ListTasks",
    "ListTools",
    "Open",
    "Operation",
    "Outlet",
    "Services",
    "TaskStatus",
    "Terminate",
    "Tool",
    "Validate",
    "Work",
    "Write",
]


class Caller(msgspec.Struct, frozen=True):
    """Who asks. Pipes belong to a connection; `trusted` says whether an exception's text may be shown to it."""

    connection_id: str = "local"
    user_id: str | None = None
    space_id: str | None = None
    trusted: bool = True


ANONYMOUS = Caller()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What all operations may carry. `timeout` is in seconds from receipt."""

    token: str | None = None
    timeout: float | None = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Tool(Operation, frozen=True, kw_only=True, rename="camel"):
    """Call one tool. An empty `node_id` asks every node in chain order. → `{result}`"""

    tool: str
    node_id: str | None = None
    input: Any = None
    pipe_id: int | None = msgspec.field(name="pipe_id", default=None)
    progress: bool | None = None
    stream: bool | None = None


class ListTools(Operation, frozen=True, kw_only=True, rename="camel"):
    """The tools that this caller may call now. → `{tools}`"""

    node_id: str | None = None


class Open(Operation, frozen=True, kw_only=True, rename="camel"):
    """Open a pipe for one object. → `{pipe_id}`"""

    object: dict[str, Any] | None = None
    mime_type: str | None = None
    provider: str | None = None


class Write(Operation, frozen=True, kw_only=True):
    """Write to a pipe: exactly one of text, base64 text and (outside of JSON) raw bytes. → `{}`"""

    pipe_id: int
    data: str | None = None
    data_base64: str | None = None


class Close(Operation, frozen=True, kw_only=True):
    """End the object and free its pipe. → the result body"""

    pipe_id: int


class Execute(Operation, frozen=True, kw_only=True, rename="camel"):
    """Load a pipeline and keep it running. → `{id, token, publicToken, projectId, source, provider}`"""

    pipeline: dict[str, Any] | str
    source: str | None = None
    threads: int | None = None
    ttl: float | None = None
    use_existing: bool | None = None
    env: dict[str, str] | None = None
    name: str | None = None
    folder: str | None = None
    args: list[Any] | None = None
    pipeline_trace_level: str | None = None


class Terminate(Operation, frozen=True, kw_only=True):
    """Stop a pipeline: its calls are cancelled, its pipes freed, its shared state closed. → `{}`"""


class Validate(Operation, frozen=True, kw_only=True):
    """All problems of a pipeline, which is not loaded. → `{pipeline, errors, warnings, problems}`"""

    pipeline: dict[str, Any] | str
    source: str | None = None


class Services(Operation, frozen=True, kw_only=True):
    """The catalog of nodes, or one of them. → `{services}` or the definition"""

    service: str | None = None


class ListTasks(Operation, frozen=True, kw_only=True):
    """The pipelines that run. → `{tasks}`"""


class TaskStatus(Operation, frozen=True, kw_only=True):
    """How one pipeline is doing. → the status object"""


class Answer(Protocol):
    """Where calls' answers go, one each. Methods may be called from any thread."""

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        """The operation's body as an encoded JSON object; `tail` is a result that is itself bytes."""
        ...

    def fail(self, call: Call, error: RrextError) -> None:
        """The operation's failure."""
        ...


class Outlet(Protocol):
    """Where answers wait for a caller who reads slowly. What waits to begin does not begin while it is full."""

    @property
    def is_full(self) -> bool:
        """Whether more waits there than should."""
        ...

    async def room(self) -> None:
        """Wait on the loop until it is not full, or nobody reads it any more."""
        ...


class Feed(Protocol):
    """Where a call's progress and chunks go while it runs. Methods may be called from any thread but the loop's."""

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """The latest progress; earlier ones that were not sent yet may be dropped."""
        ...

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """One chunk, encoded; never dropped."""
        ...

    def wait_for_room(self) -> None:
        """Block until chunks may be sent again. For worker threads."""
        ...

    async def room(self) -> None:
        """Wait until chunks may be sent again. For the event loop."""
        ...

    def end(self) -> list[bytes]:
        """The call is answered next: what must leave before that; nothing is sent any more."""
        ...


class Work(Protocol):
    """The run of a call, as the engine's callers see it."""

    def stop(self, reason: CancelReason) -> None:
        """The call is answered: nobody waits for what is done for it. On the loop's thread."""
        ...

    def overstay(self) -> None:
        """The thread that read the request is still at work on it: take no more of this kind there."""
        ...


class Call(msgspec.Struct, eq=False, weakref=True):
    """One operation in flight. It is answered exactly once: who settles it first, answers.

    `command` is what the face calls the operation, `data` a write's raw bytes, `received` a time of the engine's clock,
    `redact` takes out of a failure what nobody may read, `outlet` says whether there is room for the answer.
    The engine sets `work` while there is something to stop, `seconds` and `deadline` when it has to end. `unsettled` holds
    one item, which the thread that answers takes out.
    """

    operation: Operation
    answer: Answer
    caller: Caller = ANONYMOUS
    request_id: int | str | None = None
    command: str = ""
    data: bytes | None = None
    feed: Feed | None = None
    received: float | None = None
    work: Work | None = None
    seconds: float = 0.0
    deadline: float | None = None
    redact: Callable[[RrextError], None] | None = None
    outlet: Outlet | None = None
    unsettled: list[bool] = msgspec.field(default_factory=[True].copy)

    @property
    def name(self) -> str:
        """The request in the log, where numbers of several clients meet."""
        return request_name(self.request_id, self.caller.connection_id)

    @property
    def settled(self) -> bool:
        """Whether the answer was given."""
        return not self.unsettled

    def succeed(self, body: bytes, tail: bytes | None = None) -> bool:
        """Answer with a body; False if it was answered before."""
        try:
            self.unsettled.pop()  # `claim`, without another call on the way of every answer
        except IndexError:
            return False
        self.work = None  # it leads back to here: such circles would wait for the garbage collector
        self.answer.succeed(self, body, tail)
        return True

    def fail(self, error: RrextError) -> bool:
        """Answer with a failure; False if it was answered before."""
        if not self.claim():
            return False
        self._tell(error)
        return True

    def _tell(self, error: RrextError) -> None:
        self.work = None
        if self.redact is not None:
            self.redact(error)
        self.answer.fail(self, error)

    def claim(self) -> bool:
        """Become the one who answers; True for exactly one caller."""
        try:
            self.unsettled.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True

    def cancel(self, reason: CancelReason, error: RrextError) -> bool:
        """Answer with `error` now and stop what runs; False if it was answered before."""
        if not self.claim():
            return False
        work = self.work  # after the claim: a thread that begins it sets this first, and then looks whether it is settled
        self._tell(error)
        if work is not None:
            work.stop(reason)
        return True

    def __repr__(self) -> str:
        state = "settled" if self.settled else "open"
        return f"<Call {type(self.operation).__name__} {self.request_id} {state}>"


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

        from rrext.engine.awaited import AwaitedAnswer

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
