"""The parts of an error in a message."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.errors import RrextError
from rrext.wire.codec import encode


class WireError(msgspec.Struct, frozen=True):
    """The parts of an error that can be encoded for certain."""

    code: str
    message: str
    hint: str | None
    data: dict[str, Any]


def wire_error(error: RrextError) -> WireError:
    """The parts of an error. An answer must go out in any case: data of a tool that JSON cannot hold is left out, and
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
