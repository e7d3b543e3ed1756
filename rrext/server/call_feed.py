"""Events to a client: those of a call, which name its request, with its questions; and those of the connection's monitors."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rrext.limits import MAX_LATE_EVENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rrext.server.outbox import Outbox
    from rrext.server.session import Session
    from rrext.wire.connection import ServedConnection


class LateEvent(Protocol):
    """An event that waits until the outbox has room."""

    def catch_up(self) -> None:
        """Send the event, as it is now."""
        ...


class FeedPort(Protocol):
    """The way of events to a client: a session, or what a session has for the calls of one client."""

    @property
    def connection(self) -> ServedConnection:
        """What gives messages their form."""
        ...

    @property
    def outbox(self) -> Outbox:
        """The queue whose room counts."""
        ...

    @property
    def questions(self) -> Questions:
        """The questions that wait for an answer."""
        ...

    def send(self, pieces: Sequence[bytes], /) -> None:
        """Send a message. From any thread."""
        ...

    def late_event(self, event: LateEvent, /) -> None:
        """Remember an event that waits for room."""
        ...


class LateText:
    """The text of an agent that waits for a slow reader: its pieces become one event."""

    __slots__ = ("_body", "_pieces")

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._pieces: list[str] = [body["data"]]

    def takes(self, body: dict[str, Any]) -> bool:
        """Add the piece of an event of the same agent, unless it tells of dropped ones; False for any other event."""
        own = self._body
        if not is_text(body) or "dropped" in body or (body["call"], body["agent"]) != (own["call"], own["agent"]):
            return False
        self._pieces.append(body["data"])
        return True

    def encoded(self) -> bytes:
        """The body of the event."""
        return msgspec.json.encode({**self._body, "data": "".join(self._pieces)})


def is_text(body: dict[str, Any]) -> bool:
    """Whether an event of a call has a piece of an agent's text."""
    return body.get("step") == "chunk" and isinstance(body.get("data"), str)


