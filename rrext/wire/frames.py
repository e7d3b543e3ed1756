"""Frames to send, and what an error becomes in them."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.errors import RrextError
from rrext.limits import KIB
from rrext.wire.codec import encode

__all__ = ["SMALL", "WireError", "frame", "large_frame", "utf8", "wire_error"]

SMALL = 16 * KIB
"""A payload up to this size is copied into its frame, so that one write sends it; a larger one is handed on as it is."""


def frame(json: bytes, tail: bytes | None = None) -> list[bytes]:
    """A frame around a whole message, in pieces to be written in order."""
    if tail is None:
        return [b"Content-Length: %d\r\n\r\n%b" % (len(json), json)]
    size = len(json)
    head = b"Content-Length: %d\r\nJson-Length: %d\r\n\r\n%b" % (size + len(tail), size, json)
    return [head + tail] if len(tail) <= SMALL else [head, tail]


def large_frame(head: bytes, body: bytes) -> list[bytes]:
    """A frame around `head`, `body` and a closing brace, without a copy of `body`."""
    return [b"Content-Length: %d\r\n\r\n%b" % (len(head) + len(body) + 1, head), body, b"}"]


class WireError(msgspec.Struct, frozen=True):
    """The parts of an error that can be encoded for certain."""

    code: str
    message: str
    hint: str | None
    data: dict[str, Any]


def wire_error(error: RrextError) -> WireError:
    """The parts of an error. An answer must go out whatever a tool put into it: data that JSON cannot hold is left out, and
    the message says so."""
    message, data = error.message, error.data
    try:
        encode(data)
    except ValueError as reason:
        message, data = f"{message} (its data is left out: {reason})", {}
    hint = None if error.hint is None else utf8(error.hint)
    return WireError(utf8(error.code), utf8(message), hint, data)


def utf8(text: str) -> str:
    """Lone surrogates, which file names bring, as `?`."""
    return str(text).encode("utf-8", "replace").decode()
