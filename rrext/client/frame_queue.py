"""Frames on their way out: whole, in order, and withdrawable until their first byte is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock

import anyio

from rrext.client.channel import Channel
from rrext.client.event_loop import EventLoop
from rrext.limits import ATOMIC_WRITE
from rrext.transports.descriptor_channel import Buffer


class QueuedFrame:
    """One frame that waits for its place in the stream."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence[Buffer]) -> None:
        self.pieces = pieces


class FrameQueue:
    """Writes frames one after the other. Putting never waits, and no cancelled caller can tear a frame apart.

    What fits is written by `put` itself, from any thread; the rest by `run`, which is a task. `on_broken` is called once,
    on the loop's thread, when the peer no longer takes bytes; from then on frames are dropped, as their calls fail for the
    same reason.
    """

    __slots__ = ("_begun", "_channel", "_lock", "_loop", "_on_broken", "_queue", "_shut", "_wake")

    def __init__(self, channel: Channel, loop: EventLoop, on_broken: Callable[[], None]) -> None:
        self._channel = channel
        self._loop = loop
        self._on_broken = on_broken
        self._lock = Lock()
        """Held to write a frame and to change the queue."""
        self._queue: deque[QueuedFrame] = deque()
        self._begun: list[Buffer] = []
        """The rest of a frame whose first bytes are written."""
        self._wake = anyio.Event()
        self._shut = False

    def put(self, pieces: Sequence[Buffer], *, urgent: bool = False) -> QueuedFrame | None:
        """Send a frame; an urgent one goes before all queued ones. The frame is returned if none of its bytes is written."""
        self._lock.acquire()  # not `with`, which costs a hundredth of a call more
        try:
            if self._shut:
                return None
            rest: Sequence[Buffer] = pieces
            is_small = len(pieces) == 1 and len(pieces[0]) <= ATOMIC_WRITE
            if not (self._begun or self._queue) and (is_small or self._loop.is_here):
                try:
                    rest = self._channel.write_now(pieces)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    self._break()
                    return None
                if not rest:
                    return None
            frame = self._keep(pieces, rest, urgent)
        finally:
            self._lock.release()
        self._loop.run(self._look)
        return frame

    def _keep(self, pieces: Sequence[Buffer], rest: Sequence[Buffer], urgent: bool) -> QueuedFrame | None:
        """Queue the unwritten pieces for `run`; the frame in return if no byte of it is written."""
        if len(rest) < len(pieces) or rest[0] is not pieces[0]:
            self._begun = list(rest)
            return None
        frame = QueuedFrame(pieces)
        if urgent:
            self._queue.appendleft(frame)
        else:
            self._queue.append(frame)
        return frame

    def withdraw(self, frame: QueuedFrame) -> bool:
        """Take a frame out of the queue; False if its first bytes are written."""
        with self._lock:
            try:
                self._queue.remove(frame)
            except ValueError:
                return False
            return True

    def shut(self) -> None:
        """Write nothing more: the channel is about to be closed, and another may have its descriptor then."""
        with self._lock:
            self._shut = True
            self._queue.clear()

    async def run(self) -> None:
        """Write the queued frames, until the peer no longer takes bytes."""
        try:
            while True:
                while not self._next():
                    await self._wake.wait()
                await self._channel.write(self._begun)
                with self._lock:
                    self._begun = []
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            with self._lock:
                self._break()

    def _look(self) -> None:
        self._wake.set()

    def _next(self) -> bool:
        """Make sure that there is something to write, or that `put` will tell."""
        with self._lock:
            if not self._begun and self._queue:
                self._begun = list(self._queue.popleft().pieces)
            if not self._begun:
                self._wake = anyio.Event()
            return bool(self._begun)

    def _break(self) -> None:
        if not self._shut:
            self._shut = True
            self._queue.clear()
            self._loop.run(self._on_broken)

    def __repr__(self) -> str:
        state = "shut" if self._shut else "writing" if self._begun else "idle"
        return f"<FrameQueue {state}, {len(self._queue)} frames wait>"
