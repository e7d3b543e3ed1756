"""A client's side of the WebSocket protocol (RFC 6455), without I/O.

It stands between a transport and a framer of `Content-Length`: what the client writes becomes WebSocket messages, and messages
of the server become frames. A message without raw bytes is text; with raw bytes it is binary: the JSON on one line, then the
bytes.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha1
from typing import Final

import msgspec

from rrext.errors import NotConnected, ParseError, RrextError
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS
from rrext.wire.codec import Bytes
from rrext.wire.framing import ContentLength

MAX_HANDSHAKE: Final = 64 * 1024
"""Bytes of the head of an HTTP answer that opens a WebSocket."""

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FINAL: Final = 0x80
MASKED: Final = 0x80
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
SIZE_IN_2, SIZE_IN_8 = 126, 127
"""The values of the length that say in how many further bytes it stands."""

WRITTEN: Final = msgspec.structs.replace(DEFAULTS, max_frame=CLIENT_DEFAULTS.max_frame)


class WebSocketClient:
    """One connection to a WebSocket at `path` of `host`, the value of the header `Host`.

    First write `opening`, and give the bytes that come to `opened` until it returns true. `replies` are bytes to be written
    between two messages, such as the answers to pings. `is_closed` says that the server ended the connection.
    """

    def __init__(self, host: str, path: str) -> None:
        self._nonce = b64encode(os.urandom(16))
        self._host, self._path = host, path
        self._frames: ContentLength[bytes] = ContentLength(WRITTEN)
        self._frames.deliver(_message, _refuse)
        self._received = bytearray()
        self._parts: list[bytes] = []
        self._opcode = TEXT
        self.replies = bytearray()
        self.is_closed = False

    # the handshake

    @property
    def opening(self) -> bytes:
        """The request that opens the WebSocket."""
        return (
            f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {self._nonce.decode()}\r\n\r\n"
        ).encode()

    def opened(self, data: bytes) -> bool:
        """Take bytes of the answer; whether it is complete. Raises `NotConnected` for an answer that opens no WebSocket."""
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            if len(head) > MAX_HANDSHAKE:
                raise NotConnected(f"{self._host} is no server of WebSockets: its answer does not end")
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        words = first.split(" ", 2)
        if len(words) < 2 or words[1] != "101":
            raise NotConnected(f"{self._host} opened no WebSocket: {shown(first)}", hint=shown(rest.decode("utf-8", "replace")))
        if headers.get("sec-websocket-accept", "").encode() != b64encode(sha1(self._nonce + GUID).digest()):
            raise NotConnected(f"{self._host} is no server of WebSockets: its answer is for another request")
        self._received = bytearray(rest)
        return True

    # messages

    def send(self, pieces: Sequence[Bytes]) -> list[bytes]:
        """The bytes to be written for these bytes of frames."""
        frames: list[bytes] = []
        for piece in pieces:
            for frame in self._frames.receive_data(piece):
                assert isinstance(frame, bytes), "our own frames are well-formed"
                frames.append(frame)
        return frames

    def receive(self, data: Bytes) -> Iterator[bytes]:
        """The frames of the messages that these bytes complete. Raises `ParseError`."""
        self._received += data
        while not self.is_closed and (found := self._next()) is not None:
            is_final, opcode, payload = found
            if opcode == PING:
                self.replies += frame_of(PONG, payload)
            elif opcode == CLOSE:
                self.is_closed = True
                self.replies += frame_of(CLOSE, payload)
            elif opcode != PONG:
                if opcode != CONTINUATION:
                    self._opcode = opcode
                self._parts.append(payload)
                if is_final:
                    parts, self._parts = self._parts, []
                    yield _framed(b"".join(parts), is_binary=self._opcode == BINARY)

    def closing(self) -> bytes:
        """The bytes that end the connection."""
        return frame_of(CLOSE, b"\x03\xe8")  # a normal closure

    def _next(self) -> tuple[bool, int, bytes] | None:
        """The next whole frame of the server: the flag of a message's last frame, the opcode and the payload."""
        held = self._received
        if len(held) < 2:
            return None
        first, size, start = held[0], held[1], 2
        if size & MASKED or first & ~(FINAL | 0xF):
            raise ParseError("the server sent a WebSocket frame that no server sends")
        if size >= SIZE_IN_2:
            start += 2 if size == SIZE_IN_2 else 8
            if len(held) < start:
                return None
            size = int.from_bytes(held[2:start], "big")
        if size + sum(map(len, self._parts)) > CLIENT_DEFAULTS.max_frame:
            raise ParseError(f"the server sent a message of more than {CLIENT_DEFAULTS.max_frame} bytes")
        if len(held) < start + size:
            return None
        payload = bytes(held[start : start + size])
        del held[: start + size]
        return bool(first & FINAL), first & 0xF, payload


def _message(json: memoryview, tail: bytes | None, nbytes: int) -> bytes:
    if tail is None:
        return frame_of(TEXT, bytes(json))
    return frame_of(BINARY, b"%b\n%b" % (json, tail))


def _refuse(error: RrextError, start: memoryview) -> bytes:
    raise error


def _framed(message: bytes, *, is_binary: bool) -> bytes:
    """A message of the server as a frame of `Content-Length`."""
    cut = message.find(b"\n") if is_binary else -1
    if cut < 0:
        return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
    head = b"Content-Length: %d\r\nJson-Length: %d\r\n\r\n" % (len(message) - 1, cut)
    return b"%b%b%b" % (head, message[:cut], memoryview(message)[cut + 1 :])


def frame_of(opcode: int, payload: bytes) -> bytes:
    """A whole frame of a client, masked."""
    size, mask = len(payload), os.urandom(4)
    if size < SIZE_IN_2:
        head = bytes((FINAL | opcode, MASKED | size))
    elif size < 1 << 16:
        head = bytes((FINAL | opcode, MASKED | SIZE_IN_2)) + size.to_bytes(2, "big")
    else:
        head = bytes((FINAL | opcode, MASKED | SIZE_IN_8)) + size.to_bytes(8, "big")
    return b"%b%b%b" % (head, mask, masked(payload, mask))


def masked(payload: bytes, mask: bytes) -> bytes:
    """The payload under a mask of four bytes: as one large number, because Python has no faster way."""
    size = len(payload)
    stream = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")


def shown(text: str) -> str:
    """The beginning of a text of a server, on one line."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:200]).split())
