"""The end of a served peer, over any transport: by draining, by the end of its input, by its loss, or by bad bytes.

`shutdown`, `disconnect` and signals drain. At the end of its input a peer gets a short grace for the requests that were
read. A peer that reads no more, or that sent bytes without recognizable frames, ends at once. Every request is answered
before the connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from rrext.engine.host.host import Host
from rrext.engine.interface.call import Caller
from rrext.engine.interface.engine import Engine
from rrext.errors import Cancelled, RrextError, ShuttingDown
from rrext.limits import LAST_REQUESTS_POLL_INTERVAL, LAST_REQUESTS_TIMEOUT, Limits
from rrext.server.outbox import Sink
from rrext.server.session import Session
from rrext.threads import shielded
from rrext.tools.context import CancelReason
from rrext.wire.connection import ServedConnection

if TYPE_CHECKING:
    from rrext.server.recording import Recorder

log: Final = logging.getLogger("rrext.server")


class Cause(msgspec.Struct, frozen=True):
    """The reason of a peer's end, the error of its unfinished calls, and the exit code of a process that ends with it."""

    reason: CancelReason
    error: Callable[[], RrextError]
    code: int = 0
    flush: float = 0.4
    """Seconds beyond the grace in which threads may finish answers, and the peer may read the last ones."""
    slack: float = 0.3
    """Seconds after its time in which a process may still end by itself; then the watchdog kills it."""


DRAINED: Final = Cause("shutting_down", lambda: ShuttingDown("the server ended before this call did"))
CLOSED: Final = Cause("shutting_down", lambda: ShuttingDown("the connection ended before this call did"))
GONE: Final = Cause("disconnected", lambda: Cancelled("cancelled: the connection is gone"), flush=0.1, slack=0.1)
UNREADABLE: Final = Cause("disconnected", lambda: Cancelled("cancelled: the connection cannot be read any more"), 1)


class Grace:
    """The time left until an end. The first `shorten` begins the end; later ones can only shorten the time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until: float | None = None
        self._changed = asyncio.Event()

    def shorten(self, seconds: float) -> bool:
        """Leave at most `seconds` from now; False if the end is as near already."""
        until = self._loop.time() + seconds
        if self._until is not None and until >= self._until:
            return False
        self._until = until
        self._changed.set()
        return True

    @property
    def has_begun(self) -> bool:
        """Whether an end has begun."""
        return self._until is not None

    def left(self, extra: float = 0.0) -> float:
        """Seconds until the end plus `extra`. The end must have begun."""
        assert self._until is not None
        return max(0.0, self._until + extra - self._loop.time())

    def look(self) -> None:
        """Let the waiters in `until` check their conditions."""
        self._changed.set()

    async def until(self, reached: Callable[[], bool], extra: float = 0.0) -> None:
        """Wait until `reached()`, checked after each `look`, at most until `extra` seconds after the grace."""
        while not reached() and (left := self.left(extra)) > 0:
            self._changed.clear()
            await at_most(left, self._changed.wait())

    async def within(self, extra: float, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for `work` until `extra` seconds after the grace; False if it was late and cancelled."""
        return await at_most(self.left(extra), work)


class RestartingTask:
    """A task that begins again after a cancel, because a tool may cancel all tasks of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._loop = loop
        self._work = work
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work(), name=self._name)
        self._task.add_done_callback(self._restart)

    def _restart(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._begin()


class PeerReader(Protocol):
    """The reader of a peer's bytes."""

    def stop(self) -> None:
        """Stop reading."""
        ...

    def unpause(self) -> None:
        """Resume paused reading, if the unanswered requests are below their limit."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether requests have arrived that are not handled yet."""
        ...


