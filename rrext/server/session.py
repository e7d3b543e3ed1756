"""One connection: requests in, exactly one answer each out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, ClassVar, Final

from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.clients import ConnectedClient
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.log_names import request_name
from rrext.engine.interface.operations import Fed, Open, Operation
from rrext.errors import Cancelled, RrextError, ShuttingDown
from rrext.limits import Limits
from rrext.server.arguments import caller_of, cut_short, decode, refuse_long_names, refuse_tail
from rrext.server.call_feed import SessionFeed
from rrext.server.commands import inline_operation, operation_for
from rrext.server.inflight import DuplicateId, HeldRequest
from rrext.server.monitor_feed import MonitorFeed
from rrext.server.outbox import Sink
from rrext.server.questions import Questions
from rrext.server.session_answers import SessionAnswers
from rrext.server.session_commands import NEVER_HELD, OWN_COMMANDS
from rrext.server.waiting import WaitingRequests
from rrext.tools.context import CancelReason
from rrext.wire.connection import ServedConnection
from rrext.wire.messages import Batch, Fatal, Ignored, Malformed, Request

log: Final = logging.getLogger("rrext.session")


class Session(SessionAnswers):
    """Handles the events of one connection, and keeps the table of its unanswered calls.

    `handle_all` and the answers of coroutines run on the loop's thread; `handle_inline` runs on a thread that took over
    reading; answers come from any thread. A call is in the table until it is answered, and removing it is the right to
    answer. `inline_call` is the last call that `handle_inline` began; its caller clears it before the next one.
    `on_shutdown(why)` drains and ends this connection or the process. `on_answer` is called after each answer while
    `reports_answers` is set.
    """

    __slots__ = (
        "_engine", "_is_alone", "_last_request", "_on_shutdown", "caller", "inline_call", "is_closed", "is_draining",
        "is_initialized", "last_was_quick", "now", "questions",
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
        client = engine.clients[caller.connection_id] = ConnectedClient(caller, MonitorFeed(self).tell)
        super().__init__(connection, sink, WaitingRequests(self, loop), client, loop=loop, limits=limits, on_answer=on_answer)
        self.caller = caller
        self.now = now
        self.is_draining = self.is_closed = self.is_initialized = False
        self._engine = engine
        self._on_shutdown = on_shutdown
        self.questions = Questions(loop)
        self._last_request: Request | None = None
        self.inline_call: Call | None = None
        self.last_was_quick = False
        self._is_alone = False

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
        self.client.was_active()
        engine = self._engine
        engine.begin_batch()
        try:
            for event in events:
                self.handle(event)
        finally:
            engine.end_batch()
            self._batch_thread = 0
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
        if type(event) is not Request or inflight.held or self.is_draining or self.is_closed or self.outbox.is_full:
            return event
        shape = inline_operation(event.command, event.arguments)
        if shape is None:
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
        self.client.was_active()
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
        shape = None if request.command in self.commands else operation_for(request.command, request.arguments)
        if shape is not None and self.is_draining:
            raise ShuttingDown("the server ends and takes no new requests")
        if shape is Open and request.id is None:
            log.debug("ignored: an open without id, whose pipe nobody would know")
            return False
        if shape is Open:
            if self._waiting.has_to_wait():
                self._waiting.add_open(HeldRequest(request, shape, self.now()))
                return False
        elif shape is not None and shape.counts:
            inflight.check_room(self.limits.max_inflight)
        if (self.outbox.is_full or inflight.held) and request.command not in self.never_held:
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
        if isinstance(operation, Fed) and operation.is_fed and request.id is not None:
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
        if self._waiting.cancel(request_id):
            return True
        call = self._inflight.find(request_id)
        return call is not None and call.cancel("cancelled", Cancelled())

    def begin_end(self, request: Request) -> None:
        """Begin to drain; `end_with` answers the request after that. Raises `ShuttingDown` if the drain has begun already."""
        if self.is_draining or self._last_request is not None:
            raise ShuttingDown("the server ends already")
        self._last_request = request
        self._on_shutdown(request.command)

    # -- requests that waited

    def begin_held(self, held: HeldRequest) -> None:
        """Begin a request that waited."""
        request = held.request
        try:
            if held.is_withdrawn and held.shape is not None:
                self._engine.withdraw(decode(request.arguments, held.shape, self.limits), self.caller)
            else:
                self._start(request, held.shape, held.received)
        except Exception as error:
            self.refuse(request, error)

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
        self._waiting.refuse_all(error)
        for call in self._inflight.running():
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
