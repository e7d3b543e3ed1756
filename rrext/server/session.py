"""One connection: requests in, exactly one answer each out.

A session admits requests into its table of calls in flight, lets some wait until there is room, and collects the answers for
few writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from rrext.engine.interface.call import Call, Caller, request_name
from rrext.engine.interface.clients import ConnectedClient
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.failures import internal_error, shortened
from rrext.engine.interface.operations import FEEDS, Close, Fed, Open, Operation, Write
from rrext.errors import (
    Cancelled,
    InvalidRequest,
    ResultTooLarge,
    RrextError,
    ShuttingDown,
    TooManyRequests,
    Unavailable,
)
from rrext.limits import OPEN_RESERVE, REQUEST_COST, WAKES_PER_ITERATION, Limits
from rrext.server.call_feed import MonitorFeed, Questions, SessionFeed
from rrext.server.commands import (
    NEVER_HELD,
    OWN_COMMANDS,
    USUAL,
    caller_of,
    cut_short,
    decode,
    operation_for,
    refuse_long_names,
    refuse_tail,
)
from rrext.server.outbox import Outbox, Sink
from rrext.tools.context import CancelReason
from rrext.wire.connection import ServedConnection
from rrext.wire.messages import Batch, Fatal, Ignored, Malformed, Request

if TYPE_CHECKING:
    from rrext.server.call_feed import LateEvent

log: Final = logging.getLogger("rrext.session")


class Session:
    """Handles the events of one connection, and keeps the table of its unanswered calls.

    `handle_all` and the answers of coroutines run on the loop's thread; `handle_inline` runs on a thread that took over
    reading; answers come from any thread. A call is in the table until it is answered, and removing it is the right to
    answer. `inline_call` is the last call that `handle_inline` began; its caller clears it before the next one.
    `on_shutdown(why)` drains and ends this connection or the process. `on_answer` is called after each answer while
    `reports_answers` is set.
    """

    __slots__ = (
        "_batch_thread", "_engine", "_flush_is_due", "_inflight", "_is_alone", "_is_awake", "_last_request", "_late", "_loop",
        "_loop_thread", "_on_answer", "_on_shutdown", "caller", "client", "connection", "inline_call", "is_closed",
        "is_draining", "is_initialized", "last_was_quick", "limits", "now", "outbox", "questions", "reports_answers",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        connection: ServedConnection,
        sink: Sink,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        caller: Caller,
        now: Callable[[], float],
        on_shutdown: Callable[[str], None],
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = engine.clients[caller.connection_id] = ConnectedClient(caller, MonitorFeed(self).send_event)
        self.connection = connection
        self.outbox = Outbox(sink, limits.outbox_bytes, loop, self._room)
        self.limits = limits
        self.caller = caller
        self.now = now
        self.questions = Questions(loop)
        self.is_draining = self.is_closed = self.is_initialized = self.reports_answers = False
        self.inline_call: Call | None = None
        self.last_was_quick = False
        self._engine = engine
        self._inflight = InFlight()
        self._loop = loop
        self._loop_thread = get_ident()
        self._on_shutdown = on_shutdown
        self._on_answer = on_answer
        self._last_request: Request | None = None
        self._late: set[LateEvent] = set()
        self._batch_thread = 0
        self._is_alone = self._is_awake = self._flush_is_due = False

    commands: ClassVar[Mapping[str, Callable[[Any, Request], None]]] = OWN_COMMANDS
    """Command → its handler, of those that the session answers without the engine."""
    inline_commands: ClassVar[frozenset[str]] = frozenset()
    """Those that the thread which reads may handle: for any other it gives reading back, with all that was read behind it."""
    never_held: ClassVar[frozenset[str]] = NEVER_HELD
    """Commands that run at once although answers wait for a slow reader."""

    with_tail: ClassVar[frozenset[str]] = frozenset()
    """Commands of these that take raw bytes."""

    # -- in

    def handle_all(self, events: Sequence[Any]) -> None:
        """Handle a batch on the loop's thread; its immediate answers leave in one write."""
        self._batch_thread = get_ident()
        self.last_was_quick = True
        self._is_alone = len(events) == 1
        self.client.last_activity = time()
        batch = self._engine.batch
        batch.is_collecting = True
        try:
            for event in events:
                self.handle(event)
        finally:
            batch.is_collecting = False
            if batch.jobs:
                batch.end()
            self._batch_thread = 0
            if self.outbox.size:
                self.outbox.flush()

    def handle(self, event: Any) -> None:
        """Handle one event of the connection, or a call that a reading thread left. No input of a peer raises here."""
        kind = type(event)
        quick = False
        try:
            if kind is Request:
                quick = self._request(event)
            elif kind is Call:
                quick = self._engine.start(event, alone=self._is_alone)
            elif kind is Malformed:
                request_id = None if event.id is not None and self._inflight.has(event.id) else event.id
                self._answer_at_once(self.connection.error(request_id, "", event.error))
            elif kind is Fatal:
                self._answer_at_once(self.connection.error(None, "", event.error))
                self._on_shutdown("fatal")
            elif kind is Ignored:
                log.debug("ignored: %s", event.reason)
            elif kind is Batch:
                self._is_alone = False
                for each in event.events:
                    self.handle(each)
        except Exception as error:
            self.refuse(event, error)
        if not quick:
            self.last_was_quick = False

    def handle_inline(self, event: Any, alone: bool = False) -> Any:
        """Run a quick tool call or write to its end, on a thread that may block; None, or the event for the loop to handle.

        `alone` says that no other event waits for it.
        """
        self._batch_thread, self._is_alone = get_ident(), alone
        inflight = self._inflight
        is_held_up = inflight.held or (self.outbox.size and self.outbox.is_full)  # most outboxes are empty
        if type(event) is not Request or is_held_up or self.is_draining or self.is_closed:
            return event
        shape = _usual_shape(event)
        if shape is None or not shape.runs_here:
            if event.command not in self.inline_commands:
                return event
            self.commands[event.command](self, event)
            return None
        try:
            inflight.check_id(event.id)
            if event.nbytes > self.limits.max_name:
                refuse_long_names(event, self.limits)
            if shape.counts:
                inflight.check_room(self.limits.max_inflight)
            call = self._admit(event, shape)
        except RrextError as error:
            self.refuse(event, error)
            return None
        if self.is_closed:  # closed meanwhile, and `close` may have read the table before the call was in it
            call.fail(Cancelled("cancelled: the connection is gone"))
            return None
        self.inline_call = call
        return None if self._engine.start_here(call, alone=alone) else call

    @property
    def runs_inline(self) -> bool:
        """Whether the thread that took over reading is inside a tool or a write, and past handing the call to the loop."""
        call = self.inline_call
        return call is not None and call.work is not None

    def end_inline(self) -> None:
        """Send the collected answers of a thread that goes on to read."""
        self._batch_thread = 0
        self.client.last_activity = time()
        if self.outbox.size:
            self.outbox.flush()

    def overstayed(self) -> None:
        """Note that a tool keeps the reading thread: send the earlier answers, and run its next calls on workers."""
        work = None if self.inline_call is None else self.inline_call.work
        if work is not None:
            work.overstay()
        self.end_inline()

    def _request(self, request: Request) -> bool:
        """Start or hold a request; True if it was a tool call that a reading thread may run itself."""
        inflight = self._inflight
        inflight.check_id(request.id)
        if request.nbytes > self.limits.max_name:
            refuse_long_names(request, self.limits)
        shape = _usual_shape(request)
        if shape is None and request.command not in self.commands:
            shape = operation_for(request.command, request.arguments)
        if shape is not None and self.is_draining:
            raise ShuttingDown("the server ends and takes no new requests")
        if shape is Open and request.id is None:
            log.debug("ignored: an open without id, whose pipe nobody would know")
            return False
        if shape is Open:
            if inflight.waiting or not inflight.has_room_for_open(self.limits.max_inflight):
                self._let_open_wait(HeldRequest(request, shape, self.now()))
                return False
        elif shape is not None and shape.counts:
            inflight.check_room(self.limits.max_inflight)
        is_held_up = inflight.held or (self.outbox.size and self.outbox.is_full)
        if is_held_up and request.command not in self.never_held:
            inflight.hold(HeldRequest(request, shape, self.now()))
            self.outbox.want_room()
            return False
        if shape is None:
            return self._start(request, None)
        return self._engine.start(self._admit(request, shape), alone=self._is_alone)

    def _start(self, request: Request, shape: type[Operation] | None, received: float | None = None) -> bool:
        """Start the operation of a request; `shape` is None for a command of the session itself."""
        if shape is None:
            self.client.messages_in += 1
            if request.tail is not None and request.command not in self.with_tail:
                refuse_tail()
            self.commands[request.command](self, request)
            return False
        return self._engine.start(self._admit(request, shape, received), alone=self._is_alone)

    def _admit(self, request: Request, shape: type[Operation], received: float | None = None) -> Call:
        """Make the call of a request, and add it to the table."""
        self.client.messages_in += 1
        arguments = request.arguments
        if request.tail is not None and not shape.takes_tail:
            refuse_tail()
        operation = decode(arguments, shape, self.limits)
        caller = self.caller
        context = arguments.get("context")
        if context is not None and shape.names_caller:
            caller = caller_of(caller, context, self.limits)
        call = Call(operation, self, caller, request.id, request.command, request.tail, outlet=self.outbox, key=request.id)
        if operation.timeout is not None:
            call.received = self.now() if received is None else received
        if isinstance(operation, Fed) and not FEEDS.isdisjoint(arguments) and operation.is_fed and request.id is not None:
            call.feed = SessionFeed(self, request.id)
        self._inflight.add(call, request.nbytes, counts=shape.counts)
        return call

    def refuse(self, event: Any, error: Exception) -> None:
        """Answer an event that started no call with an error; a call with the same id is not affected."""
        request_id = getattr(event, "id", None)
        if not isinstance(error, RrextError):
            log.error("%s a bug of rrext", request_name(request_id, self.caller.connection_id), exc_info=error)
            error = internal_error()
        if isinstance(error, DuplicateId):
            self._answer_at_once(self.connection.error(None, "", error))
        elif type(event) is not Request or request_id is not None:
            command = cut_short(getattr(event, "command", ""), self.limits.max_name)
            self._answer_at_once(self.connection.error(request_id, command, error))

    def cancel(self, request_id: int | str) -> bool:
        """Cancel a request of this connection; False if it is not in flight."""
        inflight = self._inflight
        if request_id in inflight.waiting:
            self.refuse(inflight.next_waiting(request_id).request, Cancelled())
            return True
        held = inflight.take_held(request_id)
        if held is not None:
            self.refuse(held.request, Cancelled())
            return True
        call = inflight.find(request_id)
        return call is not None and call.cancel("cancelled", Cancelled())

    def cancel_inner(self, request_id: int | str, number: int) -> bool:
        """Cancel a call within a request of this connection, which goes on; False if the request is not in flight."""
        call = self._inflight.find(request_id)
        if call is None or call.settled:
            return False
        if call.work is not None:
            call.work.stop_inner(number)
        return True

    def begin_end(self, request: Request) -> None:
        """Begin to drain; `end_with` answers the request after that. Raises `ShuttingDown` if the drain has begun already."""
        if self.is_draining or self._last_request is not None:
            raise ShuttingDown("the server ends already")
        self._last_request = request
        self._on_shutdown(request.command)

    # -- answers

    def answer_own(self, request: Request, body: dict[str, Any]) -> None:
        """Answer a command of the session itself."""
        if request.id is not None:
            self._answer_at_once(self.connection.result(request.id, request.command, msgspec.json.encode(body)))

    def send(self, pieces: Sequence[bytes]) -> None:
        """Write pieces of one frame; from any thread."""
        self.outbox.send(pieces)

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        """Answer a call with a body; raw bytes are sent as a tail, or in base64 to a peer without tails."""
        connection, request_id = self.connection, call.key
        try:
            if request_id is None:
                pieces = []
            elif tail is None:
                pieces = connection.result(request_id, call.command, body)
            elif connection.takes_tail(call.command) or 4 * len(tail) <= 3 * self.limits.max_result:
                pieces = connection.result_tail(request_id, call.command, body, tail)
            else:  # as base64, a third longer, it is over the limit
                error = ResultTooLarge.of(4 * len(tail) // 3, self.limits.max_result)
                pieces = connection.error(request_id, call.command, error)
        except MemoryError:
            error = Unavailable("no memory is left for the answer")
            pieces = connection.error(request_id, call.command, error)
        self._finish(call, pieces)

    def fail(self, call: Call, error: RrextError) -> None:
        """Answer a call with a failure."""
        request_id, connection = call.key, self.connection
        if request_id is None:
            self._finish(call, [])
            return
        pieces = connection.error(request_id, call.command, error)
        if len(pieces[-1]) > self.limits.max_result:
            pieces = connection.error(request_id, call.command, shortened(error, self.limits))
        self._finish(call, pieces)

    def _finish(self, call: Call, pieces: list[bytes]) -> None:
        """Take the call out of the table and send its answer, if it gets one. From any thread."""
        inflight = self._inflight
        inflight.leaving.append(call)  # the session is busy until the answer is in the outbox
        inflight.remove(call)
        if call.feed is not None:
            call.feed.end()
        if pieces:
            self._answer(pieces, call)
        inflight.leaving.pop()
        if inflight.waiting:
            self._begin_opens_soon()
        if self.reports_answers:
            self._loop.call_soon_threadsafe(self._on_answer)

    def _answer_at_once(self, pieces: Sequence[bytes]) -> None:
        """Answer a request that started no call. While the outbox is full, such answers count as work and pause reading."""
        if self.outbox.is_full:
            self._inflight.answered_over += 1
            self.outbox.want_room()
        self._answer(pieces)

    def _answer(self, pieces: Sequence[bytes], call: Call | None = None) -> None:
        """Collect the answers of a batch, or of one iteration of the loop, for one write. `call` is the one, if any."""
        self.client.messages_out += 1
        thread, outbox = get_ident(), self.outbox
        if thread == self._batch_thread and not self._is_alone:
            outbox.append(pieces)
            if thread != self._batch_thread:  # reading was just taken from this thread: its last flush was before this answer
                outbox.flush()
        elif thread == self._batch_thread or thread != self._loop_thread or not (self._inflight.calls or self._flush_is_due):
            outbox.send(pieces)
        else:
            outbox.append(pieces)
            if not self._flush_is_due:
                self._flush_is_due = True
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self.outbox.flush()

    def late_event(self, event: LateEvent) -> None:
        """Remember an event that waits for room, such as the latest progress of a call."""
        self._late.add(event)
        self.outbox.want_room()

    # -- requests that waited

    def _begin_held(self, held: HeldRequest) -> None:
        """Begin a request that waited."""
        request = held.request
        try:
            if held.is_withdrawn and held.shape is not None:
                self._engine.withdraw(decode(request.arguments, held.shape, self.limits), self.caller)
            else:
                self._start(request, held.shape, held.received)
        except Exception as error:
            self.refuse(request, error)

    def _let_open_wait(self, held: HeldRequest) -> None:
        """Let an `open` wait, at most until its deadline, which then answers it. Raises `TooManyRequests`."""
        arguments = held.request.arguments
        timeout = decode(arguments, Open, self.limits).timeout if "timeout" in arguments else None
        self._inflight.wait(held, self.limits)
        if timeout is not None:
            self._loop.call_later(timeout, self._end_wait, held)

    def _end_wait(self, held: HeldRequest) -> None:
        if self._inflight.waiting.get(held.request.id) is held:
            self._begin_held(self._inflight.next_waiting(held.request.id))

    def _begin_opens_soon(self) -> None:
        """Begin `open` requests that wait, because one in flight was answered. From any thread."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._begin_opens)

    def _begin_opens(self) -> None:
        """Begin some `open` requests, and the others in later iterations of the loop."""
        self._is_awake = False
        inflight = self._inflight
        for _ in range(WAKES_PER_ITERATION):
            if not inflight.waiting or self.outbox.is_full or not inflight.has_room_for_open(self.limits.max_inflight):
                return
            self._begin_held(inflight.next_waiting())
        if inflight.waiting:
            self._begin_opens_soon()

    def _room(self) -> None:
        """The outbox has room: send delayed events, then begin a few held requests per iteration of the loop: the answers of
        these count before the next ones begin.
        """
        inflight, outbox, late = self._inflight, self.outbox, self._late
        while late and not outbox.is_full:
            late.pop().catch_up()
        if not outbox.is_full:
            inflight.answered_over = 0
        for _ in range(WAKES_PER_ITERATION):
            if inflight.held and not outbox.is_full:
                self._begin_held(inflight.next_held())
        if inflight.held:
            outbox.want_room()
        if inflight.waiting:
            self._begin_opens_soon()
        if self.reports_answers:
            self._on_answer()

    # -- life

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return self._inflight.is_busy

    @property
    def unread_bytes(self) -> int:
        """The size of the unanswered requests; a small one counts for more than its own bytes."""
        return self._inflight.nbytes

    @property
    def held_bytes(self) -> int:
        """The bytes that the connection keeps here: unanswered requests, and answers that wait for the client."""
        return self.unread_bytes + self.outbox.held

    def fail_all(self, reason: CancelReason, error: Callable[[], RrextError]) -> None:
        """Answer all requests in flight with an error, and stop their calls."""
        inflight = self._inflight
        while inflight.held:
            self.refuse(inflight.next_held().request, error())
        while inflight.waiting:
            self.refuse(inflight.next_waiting().request, error())
        for call in inflight.running():
            call.cancel(reason, error())

    def end_with(self) -> None:
        """Answer the `shutdown` or `disconnect` that ended this connection."""
        request = self._last_request
        if request is not None:
            self._last_request = None
            self.answer_own(request, {})
        self.outbox.flush()

    def close(self) -> None:
        """Close the session of a connection that ended: cancel its calls, then free its pipes."""
        if self.is_closed:
            return
        self.is_closed = True
        self.fail_all("disconnected", lambda: Cancelled("cancelled: the connection is gone"))
        self.outbox.break_off()
        self._engine.clients.pop(self.caller.connection_id, None)
        self._engine.disconnect(self.caller.connection_id)


def _usual_shape(request: Request) -> type[Operation] | None:
    """The operation of a request, if it is one of those that clients send most."""
    subcommand = request.arguments.get("subcommand")
    return USUAL.get((request.command, subcommand if type(subcommand) is str else None))


class DuplicateId(InvalidRequest):
    """The id of a request is in flight already. The error is answered without the id, which belongs to the first request."""


class HeldRequest(msgspec.Struct, frozen=True):
    """A request that waits for room in the outbox: its operation (None: a command of the session) and its arrival time.

    One that `is_withdrawn` was cancelled, and has its effect on the pipe at its turn: requests before it go first.
    """

    request: Request
    shape: type[Operation] | None
    received: float
    is_withdrawn: bool = False

    @property
    def counts(self) -> bool:
        """Whether the request counts against `max_inflight`."""
        return self.shape is not None and self.shape.counts


class InFlight:
    """The running calls, in two tables by request id, and the held requests.

    `calls` are those that count against `max_inflight`; a call without id is its own key. `held` waits for room in the
    outbox, in order; `waiting` are the `open` requests that wait until fewer are in flight. `leaving` are the
    calls that are out of their table, and not in the outbox yet. `answered_over` counts what was answered at once though the
    outbox was full.
    Requests come in on the thread that reads, one at a time; calls leave on any thread.
    """

    __slots__ = (
        "_held_bytes", "_held_calls", "_held_keys", "_large", "_waiting_bytes", "answered_over", "calls", "held", "leaving",
        "others", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.calls: dict[Any, Call] = {}
        self.others: dict[Any, Call] = {}
        self.held: OrderedDict[Any, HeldRequest] = OrderedDict()
        self.waiting: OrderedDict[Any, HeldRequest] = OrderedDict()
        self._held_keys: dict[int | str, object] = {}
        """Request id → key in `held`."""
        self._held_bytes = 0
        self._held_calls = 0
        self._waiting_bytes = 0
        self.leaving: list[Call] = []
        self._large: dict[Call, int] = {}
        self.answered_over = 0

    def add(self, call: Call, nbytes: int, *, counts: bool) -> None:
        """Add a call that begins; `counts` says whether it counts against `max_inflight`."""
        table = self.calls if counts else self.others
        table[call if call.key is None else call.key] = call
        if nbytes > REQUEST_COST:
            self._large[call] = nbytes

    def remove(self, call: Call) -> None:
        """Remove an answered call."""
        key = call if call.key is None else call.key
        if self.calls.pop(key, None) is None:
            self.others.pop(key, None)
        if self._large:
            self._large.pop(call, None)

    def find(self, request_id: int | str) -> Call | None:
        """The running call with this id, or None."""
        return self.calls.get(request_id) or self.others.get(request_id)

    def hold(self, held: HeldRequest) -> None:
        """Add a request that waits for room."""
        key, request_id = object(), held.request.id
        self.held[key] = held
        if request_id is not None:
            self._held_keys[request_id] = key
        self._held_bytes += held.request.nbytes
        self._held_calls += held.counts

    def has_room_for_open(self, maximum: int) -> bool:
        """Whether one more `open` may begin; some of the places are kept from them."""
        return len(self.calls) + self._held_calls < maximum - maximum // OPEN_RESERVE

    def wait(self, held: HeldRequest, limits: Limits) -> None:
        """Add an `open` that waits until fewer requests are in flight. Raises `TooManyRequests` if too many wait already."""
        if len(self.waiting) >= limits.max_waiting_opens:
            raise _too_many("max_waiting_opens", limits.max_waiting_opens, "open requests of this connection wait")
        if self._waiting_bytes + held.request.nbytes > limits.max_inflight_bytes:
            raise _too_many("max_inflight_bytes", limits.max_inflight_bytes, "bytes of open requests of this connection wait")
        self.waiting[held.request.id] = held
        self._waiting_bytes += held.request.nbytes

    def next_waiting(self, request_id: Any = None) -> HeldRequest:
        """Remove and return the `open` that waits longest, or the one with this id."""
        held = self.waiting.pop(next(iter(self.waiting)) if request_id is None else request_id)
        self._waiting_bytes -= held.request.nbytes
        return held

    def next_held(self) -> HeldRequest:
        """Remove and return the request that waits longest."""
        held = self.held.popitem(last=False)[1]
        if held.request.id is not None:
            del self._held_keys[held.request.id]
        return self._no_longer(held)

    def take_held(self, request_id: int | str) -> HeldRequest | None:
        """Remove and return the held request with this id. A `write` or `close` leaves its effect on the pipe in its place."""
        key = self._held_keys.pop(request_id, None)
        if key is None:
            return None
        held = self._no_longer(self.held[key])
        if held.shape is Write or held.shape is Close:
            request = held.request
            effect = Request(None, request.command, {"pipe_id": request.arguments.get("pipe_id"), "data": ""}, None, 0)
            self.held[key] = HeldRequest(effect, held.shape, held.received, is_withdrawn=True)
        else:
            del self.held[key]
        return held

    def _no_longer(self, held: HeldRequest) -> HeldRequest:
        self._held_bytes -= held.request.nbytes
        self._held_calls -= held.counts
        return held

    def has(self, request_id: int | str) -> bool:
        """Whether a request with this id is unanswered."""
        return any(request_id in table for table in (self.calls, self.others, self._held_keys, self.waiting))

    def check_id(self, request_id: int | str | None) -> None:
        """Raise `DuplicateId` if the id is in use."""
        known = request_id in self.calls or request_id in self.others or request_id in self._held_keys  # an id is never None
        if known or (self.waiting and request_id in self.waiting):
            raise DuplicateId(f"request {request_id} is in flight already", data={"id": request_id})

    def check_room(self, maximum: int) -> None:
        """Raise `TooManyRequests` if one more `open` or `tool` request would exceed the limit."""
        if len(self.calls) + self._held_calls >= maximum:
            raise _too_many("max_inflight", maximum, "open and tool requests of this connection are in flight")

    def running(self) -> list[Call]:
        """All running calls."""
        return [*self.calls.values(), *self.others.values()]

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self.calls or self.others or self.held or self.waiting or self.leaving)

    @property
    def nbytes(self) -> int:
        """The size of the unanswered requests, and of those answered though the outbox was full.

        Waiting `open` requests are not among them: they would pause reading, and the writes that they wait for are behind.
        """
        number = len(self.calls) + len(self.others) + len(self.held) + self.answered_over
        return number * REQUEST_COST + self._held_bytes + (sum(list(self._large.values())) if self._large else 0)


def _too_many(limit: str, maximum: int, what: str) -> TooManyRequests:
    return TooManyRequests(
        f"{maximum} {what} ({limit})",
        hint="wait for answers before sending more",
        data={"limit": limit, "maximum": maximum},
    )
