"""The WebSocket protocol of a connection: that of uvicorn, with limits of its own and messages in batches."""

from __future__ import annotations

import asyncio
import logging
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import (
    CloseCode,
    Frame,
    Opcode,
    apply_mask,  # pyright: ignore[reportPrivateImportUsage]  # the one in C, if it was built
)
from websockets.protocol import State

from rrext.faces.http.budget import NOTED, encrypted_end, unsent_bytes
from rrext.faces.http.door import arrival_of
from rrext.limits import KIB, MIB, READ_BUFFER
from rrext.threads import note_dropped

MAX_STRANGERS_MESSAGE: Final = 64 * KIB
"""Bytes of one message of a client that has shown no key."""

MAX_MESSAGE: Final = 250 * MIB
"""Bytes of one message of a client; those of RocketRide receive as much."""
LARGE_READ: Final = 256 * KIB
"""Bytes that are read at once while a large message comes; less at other times, because each read maps so much memory anew."""
FIRST_LOOK: Final = 0.005
LAST_LOOK: Final = 0.1
"""Seconds until a look whether a client of TLS has read what waits for it, at first and at last: most are soon through."""
FAIL_TIMEOUT: Final = 5.0
"""Seconds in which a client that is cut off in the middle of a message may read why; what it sends meanwhile is dropped."""

CONNECTION: Final = "rrext.connection"
"""The extension of a scope that has the connection."""

TEXT: Final = int(Opcode.TEXT) | 1 << 7
BINARY: Final = int(Opcode.BINARY) | 1 << 7
"""The first byte of a message in one frame."""
SMALLEST_FRAME: Final = 6
"""Bytes of the head of a small frame of a client, with its mask."""
_HEAD, _HEAD_16, _HEAD_64 = Struct("!BB").pack, Struct("!BBH").pack, Struct("!BBQ").pack

log: Final = logging.getLogger("rrext.server")

