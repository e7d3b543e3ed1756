"""A call: one operation in flight, with its caller and its one answer; and its name in log lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from rrext.engine.interface.operations import Fed, Operation
from rrext.errors import InvalidArguments, RrextError

if TYPE_CHECKING:
    from rrext.engine.interface.totals import TimedCalls
    from rrext.tools.context import CancelReason


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request. Pipes belong to a connection; `trusted` says whether an exception's text may be shown to it.

    `authorization` is its own, for servers outside whose connection forwards it. `tools` are the only tools that it may use, by
    name, `node.tool` or call ref; None for all. If `is_keyed`, the user comes from a key, and no request names another.
    If it `claims` its space, a client named that, and no node sees it before the pipeline's own list of members has the user.
    `address` is that of a client on a network. `counts_for` is the user whose connections share one limit of memory with it.
    """

    connection_id: str = "local"
    user_id: str | None = None
    space_id: str | None = None
    trusted: bool = True
    authorization: str | None = None
    tools: frozenset[str] | None = None
    is_keyed: bool = False
    address: str | None = None
    counts_for: str | None = None
    claims: bool = False

    def claiming(self, space_id: str | None, path: str) -> Caller:
        """This caller in a space that its client names, in place of one that it named before.

        `path` is the place of the name in the request. Raises `InvalidArguments` if the operator gave the caller its space.
        """
        own = None if self.claims else self.space_id
        if own is None:
            return replace(self, space_id=space_id, claims=space_id is not None)
        if space_id not in (None, own):
            raise InvalidArguments.at(path, "the operator of the server chose the space of this connection")
        return self

    @property
    def tenant(self) -> tuple[str | None, str | None]:
        """The user and the space to whom the objects of this caller belong."""
        return self.user_id, self.space_id

    @property
    def lines(self) -> tuple[str, str]:
        """The user and the connection in whose lines the calls of this caller wait. Users take turns, and at the turn of a user
        the connections of that user take turns. A caller without a user that a key names is a user of one connection.
        """
        own = self.connection_id
        return (f"user {self.user_id}" if self.is_keyed and self.user_id is not None else own), own

    @property
    def is_stranger(self) -> bool:
        """Whether it needs a key and has shown none."""
        return self.is_keyed and self.user_id is None

    def __repr__(self) -> str:
        return f"<Caller {self.connection_id}>"


ANONYMOUS = Caller()


class AnswerSink(Protocol):
    """Takes the answers of calls, one each. Methods may be called from any thread."""

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        """Answer with the operation's body, an encoded JSON object; `tail` is the raw bytes of a `bytes` result."""
        ...

    def fail(self, call: Call, error: RrextError) -> None:
        """Answer with the operation's error."""
        ...


class Outlet(Protocol):
    """The queue of answers for a slow reader. While it is full, no waiting call begins."""

    @property
    def size(self) -> int:
        """The bytes that wait in it. Without any it is not full: to look here first saves a call."""
        ...

    @property
    def held(self) -> int:
        """The bytes that wait in it and behind it, until the reader has taken them."""
        ...

    @property
    def is_broken(self) -> bool:
        """Whether its reader is gone."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the queue is over its limit."""
        ...

    def want_room(self) -> None:
        """Let those who wait look again, as soon as the queue is not full. From any thread."""
        ...

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait on the loop until `reached()`, or until its reader is gone."""
        ...

    async def room(self) -> None:
        """Wait on the loop until the queue is not full, or its reader is gone."""
        ...


class Feed(Protocol):
    """Takes the progress and chunks of a running call. Methods may be called from any thread but the loop's."""

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Send progress; it may replace earlier progress that was not sent yet."""
        ...

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Send one encoded chunk; chunks are never dropped."""
        ...

    def call_event(self, body: dict[str, Any]) -> None:
        """Send an event of this call, or of a call within it. From any thread; it never blocks."""
        ...

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the caller, and wait for its answer. On the loop.

        The answer to `rrext_permission` is whether a tool may be called, that to `rrext_question` is `{action, content?}` of
        the caller's user.
        """
        ...

    def wait_for_room(self) -> None:
        """Block until chunks may be sent again. For worker threads."""
        ...

    async def room(self) -> None:
        """Wait until chunks may be sent again. For the event loop."""
        ...

    def end(self) -> None:
        """Send the last events before the answer of the call, and end the feed: later ones are ignored."""
        ...


class StoppableWork(Protocol):
    """The run of a call, as the engine's callers see it."""

    def stop(self, reason: CancelReason) -> None:
        """Stop the run of an answered call. On the loop's thread."""
        ...

    def stop_inner(self, number: int) -> None:
        """Stop one of the calls within a running call, by its number in events. On the loop's thread."""
        ...

    def overstay(self) -> None:
        """Note that the run keeps the reading thread too long, so that later calls of its kind run elsewhere."""
        ...


