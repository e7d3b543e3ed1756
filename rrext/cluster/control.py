"""The control connection between a server and a host, with the pings by which each end knows that the other lives.

No call goes over it, and no tool runs at either end: what a tool does delays no ping.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from rrext.cluster.messages import FromHost, Ping, ToHost
from rrext.errors import RrextError
from rrext.limits import DEFAULTS, MIB
from rrext.server.outbox import Outbox
from rrext.transports.tls import SILENCE, TlsEnd, TlsSink
from rrext.wire.framing import ContentLength

PING_INTERVAL: Final = 2.5
"""Seconds between two pings: three may be late before the connection is lost."""

CONTROL_BYTES: Final = 8 * MIB
"""Bytes that may wait to be written; what workers write to stderr beyond them is dropped."""

MAX_MESSAGE: Final = MIB
"""Bytes of a message: the largest has a piece of stderr."""

log: Final = logging.getLogger("rrext.cluster")


_PING: Final = Ping()


class Control:
    """One end of a control connection, on a loop. `take` gets each message of the other end but its pings, `lost` is told once
    why the connection has ended."""

    def __init__(
        self,
        tls: TlsEnd,
        loop: asyncio.AbstractEventLoop,
        decoder: msgspec.json.Decoder[ToHost] | msgspec.json.Decoder[FromHost],
        take: Callable[[ToHost | FromHost], object],
        lost: Callable[[str], object],
    ) -> None:
        self._tls = tls
        self._loop = loop
        self._decode = decoder.decode
        self._encode = msgspec.json.Encoder().encode
        self._take = take
        self._lost = lost
        self._sink = TlsSink(tls, tls.fileno, loop, lambda: self.end("it was closed"))
        self._outbox = Outbox(self._sink, CONTROL_BYTES, loop)
        self._framer: ContentLength[None] = ContentLength(msgspec.structs.replace(DEFAULTS, max_frame=MAX_MESSAGE))
        self._framer.deliver(self._take_body, self._refuse)
        self._heard = loop.time()
        self.is_over = False
        loop.add_reader(tls.fileno, self._readable)
        self._pinging = loop.call_later(PING_INTERVAL, self._ping)

    def send(self, message: ToHost | FromHost) -> None:
        """Send a message."""
        self._outbox.send(self._framer.frame([self._encode(message)]))

    @property
    def is_full(self) -> bool:
        """Whether the other end does not read what was sent."""
        return self._outbox.is_full

    def _ping(self) -> None:
        if self._tls.has_input:
            self._readable()  # this process itself may have been stopped, and what came meanwhile counts
        if self.is_over:
            return
        if self._loop.time() - self._heard > SILENCE:
            self.end(f"nothing came for {SILENCE:g} seconds")
            return
        self.send(_PING)
        self._pinging = self._loop.call_later(PING_INTERVAL, self._ping)

    def _readable(self) -> None:
        """Read once: whatever comes, the loop does other work between."""
        if self.is_over:
            return
        try:
            count = self._tls.receive(self._framer.get_buffer())
        except BlockingIOError:
            return
        if not count:
            self.end("it was closed")
            return
        self._heard = self._loop.time()
        try:
            is_readable = all(event is None for event in self._framer.buffer_updated(count))
        except (msgspec.MsgspecError, RrextError) as error:
            log.debug("%s", error)
            is_readable = False
        if not is_readable:
            log.error("a control connection got what is no message")
            self.end("it got what is no message")
        elif not self.is_over and self._tls.has_pending:
            self._loop.call_soon(self._readable)

    def _take_body(self, json: memoryview, tail: bytes | None, nbytes: int) -> None:
        message = self._decode(json)
        if not isinstance(message, Ping) and not self.is_over:
            self._take(message)

    def _refuse(self, error: RrextError, start: memoryview) -> None:
        raise error

    def end(self, why: str) -> None:
        """Close it."""
        if not self.is_over:
            self.is_over = True
            self._pinging.cancel()
            self._loop.remove_reader(self._tls.fileno)
            self._sink.close()
            self._outbox.break_off()
            self._tls.close()
            self._lost(why)
