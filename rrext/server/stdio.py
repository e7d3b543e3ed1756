"""Serving one client over stdin and stdout: from the claim of the descriptors to the exit code.

The end comes in one of six ways. `shutdown` or `disconnect`, SIGTERM and SIGINT drain; the end of stdin and the death of
the parent give what was read a short grace; a client that no longer reads, and bytes that cannot be resynchronised, end at
once. Every request is answered before the process goes, and no stuck tool keeps it: where the loop itself is stuck, the
watchman ends without it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final, Protocol

import msgspec

from rrext.engine.calls.host import Host
from rrext.engine.interface import Caller, Engine
from rrext.errors import Cancelled, RrextError, ShuttingDown
from rrext.limits import Limits
from rrext.server.outbox import Outbox
from rrext.server.reader import Reader
from rrext.server.session import Session
from rrext.server.watchdog import Watchdog
from rrext.server.watchman import Watchman
from rrext.transports.descriptors import DescriptorSink
from rrext.transports.parent import ParentWatch
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import ServerEvent

__all__ = ["StdioServer"]

FLUSH: Final = 0.1  # seconds beyond the grace in which a peer may read the last answers
LEAVE: Final = 0.2  # seconds beyond the grace until what nodes share is not waited for any longer
OVERDUE: Final = 0.25  # seconds beyond the grace until the watchman takes over
EXIT_LOST: Final = 1  # answers were not read in time

log: Final = logging.getLogger("rrext.server")


class _Ending(msgspec.Struct, frozen=True):
    """How calls are told that did not finish, and the exit code."""

    reason: str
    error: Callable[[], RrextError]
    code: int = 0
    slack: float = 0.6
    """Seconds beyond `OVERDUE` until the process is killed."""


DRAINED: Final = _Ending("shutting_down", lambda: ShuttingDown("the server ended before this call did"))
GONE: Final = _Ending("disconnected", lambda: Cancelled("cancelled: the connection is gone"), slack=0.1)
UNREADABLE: Final = _Ending("disconnected", lambda: Cancelled("cancelled: the connection cannot be read any more"), 1)


class Claimed(Protocol):
    """The descriptors of a claimed stdio."""

    read_fd: int
    write_fd: int

    def silence(self) -> None:
        """Let nothing that is printed fail because nobody reads it."""
        ...


class StdioServer:
    """One client, one process. `run` returns the exit code, unless the loop is stuck: then the process ends without it.

    `last_words` is called before that, to write what is buffered.
    """

    def __init__(
        self,
        engine: Engine,
        host: Host,
        stdio: Claimed,
        *,
        limits: Limits,
        parent: ParentWatch | None = None,
        watchdog: Watchdog | None = None,
        last_words: Callable[[], object] = lambda: None,
    ) -> None:
        self._engine = engine
        self._loop = host.loop
        self._limits = limits
        self._write_fd = stdio.write_fd
        self._last_words = last_words
        self._until: float | None = None
        self._ending = DRAINED
        self._changed = asyncio.Event()
        self._end_task: asyncio.Task[None] | None = None
        self._code: asyncio.Future[int] = self._loop.create_future()
        framer: ContentLength[ServerEvent] = ContentLength(limits)
        self._session = Session(
            engine,
            ServerConnection(framer, limits),
            DescriptorSink(stdio.write_fd, self._loop, self._on_lost),
            loop=self._loop,
            limits=limits,
            caller=Caller(connection_id="stdio"),
            now=host.clock.now,
            on_shutdown=self._shut_down,
            on_answer=self._on_answer,
        )
        self._reader = Reader(self._session, framer, stdio.read_fd, self._loop, host.workers, self._at_end)
        self._watchman = Watchman(
            self._loop,
            stdio.read_fd,
            parent=parent or ParentWatch(),
            poll=limits.parent_poll,
            drain=limits.drain + OVERDUE,
            patience=limits.eof_grace,
            on_signal=self._shut_down,
            on_orphaned=self._on_orphaned,
            on_hung_up=self._on_hung_up,
            on_unheard=stdio.silence,
            on_overdue=self._end_without_loop,
            watchdog=watchdog,
        )

    async def run(self) -> int:
        """Serve until the end; returns 0, or 1 after bytes that were no frames and if answers could not be delivered."""
        self._watchman.start()
        self._reader.start()
        return await self._code

    # -- what begins the end

    def _shut_down(self, why: str) -> None:
        """By `shutdown` or `disconnect`, by a signal, or because of bytes that are no frames."""
        if why == "fatal":
            self._reader.stop()
            self._end_within(0, why, UNREADABLE)
        else:
            self._end_within(self._limits.drain, why, DRAINED)

    def _at_end(self) -> None:
        """The end of stdin: nobody will ask for more, but somebody may still read the answers of what was asked."""
        self._end_within(self._limits.eof_grace, "end of stdin", GONE)

    def _on_orphaned(self) -> None:
        """EOF does not come while a sibling process holds the pipe. That the parent is gone was noticed late."""
        self._end_within(self._limits.eof_grace - self._limits.parent_poll, "the parent process is gone", GONE)

    def _on_hung_up(self) -> None:
        """The peer is gone, and what it wrote last may never be read, as it waits behind work that nobody needs."""
        if self._reader.paused:
            self._at_end()

    def _on_lost(self) -> None:
        """The peer does not read any more: nobody can be answered."""
        self._end_within(0, "nobody reads stdout", GONE)

    def _end_within(self, seconds: float, why: str, ending: _Ending) -> None:
        """Begin to end; if that has begun, be ready no later than this."""
        until = self._loop.time() + seconds
        if self._until is not None:
            if until < self._until:
                self._until = until
                self._changed.set()
        else:
            log.info("ending: %s", why)
            self._until, self._ending = until, ending
            self._session.is_draining = True
            self._end_task = self._loop.create_task(self._end(), name=f"end: {why}")
        self._watchman.expect_end(seconds + OVERDUE, ending.slack)

    # -- the end

    async def _end(self) -> None:
        code = self._ending.code
        try:
            if not await self._answer_all():
                code = EXIT_LOST
            self._session.close()
            await self._within(LEAVE, self._engine.aclose())
        except Exception:
            log.exception("a bug of rrext, while it ended")
        finally:
            self._code.set_result(code)

    async def _answer_all(self) -> bool:
        """Whether the peer has all of its answers, or is gone."""
        session, ending = self._session, self._ending
        session.reports_answers = True
        await self._quiet()
        if session.is_busy:
            log.warning("calls that did not finish in time are given up: %s", ending.reason)
            session.fail_all(ending.reason, ending.error)
            await self._within(FLUSH, self._answered())  # those that a thread is answering right now
        self._reader.stop()  # before the client is told that this is the end
        session.end_with()
        await self._within(FLUSH, session.outbox.drained())
        if session.outbox.size:
            log.warning("the peer did not read the last %d bytes", session.outbox.size)
        return not session.outbox.size

    async def _quiet(self) -> None:
        """Wait until everything is answered, or until the time is over, which somebody may bring forward meanwhile."""
        while self._session.is_busy and (left := self._left(0)) > 0:
            self._changed.clear()
            await _at_most(left, self._changed.wait())

    async def _answered(self) -> None:
        while self._session.is_busy:
            self._changed.clear()
            await self._changed.wait()

    async def _within(self, extra: float, work: Coroutine[Any, Any, None]) -> None:
        """Wait for `work` until `extra` seconds after the grace."""
        if not await _at_most(max(0.0, self._left(extra)), work):
            log.debug("not done in time: %s", work)

    def _left(self, extra: float) -> float:
        assert self._until is not None  # the end has begun
        return self._until + extra - self._loop.time()

    def _on_answer(self) -> None:
        if not self._session.is_busy:
            self._changed.set()
        self._reader.unpause()

    def _end_without_loop(self) -> None:
        """On the watchman's thread: something blocks the loop and does not come back. Answer what can be answered, and go."""
        session = self._session
        try:
            log.error("the event loop is stuck, probably in a tool: ending without it")
            session.is_draining = True
            session.fail_all(self._ending.reason, self._ending.error)
            session.end_with()
            self._write_last(session.outbox)
            self._last_words()
        finally:
            os._exit(EXIT_LOST if session.outbox.size else self._ending.code)

    def _write_last(self, outbox: Outbox) -> None:
        poll = select.poll()
        poll.register(self._write_fd, select.POLLOUT)
        until = monotonic() + FLUSH
        while outbox.size and poll.poll(max(0.0, until - monotonic()) * 1000):
            outbox.retry()

    def __repr__(self) -> str:
        return f"<StdioServer {self._session!r} {self._reader!r}>"


async def _at_most(seconds: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Wait for it; False if it was not done in time, and was cancelled."""
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True
