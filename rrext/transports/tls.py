"""TLS between two ends that know each other's certificate beforehand, and trust no other.

Each end has made its certificate itself. The end that connects compares the certificate that the other one has proved to have;
the end that listens asks for one, and takes one connection: that of the client whose certificate it knows. Nothing that a
stranger sends is read but its part of the handshake.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rrext.limits import KIB
from rrext.transports.descriptors import DescriptorSink, waits_to_be_read

if TYPE_CHECKING:
    import asyncio

HANDSHAKE_PATIENCE: Final = 5.0
"""Seconds for a whole handshake; published clients of TLS need a hundredth of them, also on a busy machine."""

STRANGERS: Final = 256
"""Silent connections at once, and again as many whose handshake has begun; beyond each of the two the oldest go. A connection
costs its stranger little until it begins a handshake: silent ones push out no handshake that is under way."""

CONNECT_ATTEMPTS: Final = 3
"""Connections that are tried, one after the other, to an end that breaks off."""

WELCOME: Final = b"\n"
"""What the end that listens sends first: it has taken the connection."""

ACCEPTS_AT_ONCE: Final = 16
"""Connections that are accepted before the handshakes go on: a flood keeps no handshake from its end."""

BACKLOG: Final = 1024
"""Connections that the system keeps until they are accepted."""

RECORD: Final = 16 * KIB
"""The most bytes of a record."""

KEEPALIVE: Final = (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 2))
"""Seconds until an idle connection is probed, between two probes, and the probes after which it is lost: ten seconds in all.
The system answers, however long a tool keeps the interpreter."""

SILENCE: Final = 10.0
"""Seconds after which a connection on which nothing came is lost."""

_TCP_INFO: Final = struct.Struct("=24xI28xI")
"""Of the kernel's `struct tcp_info`: the segments that were sent and not acknowledged, and the milliseconds since the last
acknowledgement."""


class Identity(NamedTuple):
    """The certificate of an end in PEM, and its key, which leaves the process only for a child of it."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "<Identity>"


