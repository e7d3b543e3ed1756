"""Faces over bytes: `rrext.Client`, and a bare line that shows every frame which comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import anyio
import msgspec
from face import Body, Face, Line, OnChunk, OnProgress

from rrext import Client
from rrext.client.channels import Channel
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS
from rrext.transports.descriptor_channel import Buffer, FdChannel, Receiver
from rrext.wire.connection import ClientConnection
from rrext.wire.messages import Event, RequestId, Response

__all__ = ["ClientFace", "SplitChannel", "WireLine"]

SIZES = (1, 2, 3, 5, 17, 64, 1000, 4096, 65536, 65536)
RECEIVED = msgspec.structs.replace(DEFAULTS, max_frame=CLIENT_DEFAULTS.max_frame)


class SplitChannel:
    """A channel whose bytes travel in pieces of random sizes, in both directions."""

    def __init__(self, channel: Channel, seed: int = 1) -> None:
        self._channel = channel
        self._random = Random(seed)

    def size(self) -> int:
        """How long the next piece is."""
        return self._random.choice(SIZES)

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Nothing leaves at once, so that pieces have turns of their own."""
        return list(pieces)

    async def write(self, pieces: Sequence[Buffer]) -> None:
        rest = memoryview(b"".join(pieces))
        while rest:
            size = self.size()
            await self._channel.write([rest[:size]])
            rest = rest[size:]
            await anyio.lowlevel.checkpoint()

    async def pump(self, receiver: Receiver) -> None:
        await self._channel.pump(SplitReceiver(receiver, self))

    async def aclose(self) -> None:
        await self._channel.aclose()


class SplitReceiver:
    """A receiver that asks for little at a time."""

    def __init__(self, receiver: Receiver, channel: SplitChannel) -> None:
        self._receiver = receiver
        self._channel = channel

    def get_buffer(self, hint: int = 65536) -> memoryview:
        return self._receiver.get_buffer(hint)[: self._channel.size()]

    def buffer_updated(self, n: int) -> anyio.Event | None:
        return self._receiver.buffer_updated(n)


class ClientFace(Face):
    """A client, connected."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def request(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> Body:
        return await self.client.request(command, arguments, tail)

    async def tool(
        self,
        tool: str,
        input: Mapping[str, Any] | None = None,
        *,
        node_id: str = "",
        token: str | None = None,
        pipe_id: int | None = None,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        on_chunk: OnChunk | None = None,
        context: Mapping[str, Any] | None = None,
        meta: Any = None,
    ) -> Any:
        return await self.client.tool(
            tool=tool,
            node_id=node_id,
            input=input,
            token=token,
            pipe_id=pipe_id,
            timeout=timeout,
            progress=progress,
            on_chunk=on_chunk,
            context=context,
            meta=meta,
        )

    async def vanish(self) -> None:
        session = self.client._session
        assert session is not None
        await session.abort()
        session.endpoint._received.set()  # nothing more will come: our own end is closed
        session.endpoint.lose()


class WireLine(Line):
    """Frames on a channel. Without `initialize` the server sends no raw tails."""

    def __init__(self, channel: Channel, connection: ClientConnection) -> None:
        super().__init__()
        self._channel = channel
        self._connection = connection
        self._ended = anyio.Event()

    async def send(self, command: str, arguments: Mapping[str, Any] | None = None, tail: bytes | None = None) -> RequestId:
        number, pieces = self._connection.request(command, dict(arguments or {}), tail)
        await self._channel.write(pieces)
        return number

    async def send_again(self, request_id: RequestId, command: str, arguments: Mapping[str, Any]) -> None:
        """Send a request with an id that was used before."""
        dap = {"type": "request", "seq": request_id, "command": command, "arguments": arguments}
        jsonrpc = {"jsonrpc": "2.0", "id": request_id, "method": command, "params": arguments}
        await self._write(dap if self._connection.dialect == "dap" else jsonrpc)

    async def notify(self, command: str, arguments: dict[str, Any]) -> None:
        """Send a request that has no id. Of JSON-RPC alone."""
        await self._write({"jsonrpc": "2.0", "method": command, "params": arguments})

    async def _write(self, message: dict[str, Any]) -> None:
        body = msgspec.json.encode(message)
        await self._channel.write([b"Content-Length: %d\r\n\r\n%b" % (len(body), body)])

    def end_input(self) -> None:
        """Send nothing more, and go on to read. Of a process alone."""
        assert isinstance(self._channel, FdChannel)
        self._channel.close_write()

    async def ended(self) -> None:
        """Return when the server closed its end."""
        with anyio.fail_after(20):
            await self._ended.wait()

    async def cancel(self, request_id: RequestId, inner: int | None = None) -> None:
        await self.send("cancel", {"requestId": request_id, **({} if inner is None else {"call": inner})})

    async def vanish(self) -> None:
        await self._channel.aclose()

    async def read(self) -> None:
        """Take in what comes, until the end."""
        try:
            await self._channel.pump(self)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # vanished
        self._ended.set()

    # Receiver

    def get_buffer(self, hint: int = 65536) -> memoryview:
        return self._connection.framer.get_buffer(hint)

    def buffer_updated(self, n: int) -> None:
        for message in self._connection.framer.buffer_updated(n):
            assert isinstance(message, Response | Event), message
            self.arrive(message)
