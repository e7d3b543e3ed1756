"""Frames on their way out: whole, in order, and withdrawable until their first byte is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import anyio

from rrext.client.channel import Channel
from rrext.transports.fds import Buffer

__all__ = ["Frame", "Outbox"]


class Frame:
    """One frame that waits for its turn."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence[Buffer]) -> None:
        self.pieces = pieces


class Outbox:
    """Writes frames one after the other. Putting never waits, and no cancelled caller can tear a frame apart.

    What fits is written by `put` itself; the rest by `run`, which is a task. `on_broken` is called once, when the peer
    no longer takes bytes; from then on frames are dropped, as their calls fail for the same reason.
    """

    __slots__ = ("_begun", "_broken", "_channel", "_on_broken", "_queue", "_wake")

    def __init__(self, channel: Channel, on_broken: Callable[[], None]) -> None:
        self._channel = channel
        self._on_broken = on_broken
        self._queue: deque[Frame] = deque()
        self._begun: list[Buffer] = []
        """The rest of a frame whose first bytes are written."""
        self._wake = anyio.Event()
        self._broken = False

    def put(self, pieces: Sequence[Buffer], *, urgent: bool = False) -> Frame | None:
        """Send a frame; an urgent one goes before all that wait. The frame is returned if nothing of it is written yet."""
        if self._broken:
            return None
        if self._begun or self._queue:
            return self._enqueue(pieces, urgent)
        try:
            rest = self._channel.write_now(pieces)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._break()
            return None
        if not rest:
            return None
        if len(rest) == len(pieces) and rest[0] is pieces[0]:
            return self._enqueue(pieces, urgent)
        self._begun = rest
        self._wake.set()
        return None

    def _enqueue(self, pieces: Sequence[Buffer], urgent: bool) -> Frame:
        frame = Frame(pieces)
        if urgent:
            self._queue.appendleft(frame)
        else:
            self._queue.append(frame)
        self._wake.set()
        return frame

    def withdraw(self, frame: Frame) -> bool:
        """Take a frame back; False if some of it is written."""
        try:
            self._queue.remove(frame)
        except ValueError:
            return False
        return True

    async def run(self) -> None:
        """Write what `put` could not, until the peer no longer takes bytes."""
        try:
            while True:
                while not self._next():
                    self._wake = anyio.Event()
                    await self._wake.wait()
                await self._channel.write(self._begun)
                self._begun = []
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._break()

    def _next(self) -> bool:
        """Make sure that there is something to write."""
        if not self._begun and self._queue:
            self._begun = list(self._queue.popleft().pieces)
        return bool(self._begun)

    def _break(self) -> None:
        if not self._broken:
            self._broken = True
            self._queue.clear()
            self._on_broken()

    def __repr__(self) -> str:
        state = "broken" if self._broken else "writing" if self._begun else "idle"
        return f"<Outbox {state}, {len(self._queue)} frames wait>"
