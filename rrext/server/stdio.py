"""Serving one client over stdin and stdout: from the claim of the descriptors to the exit code.

The end comes in one of five ways: `shutdown` or `disconnect` and SIGTERM drain, the end of stdin and the death of the
parent give what was read a short grace, and bytes that cannot be resynchronised end at once, after an answer.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Final, Protocol

from rrext.engine.host import Host
from rrext.engine.interface import Caller, Engine
from rrext.errors import Cancelled, ShuttingDown
from rrext.limits import Limits
from rrext.server.reader import Reader
from rrext.server.session import Session
from rrext.transports.descriptors import DescriptorSink
from rrext.transports.parent import ParentWatch

__all__ = ["StdioServer"]

FLUSH: Final = 0.5  # seconds that a peer gets to read the last answers
EXIT_DONE, EXIT_UNREADABLE = 0, 1

log: Final = logging.getLogger("rrext.server")


class Claimed(Protocol):
    """The descriptors of a claimed stdio."""

    read_fd: int
    write_fd: int


class StdioServer:
    """One client, one process. `run` returns the exit code."""

    def __init__(self, engine: Engine, host: Host, stdio: Claimed, *, limits: Limits) -> None:
        self._engine = engine
        self._loop = host.loop
        self._limits = limits
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._answered = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._session = Session(
            engine,
            DescriptorSink(stdio.write_fd, self._loop),
            loop=self._loop,
            limits=limits,
            caller=Caller(connection_id="stdio"),
            now=host.clock.now,
            on_shutdown=self._shut_down,
            on_answer=self._on_answer,
        )
        self._reader = Reader(self._session, stdio.read_fd, self._loop, host.workers, self._at_end)
        self._parent = ParentWatch()

    async def run(self) -> int:
        """Serve until the end; returns 0, or 1 after bytes that were no frames."""
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._shut_down, name.name)
        self._reader.start()
        self._look_for_parent()
        code = await self._exit
        self._reader.stop()
        self._session.close()
        return code

    def _look_for_parent(self) -> None:
        """EOF does not come while a sibling process holds the pipe: look whether the parent is still there, too."""
        if self._exit.done():
            return
        if self._parent.is_gone():
            log.info("the parent process is gone")
            self._at_end()
            return
        self._loop.call_later(self._limits.parent_poll, self._look_for_parent)

    def _on_answer(self) -> None:
        if not self._session.is_busy:
            self._answered.set()
        self._reader.unpause()

    def _shut_down(self, why: str) -> None:
        """Begin to end, unless that has begun."""
        if self._ending is None:
            work = self._stop_unreadable() if why == "fatal" else self._drain(why)
            self._ending = self._loop.create_task(work, name=f"end: {why}")

    def _at_end(self) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._finish_read_ones(), name="end: eof")

    async def _drain(self, why: str) -> None:
        log.info("draining: %s", why)
        self._session.is_draining = True
        await self._wait_for_answers(self._limits.drain)
        self._session.fail_all("shutting_down", lambda: ShuttingDown("the server ended before this call did"))
        self._session.end_with()
        await self._leave(EXIT_DONE)

    async def _finish_read_ones(self) -> None:
        """Nobody will ask for more, but somebody may still read the answers of what was asked."""
        self._session.is_draining = True
        await self._wait_for_answers(self._limits.eof_grace)
        self._session.fail_all("disconnected", lambda: Cancelled("cancelled: the connection is gone"))
        await self._leave(EXIT_DONE)

    async def _stop_unreadable(self) -> None:
        self._reader.stop()
        self._session.fail_all("disconnected", lambda: Cancelled("cancelled: the connection cannot be read any more"))
        await self._leave(EXIT_UNREADABLE)

    async def _wait_for_answers(self, seconds: float) -> None:
        session = self._session
        session.reports_answers = True
        if session.is_busy:
            try:
                await asyncio.wait_for(self._answered.wait(), seconds)
            except TimeoutError:
                log.warning("calls did not finish within %g s", seconds)

    async def _leave(self, code: int) -> None:
        self._session.outbox.flush()
        try:
            await asyncio.wait_for(self._session.outbox.drained(), FLUSH)
        except TimeoutError:
            log.warning("the peer did not read the last %d bytes", self._session.outbox.size)
        if not self._exit.done():
            self._exit.set_result(code)

    def __repr__(self) -> str:
        return f"<StdioServer {self._session!r} {self._reader!r}>"
