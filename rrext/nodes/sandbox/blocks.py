"""Blocks, the messages on the sockets of the sandbox: four bytes of length, then the data."""

from __future__ import annotations

import socket
from typing import Final

RECEIVED_AT_ONCE: Final = 262_144
"""Bytes of one read from a call's socket."""


def block(data: bytes) -> bytes:
    """Prefix the data with its length."""
    return len(data).to_bytes(4, "little") + data


def receive(link: socket.socket) -> bytes:
    """Receive the next block. Raises `EOFError` if the other end is gone."""
    return _exactly(link, int.from_bytes(_exactly(link, 4), "little"))


def receive_rest(link: socket.socket) -> bytes:
    """Receive all bytes until the other end closes."""
    pieces: list[bytes] = []
    while piece := link.recv(RECEIVED_AT_ONCE):
        pieces.append(piece)
    return b"".join(pieces)


def _exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = link.recv_into(view)
        if not count:
            raise EOFError("the other end is gone")
        view = view[count:]
    return bytes(data)
