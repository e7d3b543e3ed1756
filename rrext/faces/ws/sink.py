"""The way of answers from an outbox to a WebSocket: whole messages, as fast as the client reads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from typing import Final

from rrext.faces.ws.protocol import SocketProtocol
from rrext.limits import KIB

SINK_WINDOW: Final = 256 * KIB
"""Bytes of answers that are handed over to be sent at a time; the others wait in the outbox, which is limited."""


class MessageSink:
    """Sends messages, a piece each, while the client reads. Made on the loop's thread; other threads hand theirs over to it."""

    def __init__(self, protocol: SocketProtocol, loop: asyncio.AbstractEventLoop) -> None:
        self._protocol = protocol
        self._loop = loop
        self._loop_thread = get_ident()
        self._lock = Lock()
        self._handed: deque[bytes | memoryview] = deque()
        """The messages of other threads, in order."""
        self.handed_bytes = 0
        """The size of these."""
        self._action: Callable[[], None] | None = None
        self._changed = asyncio.Event()
        self._is_lost = False
        self._is_loop_stuck = False
        protocol.on_writable = self._on_writable
        self.on_room: Callable[[], object] = lambda: None
        """Called when the client has read what was sent."""

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Take as many messages as there is room for; the number of their bytes."""
        if self._is_lost:
            raise ConnectionResetError("the client is gone")
        if get_ident() != self._loop_thread and not self._is_loop_stuck:
            return self._hand_over(pieces)
        self._send_handed()
        if self._handed or not self._protocol.writable.is_set():
            return 0
        taken, size = _first(pieces)
        self._protocol.send_messages(taken)
        return size

    def _hand_over(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self.handed_bytes >= SINK_WINDOW:
            return 0
        taken, size = _first(pieces)
        with self._lock:
            self.handed_bytes += size
        self._handed.extend(taken)
        self._on_loop(self._go_on)
        return size

    def go_without_loop(self) -> None:
        """From now on send in the thread that writes: the loop is stuck, and the process ends."""
        self._is_loop_stuck = True

    def when_writable(self, action: Callable[[], None]) -> None:
        self._on_loop(lambda: self._wait(action))

    def _on_loop(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed, and nobody gets answers any more
            pass

    # on the loop

    def _wait(self, action: Callable[[], None]) -> None:
        self._action = action
        self._go_on()

    @property
    def unsent_bytes(self) -> int:
        """What it has taken, and the system has not."""
        return self.handed_bytes + self._protocol.unsent_bytes

    def _on_writable(self) -> None:
        self._go_on()
        self.on_room()

    def _go_on(self) -> None:
        """Send what other threads handed over, and let the outbox write if there is room."""
        was_full = self.handed_bytes >= SINK_WINDOW
        self._send_handed()
        if was_full:
            self.on_room()
        if self._action is not None and (self._is_lost or (self._protocol.writable.is_set() and not self._handed)):
            action, self._action = self._action, None
            self._loop.call_soon(action)

    def _send_handed(self) -> None:
        handed = self._handed
        if self._is_lost:
            handed.clear()
            self.handed_bytes = 0
        while handed and self._protocol.writable.is_set():
            taken, size = _first(list(handed))
            try:
                self._protocol.send_messages(taken)
            except ConnectionError:  # the connection ends, which its messages say too
                self.lose()
                return
            for _ in taken:
                handed.popleft()
            with self._lock:
                self.handed_bytes -= size
        if not handed:
            self._changed.set()

    async def drained(self) -> None:
        """Wait until the messages of other threads are sent, or the client is lost."""
        while self._handed and not self._is_lost:
            self._changed.clear()
            await self._changed.wait()

    def lose(self) -> None:
        """Take no more: the client is gone."""
        if not self._is_lost:
            self._is_lost = True
            self._changed.set()
            self._go_on()


def _first(pieces: Sequence[bytes | memoryview]) -> tuple[list[bytes | memoryview], int]:
    """The first messages, up to a limited size, and their size."""
    taken: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if size >= SINK_WINDOW:
            break
        taken.append(piece)
        size += len(piece)
    return taken, size
