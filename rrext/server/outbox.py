"""The queue of bytes to one peer. Any thread may send; no write ever blocks.

Pieces are sent in the order of `append`, many in one `writev`. While the peer reads slowly, the rest waits until the loop
finds the descriptor writable. Over `outbox_bytes`, producers of chunks wait and new calls are held.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from rrext.limits import MAX_OUTBOX_PIECES, WAKES_PER_ITERATION
from rrext.threads import note_dropped


class Sink(Protocol):
    """Takes the bytes of answers."""

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Write without blocking and return the number of written bytes; 0 when there is no room.

        Raises `OSError` when the peer is gone.
        """
        ...

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` on the loop's thread when there is room. From any thread."""
        ...


class Outbox:
    """A queue of bytes with one lock around queue and write, so that frames never mix.

    Under the lock nothing is called but the sink, which neither logs nor waits. A finalizer may still send there, when the
    garbage collector runs: so the lock is reentrant, and what is sent inside of a write leaves with it.
    """

    __slots__ = (
        "__weakref__", "_blocked", "_dropped", "_is_writing", "_limit", "_lock", "_loop", "_on_room", "_queue", "_rooms",
        "_sink", "_waiters", "_wanted", "_watchers", "has_failed", "is_broken", "size", "unsent",
    )  # fmt: skip

    def __init__(
        self, sink: Sink, limit: int, loop: asyncio.AbstractEventLoop, on_room: Callable[[], None] = lambda: None
    ) -> None:
        self._sink = sink
        self._limit = limit
        self._loop = loop
        self._on_room = on_room
        self._lock = threading.RLock()
        self._queue: list[bytes | memoryview] = []
        self._waiters: threading.Condition | None = None
        """Of the threads that wait for room; few connections ever have one."""
        self._rooms: list[asyncio.Future[None]] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._blocked = False
        self._is_writing = False
        self._wanted = False
        self.size = self._dropped = 0
        self.unsent: Callable[[], int] = int
        """The bytes that the sink has taken, and the system has not."""
        self.is_broken = False
        self.has_failed = False
        """Whether a write failed though its peer was not gone. No exception is kept: its traceback would hold the bytes."""

    @property
    def is_full(self) -> bool:
        """Whether more than `outbox_bytes` wait in the queue."""
        return self.size > self._limit

    @property
    def held(self) -> int:
        """The bytes that wait here and in the sink."""
        return self.size + self.unsent()

    def be_full_beyond(self, limit: int) -> None:
        """Change the limit. On the loop's thread."""
        self._limit = limit
        self.want_room()

    def append(self, pieces: Sequence[bytes]) -> None:
        """Queue pieces of one frame; `flush` writes them."""
        size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        with self._lock:
            if not self.is_broken:  # a broken outbox is never full: nobody would wait for its room, and look again for ever
                self._queue.extend(pieces)
                self.size += size

    def send(self, pieces: Sequence[bytes]) -> None:
        """Queue pieces of one frame, and write as much of the queue as possible without blocking."""
        size = sum(map(len, pieces))
        with self._lock:
            self._queue.extend(pieces)
            self.size += size
            self._write()

    def flush(self) -> None:
        """Write as much of the queue as possible without blocking."""
        if self._queue:
            with self._lock:
                self._write()

    def retry(self) -> None:
        """Write although the loop has not reported room. From any thread."""
        with self._lock:
            self._blocked = False
            self._write()

    def wait_for_room(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Block this worker thread until the outbox is not full or is broken, or `wake_waiters` finds its wait over."""
        if self.is_full:
            with self._lock:
                waiters = self._waiters = self._waiters or threading.Condition(self._lock)
                while self.is_full and not self.is_broken and not is_over():
                    self._wanted = True
                    waiters.wait()

    def wake_waiters(self) -> None:
        """Let the threads that wait for room check whether their wait is over. From any thread."""
        with self._lock:
            self._notify()

    def want_room(self) -> None:
        """Request a call of `on_room` when the outbox is not full, also if it never was."""
        with self._lock:
            self._wanted = True
            if not self.is_full:
                self._wake_all()

    async def room(self) -> None:
        """Wait on the loop, in arrival order, until the outbox is not full, or broken."""
        await self._wait(self._rooms, lambda: not self.is_full)

    async def drained(self) -> None:
        """Wait on the loop until the queue is written or the outbox is broken."""
        await self.until(lambda: not self._queue)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait on the loop until `reached()`, checked after each write, or until the outbox is broken."""
        await self._wait(self._watchers, reached)

    async def _wait(self, line: list[asyncio.Future[None]], reached: Callable[[], bool]) -> None:
        while not (reached() or self.is_broken):
            ready: asyncio.Future[None] = self._loop.create_future()
            with self._lock:
                if reached():
                    return
                line.append(ready)
                self._wanted = True
            await ready

    def _write(self) -> None:
        """Under the lock: write until the queue is empty or the sink is full."""
        if self.is_broken:
            self._forget()
        elif not (self._blocked or self._is_writing):
            self._is_writing = True
            try:
                self._write_what_fits()
            finally:
                self._is_writing = False
        if self._wanted and not self.is_full:
            self._wake_all()

    def _write_what_fits(self) -> None:
        queue = self._queue
        try:
            while queue:
                pieces = queue[:MAX_OUTBOX_PIECES]
                written = self._sink.write(pieces)
                if written == self.size:
                    queue.clear()
                    self.size = 0
                    return
                if not self._consume(written, pieces):
                    self._blocked = True
                    self._sink.when_writable(self._resume)
                    return
        except (OSError, MemoryError) as error:  # what was not sent for want of memory is missing in the middle of a frame
            self.has_failed = not isinstance(error, ConnectionError)
            self.is_broken = True
            self._forget()

    def _consume(self, written: int, pieces: list[bytes | memoryview]) -> bool:
        """Remove `written` bytes from the queue; False if a part of `pieces` is left."""
        self.size -= written
        queue = self._queue
        for count, piece in enumerate(pieces):
            length = len(piece)
            if written < length:
                if written:
                    queue[count] = memoryview(piece)[written:]
                del queue[:count]
                return False
            written -= length
        del queue[: len(pieces)]
        return True

    def _resume(self) -> None:
        """Go on to write, now that the descriptor is writable. On the loop's thread."""
        with self._lock:
            self._blocked = False
            self._wanted = True
            self._write()

    def _wake_all(self) -> None:
        """Wake the threads and coroutines that wait for room. Under the lock."""
        self._wanted = False
        self._notify()
        try:
            self._loop.call_soon_threadsafe(self._wake_on_loop)
        except RuntimeError:  # the loop is closed, so no coroutine waits
            pass

    def _wake_on_loop(self) -> None:
        _wake(self._watchers, len(self._watchers))
        _wake(self._rooms, WAKES_PER_ITERATION)
        if self._rooms:
            self.want_room()
        self._on_room()

    def break_off(self) -> None:
        """Break the outbox of a peer that is gone: drop the queue and wake all waiters. On the loop's thread."""
        with self._lock:
            self.is_broken = True
            self._forget()
        note_dropped(self._loop, self._dropped)
        _wake(self._watchers, len(self._watchers))
        _wake(self._rooms, len(self._rooms))

    def _forget(self) -> None:
        self._dropped += self.size
        self._queue.clear()
        self.size = 0
        self._notify()

    def _notify(self) -> None:
        if self._waiters is not None:
            self._waiters.notify_all()


def _wake(line: list[asyncio.Future[None]], count: int) -> None:
    woken = line[:count]
    del line[:count]
    for ready in woken:
        if not ready.done():
            ready.set_result(None)
