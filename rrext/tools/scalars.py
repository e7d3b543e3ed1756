"""Forms of the scalar types of JSON, and of bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from rrext.tools.forms import KINDS, NUMBER, Form, Misfit


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)  # JSON Schema: a number without fraction is an integer, however it is written
    raise Misfit.of("expected integer")


def _number(value: Any) -> float | int:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit.of("expected number")
    try:
        return float(value)
    except OverflowError:
        return value  # valid by its schema, with more digits than a float has range


def _bytes(value: Any) -> bytes:
    try:
        return msgspec.convert(value, bytes)
    except msgspec.ValidationError:
        raise Misfit.of("expected base64 (RFC 4648, with padding)") from None


def is_base64(value: Any) -> bool:
    """Whether a JSON value is base64 as `bytes` parameters accept it."""
    try:
        _bytes(value)
    except Misfit:
        return False
    return True


def scalar_forms() -> dict[Any, Form]:
    """The form of each scalar type of JSON; and of bytes, as base64."""
    return {
        Any: Form({}, KINDS),
        None: Form({"type": "null"}, {"null"}),
        type(None): Form({"type": "null"}, {"null"}),
        bool: Form({"type": "boolean"}, {"boolean"}),
        int: Form({"type": "integer"}, {NUMBER}, _integer, exact=int),
        float: Form({"type": "number"}, {NUMBER}, _number, exact=float),
        str: Form({"type": "string"}, {"string"}),
        bytes: Form({"type": "string", "contentEncoding": "base64"}, {"string"}, _bytes, plain=False),
    }