class SessionFeed:
    """Sends the progress, the chunks and the calls within a call as events. For a slow reader, the latest progress and some
    events of calls wait, and leave before the answer; pieces of text are joined meanwhile. Beyond that, events of calls are
    dropped and counted, texts before others.
    """

    __slots__ = ("_dropped", "_ended", "_id", "_late_bytes", "_late_events", "_latest", "_lock", "_session")

    def __init__(self, session: FeedPort, request_id: int | str | None) -> None:
        self._session = session
        self._id = request_id
        self._latest: list[bytes] | None = None
        self._late_events: list[bytes | LateText] = []
        self._late_bytes = 0
        self._dropped = 0
        self._ended = False
        self._lock = threading.RLock()  # what was begun before the end is in the outbox before the answer

    def progress(self, value: float, total: float | None, message: str | None) -> None:
        """Send progress; while the outbox is full, keep the latest one for later."""
        if self._ended:
            return
        body: dict[str, object] = {"request": self._id, "progress": value}
        if total is not None:
            body["total"] = total
        if message is not None:
            body["message"] = message.encode("utf-8", "replace").decode()
        encoded = msgspec.json.encode(body)
        session = self._session
        with self._lock:
            if self._ended:
                return
            pieces = session.connection.event("rrext_progress", encoded)
            if session.outbox.is_full:
                self._latest = pieces
                session.late_event(self)
            else:
                self._latest = None
                session.send(pieces)

    def call_event(self, body: dict[str, Any]) -> None:
        """Send an event of this call or of one within it; `dropped` counts the events that a slow reader missed before it."""
        session = self._session
        with self._lock:
            if self._ended:
                return
            late, text = session.outbox.is_full, is_text(body)
            most = MAX_LATE_EVENT_BYTES // 2 if text else MAX_LATE_EVENT_BYTES
            # the end of the call itself is kept: it tells the number
            if late and self._late_bytes > most and (text or "caller" in body or body["event"] != "call_ended"):
                self._dropped += 1
                return
            if self._dropped:
                body["dropped"], self._dropped = self._dropped, 0
            told = {"request": self._id, **body}
            if not late and not self._late_events:
                session.send(session.connection.event("rrext_call", msgspec.json.encode(told)))
                return
            last = self._late_events[-1] if self._late_events else None
            if isinstance(last, LateText) and last.takes(told):
                self._late_bytes += len(told["data"])
            else:
                encoded = msgspec.json.encode(told)
                self._late_events.append(LateText(told) if text else encoded)
                self._late_bytes += len(encoded)
            session.late_event(self)

    async def ask(self, event: str, body: dict[str, Any]) -> Any:
        """Ask the client once it reads, and wait for its answer. A question that is not answered is taken back."""
        await self.room()
        number, answer = self._session.questions.ask(event)
        about = {"request": self._id, event.removeprefix("rrext_"): number}
        self._send(event, {**body, **about})  # which has another number if it passed through a process
        try:
            return await answer
        except asyncio.CancelledError:
            if event == "rrext_question":  # a question for a permit ends with its call
                self._send(event, {**about, "withdrawn": True})
            raise

    def _send(self, event: str, body: dict[str, Any]) -> None:
        encoded = msgspec.json.encode(body)
        with self._lock:
            if not self._ended:
                self._session.send(self._session.connection.event(event, encoded))

    def catch_up(self) -> None:
        """Send what waits, now that the outbox has room."""
        with self._lock:
            for pieces in self._take_late():
                self._session.send(pieces)

    def _take_late(self) -> list[list[bytes]]:
        latest, self._latest = self._latest, None
        waiting, self._late_events, self._late_bytes = self._late_events, [], 0
        bodies = [each.encoded() if isinstance(each, LateText) else each for each in waiting]
        late = [self._session.connection.event("rrext_call", body) for body in bodies]
        return late if latest is None else [*late, latest]

    def end(self) -> None:
        """Send the last events, and end the feed."""
        with self._lock:
            self._ended = True
            for pieces in self._take_late():
                self._session.send(pieces)
        if self._session.outbox.is_full:
            self._session.outbox.wake_waiters()  # the producer of this call's chunks may be one

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Send a chunk; never dropped, so its producer waits for room."""
        if self._ended:
            return
        connection = self._session.connection
        head = msgspec.json.encode({"request": self._id, "index": index})
        if tail is None:
            pieces = connection.event("rrext_chunk", head[:-1] + b',"chunk":' + chunk + b"}")
        else:
            pieces = connection.event("rrext_chunk", head, tail)
        with self._lock:
            if not self._ended:
                self._session.send(pieces)

    def wait_for_room(self) -> None:
        """Block this worker thread while the outbox is full and the call is not answered."""
        self._session.outbox.wait_for_room(lambda: self._ended)

    async def room(self) -> None:
        """Wait on the loop while the outbox is full."""
        await self._session.outbox.room()


class Questions:
    """The unanswered questions of one connection, by their numbers. On the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = count(1)
        self._asked: dict[tuple[str, int], asyncio.Future[Any]] = {}

    def ask(self, event: str) -> tuple[int, asyncio.Future[Any]]:
        """A new question that an event asks: its number, and its answer to wait for."""
        number, answer = next(self._numbers), self._loop.create_future()
        self._asked[event, number] = answer
        answer.add_done_callback(lambda done: self._asked.pop((event, number), None))
        return number, answer

    def answer(self, event: str, number: int, given: Any) -> bool:
        """Answer a question; False if nobody waits for the answer any more, or no such event asked it."""
        answer = self._asked.get((event, number))
        if answer is None or answer.done():
            return False
        answer.set_result(given)
        return True


class MonitorFeed:
    """Sends events in order, from any thread. For a slow reader some wait; more are dropped, and counted in the next."""

    __slots__ = ("_dropped", "_late", "_late_bytes", "_lock", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._late: deque[list[bytes]] = deque()
        self._late_bytes = 0
        self._dropped = 0
        self._lock = threading.RLock()  # as that of the outbox

    def send_event(self, name: str, body: dict[str, Any]) -> bool:
        """Send an event, now or when the outbox has room; it never blocks. False if the event is dropped."""
        session = self._session
        if session.is_closed:
            return False
        with self._lock:
            late = bool(self._late) or session.outbox.is_full
            if late and self._late_bytes > MAX_LATE_EVENT_BYTES:
                self._dropped += 1
                return False
            if self._dropped:
                body, self._dropped = {**body, "dropped": self._dropped}, 0
            pieces = session.connection.event(name, msgspec.json.encode(body))
            if late:
                self._late.append(pieces)
                self._late_bytes += sum(map(len, pieces))
                session.late_event(self)
            else:
                session.send(pieces)
        return True

    def catch_up(self) -> None:
        """Send what waits, as long as the outbox has room."""
        session = self._session
        with self._lock:
            while self._late and not session.outbox.is_full:
                pieces = self._late.popleft()
                self._late_bytes -= sum(map(len, pieces))
                session.send(pieces)
            if self._late:
                session.late_event(self)
