"""Parameters in the form of a driver: JSON of an answer becomes the database's value again.

`{"base64": …}` is bytes. Ladybug gets integers beyond 64 bits as decimals; it turns texts into dates, times, numbers and UUIDs
by itself where it expects these.
"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from typing import Any, Final

INTEGERS: Final = range(-(2**63), 2**63)


def bytes_in(value: Any) -> Any:
    """The value with every nested `{"base64": …}` as bytes."""
    match value:
        case {"base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return value
        case dict():
            return {key: bytes_in(entry) for key, entry in value.items()}
        case list():
            return [bytes_in(entry) for entry in value]
        case _:
            return value


def wide_integers_in(value: Any) -> Any:
    """The value with every nested integer beyond 64 bits as a decimal."""
    match value:
        case int() if value not in INTEGERS:
            return Decimal(value)
        case dict():
            return {key: wide_integers_in(entry) for key, entry in value.items()}
        case list():
            return [wide_integers_in(entry) for entry in value]
        case _:
            return value
