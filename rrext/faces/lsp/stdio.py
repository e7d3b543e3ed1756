"""The language server on stdin and stdout, from the claimed descriptors to the exit code.

It ends by `exit`, a signal, the end of stdin, the death of the parent or of the process that the client named, or a client that
stops reading. Requests before the end of stdin may still be answered; a stuck thread does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rrext.faces.lsp.message_reader import MessageReader
from rrext.faces.lsp.server import PipeServer
from rrext.limits import DEFAULTS, Limits
from rrext.server.end_watch import EndWatch
from rrext.server.outbox import Outbox
from rrext.server.peer_end import Grace, at_most
from rrext.transports.claim import ClaimedStdio
from rrext.transports.descriptors import DescriptorSink
from rrext.transports.parent import ParentWatch
from rrext.wire.framing import ContentLength

RUNS_END_TIMEOUT: Final = 1.0
"""Seconds for what runs to end, beyond the grace."""
ANSWERS_FLUSH_TIMEOUT: Final = 0.5
"""Seconds for the client to read the last answers."""
END_MARGIN: Final = 0.25
"""Seconds beyond both until the end watch ends the process."""

log: Final = logging.getLogger("rrext.lsp")

EXIT_UNREADABLE: Final = 1


class LspServing:
    """One client, one process. `run` returns the exit code: 0 if the client sent `shutdown` before the end, else 1.

    Create it on a running loop. If the loop itself is stuck, the process ends without it, after `last_words`.
    """

    def __init__(
        self,
        stdio: ClaimedStdio,
        server: PipeServer,
        *,
        limits: Limits = DEFAULTS,
        parent: ParentWatch | None = None,
        last_words: Callable[[], object] = lambda: None,
    ) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._last_words = last_words
        self._code: asyncio.Future[int] = loop.create_future()
        self._exit_code = 1
        self._grace = Grace(loop)
        self._ending: asyncio.Task[None] | None = None
        lost = partial(self._end_within, 0, "nobody reads stdout")
        self._sent = 0
        self._framer: ContentLength[Any] = ContentLength(limits)
        self._outbox = Outbox(DescriptorSink(stdio.write_fd, loop, lost), limits.outbox_bytes, loop)
        self.server = server
        self.server.protocol.sink = self._send
        self.server.protocol.on_exit = self._on_exit
        self.server.documents.taken = self._taken
        self._reader = MessageReader(stdio.read_fd, self._framer, loop, self.server, self._outbox, limits, self._at_end)
        watch = parent or ParentWatch()
        self.server.on_client_process = watch.watch
        self._end_watch = EndWatch(
            loop,
            stdio.read_fd,
            parent=watch,
            poll=limits.parent_poll,
            drain=RUNS_END_TIMEOUT + ANSWERS_FLUSH_TIMEOUT + END_MARGIN,
            patience=limits.eof_grace,
            on_signal=partial(self._end_within, 0),
            on_orphaned=partial(self._end_within, limits.eof_grace - limits.parent_poll, "the client's process is gone"),
            on_hung_up=self._on_hung_up,
            on_unheard=stdio.silence,
            on_overdue=self._end_without_loop,
        )

    async def run(self) -> int:
        """Serve until the end; returns the exit code."""
        self._end_watch.start()
        self._reader.start()
        return await self._code

    def _send(self, body: bytes) -> None:
        pieces = self._framer.frame([body])
        self._sent += sum(map(len, pieces))
        self._outbox.send(pieces)

    async def _taken(self) -> None:
        """Wait until all bytes sent so far have left."""
        outbox, mark = self._outbox, self._sent
        await outbox.until(lambda: self._sent - outbox.size >= mark)

        # causes of the end

    def _on_exit(self, _: int) -> None:
        self._end_within(0, "exit")

    def _at_end(self, failure: str | None) -> None:
        if failure is not None:
            log.error("stdin has bytes that are no frames: %s", failure)
            self._end_within(0, "unreadable", code=EXIT_UNREADABLE)
            return
        if not self._reader.has_read:
            log.warning("stdin ended before a client said anything: editors start this command")
        self._end_within(self._limits.eof_grace, "the end of stdin")

    def _on_hung_up(self) -> None:
        """Begin to end: the client is gone, and no more input is read while answers wait for it."""
        if self._reader.is_held:
            self._end_within(self._limits.eof_grace, "the client hung up")

    def _end_within(self, seconds: float, why: str, *, code: int | None = None) -> None:
        """Begin to end, or shorten the end that has begun."""
        begins = not self._grace.has_begun
        if not self._grace.shorten(seconds):
            return
        if begins:
            log.info("ending: %s", why)
            self._exit_code = code if code is not None else 0 if self.server.protocol.is_shut_down else 1
            self._ending = self._loop.create_task(self._end(), name=f"end: {why}")
        self._end_watch.expect_end(seconds + RUNS_END_TIMEOUT + ANSWERS_FLUSH_TIMEOUT + END_MARGIN)

    # the end

    async def _end(self) -> None:
        protocol = self.server.protocol
        idle = asyncio.ensure_future(protocol.idle())
        idle.add_done_callback(lambda _: self._grace.look())
        await self._grace.until(idle.done)
        protocol.give_up()
        await at_most(RUNS_END_TIMEOUT, self._leave())
        if not await at_most(ANSWERS_FLUSH_TIMEOUT, self._outbox.drained()):
            log.warning("the client did not read the last %d bytes", self._outbox.size)
        self._code.set_result(self._exit_code)

    async def _leave(self) -> None:
        await self.server.protocol.idle()
        await self.server.aclose()

    def _end_without_loop(self) -> None:
        """On the thread of the end watch: something blocks the loop and does not come back."""
        try:
            log.error("the event loop is stuck: ending without it")
            self._last_words()
        finally:
            os._exit(self._exit_code)
