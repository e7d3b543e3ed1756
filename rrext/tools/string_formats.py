"""Forms of the types that JSON holds as formatted strings: times, identifiers, decimal numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from rrext.tools.forms import Form, Misfit

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
_DECIMAL = r"-?[0-9]+(\.[0-9]+)?"


def _reader(kind: type, pattern: str, expected: str) -> Callable[[Any], Any]:
    matches = re.compile(pattern).fullmatch

    def read(value: Any) -> Any:
        # The pattern comes first: msgspec accepts more than the published format, such as times without offset.
        if type(value) is not str or matches(value) is None:
            raise Misfit.of(expected)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise Misfit.of(expected) from None

    return read


_READERS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "date-time": (
        datetime,
        _reader(datetime, r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]" + _CLOCK, "expected date-time, like 2026-11-21T09:30:00Z"),
    ),
    "date": (date, _reader(date, r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "expected date, like 2026-11-21")),
    "time": (time, _reader(time, _CLOCK, "expected time with offset, like 09:30:00Z")),
    "uuid": (
        UUID,
        _reader(UUID, r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "expected uuid, with its hyphens"),
    ),
    "decimal": (Decimal, _reader(Decimal, _DECIMAL, "expected decimal number as a string, like 12.50")),
}


def _accepts(read: Callable[[Any], Any]) -> Callable[[str], bool]:
    def accepts(value: str) -> bool:
        try:
            read(value)
        except Misfit:
            return False
        return True

    return accepts


FORMATS: dict[str, Callable[[str], bool]] = {name: _accepts(read) for name, (_, read) in _READERS.items()}
"""Validators of the formats of our types; each accepts what the conversion accepts. RFC 3339 also has leap seconds and a year
0, which Python's types cannot hold."""


def format_forms() -> dict[Any, Form]:
    """The form of each type that JSON holds as a formatted string."""
    forms: dict[Any, Form] = {}
    for name, (kind, read) in _READERS.items():
        schema = {"type": "string", "format": name}
        if kind is Decimal:
            schema["pattern"] = f"^{_DECIMAL}$"  # a format of our own, which validators elsewhere do not know
        forms[kind] = Form(schema, {"string"}, read, plain=False)
    return forms
