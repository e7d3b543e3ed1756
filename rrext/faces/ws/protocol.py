"""The WebSocket protocol of a connection: that of uvicorn, with limits of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from rrext.faces.ws.limits import MAX_MESSAGE, MAX_STRANGERS_MESSAGE

CONNECTION: Final = "rrext.connection"
"""The extension of a scope that has the connection."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """A connection whose messages are small until its client has shown a key. `on_lost` is called at its end."""

    def __init__(self, on_lost: Callable[[], object], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._on_lost = on_lost
        self._pong: bytes | None = None
        self.expect(MAX_STRANGERS_MESSAGE)

    def expect(self, most: int = MAX_MESSAGE) -> None:
        """From now on take messages of at most so many bytes; larger ones end the connection."""
        self.conn.max_message_size = most

    @property
    def has_more(self) -> bool:
        """Whether a message has arrived that nobody took."""
        return not self.queue.empty()

    async def run_asgi(self) -> None:
        self.scope["extensions"][CONNECTION] = self  # type: ignore[index]
        await super().run_asgi()

    def handle_ping(self) -> None:
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)
        else:  # only the last is kept, or a client that pings and never reads would fill the memory
            self._pong = pong

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, None
        if pong is not None and not self.close_sent:
            self.transport.write(pong)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost()
