"""Reads requests on the loop, or temporarily on a worker thread that also runs quick tools.

A sync tool must not block the loop, and a hop to a thread and back costs more than most tools. So after a batch of only
quick sync calls the loop hands reading to a worker. That thread reads, runs each quick tool itself and writes the answer,
without a hop. It hands other requests back to the loop, together with reading. Meanwhile a watch ticks on the loop: if a
tool runs longer than `limits.quick`, the loop takes reading back and serves the other requests.

To stop the reading of a thread, `_reading` is removed under the lock. The thread then finishes its running tool and reads no
more.
Reading is taken away only inside a tool (`Session.runs_inline`), never while the thread decides about a request, so that no
request is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rrext.limits import CALM_TICKS, REQUEST_COST, STEADY_CALLS, STEADY_TICKS
from rrext.server.session import Session
from rrext.threads import Workers
from rrext.transports.descriptors import wait_readable, waits_to_be_read
from rrext.wire.codec import no_memory
from rrext.wire.framing import Framer
from rrext.wire.messages import Fatal, ServerEvent

ALL: Final = 1 << 30

log: Final = logging.getLogger("rrext.reader")


class _ThreadReading:
    """One thread's time as the reader.

    `calls` counts up with every call, so that the watch notices a call that stays. `todo` are the events that were read and
    not handled; the first one is being handled while `in_call` is set. A thread that `has_left` reads no more.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.in_call = False
        self.has_left = False
        self.seen = -1
        self.still = 0
        self.watched = False
        self.todo: deque[Any] = deque()


