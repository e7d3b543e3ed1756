"""The language server on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from pygls.exceptions import JsonRpcException, JsonRpcParseError

from rrext.bridges.lsp.options import Options
from rrext.bridges.lsp.server import PipeServer
from rrext.errors import RrextError
from rrext.limits import DEFAULTS, Limits
from rrext.server.outbox import Outbox
from rrext.transports.descriptors import DescriptorSink, read_into
from rrext.transports.parent import ParentWatch
from rrext.wire.framing import Framer
from rrext.wire.messages import Fatal
from rrext.wire.recovery import recover_members

__all__ = ["serve"]

log: Final = logging.getLogger("rrext.lsp")

FLUSH: Final = 0.5  # seconds that a client gets to read the last answers
EXIT_UNREADABLE: Final = 1


class Claimed(Protocol):
    """The descriptors of a claimed stdio."""

    read_fd: int
    write_fd: int


class _Refused(msgspec.Struct, frozen=True):
    """A body that is no message, and the id that it has all the same."""

    request_id: int | str | None
    error: JsonRpcException


class _Reader(threading.Thread):
    """Reads messages on a thread of its own, a batch at a time: decoding a large text must not hold up answers.

    `take` runs on the loop; the next batch is read when it is done and the outbox has room. Edits that arrive together are
    handed on together, so that only what they end in is looked at.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, server: PipeServer, outbox: Outbox, limits: Limits) -> None:
        super().__init__(name="rrext-lsp-reader", daemon=True)
        self._fd = fd
        self._loop = loop
        self._server = server
        self._outbox = outbox
        self._framer: Framer[Any] = Framer(_decoded, _refused, limits)
        self._taken = threading.Event()

    def run(self) -> None:
        """Read until the end, or until bytes come that are no frames."""
        while True:
            n = read_into(self._fd, self._framer.get_buffer())
            events = self._framer.buffer_updated(n) if n else [None]
            if events:
                self._taken.clear()
                self._loop.call_soon_threadsafe(self._take, events)
                self._taken.wait()
                self._outbox.wait_for_room()
            if not n:
                return

    def _take(self, events: list[Any]) -> None:
        protocol = self._server.protocol
        for event in events:
            if event is None:
                protocol.on_exit(0 if protocol.is_shut_down else 1)
            elif isinstance(event, Fatal):
                protocol.refuse(None, JsonRpcParseError(event.error.message))
                protocol.on_exit(EXIT_UNREADABLE)
            elif isinstance(event, _Refused):
                protocol.refuse(event.request_id, event.error)
            else:
                protocol.receive(event)
        self._taken.set()


def _decoded(body: memoryview, _tail: bytes | None, _nbytes: int) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        pass  # JavaScript sends halves of characters too, which the strict decoder refuses
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        return _Refused(_id_in(body), JsonRpcParseError(f"The message is no JSON: {error}"))


def _refused(error: RrextError, start: memoryview) -> Any:
    return _Refused(_id_in(start), JsonRpcParseError(error.message))


def _id_in(start: memoryview) -> int | str | None:
    found = recover_members(start[: DEFAULTS.id_recovery]).get("id")
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


async def serve(stdio: Claimed, given: Options, *, limits: Limits = DEFAULTS, parent: ParentWatch | None = None) -> int:
    """Serve one client until it says `exit`, closes stdin, stops reading, or dies. Returns the exit code."""
    loop = asyncio.get_running_loop()
    code: asyncio.Future[int] = loop.create_future()

    def end(with_code: int) -> None:
        if not code.done():
            code.set_result(with_code)

    outbox = Outbox(DescriptorSink(stdio.write_fd, loop, lambda: end(EXIT_UNREADABLE)), limits.outbox_bytes, loop)
    server = PipeServer(given)
    server.protocol.sink = lambda body: outbox.send([b"Content-Length: %d\r\n\r\n" % len(body), body])
    server.protocol.on_exit = end
    _Reader(stdio.read_fd, loop, server, outbox, limits).start()
    _watch_parent(loop, parent or ParentWatch(), limits.parent_poll, end)
    try:
        return await code
    finally:
        await server.aclose()
        try:
            await asyncio.wait_for(outbox.drained(), FLUSH)
        except TimeoutError:
            log.warning("the client did not read the last %d bytes", outbox.size)


def _watch_parent(loop: asyncio.AbstractEventLoop, parent: ParentWatch, poll: float, end: Callable[[int], None]) -> None:
    """End when the parent is gone: the end of stdin does not come while a sibling process holds the pipe."""
    if parent.is_gone():
        log.info("the parent process is gone")
        end(EXIT_UNREADABLE)
    else:
        loop.call_later(poll, _watch_parent, loop, parent, poll, end)
