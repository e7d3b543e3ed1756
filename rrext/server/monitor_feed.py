"""The events of a connection's monitors, on their way to the client."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.limits import MAX_LATE_EVENT_BYTES

if TYPE_CHECKING:
    from rrext.server.session import Session


class MonitorFeed:
    """Sends events in order, from any thread. For a slow reader some wait; more are dropped, and counted in the next."""

    __slots__ = ("_dropped", "_late", "_late_bytes", "_lock", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._late: deque[list[bytes]] = deque()
        self._late_bytes = 0
        self._dropped = 0
        self._lock = threading.RLock()  # as that of the outbox

    def tell(self, name: str, body: dict[str, Any]) -> bool:
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
