"""One connection of a client: requests out, each answer to the call that waits for it, events to where they belong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import inf
from threading import Lock
from typing import Any, Final, TypeAlias, cast

import anyio

from rrext.client.channel import Channel
from rrext.client.connection_errors import client_closed
from rrext.client.deadline_watch import DeadlineWatch
from rrext.client.event_loop import EventLoop, Waiter
from rrext.client.frame_queue import FrameQueue
from rrext.client.pending_call import Body, Deadline, PendingCall
from rrext.client.request_slots import Slots
from rrext.client.updates import (
    CallEventCallback,
    ChunkCallback,
    PermissionCallback,
    ProgressCallback,
    QuestionCallback,
    Updates,
)
from rrext.errors import ClientError, LimitExceeded, RrextError
from rrext.limits import CLIENT_DEFAULTS
from rrext.wire.codec import Bytes
from rrext.wire.connection import ClientConnection
from rrext.wire.messages import ClientEvent, Event, Fatal, Malformed, RequestId, Response
from rrext.wire.questions import QUESTIONS, answering

logger = logging.getLogger("rrext.client")

FEED_EVENTS: Final = frozenset(("rrext_progress", "rrext_chunk", "rrext_call", *QUESTIONS))
"""Events that belong to one call."""

ErrorMaker: TypeAlias = Callable[[], RrextError]
"""Makes the error of a lost connection; each caller gets one of its own."""


class Endpoint:
    """Matches answers with calls. A call may be cancelled at any moment without harm to the next one.

    Calls come from tasks of the loop, or from threads beside it: there the coroutine blocks and never suspends. The code
    that takes a call out of the table gives its slot back; the lock `_ending` orders the answer and the end of the wait.
    `run` is a task and never raises. When the connection is lost, `explain` is awaited once for the reason, with which
    every call then fails, now and later.
    """

    def __init__(
        self,
        channel: Channel,
        connection: ClientConnection,
        *,
        explain: Callable[[RrextError | None], Awaitable[ErrorMaker]],
        on_event: Callable[[str, Body], None],
    ) -> None:
        self._channel = channel
        self._connection = connection
        self._framer = connection.framer
        self.get_buffer = self._framer.get_buffer
        """Where the channel reads to."""
        self._explain = explain
        self._on_event = on_event
        self._loop = EventLoop()
        self._outbox = FrameQueue(channel, self._loop, self.lose)
        self._deadlines = DeadlineWatch(self._loop)
        self._calls: dict[RequestId, PendingCall] = {}
        self._ending = Lock()
        self._losing = anyio.Event()
        self._received = anyio.Event()
        self._defect: RrextError | None = None
        """The error that made the peer's bytes unreadable."""
        self._loss: ErrorMaker | None = None
        """Set when every call fails from now on."""
        self._paused: anyio.Event | None = None
        self._bytes = 0
        """Received and not yet charged to a message."""

    # Calls

    async def call(
        self,
        command: str,
        arguments: Body,
        tail: Bytes | None = None,
        slots: Slots | None = None,
        deadline: Deadline | None = None,
        updates: Updates | None = None,
        *,
        on_late: Callable[[Body], None] | None = None,
        final: bool = False,
    ) -> Body:
        """Send a request and return the body of its answer.

        Raises the error of the answer, `ToolTimeout` when `deadline` passes first, or why the connection is lost. When
        it times out or is cancelled, the request is taken back (unless it is `final`) or cancelled; a late answer is
        dropped, its body given to `on_late`.
        """
        waiter = self._loop.waiter()
        call = PendingCall(command, waiter, updates, on_late, final)
        try:
            if deadline is not None:
                call.begin(deadline, self._loop.now())
                self._deadlines.add(call)
            if slots is not None:
                if not slots.take_now():
                    await slots.take(waiter, call.check)
                call.slots = slots
            self._send(call, arguments, tail)
            while call.answer is None or (updates is not None and updates.pending):
                if updates is not None and updates.pending:
                    await updates.deliver()
                else:
                    await waiter
                    if call.expired:
                        call.check()
            answer = call.answer
        except BaseException:
            self._abandon(call)
            raise
        finally:
            if deadline is not None:
                self._deadlines.drop(call)
        if answer.error is not None:
            raise answer.error
        return answer.body

    def _send(self, call: PendingCall, arguments: Body, tail: Bytes | None, *, urgent: bool = False) -> None:
        """Raises `UsageError`, or why the connection is lost."""
        if self._loss is not None:
            raise self._loss()
        call.id, pieces = self._connection.request(call.command, arguments, None if tail is None else cast("bytes", tail))
        self._calls[call.id] = call
        if self._loss is not None and self._calls.pop(call.id, None) is not None:
            raise self._loss()  # the loop's thread lost it meanwhile, and did not see this call
        call.frame = self._outbox.put(pieces, urgent=urgent)
        if self._paused is not None:
            self.resume()

    def post(self, command: str, arguments: Body, *, urgent: bool = False) -> None:
        """Send a request and drop its answer. Never waits, never fails."""
        with suppress(RrextError):  # the request has no caller to tell
            self._send(PendingCall(command, None, abandoned=True), arguments, None, urgent=urgent)

    def _abandon(self, call: PendingCall) -> None:
        """The caller waits no longer: withdraw the request if it is not sent, else send `cancel` before all queued frames."""
        if call.updates is not None:
            call.updates.discard()
        with self._ending:
            was_sent = call.id in self._calls
            if was_sent and not call.final and call.frame is not None and self._outbox.withdraw(call.frame):
                del self._calls[call.id]
                was_sent = False
            call.abandoned = was_sent
        if was_sent:
            self.post("cancel", {"requestId": call.id}, urgent=not call.final)
        elif call.answer is None:
            call.leave()
        else:
            call.lapse(call.answer)

    def waiter(self) -> Waiter:
        """Where the caller may wait for another one."""
        return self._loop.waiter()

    def updates(
        self,
        on_progress: ProgressCallback | None,
        on_chunk: ChunkCallback | None,
        on_event: CallEventCallback | None,
        questions: Mapping[str, PermissionCallback | QuestionCallback],
    ) -> Updates:
        """A place for the progress, chunks, events and questions of a call."""
        return Updates(on_progress, on_chunk, self.resume, on_event, questions, self._answer)

    def _answer(self, event: str, number: int, given: Any) -> None:
        if event == "rrext_permission":
            given = given is True
        else:
            given = {"action": "decline"} if given is None else {"action": "accept", "content": dict(given)}
        self.post(*answering(event, number, given), urgent=True)

    # Receiving

    def buffer_updated(self, n: int) -> anyio.Event | None:
        """Handle the messages that are complete, then run the tasks whose answers came, if no task runs. An event in return
        asks the channel to wait for it.
        """
        self._bytes += n
        messages = self._framer.buffer_updated(n)
        if not messages:
            return None
        cost, self._bytes = self._bytes // len(messages), 0
        self._loop.begin_reading()
        try:
            for message in messages:
                if type(message) is Response:
                    self._answered(message)
                else:
                    self._take(message, cost)
        finally:
            self._loop.end_reading()
        return self._paused

    def _answered(self, answer: Response) -> None:
        self._ending.acquire()  # not `with`, which costs a hundredth of a call more
        try:
            call = None if answer.id is None else self._calls.pop(answer.id, None)
            if call is not None and not call.abandoned:
                call.answer = answer
                call.due = inf  # the deadline does not count the time of callbacks
        finally:
            self._ending.release()
        if call is None:
            logger.debug("answer to request %r dropped: nobody waits for it", answer.id)
            return
        if call.slots is not None:
            call.slots.give()
            call.slots = None
        if call.abandoned:
            logger.debug("late answer to %r (%s) dropped", answer.id, call.command)
            call.lapse(answer)
        elif call.waiter is not None:
            if call.updates is not None:
                call.updates.settle()
            call.waiter.wake()

    def _take(self, message: ClientEvent, cost: int) -> None:
        if isinstance(message, Response):
            self._answered(message)
        elif isinstance(message, Event):
            if message.name in FEED_EVENTS:
                self._update(message, cost)
            else:
                self._on_event(message.name, message.body)
        elif isinstance(message, Malformed):
            self._malformed(message)
        elif isinstance(message, Fatal):
            raise message.error
        else:
            logger.debug("ignored: %s", message.reason)

    def _malformed(self, message: Malformed) -> None:
        if message.id is not None and message.id in self._calls:
            self._answered(Response(message.id, None, None, message.error))
        else:
            logger.warning("the server sent a malformed message: %s", message.error)

    def _update(self, event: Event, cost: int) -> None:
        request = event.body.get("request")
        call = self._calls.get(request) if isinstance(request, int | str) else None
        if call is None or call.abandoned or call.updates is None:
            logger.debug("%s of request %r dropped: nobody waits for it", event.name, request)
            return
        if event.name == "rrext_progress":
            call.updates.add_progress(event.body)
        else:
            updates = call.updates
            if event.name == "rrext_chunk":
                updates.add_chunk(event.body, cost)
            elif event.name == "rrext_call":
                updates.add_event(event.body, cost)
            else:
                updates.add_question(event.name, event.body, cost)
            self._restrain(call, updates)
        if call.deadline is not None:
            call.refresh(self._loop.now())
        call.wake()

    def _restrain(self, call: PendingCall, updates: Updates) -> None:
        """Keep chunks and events from filling memory: read no more while no other call waits, else end the call in the end."""
        if updates.hopeless:
            self._abandon(call)
            limit = CLIENT_DEFAULTS.max_chunk_backlog
            call.answer = Response(
                call.id,
                None,
                None,
                LimitExceeded(f"a callback is too slow: over {limit} bytes of chunks and events wait for it"),
            )
            call.due = inf
            call.wake()
        elif updates.behind and self._all_are_behind():
            self._paused = self._paused or anyio.Event()
            if not self._all_are_behind():  # a thread called, or caught up, before it could see that
                self.resume()

    def _all_are_behind(self) -> bool:
        return all(call.updates is not None and call.updates.behind for call in list(self._calls.values()))

    def resume(self) -> None:
        """Read on, after a pause; from any thread."""
        if self._paused is not None:
            self._loop.run(self._read_on)

    def _read_on(self) -> None:
        if self._paused is not None:
            self._paused.set()
            self._paused = None

    # Life

    def lose(self) -> None:
        """The connection is lost. Bytes that already arrived are still read for a moment."""
        self._losing.set()

    def shut(self) -> None:
        """Send nothing more, before the channel is closed."""
        self._outbox.shut()

    def loss(self) -> RrextError | None:
        """Why every call fails from now on, if so."""
        return None if self._loss is None else self._loss()

    async def run(self) -> None:
        """Receive and send until the connection is lost or this is cancelled."""
        reason: ErrorMaker = client_closed
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive)
                tasks.start_soon(self._outbox.run)
                tasks.start_soon(self._deadlines.run)
                await self._losing.wait()
                with anyio.move_on_after(CLIENT_DEFAULTS.loss):
                    await self._received.wait()
                tasks.cancel_scope.cancel()
            reason = await self._explain(self._defect)
        finally:
            self._fail(reason)

    async def _receive(self) -> None:
        try:
            await self._channel.pump(self)
            for message in self._framer.receive_eof():
                logger.debug("at the end of input: %r", message)
        except RrextError as error:
            self._defect = error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            logger.debug("reading ended: %r", error)
        except Exception as error:
            logger.exception("a bug of rrext.Client ended the connection")
            self._defect = ClientError(f"a bug of rrext.Client: {error!r}")
        self._received.set()
        self.lose()

    def _fail(self, reason: ErrorMaker) -> None:
        self._loss = reason
        for number in list(self._calls):
            self._answered(Response(number, None, None, reason()))

    def __repr__(self) -> str:
        return f"<Endpoint {len(self._calls)} calls, {self._outbox!r}{', lost' if self._loss else ''}>"