class Reader:
    """Reads a descriptor for a session until the end of the input, then calls `on_end` on the loop."""

    __slots__ = (
        "_fd", "_file_batch", "_framer", "_last_reading", "_lock", "_loop", "_most", "_on_end", "_on_left", "_reading",
        "_rest", "_session", "_share", "_tick", "_workers", "ended", "paused",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        framer: Framer[ServerEvent],
        fd: int,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        on_end: Callable[[], None],
        *,
        share: int = ALL,
    ) -> None:
        """`share` is the number of events handled in one iteration of the loop, so that other work runs between."""
        self._session = session
        self._framer = framer
        self._fd = fd
        self._loop = loop
        self._workers = workers
        self._on_end = on_end
        self._share = share
        self._tick = session.limits.quick
        self._most = session.limits.max_inflight_bytes
        self._lock = threading.Lock()
        self._reading: _ThreadReading | None = None
        self._last_reading: _ThreadReading | None = None
        self._on_left: Callable[[], object] | None = None
        self._rest: list[Any] = []
        self._file_batch: threading.Event | None = None
        self.ended = False
        self.paused = False

    def start(self) -> None:
        """Begin to read on the loop. A regular file, which a loop cannot watch, is read by a thread."""
        try:
            self._loop.add_reader(self._fd, self._readable)
        except PermissionError:  # a file cannot be paused: read at most half of what may be in flight
            self._most = min(self._most, self._session.limits.max_inflight * REQUEST_COST // 2)
            self._workers.run(self._read_file)

    def stop(self) -> None:
        """Stop reading. A thread that waits in a read is left there, and its input is dropped."""
        self.ended = True
        with self._lock:
            reading, self._reading = self._reading, None
        if reading is None and not self.paused:
            self._loop.remove_reader(self._fd)

    @property
    def has_more(self) -> bool:
        """Whether input has arrived that was not read or not handled. Always true for a regular file."""
        if self.ended or self._file_batch is not None:
            return False
        reading = self._reading
        return bool(self._rest or (reading is not None and reading.todo)) or waits_to_be_read(self._fd)

    def when_left(self, action: Callable[[], object]) -> None:
        """Run `action`, which may close the descriptor, when no thread reads from it. After `stop`, on the loop."""
        self._on_left = action
        if self._last_reading is None or self._last_reading.has_left:
            self._leave()

    def _leave(self) -> None:
        action, self._on_left = self._on_left, None
        if action is not None:
            action()

    def unpause(self) -> None:
        """Resume paused reading, if the unanswered requests are below their limit."""
        session = self._session
        if not self.paused or self.ended or session.unread_bytes > self._most:
            return
        log.debug("reading goes on")
        self.paused = False
        session.reports_answers = session.is_draining
        if self._file_batch is not None:
            self._file_batch.set()
        else:
            self._loop.add_reader(self._fd, self._readable)

    def _pause(self) -> None:
        """Pause reading until answers make room; an answer that came just before is noticed in the next iteration."""
        log.debug("reading pauses: too much waits for an answer")
        self.paused = self._session.reports_answers = True
        self._loop.call_soon(self.unpause)

    # -- the loop reads

    def _readable(self, events: list[Any] | None = None) -> None:
        """Read and handle what has arrived, or handle events that were read before."""
        if events is None:
            events = self._read()
        if not events:
            return
        session = self._session
        if len(events) > self._share:
            self._loop.remove_reader(self._fd)
            session.handle_all(events[: self._share])
            self._rest = events[self._share :]
            self._loop.call_soon(self._go_on)
            return
        session.handle_all(events)
        if self.ended:
            return
        if session.unread_bytes > self._most:
            self._loop.remove_reader(self._fd)
            self._pause()
        elif session.last_was_quick:
            self._loop.remove_reader(self._fd)
            self._hand_over()

    def _read(self) -> list[Any] | None:
        framer = self._framer
        try:
            count = self._receive()
        except BlockingIOError:  # another reader took the input, or it was a false alarm
            return None
        except OSError as error:
            log.warning("stdin cannot be read any more: %s", error)
            count = 0
        if count == 0:
            self._end()
            return None
        try:
            return framer.buffer_updated(count)
        except MemoryError:
            return self._no_memory()

    def _receive(self) -> int:
        """Read available bytes into the framer, waiting for the first; 0 at the end or after the loss of the peer."""
        try:
            return os.readv(self._fd, [self._framer.get_buffer()])
        except ConnectionError:
            return 0

    def _no_memory(self) -> list[Any]:
        """The end of a connection without memory for what it sent: its next message is not found."""
        log.error("no memory is left for what a client sends, whose connection ends: raise the limit (ulimit -v, ulimit -d)")
        return [Fatal(no_memory())]

    def _go_on(self) -> None:
        """Handle the rest of the read events, after other work of the loop."""
        events, self._rest = self._rest, []
        if not self.ended:
            self._loop.add_reader(self._fd, self._readable)
            self._readable(events)

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        self._finish()

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        session = self._session
        session.handle_all(self._framer.receive_eof())
        self._on_end()

    # -- a thread reads

    def _hand_over(self) -> None:
        reading = self._reading = self._last_reading = _ThreadReading()
        if self._workers.run_now(lambda: self._lead(reading)):
            self._watch(reading)
        else:  # no thread is free, and none can be started
            reading.has_left = True
            self._take_back(reading)

    def _lead(self, reading: _ThreadReading) -> None:
        session = self._session
        framer = self._framer
        try:
            while True:
                try:
                    count = self._receive()
                except BlockingIOError:  # a socket that is stdout too
                    wait_readable(self._fd)
                    continue
                if self._reading is not reading:
                    return
                if count == 0:
                    self._loop.call_soon_threadsafe(self._finish)
                    return
                try:
                    reading.todo.extend(framer.buffer_updated(count))
                except MemoryError:
                    reading.todo.extend(self._no_memory())
                if not self._work_off(reading):
                    return
        except BaseException as error:
            if not isinstance(error, OSError):  # the loop gets the same read error, and handles it
                log.exception("the reading thread failed: the loop reads on")
            session.end_inline()
            self._loop.call_soon_threadsafe(self._take_back, reading)
        finally:
            reading.has_left = True
            if self.ended:
                self._loop.call_soon_threadsafe(self._leave)

    def _work_off(self, reading: _ThreadReading) -> bool:
        """Handle the read events; False if reading was taken away, or goes back to the loop with the remaining events."""
        session, todo = self._session, reading.todo
        handle = session.handle_inline
        while todo:
            session.inline_call = None  # the last call may still run on a worker: the watch must not take this request for it
            reading.calls += 1
            reading.in_call = True
            if not reading.watched:
                reading.watched = True
                self._loop.call_soon_threadsafe(self._watch, reading)
            left = handle(todo[0], len(todo) == 1)
            with self._lock:
                if self._reading is reading:
                    reading.in_call = False
            if reading.in_call:  # the loop reads: the answer must not wait in the outbox for the end of a batch
                session.outbox.flush()
                return False
            if left is not None:
                todo[0] = left
                session.end_inline()
                self._loop.call_soon_threadsafe(self._take_back, reading)
                return False
            todo.popleft()
        session.end_inline()
        return True

    def _watch(self, reading: _ThreadReading) -> None:
        """Take reading back from a thread with an overlong tool; sleep while no calls come. Runs on the loop, at every tick."""
        if self._reading is not reading:
            return
        tick = self._tick
        if reading.calls != reading.seen:
            if reading.calls > reading.seen + STEADY_CALLS:
                tick *= STEADY_TICKS  # each look takes the interpreter from the thread that reads
            reading.seen = reading.calls
            reading.still = 0
        elif reading.in_call:
            if self._session.runs_inline:
                self._steal(reading)
                return
        else:
            reading.still += 1
            if reading.still > CALM_TICKS and self._may_sleep(reading):
                return
        reading.watched = True
        self._loop.call_later(tick, self._watch, reading)

    def _may_sleep(self, reading: _ThreadReading) -> bool:
        """Put the watch to sleep until the thread's next call; False if that call has just begun."""
        reading.still = 0
        reading.watched = False
        return reading.calls == reading.seen

    def _steal(self, reading: _ThreadReading) -> None:
        with self._lock:
            if not (reading.in_call and self._session.runs_inline):
                self._loop.call_later(self._tick, self._watch, reading)
                return
            self._reading = None
            reading.todo.popleft()
        try:
            self._session.overstayed()
        finally:
            self._resume(reading)

    def _take_back(self, reading: _ThreadReading) -> None:
        with self._lock:
            if self._reading is not reading:
                return
            self._reading = None
        self._resume(reading)

    def _resume(self, reading: _ThreadReading) -> None:
        if self.ended:
            return
        self._loop.add_reader(self._fd, self._readable)
        if reading.todo:
            self._readable(list(reading.todo))

    # -- a regular file

    def _read_file(self) -> None:
        """Read a file to the end in batches; the loop handles each before the next is read."""
        framer = self._framer
        self._file_batch = done = threading.Event()
        count = 1
        while count and not self.ended:
            try:
                count = self._receive()
            except OSError as error:
                log.warning("stdin cannot be read any more: %s", error)
                count = 0
            done.clear()
            try:
                events = framer.buffer_updated(count) if count else []
            except MemoryError:
                events = self._no_memory()
            self._loop.call_soon_threadsafe(self._take_batch, events, count == 0)
            done.wait()

    def _take_batch(self, events: list[Any], at_end: bool) -> None:
        session = self._session
        if events and not self.ended:
            session.handle_all(events)
        if at_end:
            self._finish()
        elif session.unread_bytes > self._most:
            self._pause()
        elif self._file_batch is not None:
            self._file_batch.set()

    def __repr__(self) -> str:
        who = "ended" if self.ended else "paused" if self.paused else "a thread" if self._reading else "the loop"
        return f"<Reader fd={self._fd} read by {who}>"
