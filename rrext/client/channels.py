"""The byte channel below an endpoint, over any anyio byte stream, and over a WebSocket: bytes of frames on this side, WebSocket
messages on the other.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio.abc import ByteStream

from rrext.errors import NotConnected
from rrext.limits import CLIENT_DEFAULTS, MAX_JOINED_PIECES, READ_BUFFER
from rrext.transports.descriptor_channel import Buffer, Receiver, SocketChannel

if TYPE_CHECKING:
    from rrext.transports.web import WebAddress
    from rrext.wire.websocket import WebSocketClient


class Channel(Protocol):
    """Bytes both ways. `rrext.transports.descriptor_channel.FdChannel` is one; `as_channel` makes one of a byte stream."""

    async def pump(self, receiver: Receiver) -> None:
        """Give all incoming bytes to `receiver`, until the end."""
        ...

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Write without waiting, as much as the transport takes now, and return the rest."""
        ...

    async def write(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces."""
        ...

    async def aclose(self) -> None:
        """Close both directions."""
        ...


class StreamChannel:
    """A channel over an anyio `ByteStream`, which it owns."""

    __slots__ = ("_stream",)

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def pump(self, receiver: Receiver) -> None:
        while True:
            try:
                data = memoryview(await self._stream.receive(65536))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            while data:
                buffer = receiver.get_buffer(len(data))
                n = min(len(data), len(buffer))
                buffer[:n] = data[:n]
                data = data[n:]
                pause = receiver.buffer_updated(n)
                if pause is not None:
                    await pause.wait()

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        return list(pieces)

    async def write(self, pieces: Sequence[Buffer]) -> None:
        if sum(map(len, pieces)) <= MAX_JOINED_PIECES:
            await self._stream.send(b"".join(pieces))
            return
        for piece in pieces:
            await self._stream.send(bytes(piece))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __repr__(self) -> str:
        return f"<StreamChannel {self._stream!r}>"


def as_channel(stream: ByteStream | Channel) -> Channel:
    """The stream itself if it is a channel, else a channel over it."""
    return StreamChannel(stream) if isinstance(stream, ByteStream) else stream


GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""The errors of a write when the server is gone, or the channel is closed."""


async def connect_web(address: WebAddress) -> WebChannel:
    """A channel to a WebSocket. Raises `NotConnected`."""
    from rrext.wire.websocket import WebSocketClient  # most clients need none

    client = WebSocketClient(address.host_header, address.path)
    with anyio.move_on_after(CLIENT_DEFAULTS.start):
        try:
            return WebChannel(await (_over_tls if address.is_tls else _plain)(address, client), client)
        except OSError as error:
            raise address.refused(error) from None
        except anyio.EndOfStream:
            raise NotConnected(f"{address} closed the connection at once") from None
    raise NotConnected(f"nobody answers at {address}, and did not for {CLIENT_DEFAULTS.start:g} s")


async def _over_tls(address: WebAddress, client: WebSocketClient) -> Channel:
    context = await anyio.to_thread.run_sync(address.tls)  # reads certificates
    stream = await anyio.connect_tcp(address.host, address.port, ssl_context=context, tls_standard_compatible=False)
    try:
        await _shake_hands(client, stream.send, stream.receive)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)
        raise
    return StreamChannel(stream)


async def _plain(address: WebAddress, client: WebSocketClient) -> Channel:
    """A channel over a socket of our own, which costs one system call for a read or a write."""
    end = await _connected(address)

    async def send(data: bytes) -> None:
        end.send(data)  # the buffer of a new socket holds far more

    async def receive() -> bytes:
        await anyio.wait_readable(end)
        data = end.recv(READ_BUFFER)
        if not data:
            raise anyio.EndOfStream
        return data

    try:
        await _shake_hands(client, send, receive)
    except BaseException:
        end.close()
        raise
    return SocketChannel(end)


async def _connected(address: WebAddress) -> socket.socket:
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, where in await anyio.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        end = socket.socket(family, kind, protocol)
        try:
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                end.connect(where)
            except BlockingIOError:
                await anyio.wait_writable(end)
            if code := end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
        except OSError as error:
            end.close()
            failure = error
        except BaseException:
            end.close()
            raise
        else:
            return end
    raise failure


async def _shake_hands(
    client: WebSocketClient, send: Callable[[bytes], Awaitable[Any]], receive: Callable[[], Awaitable[bytes]]
) -> None:
    await send(client.opening)
    while not client.opened(await receive()):
        pass


class WebChannel:
    """A channel over another one that is connected to an open WebSocket.

    Bytes that were made of a message and do not fit are kept here; the empty piece that `write_now` returns then makes the
    queue of frames write them.
    """

    __slots__ = ("_client", "_inner", "_is_writing", "_lock", "_rest")

    def __init__(self, inner: Channel, client: WebSocketClient) -> None:
        self._inner = inner
        self._client = client
        self._lock = Lock()
        self._rest: list[Buffer] = []
        self._is_writing = False

    async def pump(self, receiver: Receiver) -> None:
        unwrapping = _Unwrapping(self, self._client, receiver)
        pause = unwrapping.take(b"")
        if pause is not None:
            await pause.wait()
        await self._inner.pump(unwrapping)

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        with self._lock:
            if self._is_writing or self._rest:
                return list(pieces)
            self._rest = self._inner.write_now([*self._replies(), *self._client.send(pieces)])
            return [b""] if self._rest else []

    async def write(self, pieces: Sequence[Buffer]) -> None:
        with self._lock:
            self._is_writing = True
            rest, self._rest = self._rest, []
            rest += [*self._client.send(pieces), *self._replies()]
        try:
            await self._inner.write(rest)
        finally:
            with self._lock:
                self._is_writing = False

    def reply(self) -> None:
        """Write the answers to pings, unless something is being written: then they follow it."""
        with self._lock:
            if not (self._is_writing or self._rest):
                with suppress(*GONE):
                    self._rest = self._inner.write_now(self._replies())

    def _replies(self) -> list[Buffer]:
        replies = bytes(self._client.replies)
        self._client.replies.clear()
        return [replies] if replies else []

    async def aclose(self) -> None:
        with self._lock:
            if not (self._is_writing or self._rest or self._client.is_closed):
                with suppress(*GONE):
                    self._inner.write_now([self._client.closing()])
        await self._inner.aclose()

    def __repr__(self) -> str:
        return f"<WebChannel over {self._inner!r}>"


class _Unwrapping:
    """Gives the frames in WebSocket messages to another receiver."""

    __slots__ = ("_buffer", "_channel", "_client", "_receiver")

    def __init__(self, channel: WebChannel, client: WebSocketClient, receiver: Receiver) -> None:
        self._channel = channel
        self._client = client
        self._receiver = receiver
        self._buffer = memoryview(bytearray(READ_BUFFER))

    def get_buffer(self, hint: int = READ_BUFFER) -> memoryview:
        return self._buffer

    def buffer_updated(self, n: int) -> anyio.Event | None:
        return self.take(self._buffer[:n])

    def take(self, data: Buffer) -> anyio.Event | None:
        """Take bytes of the server, which closes the connection after it has ended the WebSocket."""
        pause = None
        for frame in self._client.receive(data):
            pause = self._give(memoryview(frame)) or pause
        if self._client.replies:
            self._channel.reply()
        return pause

    def _give(self, rest: memoryview) -> anyio.Event | None:
        pause = None
        while rest:
            buffer = self._receiver.get_buffer(len(rest))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            rest = rest[size:]
            pause = self._receiver.buffer_updated(size) or pause
        return pause
