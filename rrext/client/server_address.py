"""The address of a client's server: a command to start it, the path of its socket, or an open stream to it."""

from __future__ import annotations

from typing import TypeAlias

import anyio
import msgspec
from anyio.abc import ByteStream

from rrext.client.channel import Channel, as_channel
from rrext.client.launch import Launch
from rrext.errors import NotConnected
from rrext.limits import BUSY_POLL_INTERVAL, CLIENT_DEFAULTS
from rrext.transports.descriptor_channel import SocketChannel
from rrext.transports.unix import connect, socket_path


class SocketAddress(msgspec.Struct, frozen=True):
    """The path of a server's Unix socket."""

    path: str

    @classmethod
    def of(cls, text: str) -> SocketAddress:
        """The address that `unix:PATH` names. Raises `UsageError`."""
        return cls(socket_path(text))

    async def connect(self) -> SocketChannel:
        """A channel to the server. Raises `NotConnected`, whose hint names the remedy."""
        with anyio.move_on_after(CLIENT_DEFAULTS.start):
            while (end := connect(self.path)) is None:  # noqa: ASYNC110 – a full backlog tells nobody when it is not
                await anyio.sleep(BUSY_POLL_INTERVAL)
            return SocketChannel(end)
        raise NotConnected(f"the server at {self.path} takes no more clients, and did not for {CLIENT_DEFAULTS.start:g} s")


ServerAddress: TypeAlias = Launch | SocketAddress | ByteStream | Channel


async def open_channel(address: ServerAddress) -> Channel:
    """A channel to the server. Raises `UsageError` if it cannot be started, `NotConnected` if it cannot be reached."""
    if isinstance(address, Launch):
        return address.start()
    return await address.connect() if isinstance(address, SocketAddress) else as_channel(address)
