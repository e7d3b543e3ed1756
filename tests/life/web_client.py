"""A raw client of a server's port of WebSockets, and what starts such a server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from raw_client import Ended, Server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

__all__ = ["WebClient", "serve"]

FRAME = re.compile(rb"Content-Length: (\d+)\r\n\r\n")


class WebClient(Server):
    """One connection; the process is somebody else's."""

    def __init__(self, url: str) -> None:
        self._stack = ExitStack()
        self.end = self._stack.enter_context(connect(url, compression=None, proxy=None, max_size=None, close_timeout=1))
        self.answers: dict[Any, Any] = {}
        self.events: list[Any] = []
        self.unnamed = 0
        self._next = 0
        self._threads = []
        self.out: Any = Messages(self.end)

    def send_bytes(self, data: bytes) -> None:
        while data:
            found = FRAME.match(data)
            assert found is not None
            end = found.end() + int(found[1])
            self.end.send(data[found.end() : end].decode())
            data = data[end:]

    def __enter__(self) -> WebClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class Messages:
    """Reads the messages of a WebSocket."""

    def __init__(self, end: ClientConnection) -> None:
        self._end = end

    def read(self, patience: float) -> Any:
        """The next message. Raises `Ended`."""
        try:
            return json.loads(self._end.recv(patience))
        except ConnectionClosed:
            raise Ended from None


def serve(spawn: Callable[..., Server], *options: str, **how: Any) -> tuple[Server, str]:
    """A server that listens at a free port, once it does, and its address."""
    server = spawn("--ws", "127.0.0.1:0", *options, **how)
    server.heard("listening at")
    server.heard("\n")
    found = re.search(rb"ws://\S+", bytes(server._said))
    assert found is not None
    return server, found[0].decode()