REFUSAL: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8. They are read in pieces, whose texts are dropped: one of all may be four times as large."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), READ_BUFFER):
            decoder.decode(data[start : start + READ_BUFFER], final=start + READ_BUFFER >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def frame_head(kind: int, size: int) -> bytes:
    """The head of a whole message of a server (RFC 6455, 5.2): not masked, without extensions. The library's writer copies the
    message once more, and takes longer for a small one than to decode its request.
    """
    if size < 0x7E:
        return _HEAD(kind, size)
    return _HEAD_16(kind, 0x7E, size) if size < 0x1_0000 else _HEAD_64(kind, 0x7F, size)


def whole_messages(data: bytes, most: int) -> tuple[list[tuple[bytes, bool]], int]:
    """The messages of at most `most` bytes that `data` begins with, each with whether it is binary, and where the rest begins.

    Only usual ones are read: a masked frame each, below 64 KiB, without extensions (RFC 6455, 5.2), and if it is text then in
    UTF-8. The library's parser takes four times as long for a small one, and is for all others.
    """
    messages: list[tuple[bytes, bool]] = []
    start, end = 0, len(data)
    while end - start >= SMALLEST_FRAME:
        kind, length = data[start], data[start + 1] - 0x80  # the mark of a mask
        if (kind != TEXT and kind != BINARY) or not 0 <= length <= 0x7E:
            break
        body = start + SMALLEST_FRAME
        if length == 0x7E:
            length = data[start + 2] << 8 | data[start + 3]
            body += 2
        stop = body + length
        if stop > end or length > most:
            break
        message = apply_mask(data[body:stop], data[body - 4 : body])
        if kind == TEXT and not (message.isascii() or is_text(message)):
            break
        messages.append((message, kind == BINARY))
        start = stop
    return messages, start


class RawMessage(bytes):
    """A message with raw bytes, which is sent as binary: its JSON on one line, and the bytes after that."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """A connection whose messages are small until its client has shown a key. `on_lost` is called at its end.

    Received messages go in batches to `on_messages`, each with whether it is binary; `on_writable` is called when the client
    has read; `on_more` is called when the beginning of a message grows, and when answers begin to wait for the client.
    """

    def __init__(self, on_lost: Callable[[], object], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._on_lost = on_lost
        self._pong: bytes | None = None
        self._below: asyncio.WriteTransport | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._most_unsent = 0
        self._is_large = False
        self._is_garbled = False
        self._messages: list[tuple[bytes, bool]] = []
        self.on_messages: Callable[[list[tuple[bytes, bool]]], object] | None = None
        self.on_writable: Callable[[], object] = lambda: None
        self.on_more: Callable[[], object] = lambda: None
        self.expect(MAX_STRANGERS_MESSAGE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(NOTED, NOTED)  # so what waits counts as long as writing pauses
        self._below = encrypted_end(transport)

    def expect(self, most: int = MAX_MESSAGE) -> None:
        """From now on take messages of at most so many bytes; larger ones end the connection."""
        self.conn.max_message_size = most

    def send_messages(self, messages: Sequence[bytes | memoryview]) -> None:
        """Send whole messages in one write. Raises `ConnectionError` when the connection ends."""
        conn = self.conn
        if self.disconnected or self.transport.is_closing():  # asyncio would log each further write
            raise ConnectionResetError("the connection is lost")
        if conn.state is not State.OPEN:
            raise ConnectionResetError("the connection ends")
        pieces: list[bytes | memoryview] = [*conn.data_to_send()]
        for message in messages:
            pieces.append(frame_head(BINARY if isinstance(message, RawMessage) else TEXT, len(message)))
            pieces.append(message)
        try:
            self.transport.write(b"".join(pieces))
        except MemoryError:  # perhaps after a part of them
            self._end_without_memory("an answer")
            raise ConnectionResetError("no memory is left for the answer") from None
        self._watch_below()

    def _watch_below(self) -> None:
        """Note that much waits below TLS, and begin to look whether its client has read."""
        if self._below is not None and self._below.get_write_buffer_size() >= NOTED:
            self.loop.call_soon(self.on_more)
            if self._next_look is None:
                self._most_unsent = max(self._most_unsent, self.unsent_bytes)
                self._poll_unsent(FIRST_LOOK)

    def _poll_unsent(self, pause: float) -> None:
        """Check, at growing intervals, whether a client of TLS has read, of which there is no event."""

        def poll() -> None:
            self._next_look = None
            if self.unsent_bytes >= NOTED:
                self._poll_unsent(min(2 * pause, LAST_LOOK))
            else:
                self.on_writable()

        self._next_look = self.loop.call_later(pause, poll)

    @property
    def unfinished_bytes(self) -> int:
        """The size of the beginning of a message."""
        frames: list[Any] = self.frames
        return len(self.conn.reader.buffer) + sum(map(len, frames))

    @property
    def unsent_bytes(self) -> int:
        """Bytes for the client that the system has not taken yet."""
        return 0 if self.disconnected else unsent_bytes(self.transport)

    def refuse_garbled(self) -> None:
        """End the connection if a text came that is none, perhaps before the answer to the handshake."""
        if self._is_garbled and not (self.disconnected or self.close_sent):
            self.conn.fail(CloseCode.INVALID_DATA)
            self.handle_parser_exception()

    def cut(self) -> None:
        """End the connection at once, with a word if it has not ended yet: a client that reads nothing would keep it open."""
        if not (self.disconnected or self.close_sent or self.transport.is_closing()):
            self.conn.fail(CloseCode.POLICY_VIOLATION)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.abort()

    def let_read(self, *, reads: bool) -> None:
        """Read on, or pause; nothing once the connection is lost, or closes."""
        if not (self.disconnected or self.transport.is_closing()):
            self.transport.resume_reading() if reads else self.transport.pause_reading()

    def fail(self, code: CloseCode, reason: str) -> None:
        """End the connection in the middle of a message. What still comes is dropped, so that the client reads the reason."""
        if self.disconnected or self.close_sent:
            return
        self.conn.fail(code, reason)
        self.close_sent = True
        self.frames = []
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.let_read(reads=True)
        self.loop.call_later(FAIL_TIMEOUT, self.transport.close)

    async def run_asgi(self) -> None:
        self.scope["extensions"][CONNECTION] = self  # type: ignore[index]
        await super().run_asgi()

    @property
    def _is_between_messages(self) -> bool:
        """Whether the parser waits for the first byte of a message, on an open connection whose messages are taken."""
        conn = self.conn
        if self.on_messages is None or self.close_sent or conn.state is not State.OPEN or conn.current_size is not None:
            return False
        waiting: Any = conn.parser
        while (inner := waiting.gi_yieldfrom) is not None:
            waiting = inner
        return waiting.__name__ == "at_eof"  # of its reader; inside of a message it waits in another one

    def _end_without_memory(self, what: str) -> None:
        """End the connection at once: its messages would have a gap."""
        log.error("no memory is left for %s: its connection ends (ulimit -v, ulimit -d)", what)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            if self._is_between_messages:
                self._messages, start = whole_messages(data, self.conn.max_message_size or MAX_MESSAGE)
                if start == len(data):
                    self._deliver()
                    return
                data = data[start:]
            super().data_received(data)
        except MemoryError:
            self._end_without_memory("a message")
            return
        is_large = len(self.conn.reader.buffer) >= READ_BUFFER // 2  # of a frame that is not complete
        if is_large != self._is_large:  # larger reads cost less then than the memory that they map anew
            self._is_large = is_large
            self.transport.max_size = LARGE_READ if is_large else READ_BUFFER  # type: ignore[attr-defined]
        if is_large or self.frames:
            self.on_more()
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(REFUSAL)  # uvicorn would leave the connection open, without any answer
            self.transport.close()

    def handle_events(self) -> None:
        super().handle_events()
        self._deliver()

    def _deliver(self) -> None:
        messages, self._messages = self._messages, []
        if messages and self.on_messages is not None:
            self.on_messages(messages)

    def handle_text(self, event: Frame) -> None:
        super().handle_text(event)
        event.data = b""  # the parser keeps the last frame, also of a client that is idle then

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        """Join the pieces of a message as they come: a list of many small or empty ones would be far larger."""
        frames: list[Any] = self.frames
        joined = frames[0]
        if type(joined) is bytes:
            joined = frames[0] = bytearray(joined)
        joined += event.data
        event.data = b""
        if event.fin:
            frames[0] = bytes(joined)
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        data = self.frames[0]
        if self.curr_msg_data_type == "text" and not (data.isascii() or is_text(data)):
            self._is_garbled = True
            if self.handshake_complete:
                self.refuse_garbled()
            return
        if self.on_messages is None:  # what comes in the same breath as the handshake
            super().send_receive_event_to_app()
            return
        self.frames = []
        if not self.close_sent:
            self._messages.append((data, self.curr_msg_data_type == "bytes"))

    def handle_ping(self) -> None:
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)
        else:  # only the last is kept, or a client that pings and never reads would fill the memory
            self._pong = pong

    def pause_writing(self) -> None:
        super().pause_writing()
        self._most_unsent = max(self._most_unsent, self.unsent_bytes)
        self.loop.call_soon(self.on_more)  # later: the outbox that writes has its lock, and the budget takes those of others

    def resume_writing(self) -> None:
        super().resume_writing()
        pong, self._pong = self._pong, None
        if pong is not None and not self.close_sent:
            self.transport.write(pong)
        self._watch_below()  # where TLS may just have passed on all that waited in it
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._next_look is not None:
            self._next_look.cancel()
        note_dropped(self.loop, self._most_unsent)  # perhaps: at the end nothing tells what was left
        self._messages, self.frames, self._pong = [], [], None  # the rest waits for the garbage collector
        self.conn.reader.buffer.clear()
        self.conn.events_received()  # of the read that broke the protocol
        self.conn.parser_exc = None
        arrival_of({"state": self.app_state}).gone()
        self._on_lost()
