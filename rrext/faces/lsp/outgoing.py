"""Messages as bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rrext.wire.codec import encode_own

__all__ = ["encoded", "encoded_own"]


def encoded(message: Any, plain: Callable[[Any], Any]) -> bytes:
    """JSON of a message; `plain` makes objects of the protocol into plain data.

    Halves of characters, which JavaScript's texts may have, are escaped. Raises `ValueError` (NaN), `TypeError` or
    `AttributeError` for what JSON cannot hold.
    """
    return json.dumps(message, default=plain, separators=(",", ":"), allow_nan=False).encode()


def encoded_own(message: dict[str, Any]) -> bytes:
    """The same, several times as fast, for what is made of texts, whole numbers and containers."""
    try:
        return encode_own(message)
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode()
