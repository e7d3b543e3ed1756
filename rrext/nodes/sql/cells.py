"""How the values of a database become JSON. No value ever becomes another one silently, and none but NULL becomes null.

| value | JSON |
|---|---|
| NULL, text, boolean, integer | as they are; integers of any size, also beyond 2^53 |
| floating point | a number; `"NaN"`, `"Infinity"` and `"-Infinity"` are texts |
| decimal | a number if a 64-bit float holds exactly these digits (12.50 → 12.5), else its text ("0.1234567890123456789") |
| date, time, timestamp | ISO 8601 text, with the offset if the value has one |
| interval | ISO 8601 duration, as "P1DT7200S" |
| bytes | their text if they are UTF-8, else `{"base64": "…"}` |
| list, struct, map, JSON | nested JSON; in `execute` JSON text, as RocketRide's nodes answer |
| UUID, address, range, all else | the text that the driver shows of it |

RocketRide's `execute` rounds every decimal to a float, and replaces bytes that are no UTF-8.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from math import isfinite, isnan
from typing import Any, Final

import msgspec

__all__ = ["LARGE_BATCH", "Rows", "json_cell", "json_rows", "rows_within", "size_of", "unique_names"]

LARGE_BATCH: Final = 1024 * 1024
"""Bytes after which a driver is asked for no further row at once: a few rows may be as large as thousands of others."""

Rows = list[Sequence[Any]]

_AS_IS: Final = frozenset({type(None), bool, int, str})
_MOSTLY_AS_IS: Final = _AS_IS | {float}
_LONG: Final = frozenset({str, bytes, bytearray, memoryview, list, dict, tuple})


def rows_within(rows: Iterator[Sequence[Any]], size: int) -> list[Sequence[Any]]:
    """The next `size` rows of a driver; fewer if they have more than `LARGE_BATCH` bytes. None: the end."""
    taken: list[Sequence[Any]] = []
    room = LARGE_BATCH
    for row in islice(rows, size):
        taken.append(row)
        for cell in row:
            if type(cell) in _LONG:
                room -= len(cell)
        if room < 0:
            break
    return taken


def json_rows(rows: Sequence[Sequence[Any]], *, nested_as_text: bool) -> Rows:
    """The rows with every cell in JSON. Those that need no change stay the objects that they are."""
    kinds = set(map(type, chain.from_iterable(rows)))
    if kinds <= _AS_IS or (kinds <= _MOSTLY_AS_IS and _all_finite(rows)):
        return list(rows)
    return [_row(row, nested_as_text=nested_as_text) for row in rows]


def _all_finite(rows: Iterable[Sequence[Any]]) -> bool:
    return all(isfinite(cell) for cell in chain.from_iterable(rows) if type(cell) is float)


def _row(row: Sequence[Any], *, nested_as_text: bool) -> Sequence[Any]:
    if not nested_as_text:
        return [cell if type(cell) in _AS_IS else json_cell(cell) for cell in row]
    return [cell if type(cell) in _AS_IS else _top_cell(cell) for cell in row]


def _top_cell(value: Any) -> Any:
    cell = json_cell(value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return msgspec.json.encode(cell).decode()
    return cell


def json_cell(value: Any) -> Any:
    """One value in JSON, as the table above says."""
    if type(value) in _AS_IS:
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else _no_number(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return msgspec.to_builtins(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if isinstance(value, Mapping):
        return {_key(key): json_cell(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_cell(entry) for entry in value]
    return str(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    cell = json_cell(key)
    return cell if isinstance(cell, str) else msgspec.json.encode(cell).decode()


def _no_number(value: float | Decimal) -> str:
    if value.is_nan() if isinstance(value, Decimal) else isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> float | str:
    if not value.is_finite():
        return _no_number(value)
    near = float(value)
    return near if isfinite(near) and Decimal(repr(near)) == value else str(value)


def _bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode("ascii")}


def size_of(rows: Sequence[Sequence[Any]]) -> int:
    """About how many bytes of JSON the rows are; never much more than they are, so that it can enforce a limit."""
    size = sum(map(len, rows))
    if set(map(type, chain.from_iterable(rows))) & _LONG:
        size += sum(_length(cell) for cell in chain.from_iterable(rows) if type(cell) in _LONG)
    return size


def _length(cell: Any) -> int:
    if isinstance(cell, dict):
        return sum(_length_within(key) + _length_within(entry) for key, entry in cell.items())
    if isinstance(cell, list | tuple):
        return sum(map(_length_within, cell))
    return len(cell)


def _length_within(value: Any) -> int:
    return _length(value) if type(value) in _LONG else 1


def unique_names(names: Iterable[str]) -> list[str]:
    """The names of a result's columns; a second `id` is `id_2`, so that no cell of a row that is an object is lost."""
    given = list(names)
    if len(set(given)) == len(given):
        return given
    taken, unique = set(given), list[str]()
    seen = set[str]()
    for name in given:
        own, number = name, 2
        while own in seen or (own != name and own in taken):
            own, number = f"{name}_{number}", number + 1
        seen.add(own)
        unique.append(own)
    return unique
