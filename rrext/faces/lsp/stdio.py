"""The language server on stdin and stdout: its service until the editor or the parent process ends, and the reader of its
messages.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import msgspec
from pygls.exceptions import JsonRpcParseError

from rrext.errors import RrextError
from rrext.faces.lsp.params import document_in
from rrext.faces.lsp.server import PipeServer
from rrext.limits import DEFAULTS, Limits
from rrext.server.end_watch import EndWatch
from rrext.server.outbox import Outbox
from rrext.server.peer_end import Grace, at_most
from rrext.transports.claimed_stdio import ClaimedStdio
from rrext.transports.descriptors import DescriptorSink, ParentWatch, read_into
from rrext.wire.framing import ContentLength, Framer
from rrext.wire.messages import Fatal
from rrext.wire.recovery import recover_members

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
        protocol.cancel_all()
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


_decode: Final = msgspec.json.Decoder().decode


class _Refused(msgspec.Struct, frozen=True):
    """An undecodable body: its id if that could be recovered, or the document that it was about."""

    request_id: int | str | None
    uri: str | None
    reason: str
    is_too_large: bool = False


class MessageReader(threading.Thread):
    """Passes messages to the server in batches; it reads the next batch once the last is handled and the outbox has room.

    Edits that arrive together are passed on together, so that only their final state is analysed. `on_end` runs on the loop at
    the end of input, with an error if the input is not framed.
    """

    def __init__(
        self,
        fd: int,
        framer: Framer[Any],
        loop: asyncio.AbstractEventLoop,
        server: PipeServer,
        outbox: Outbox,
        limits: Limits,
        on_end: Callable[[str | None], None],
    ) -> None:
        super().__init__(name="rrext-lsp-reader", daemon=True)
        self.has_read = False
        self.is_held = False
        """Whether reading waits until the client reads."""
        self._fd = fd
        self._loop = loop
        self._server = server
        self._outbox = outbox
        self._on_end = on_end
        self._recovery = limits.id_recovery
        self._framer = framer
        framer.deliver(self._decoded, self._refused)
        self._taken = threading.Event()

    def run(self) -> None:
        """Read until the end, or until unframed bytes."""
        while n := self._read():
            self.has_read = True
            self._hand_on(self._framer.buffer_updated(n))
            self.is_held = True
            self._outbox.wait_for_room()
            self.is_held = False
        for event in self._framer.receive_eof():
            log.warning("%s", cast("Fatal", event).error.message)
        self._call_soon(self._on_end, None)

    def _read(self) -> int:
        try:
            return read_into(self._fd, self._framer.get_buffer())
        except OSError as error:  # a closed terminal, a folder
            log.warning("stdin cannot be read: %s", error.strerror)
            return 0

    def _hand_on(self, events: list[Any]) -> None:
        if events:
            self._taken.clear()
            self._call_soon(self._take, deque(events))
            self._taken.wait()

    def _call_soon(self, action: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:  # the loop is closed: this thread ends with its process
            self._taken.set()

    def _take(self, events: deque[Any]) -> None:
        """On the loop: handle messages. A request starts before later messages are handled, because it is about the text before
        them."""
        protocol = self._server.protocol
        while events:
            event = events.popleft()
            if isinstance(event, Fatal):
                protocol.refuse(None, JsonRpcParseError(event.error.message))
                self._on_end(event.error.message)
            elif isinstance(event, _Refused):
                self._refuse(event)
            else:
                protocol.receive(event)
                if events and isinstance(event, dict) and "id" in event:
                    self._loop.call_soon(self._take, events)
                    return
        self._taken.set()

    def _refuse(self, event: _Refused) -> None:
        if event.uri is not None and event.is_too_large:
            self._server.refuse_text(event.uri, event.reason)
        elif event.uri is not None:
            self._server.lose(event.uri, event.reason)
        else:
            self._server.protocol.refuse(event.request_id, JsonRpcParseError(event.reason))

    # bodies, on this thread

    def _decoded(self, body: memoryview, _tail: bytes | None, _nbytes: int) -> Any:
        try:
            return _decode(body)
        except (ValueError, RecursionError):
            pass  # JavaScript also sends lone surrogates, which the strict decoder refuses
        try:
            return json.loads(bytes(body))
        except (ValueError, RecursionError) as error:
            return self._refusal(body, f"The message is no JSON: {error}")

    def _refused(self, error: RrextError, start: memoryview) -> Any:
        return self._refusal(start, error.message, is_too_large=True)

    def _refusal(self, body: memoryview, reason: str, *, is_too_large: bool = False) -> _Refused:
        start = bytes(body[: self._recovery])
        found = recover_members(start).get("id")
        request_id = found if isinstance(found, int | str) and not isinstance(found, bool) else None
        uri = document_in(start) if request_id is None else None
        return _Refused(request_id, uri, reason, is_too_large)
