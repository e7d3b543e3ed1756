"""Values of parameters as PostgreSQL reads them. All go as text; answers of `query` can be sent back unchanged.

| value | goes as |
|---|---|
| text | what the server expects there, in its own notation: a date, a range, JSON text |
| date of ISO 8601 before year 1 or after 9999 | as the server reads it, if it expects a date or a timestamp |
| integer, number, boolean | the literal of the same digits: an integer, else a numeric; JSON for a `json` or `jsonb` |
| `{"base64": "…"}`, and nothing else in it | bytes, if the server expects a `bytea` |
| list | an array; JSON for a `json` or `jsonb` |
| object | JSON |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import copysign
from typing import Any, Final

from rrext.errors import InvalidArguments
from rrext.nodes.databases.cells import bytes_in
from rrext.nodes.sql.postgres.moments import SIGNED, readable
from rrext.nodes.sql.postgres.types import ParameterType

BOOL: Final = 16
BYTEA: Final = 17
INT4: Final = 23
INT8: Final = 20
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
NUMERIC: Final = 1700
JSONB: Final = 3802
_MOMENTS: Final = frozenset({1082, 1114, 1184})
"""`date`, `timestamp` and `timestamptz`."""
_ARRAYS: Final = {BOOL: 1000, INT4: 1007, INT8: 1016, FLOAT8: 1022, NUMERIC: 1231}
"""The array type of each type of numbers and booleans."""
_INTEGERS: Final = frozenset({21, INT4, INT8})
_UNKNOWN: Final = ParameterType(0, 0)

_QUOTED: Final = re.compile(r'[\s"\\{},;]|\A\Z|\Anull\Z', re.IGNORECASE)
"""What an element of an array is, or has in it, that needs quotes."""


def needs_type(value: Any) -> bool:
    """Whether the form of a value depends on the type that the server expects."""
    return SIGNED.fullmatch(value) is not None if isinstance(value, str) else value is not None


def encoded(value: Any, expected: ParameterType | None, path: str) -> tuple[bytes | None, int]:
    """Encode a value as text, with the number of its declared type; 0 leaves the type to the server.

    `expected` is the server's inferred type, None if it has none. Raises `InvalidArguments` at `path`.
    """
    kind = expected or _UNKNOWN
    if value is None:
        return None, 0
    if isinstance(value, str):
        return _bytes(readable(value) if kind.base in _MOMENTS else value, path), 0
    if kind.base in (JSON, JSONB):
        return _bytes(_json(value), path), kind.oid
    if isinstance(value, list):
        return _array(value, kind, path)
    if isinstance(value, dict):
        if kind.base == BYTEA and (content := bytes_in(value, path)) is not None:
            return b"\\x" + content.hex().encode(), kind.oid
        return _bytes(_json(value), path), kind.oid
    return _scalar(value).encode(), _type_of(value, kind.base)


def _type_of(value: Any, expected: int) -> int:
    """The type of the literal of a number or boolean; a floating-point one where the server expects that."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT4 if -(2**31) <= value < 2**31 else INT8 if -(2**63) <= value < 2**63 else NUMERIC
    if expected == FLOAT4 and (value == 0 or 2e-38 < abs(value) < 3e38):
        return FLOAT4
    is_negative_zero = value == 0 and copysign(1, value) < 0
    return FLOAT8 if expected == FLOAT8 or is_negative_zero else NUMERIC


def _scalar(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def _array(value: list[Any], kind: ParameterType, path: str) -> tuple[bytes, int]:
    leaves = list(_leaves(value))
    element = kind.element
    if element is None and any(isinstance(leaf, dict) for leaf in leaves):
        return _bytes(_json(value), path), 0
    declared = kind.oid if element is not None else 0
    if element is None or (element.base in _INTEGERS and leaves):
        # As with single numbers, those that the expected type cannot hold are compared with it all the same.
        declared = _array_of(leaves, default=declared)
    text: list[str] = []
    _write_array(value, element or _UNKNOWN, kind.delimiter, text, path)
    return _bytes("".join(text), path), declared


def _leaves(value: list[Any]) -> Iterator[Any]:
    for entry in value:
        if isinstance(entry, list):
            yield from _leaves(entry)
        elif entry is not None:
            yield entry


def _array_of(leaves: list[Any], *, default: int) -> int:
    kinds = {0 if isinstance(leaf, str | dict) else _type_of(leaf, 0) for leaf in leaves}
    if len(kinds) == 1:
        return _ARRAYS.get(kinds.pop(), default)
    if kinds and kinds <= {INT4, INT8}:
        return _ARRAYS[INT8]
    return _ARRAYS[NUMERIC] if kinds and kinds <= {INT4, INT8, FLOAT8, NUMERIC} else default


def _write_array(value: list[Any], element: ParameterType, delimiter: str, text: list[str], path: str) -> None:
    text.append("{")
    for index, entry in enumerate(value):
        if index:
            text.append(delimiter)
        if isinstance(entry, list):
            _write_array(entry, element, delimiter, text, f"{path}/{index}")
        elif entry is None:
            text.append("NULL")
        else:
            written, _ = encoded(entry, element, f"{path}/{index}")
            text.append(_quoted((written or b"").decode()))
    text.append("}")


def _quoted(text: str) -> str:
    if _QUOTED.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bytes(text: str, path: str) -> bytes:
    if "\0" in text:
        raise InvalidArguments.at(path, "has a NUL character in it, which PostgreSQL cannot hold in a text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments.at(path, f"is no text: {error.reason} at {error.start}") from None