class Peer:
    """One served peer: its session, and the end of it.

    `on_shutdown(why)` runs the command `shutdown`, if that ends more than this peer. `on_ending(seconds)` is called when the
    end begins or is shortened. `reading` must be set before the first read. `kind` is the class of its session, and
    `recorder` writes its messages.
    """

    reading: PeerReader

    def __init__(
        self,
        engine: Engine,
        connection: ServedConnection,
        sink: Sink,
        *,
        host: Host,
        limits: Limits,
        caller: Caller,
        on_shutdown: Callable[[str], None] | None = None,
        on_ending: Callable[[float], object] = lambda seconds: None,
        closed: Cause = CLOSED,
        kind: type[Session] = Session,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorded = None if recorder is None else recorder.follow(connection, caller.connection_id)
        self._loop = host.loop
        self._limits = limits
        self._on_shutdown = on_shutdown
        self._on_ending = on_ending
        self._closed = closed
        self._end_task: RestartingTask | None = None
        self._over: asyncio.Future[None] = self._loop.create_future()
        self.grace = Grace(self._loop)
        self.cause: Cause = closed
        self._had_all: bool | None = None  # at the end
        self.session = kind(
            engine,
            connection if self._recorded is None else cast("ServedConnection", self._recorded),  # its raw_tail is a property
            sink,
            loop=host.loop,
            limits=limits,
            caller=caller,
            now=host.clock.now,
            on_shutdown=self._on_command,
            on_answer=self._on_answer,
        )

    # -- reasons to end

    def _on_command(self, why: str) -> None:
        """End the peer after `shutdown`, `disconnect`, or bytes that are no frames."""
        if why == "fatal":
            self.reading.stop()
            self.end_within(0, why, UNREADABLE)
        elif why == "shutdown" and self._on_shutdown is not None:
            self._on_shutdown(why)
        else:
            self.end_within(self._limits.drain, why, self._closed)

    def input_ended(self, why: str = "end of input") -> None:
        """End the peer after its last request; it may still read answers."""
        self.session.connection.input_ended()
        self.end_within(self._limits.eof_grace, why, GONE)

    def lost(self, why: str = "nobody reads the answers") -> None:
        """End the peer at once: it cannot get answers."""
        self.end_within(0, why, GONE)

    def end_within(self, seconds: float, why: str, cause: Cause) -> None:
        """Begin the end, or shorten an end that has begun. On the loop's thread."""
        begins = not self.grace.has_begun
        if not self.grace.shorten(seconds):
            return
        if begins:
            self._log(logging.INFO, "%s ends: %s", why)
            self.cause = cause
            if self._recorded is not None:
                self._recorded.ended(why)
            self.session.is_draining = True
            self._end_task = RestartingTask(self._loop, self._end, f"end: {why}")
        self._on_ending(seconds)

    # -- the end

    async def ended(self) -> None:
        """Wait until the session is closed."""
        await shielded(self._over)

    async def _end(self) -> None:
        try:
            await self._answer_all()
        except Exception:
            log.exception("a bug of rrext, while a connection ended")
            self._had_all = False
        try:
            self.session.close()
        finally:
            if not self._over.done():
                self._over.set_result(None)

    async def _answer_all(self) -> None:
        session, cause, grace = self.session, self.cause, self.grace
        session.reports_answers = True
        await grace.until(self._is_quiet)
        if cause is not GONE:
            await self._read_rest()
        if session.is_busy:
            self._log(logging.WARNING, "%s: calls that did not finish in time are given up: %s", cause.reason)
            session.fail_all(cause.reason, cause.error)
            await grace.until(self._is_quiet, cause.flush)  # those that a thread is answering right now
        self.reading.stop()  # before the client is told that this is the end
        session.end_with()
        await grace.within(cause.flush, session.outbox.drained())
        self._had_all = self.has_all
        if session.outbox.size:
            self._log(logging.WARNING, "%s did not read the last %d bytes", session.outbox.size)

    def _log(self, level: int, text: str, what: object) -> None:
        """Log what became of the client; of a stranger, of whom any number may come, as a detail."""
        caller = self.session.caller
        log.log(logging.DEBUG if caller.is_stranger else level, text, caller.connection_id, what)

    async def _read_rest(self) -> None:
        """Refuse requests that were sent before the peer could know of the end, for a limited time."""
        until = self._loop.time() + LAST_REQUESTS_TIMEOUT
        for _ in range(int(LAST_REQUESTS_TIMEOUT / LAST_REQUESTS_POLL_INTERVAL)):
            if not self.reading.has_more or self._loop.time() >= until:
                return
            await asyncio.sleep(LAST_REQUESTS_POLL_INTERVAL)

    @property
    def has_all(self) -> bool:
        """Whether the peer has all of its answers, or is gone; after the end, whether it was so then. From any thread."""
        outbox = self.session.outbox
        has_all = not (self.session.is_busy or outbox.size or outbox.has_failed)
        return has_all if self._had_all is None else self._had_all  # noted before the close empties what was looked at

    def _is_quiet(self) -> bool:
        return not self.session.is_busy

    def _on_answer(self) -> None:
        if not self.session.is_busy:
            self.grace.look()
        self.reading.unpause()

    def answer_without_loop(self) -> None:
        """Answer the unanswered requests while the loop is stuck. From any thread."""
        session, cause = self.session, self.cause
        session.is_draining = True
        session.fail_all(cause.reason, cause.error)
        session.end_with()


async def at_most(seconds: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Wait for `work`; False if it was late and cancelled."""
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True
