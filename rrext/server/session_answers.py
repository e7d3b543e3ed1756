"""The way out of a session: exactly one answer for each request, and events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.engine.interface.call import Call
from rrext.engine.interface.failures import shortened
from rrext.errors import ResultTooLarge, RrextError, Unavailable
from rrext.server.inflight import InFlight
from rrext.server.outbox import Outbox, Sink
from rrext.wire.connection import ServedConnection
from rrext.wire.messages import Request

if TYPE_CHECKING:
    from rrext.engine.interface.clients import ConnectedClient
    from rrext.limits import Limits
    from rrext.server.call_feed import LateEvent
    from rrext.server.waiting import WaitingRequests


class SessionAnswers:
    """Writes the answers of a session to its outbox, in batches where it can, and takes each call out of the table.

    Made on the loop's thread; answers come from any thread. `on_answer` is called after each answer while `reports_answers`
    is set.
    """

    __slots__ = (
        "_batch_thread", "_flush_is_due", "_inflight", "_late", "_loop", "_loop_thread", "_on_answer", "_waiting",
        "client", "connection", "limits", "outbox", "reports_answers",
    )  # fmt: skip

    def __init__(
        self,
        connection: ServedConnection,
        sink: Sink,
        waiting: WaitingRequests,
        client: ConnectedClient,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        on_answer: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.outbox = Outbox(sink, limits.outbox_bytes, loop, self._room)
        self.limits = limits
        self.client = client
        self.reports_answers = False
        self._inflight: InFlight = waiting.inflight
        self._waiting = waiting
        self._loop = loop
        self._loop_thread = get_ident()
        self._on_answer = on_answer
        self._late: set[LateEvent] = set()
        self._batch_thread = 0
        self._flush_is_due = False

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
            self._waiting.wake()
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
        if thread == self._batch_thread:
            outbox.append(pieces)
            if thread != self._batch_thread:  # reading was just taken from this thread: its last flush was before this answer
                outbox.flush()
        elif thread != self._loop_thread or not (self._inflight.calls or self._flush_is_due):
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

    def _room(self) -> None:
        """The outbox has room: send delayed events, then start a few held requests per iteration of the loop."""
        late = self._late
        while late and not self.outbox.is_full:
            late.pop().catch_up()
        if not self.outbox.is_full:
            self._inflight.answered_over = 0
        self._waiting.begin_some()
        if self.reports_answers:
            self._on_answer()
