"""Who reads the requests: the loop, or for a while a worker thread that also runs quick tools.

A sync tool must not block the loop, and a hop to a thread and back costs more than most tools. So when a batch was
nothing but quick sync calls, the loop hands reading to a worker. That thread reads, runs each quick tool itself and
writes the answer: no hop at all. What it cannot finish itself it hands back, together with reading. A watch on the loop
ticks while it reads: a tool that stays longer than `limits.quick` loses reading to the loop, and everybody else goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from rrext.server.session import Session
from rrext.transports.descriptors import read_into
from rrext.workers import Workers

__all__ = ["Reader"]

CALM_TICKS = 50  # ticks without a call before the watch sleeps

log: Final = logging.getLogger("rrext.reader")


class _Turn:
    """One thread's time as the reader. `calls` counts up with every call, so that the watch sees whether one stays."""

    __slots__ = ("calls", "in_call", "seen", "still", "todo", "watched")

    def __init__(self) -> None:
        self.calls = 0
        self.in_call = False
        self.seen = -1
        self.still = 0
        self.watched = False
        self.todo: deque[Any] = deque()


class Reader:
    """Reads one descriptor into one session until its end. `on_end` runs on the loop when there is nothing more."""

    __slots__ = ("_fd", "_lock", "_loop", "_on_end", "_session", "_tick", "_turn", "_workers", "can_lead", "ended", "paused")

    def __init__(
        self,
        session: Session,
        fd: int,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        on_end: Callable[[], None],
    ) -> None:
        self._session = session
        self._fd = fd
        self._loop = loop
        self._workers = workers
        self._on_end = on_end
        self._tick = session.limits.quick
        self._lock = threading.Lock()
        self._turn: _Turn | None = None
        self.can_lead = True
        self.ended = False
        self.paused = False

    def start(self) -> None:
        """Begin to read, on the loop; a regular file, which a loop cannot watch, is read by a thread."""
        try:
            self._loop.add_reader(self._fd, self._readable)
        except PermissionError:
            self._workers.run(self._read_file)

    def stop(self) -> None:
        """Read no more. A thread that waits in a read is left there; what it reads is dropped."""
        self.ended = True
        with self._lock:
            turn, self._turn = self._turn, None
        if turn is None and not self.paused:
            self._loop.remove_reader(self._fd)

    def unpause(self) -> None:
        """Read again, once what waits is below `max_inflight_bytes`."""
        session = self._session
        if self.paused and not self.ended and session.unread_bytes <= session.limits.max_inflight_bytes:
            self.paused = False
            self._loop.add_reader(self._fd, self._readable)

    # -- the loop reads

    def _readable(self) -> None:
        connection = self._session.connection
        count = read_into(self._fd, connection.get_buffer())
        if count == 0:
            self._end()
            return
        events = connection.buffer_updated(count)
        if events:
            self._handle(events)

    def _handle(self, events: list[Any]) -> None:
        session = self._session
        session.handle_all(events)
        if self.ended:
            return
        if session.unread_bytes > session.limits.max_inflight_bytes:
            self.paused = session.reports_answers = True
            self._loop.remove_reader(self._fd)
        elif session.last_was_quick and self.can_lead:
            self._loop.remove_reader(self._fd)
            self._hand_over()

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        self._finish()

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        session = self._session
        session.handle_all(session.connection.receive_eof())
        self._on_end()

    # -- a thread reads

    def _hand_over(self) -> None:
        turn = self._turn = _Turn()
        self._watch(turn)
        self._workers.run(lambda: self._lead(turn))

    def _lead(self, turn: _Turn) -> None:
        session = self._session
        connection = session.connection
        handle = session.handle_inline
        todo = turn.todo
        try:
            while True:
                count = read_into(self._fd, connection.get_buffer())
                if self._turn is not turn:
                    return
                if count == 0:
                    self._loop.call_soon_threadsafe(self._finish)
                    return
                todo.extend(connection.buffer_updated(count))
                while todo:
                    event = todo.popleft()
                    turn.calls += 1
                    turn.in_call = True
                    if not turn.watched:
                        turn.watched = True
                        self._loop.call_soon_threadsafe(self._watch, turn)
                    taken = handle(event)
                    with self._lock:
                        if self._turn is not turn:
                            return
                        turn.in_call = False
                    if not taken:
                        todo.appendleft(event)
                        session.end_inline()
                        self._loop.call_soon_threadsafe(self._take_back, turn)
                        return
                session.end_inline()
        except BaseException:
            log.exception("the reading thread failed: the loop reads on")
            self._loop.call_soon_threadsafe(self._take_back, turn)

    def _watch(self, turn: _Turn) -> None:
        """On the loop, every tick: take reading back from a thread whose tool stays; sleep when nothing happens."""
        if self._turn is not turn:
            return
        if turn.calls == turn.seen:
            turn.still += 1
            if turn.in_call:
                self._steal(turn)
                return
            if turn.still > CALM_TICKS:
                turn.still = 0
                turn.watched = False  # the thread wakes the watch with its next call
                return
        else:
            turn.seen = turn.calls
            turn.still = 0
        turn.watched = True
        self._loop.call_later(self._tick, self._watch, turn)

    def _steal(self, turn: _Turn) -> None:
        with self._lock:
            if not turn.in_call or self._turn is not turn:
                self._loop.call_later(self._tick, self._watch, turn)
                return
            self._turn = None
        self._session.overstayed()
        self._resume(turn)

    def _take_back(self, turn: _Turn) -> None:
        with self._lock:
            if self._turn is not turn:
                return
            self._turn = None
        self._resume(turn)

    def _resume(self, turn: _Turn) -> None:
        if self.ended:
            return
        self._loop.add_reader(self._fd, self._readable)
        if turn.todo:
            self._handle(list(turn.todo))

    # -- a regular file

    def _read_file(self) -> None:
        """Read to the end, then let the loop handle all: a file of requests is small, and never waits for answers."""
        connection = self._session.connection
        while not self.ended:
            count = read_into(self._fd, connection.get_buffer())
            events = connection.buffer_updated(count) if count else []
            done = threading.Event()
            self._loop.call_soon_threadsafe(self._take_batch, events, count == 0, done)
            done.wait()
            if count == 0:
                return

    def _take_batch(self, events: list[Any], at_end: bool, done: threading.Event) -> None:
        try:
            if events and not self.ended:
                self._session.handle_all(events)
            if at_end:
                self._finish()
        finally:
            done.set()

    def __repr__(self) -> str:
        who = "ended" if self.ended else "paused" if self.paused else "a thread" if self._turn else "the loop"
        return f"<Reader fd={self._fd} read by {who}>"
