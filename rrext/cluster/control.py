"""The control connection between a server and a host: its messages, and the pings by which each end knows that the other lives.

No call goes over it, and no tool runs at either end: what a tool does delays no ping.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from rrext.errors import RrextError
from rrext.limits import DEFAULTS, MIB, Limits
from rrext.server.commands import PROTOCOL_VERSION
from rrext.server.outbox import Outbox
from rrext.tasks.families import Excess
from rrext.transports.tls import SILENCE, TlsEnd, TlsSink
from rrext.version import __version__
from rrext.wire.framing import ContentLength

PING_INTERVAL: Final = 2.5
"""Seconds between two pings: three may be late before the connection is lost."""

CONTROL_BYTES: Final = 8 * MIB
"""Bytes that may wait to be written; what workers write to stderr beyond them is dropped."""

MAX_MESSAGE: Final = MIB
"""Bytes of a message: the largest has a piece of stderr."""

log: Final = logging.getLogger("rrext.cluster")


class Versions(msgspec.Struct, frozen=True):
    """What both ends have to have the same of."""

    rrext: str
    python: str
    protocol: int

    def __str__(self) -> str:
        return f"rrext {self.rrext} (protocol {self.protocol}) with Python {self.python}"


def own_versions() -> Versions:
    """Those of this process. Two releases of one Python, such as 3.13.1 and 3.13.2, are the same."""
    return Versions(__version__, ".".join(platform.python_version_tuple()[:2]), PROTOCOL_VERSION)


def hashes_of_modules(names: Iterable[str]) -> dict[str, str]:
    """Module with nodes → the hash of its file; "" for one that is not found. None of them is imported, but for
    the packages that a module is in."""
    from importlib.util import find_spec

    found: dict[str, str] = {}
    for name in names:
        try:
            spec = find_spec(name)
            with open(spec.origin if spec is not None and spec.origin else "", "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
        except Exception:  # a package of the operator may raise any
            found[name] = ""
    return found


class Greeting(msgspec.Struct, tag="greeting", frozen=True):
    """The first message of each end: its versions, the hashes of the modules with nodes of the operator, the versions of the
    installed packages with nodes, and from the server the limits that its workers have."""

    versions: Versions
    nodes: dict[str, str] = {}
    packages: dict[str, str] = {}
    limits: Limits | None = None


class Start(msgspec.Struct, tag="start", frozen=True):
    """Start a worker, whose memory may be so many bytes; 0 for any number."""

    worker: int
    memory: int = 0


class Signal(msgspec.Struct, tag="signal", frozen=True):
    """Send a signal to a worker with its descendants."""

    worker: int
    number: int


class Limit(msgspec.Struct, tag="limit", frozen=True):
    """Bound the memory of a worker: its pipeline says what it needs."""

    worker: int
    memory: int


class Look(msgspec.Struct, tag="look", frozen=True):
    """Tell whether a worker is stopped."""

    worker: int


class End(msgspec.Struct, tag="end", frozen=True):
    """End the host with all its workers."""


class Started(msgspec.Struct, tag="started", frozen=True):
    """A worker listens at a port, with a certificate in PEM."""

    worker: int
    pid: int
    port: int
    certificate: str


class StartFailed(msgspec.Struct, tag="failed", frozen=True):
    """A worker could not be started."""

    worker: int
    why: str


class Looked(msgspec.Struct, tag="looked", frozen=True):
    """Whether a worker is stopped."""

    worker: int
    is_stopped: bool


class Wrote(msgspec.Struct, tag="wrote", frozen=True):
    """A worker wrote to stderr."""

    worker: int
    text: bytes


class Exceeded(msgspec.Struct, tag="exceeded", frozen=True):
    """A worker is killed for its use of memory."""

    worker: int
    excess: Excess


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """A worker has ended."""

    worker: int
    exit_code: int | None
    how: str


class Ping(msgspec.Struct, tag="ping", frozen=True):
    """The other end lives."""


ToHost: TypeAlias = Greeting | Start | Signal | Limit | Look | End | Ping
FromHost: TypeAlias = Greeting | Started | StartFailed | Looked | Wrote | Exceeded | Ended | Ping

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