def context_of(own: Identity, client: str | None) -> ssl.SSLContext:
    """The TLS settings of an end. A listening end is given the certificate of its only `client`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if client is None else ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    if client is None:
        context.verify_mode = ssl.CERT_NONE  # the certificate has no issuer: `TlsEnd.shake` compares it, whole
    else:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client)
        context.num_tickets = 0  # nobody comes back
    file = os.memfd_create("identity", os.MFD_CLOEXEC)  # a path is wanted, and no disk may have the key
    try:
        os.write(file, f"{own.key}{own.certificate}".encode())
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


class TlsEnd:
    """A connection with TLS over a socket. Nothing waits; one thread may read while another one writes.

    Records are read and written straight through the socket: an idle connection has no buffers.
    """

    __slots__ = ("_lock", "_tls", "_unsent", "fileno", "in_records")

    def __init__(self, end: socket.socket, context: ssl.SSLContext, *, listens: bool) -> None:
        """Over a connected socket, which it takes over. `shake` is the next step."""
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._tls = context.wrap_socket(end, server_side=listens, do_handshake_on_connect=False)
        self._lock = RLock()  # a finalizer may write while its thread reads
        self._unsent: bytes | memoryview = b""
        """The record that the system has not taken."""
        self.in_records = 0
        """Bytes that were given to `write`, and are not reported as written, though a part of them may have left."""
        self.fileno = self._tls.fileno()

    def shake(self, certificate: str) -> bool:
        """Go on with the handshake; whether it is whole, with the end that has this certificate. Raises `OSError`."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLEOFError:
            raise ConnectionResetError("it was closed") from None
        if self._tls.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(certificate):
            raise ConnectionRefusedError("it has another certificate")
        return True

    def receive(self, buffer: memoryview) -> int:
        """Read what has arrived; 0 at the end or after the loss of the peer. Raises `BlockingIOError` if nothing has."""
        read: Any = self._tls.read  # into a buffer, it returns a number
        size, count = len(buffer), 0
        with self._lock:
            try:
                while count < size:
                    more = read(size - count, buffer[count:] if count else buffer)
                    count += more
                    if not more or count < RECORD:  # whether there is more, the descriptor tells
                        break
            except ssl.SSLWantReadError:
                if not count:
                    raise BlockingIOError from None
            except OSError:
                pass  # what came before is told first
        return count

    @property
    def has_pending(self) -> bool:
        """Whether bytes wait here that no `select` tells of."""
        with self._lock:
            return self._tls.pending() > 0

    @property
    def has_input(self) -> bool:
        """Whether bytes wait to be read, or their end."""
        return self.has_pending or waits_to_be_read(self.fileno)

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Write as much as fits; the next call begins with what was not written. Raises `OSError` when the peer is gone."""
        with self._lock:
            if sum(map(len, pieces)) <= RECORD:
                return self._write(pieces)
            self._tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # full segments wake the other end less often
            try:
                return self._write(pieces)
            finally:
                self._tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        written = 0
        for record in _records(pieces, self._unsent):
            self.in_records = written + len(record)
            try:
                self._tls.send(record)
            except ssl.SSLWantWriteError:
                self._unsent, self.in_records = record, len(record)
                return written
            written += len(record)
        self._unsent, self.in_records = b"", 0
        return written

    def write_all(self, data: bytes) -> None:
        """Write it, and wait for room. Raises `OSError`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write([rest]) :]
            if rest and not self._is_ready(select.POLLOUT, HANDSHAKE_PATIENCE):
                raise TimeoutError("nobody reads what is written")

    def read_exactly(self, size: int) -> bytes:
        """Wait for so many bytes; fewer at the end."""
        found = bytearray(size)
        view, count = memoryview(found), 0
        while count < size:
            try:
                more = self.receive(view[count:])
            except BlockingIOError:
                self._is_ready(select.POLLIN, None)
                continue
            if not more:
                break
            count += more
        return bytes(found[:count])

    def _is_ready(self, event: int, patience: float | None) -> bool:
        poll = select.poll()
        poll.register(self.fileno, event)
        return bool(poll.poll(None if patience is None else max(0.0, patience) * 1000))

    def shake_whole(self, certificate: str) -> None:
        """Wait for the whole handshake, and until the end that listens has taken the connection. Raises `OSError`."""
        until = monotonic() + HANDSHAKE_PATIENCE
        is_whole, welcome = False, bytearray(len(WELCOME))
        while True:
            try:
                is_whole = is_whole or self.shake(certificate)
                if is_whole and not self.receive(memoryview(welcome)):
                    raise ConnectionResetError("it was closed")
                if is_whole:
                    return
            except BlockingIOError:
                pass
            if not self._is_ready(select.POLLIN, until - monotonic()):
                raise TimeoutError("its handshake took too long")

    @property
    def is_silent(self) -> bool:
        """Whether what was sent is not acknowledged for long: the network is gone. A peer that reads nothing acknowledges
        too, so it is not silent."""
        try:
            told = self._tls.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            return False
        unacknowledged, milliseconds = _TCP_INFO.unpack(told)
        return unacknowledged > 0 and milliseconds > SILENCE * 1000

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._tls.close()


