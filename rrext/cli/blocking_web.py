"""A WebSocket that blocks, with the methods of a socket that carries frames."""

from __future__ import annotations

import socket
from collections import deque

from rrext.errors import ParseError
from rrext.limits import CLIENT_DEFAULTS, READ_BUFFER
from rrext.transports.web import WebAddress
from rrext.wire.websocket import WebSocketClient


class WebSocket:
    """An open WebSocket: bytes of frames in and out."""

    def __init__(self, end: socket.socket, client: WebSocketClient) -> None:
        self._end = end
        self._client = client
        self._frames: deque[memoryview] = deque()

    @classmethod
    def connect(cls, text: str) -> WebSocket:
        """Connect to an address. Raises `UsageError` and `NotConnected`."""
        address = WebAddress.of(text)
        end = address.connect(CLIENT_DEFAULTS.start)
        client = WebSocketClient(address.host_header, address.path)
        try:
            end.sendall(client.opening)
            while not client.opened(received(end)):
                pass
        except OSError as error:
            end.close()
            raise address.refused(error) from None
        except BaseException:
            end.close()
            raise
        return cls(end, client)

    def recv_into(self, buffer: memoryview) -> int:
        """Wait for bytes, and put them into the buffer; 0 at the end. Raises `ConnectionError` for what no server sends."""
        while not self._frames:
            if self._client.is_closed:
                return 0
            data = self._end.recv(READ_BUFFER)
            if not data:
                return 0
            try:
                self._frames.extend(map(memoryview, self._client.receive(data)))
            except ParseError as error:
                raise ConnectionError(error.message) from None
            if self._client.replies:
                replies = bytes(self._client.replies)
                self._client.replies.clear()
                self._end.sendall(replies)
        first = self._frames.popleft()
        size = min(len(buffer), len(first))
        buffer[:size] = first[:size]
        if size < len(first):
            self._frames.appendleft(first[size:])
        return size

    def sendall(self, data: bytes) -> None:
        """Send bytes of frames; a frame leaves when it is whole."""
        for message in self._client.send([data]):
            self._end.sendall(message)

    def settimeout(self, seconds: float | None) -> None:
        """Limit the time of each wait."""
        self._end.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        """End a direction of the connection."""
        self._end.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self._end.close()


def received(end: socket.socket) -> bytes:
    """Bytes of the peer. Raises `ConnectionError` at the end."""
    data = end.recv(READ_BUFFER)
    if not data:
        raise ConnectionError("the connection was closed at once")
    return data
