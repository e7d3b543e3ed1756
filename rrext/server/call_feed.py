"""Progress and chunks of one call, as events that name its request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from rrext.server.session import Session


class LateEvent(Protocol):
    """An event that waits until the outbox has room."""

    def catch_up(self) -> None:
        """Send the event, as it is now."""
        ...


class SessionFeed:
    """Sends the progress and chunks of a call as events. Progress for a slow reader waits; it is sent before the answer or
    dropped.
    """

    __slots__ = ("_ended", "_id", "_latest", "_lock", "_session")

    def __init__(self, session: Session, request_id: int | str | None) -> None:
        self._session = session
        self._id = request_id
        self._latest: list[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()  # what was begun before the end is in the outbox before the answer

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

    def catch_up(self) -> None:
        """Send the latest progress, now that the outbox has room."""
        with self._lock:
            latest, self._latest = self._latest, None
            if latest is not None:
                self._session.send(latest)

    def end(self) -> list[bytes]:
        """End the feed; return the last events to send before the answer."""
        with self._lock:
            self._ended = True
            latest, self._latest = self._latest, None
        if self._session.outbox.is_full:
            self._session.outbox.wake_waiters()  # the producer of this call's chunks may be one
        return latest or []

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
