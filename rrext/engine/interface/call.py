"""A call: one operation in flight, with its caller and its one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from rrext.engine.interface.log_names import request_name
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError

if TYPE_CHECKING:
    from rrext.tools.context import CancelReason


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request. Pipes belong to a connection; `trusted` says whether an exception's text may be shown to it."""

    connection_id: str = "local"
    user_id: str | None = None
    space_id: str | None = None
    trusted: bool = True


ANONYMOUS = Caller()


class AnswerSink(Protocol):
    """Takes the answers of calls, one each. Methods may be called from any thread."""

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        """The operation's body as an encoded JSON object; `tail` is a result that is itself bytes."""
        ...

    def fail(self, call: Call, error: RrextError) -> None:
        """The operation's failure."""
        ...


class Outlet(Protocol):
    """The queue of answers for a slow reader. While it is full, no waiting call begins."""

    @property
    def is_full(self) -> bool:
        """Whether more waits there than should."""
        ...

    async def room(self) -> None:
        """Wait on the loop until it is not full, or nobody reads it any more."""
        ...


class Feed(Protocol):
    """Takes the progress and chunks of a running call. Methods may be called from any thread but the loop's."""

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


class StoppableWork(Protocol):
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
    answer: AnswerSink
    caller: Caller = ANONYMOUS
    request_id: int | str | None = None
    command: str = ""
    data: bytes | None = None
    feed: Feed | None = None
    received: float | None = None
    work: StoppableWork | None = None
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
        state = "settled" if self.settled else "open"  # its input may hold secrets
        return f"<Call {type(self.operation).__name__} {self.request_id} {state}>"