def _records(pieces: Sequence[bytes | memoryview], unsent: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The bytes of some pieces as they fit into records. They begin with those that the system did not take, which have to be
    given to it again."""
    if unsent:
        yield unsent
    skipped = len(unsent)
    held: list[memoryview] = []
    room = RECORD
    for piece in pieces:
        rest = memoryview(piece)[skipped:]
        skipped = max(0, skipped - len(piece))
        while rest:
            held.append(rest[:room])
            rest = rest[room:]
            room -= len(held[-1])
            if not room:
                yield _joined(held)
                held.clear()
                room = RECORD
    if held:
        yield _joined(held)


def _joined(parts: Sequence[memoryview]) -> bytes | memoryview:
    return parts[0] if len(parts) == 1 else b"".join(parts)


class TlsSink(DescriptorSink):
    """The writer to a connection with TLS."""

    __slots__ = ("_tls", "written")

    def __init__(
        self, tls: TlsEnd, fd: int, loop: asyncio.AbstractEventLoop, on_lost: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(fd, loop, on_lost)
        self._tls = tls
        self.written = 0

    def _write(self, pieces: Sequence[bytes | memoryview]) -> int:
        written = self._tls.write(pieces)
        self.written += written
        return written

    @property
    def left(self) -> int:
        """The bytes of which a part may have left: what was written, and what is in records."""
        return self.written + self._tls.in_records


def connect(address: str, port: int, context: ssl.SSLContext, certificate: str) -> TlsEnd:
    """Connect to the end that has this certificate. In a thread: it waits. Raises `OSError`.

    An end that breaks off is tried again: strangers push each other out there, and this one with them. The handshake alone does
    not tell, as it ends here before it ends there.
    """
    for attempt in range(CONNECT_ATTEMPTS):
        end = TlsEnd(socket.create_connection((address, port), HANDSHAKE_PATIENCE), context, listens=False)
        try:
            end.shake_whole(certificate)
            return end
        except BaseException as error:
            end.close()
            if not isinstance(error, ConnectionResetError) or attempt == CONNECT_ATTEMPTS - 1:
                raise
    raise AssertionError  # the last attempt returns or raises


def listen(address: str) -> socket.socket:
    """A socket that listens at a free port of an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener


def accept(
    listener: socket.socket, context: ssl.SSLContext, client: str, *, lifeline: int, patience: float | None = None
) -> TlsEnd | None:
    """Wait for the connection of a `client`, whose certificate the context asks for too, and close the listener.

    None after `patience` seconds, and when the other end of `lifeline` is closed.
    """
    door = _Door(listener, context, client)
    try:
        return door.wait(lifeline, patience)
    finally:
        door.close()


class _Door:
    """The connections that have not shown their certificate yet, the oldest first."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, client: str) -> None:
        self._listener = listener
        self._context = context
        self._client = client
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        self._strangers: dict[int, tuple[float, socket.socket | TlsEnd]] = {}
        """Descriptor → the time when it goes, and the socket: silent ones, without TLS, need little memory."""
        self._silent: dict[int, None] = {}
        self._shaking: dict[int, None] = {}
        """Those that have sent something, in the order of its coming."""

    def wait(self, lifeline: int, patience: float | None) -> TlsEnd | None:
        """See `accept`."""
        until = None if patience is None else monotonic() + patience
        self._poll.register(lifeline, 0)  # a hang-up is always told
        while True:
            for fd, _ in self._poll.poll(self._seconds(until)):
                if fd == lifeline:
                    return None
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._strangers and (found := self._go_on(fd)) is not None:
                    return found
            now = monotonic()
            while self._strangers and next(iter(self._strangers.values()))[0] <= now:
                self._drop(next(iter(self._strangers)))
            if until is not None and now >= until:
                return None

    def _seconds(self, until: float | None) -> float | None:
        ends = [] if until is None else [until]
        if self._strangers:
            ends.append(next(iter(self._strangers.values()))[0])
        return max(0.0, min(ends) - monotonic()) if ends else None

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                end, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # the next one may find a descriptor
                if oldest := self._silent or self._shaking:
                    self._drop(next(iter(oldest)))
                return
            self._enter(self._silent, end.fileno())
            end.setblocking(False)
            self._strangers[end.fileno()] = monotonic() + HANDSHAKE_PATIENCE, end
            self._poll.register(end, select.EPOLLIN)

    def _enter(self, some: dict[int, None], fd: int) -> None:
        """Count a connection among some, of which the oldest goes if they are too many."""
        if len(some) >= STRANGERS:
            self._drop(next(iter(some)))
        some[fd] = None

    def _go_on(self, fd: int) -> TlsEnd | None:
        """Go on with a handshake; the connection if it is whole, and the client's."""
        until, end = self._strangers[fd]
        try:
            if isinstance(end, socket.socket):
                del self._silent[fd]
                self._enter(self._shaking, fd)
                end = TlsEnd(end, self._context, listens=True)
                self._strangers[fd] = until, end
            if end.shake(self._client):
                end.write([WELCOME])
                del self._strangers[fd]
                return end
        except (OSError, ValueError):
            self._drop(fd)
        return None

    def _drop(self, fd: int) -> None:
        for some in (self._silent, self._shaking):
            some.pop(fd, None)
        self._strangers.pop(fd)[1].close()

    def close(self) -> None:
        """Let nobody in any more."""
        self._poll.close()
        self._listener.close()
        while self._strangers:
            self._drop(next(iter(self._strangers)))