class Call(msgspec.Struct, eq=False, weakref=True):
    """One operation in flight. It is answered exactly once: the first `succeed`, `fail` or `cancel` wins.

    `command` is the face's name of the operation, `data` the raw bytes of a write, `received` a time of the engine's clock.
    `redact` removes secrets from an error, `outlet` says whether there is room for the answer. The engine sets `work` while
    a run can be stopped, `task` and `route` if the tool was found before the call began, `seconds` and `deadline` of a call
    with a timeout, and `timed` and `began` if calls are timed. `request_id` is the name of the request for people and
    programs, `key` the name in the answer of its connection: a worker process numbers requests anew. `done` is what it has
    done so far, for the answer of a call that is stopped; `inner` stops the watched calls within it, by their numbers.
    `unsettled` holds one item, which the answering thread takes out.
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
    task: Any = None
    route: Any = None
    timed: TimedCalls | None = None
    began: float = 0.0
    key: int | str | None = None
    done: Any = None
    inner: dict[int, Callable[[], object]] | None = None
    unsettled: list[bool] = msgspec.field(default_factory=[True].copy)

    @property
    def name(self) -> str:
        """The name of the request in the log, which is unique among several clients."""
        return request_name(self.request_id, self.caller.connection_id)

    @property
    def settled(self) -> bool:
        """Whether the answer was given."""
        return not self.unsettled

    @property
    def tells_calls(self) -> bool:
        """Whether its caller asked for the events of the calls within it."""
        return self.feed is not None and isinstance(self.operation, Fed) and bool(self.operation.events)

    def succeed(self, body: bytes, tail: bytes | None = None) -> bool:
        """Answer with a body; False if it was answered before."""
        try:
            self.unsettled.pop()  # `claim`, inlined: saves a function call per answer
        except IndexError:
            return False
        self.work = None  # breaks a cycle, which would wait for the garbage collector
        if self.timed is not None:
            self.timed.end(self.began)
        self.answer.succeed(self, body, tail)
        return True

    def fail(self, error: RrextError) -> bool:
        """Answer with a failure; False if it was answered before."""
        if not self.claim():
            return False
        self._answer_failure(error)
        return True

    def _answer_failure(self, error: RrextError) -> None:
        self.work = None
        if self.timed is not None:
            self.timed.fail(self.began, error.code)
        if self.redact is not None:
            self.redact(error)
        self.answer.fail(self, error)

    def claim(self) -> bool:
        """Claim the right to answer; True for the first caller only."""
        try:
            self.unsettled.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True

    def cancel(self, reason: CancelReason, error: RrextError) -> bool:
        """Answer with `error` now and stop what runs; False if it was answered before."""
        if not self.claim():
            return False
        work = self.work  # read after the claim: a thread that begins the call sets `work` before it checks `settled`
        if self.done is not None:
            error.data = {**error.data, "done": self.done}
        self._answer_failure(error)
        if work is not None:
            work.stop(reason)
        return True

    def __repr__(self) -> str:
        state = "settled" if self.settled else "open"  # the input may hold secrets
        return f"<Call {type(self.operation).__name__} {self.request_id} {state}>"


class DroppedAnswer:
    """Drops the answer of a call that the engine itself made."""

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None: ...

    def fail(self, call: Call, error: RrextError) -> None: ...


PLAIN: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)


@lru_cache(maxsize=1024)
def in_log(value: Any) -> str:
    """Format a value for a log line, in quotes if its text could be read as several values."""
    text = str(value)
    return text if PLAIN.fullmatch(text) else msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()


def request_name(request_id: object, connection_id: str | None) -> str:
    """Name a request in a log line, with its connection, because several clients may use the same number."""
    return f"request={in_log(request_id)} client={in_log(connection_id)}"
