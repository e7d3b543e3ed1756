"""The values of a database in JSON. No value ever becomes another one silently, and none but NULL becomes null.

The type of a column decides about the form of its values, never a value: who reads one row knows how to read all.

| value | JSON |
|---|---|
| NULL, text, boolean, integer | as they are; integers of any size, also beyond 2^53 |
| floating point | a number; `"NaN"`, `"Infinity"` and `"-Infinity"` are texts |
| decimal of at most 15 digits, as `numeric(12,2)` | a number: a 64-bit float holds as many digits, whatever they are |
| decimal of more digits, or of any number of them | its text, as the database writes it ("0.10") |
| date, time, timestamp | ISO 8601 text, with the offset if the value has one; for some years with a sign: `iso_year` |
| interval | ISO 8601 duration, as "P1DT7200S" |
| bytes | `{"base64": "…"}` |
| list, struct, map | nested JSON; in `execute` JSON text, as RocketRide's nodes answer |
| JSON | nested JSON, as above; the JSON text of a string, of null, and of what no reader of JSON has exactly |
| UUID, address, range, all else | the text that the driver shows of it |

Answers can be written back as parameters: so a text in the place of JSON is always JSON text, and JSON that parsing would
change, as a number with more digits than a float, stays text.

RocketRide's `execute` rounds every decimal to a float, and answers bytes as a text, in which it replaces what is no UTF-8.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice
from math import isfinite, isnan
from typing import Any, Final

import msgspec

from rrext.errors import InvalidArguments

LARGE_BATCH: Final = 1024 * 1024
"""Bytes after which a driver is asked for no further row at once: a few rows may be as large as thousands of others."""

Rows = list[Sequence[Any]]

EXACT_DIGITS: Final = 15
"""Decimal digits that a 64-bit float keeps, whatever they are."""
FLOAT_DIGITS: Final = 308
"""Digits of an integer that is below the largest 64-bit float, whatever they are."""


class JsonDocument:
    """A value of a database's JSON type that was read, and how long its text was."""

    __slots__ = ("size", "value")

    def __init__(self, value: Any, size: int) -> None:
        self.value = value
        self.size = size

    def __len__(self) -> int:
        return self.size


_AS_IS: Final = frozenset({type(None), bool, int, str})
_MOSTLY_AS_IS: Final = _AS_IS | {float}
_LONG: Final = frozenset({str, bytes, bytearray, memoryview, list, dict, tuple, JsonDocument})

_NOT_TEXT: Final = _LONG - {str}


def rows_within(rows: Iterator[Sequence[Any]], size: int, taken: list[Sequence[Any]] | None = None) -> list[Sequence[Any]]:
    """The next `size` rows of a driver; fewer if they have more than `LARGE_BATCH` bytes. None: the end. `taken` gets them one
    by one, for a caller that wants those before a failure."""
    taken = [] if taken is None else taken
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
    kinds = _kinds(rows)
    if kinds <= _AS_IS or (kinds <= _MOSTLY_AS_IS and _all_finite(rows)):
        return list(rows)
    return [_row(row, nested_as_text=nested_as_text) for row in rows]


def _kinds(rows: Sequence[Sequence[Any]]) -> set[type]:
    return set(map(type, chain.from_iterable(rows)))


def _all_finite(rows: Iterable[Sequence[Any]]) -> bool:
    return all(isfinite(cell) for cell in chain.from_iterable(rows) if type(cell) is float)


def _row(row: Sequence[Any], *, nested_as_text: bool) -> Sequence[Any]:
    if not nested_as_text:
        return [cell if type(cell) in _AS_IS else json_cell(cell) for cell in row]
    return [cell if type(cell) in _AS_IS else _top_cell(cell) for cell in row]


def _top_cell(value: Any) -> Any:
    cell = json_cell(value)
    if isinstance(value, dict | list | tuple | set | frozenset) or (
        type(value) is JsonDocument and isinstance(cell, dict | list)
    ):
        return msgspec.json.encode(cell).decode()
    return cell


def json_cell(value: Any) -> Any:
    """One value in JSON, as the table above says."""
    if type(value) in _AS_IS:
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else _no_number(value)
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else _no_number(value)  # not `str`, which may write an exponent
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return msgspec.to_builtins(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": b64encode(value).decode("ascii")}
    if type(value) is JsonDocument:
        return value.value
    if isinstance(value, Mapping):
        return {_key(key): json_cell(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_cell(entry) for entry in value]
    return str(value)


def iso_year(year: int, *, is_bc: bool) -> str:
    """A year as ISO 8601 has it, which counts a year 0 before the year 1: "2026", "+10000", and "-0043" for 44 BC."""
    year = 1 - year if is_bc else year
    return f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    cell = json_cell(key)
    return cell if isinstance(cell, str) else msgspec.json.encode(cell).decode()


def _no_number(value: float | Decimal) -> str:
    if value.is_nan() if isinstance(value, Decimal) else isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def bytes_in(value: dict[str, Any], path: str) -> bytes | None:
    """The bytes of an object `{"base64": "…"}`; None for an object of another shape. Raises `InvalidArguments` at `path`."""
    text = value.get("base64")
    if len(value) != 1 or not isinstance(text, str):
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise InvalidArguments.at(f"{path}/base64", "is no base64") from None


class _Inexact(ValueError):
    """Raised for JSON whose value would change when it is parsed."""


def json_document(text: str, *, may_repeat: bool = False) -> JsonDocument | str:
    """The value of a JSON text; the text itself for a string, for null, and for JSON that parsing would change.

    `may_repeat`: objects may repeat a key, and parsing would keep only one of the two.
    """
    try:
        repeated = _unrepeated if may_repeat else None
        value = json.loads(text, parse_float=_exact_float, parse_int=_readable_int, object_pairs_hook=repeated)
        if "\\u" in text:
            msgspec.json.encode(value)  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return text
    return text if value is None or isinstance(value, str) else JsonDocument(value, len(text))


def _exact_float(text: str) -> float:
    value = float(text)
    if (len(text) > EXACT_DIGITS or "e" in text or "E" in text) and not (
        isfinite(value) and Decimal(repr(value)) == Decimal(text)
    ):
        raise _Inexact
    return value


def _readable_int(text: str) -> int:
    if len(text) > FLOAT_DIGITS and not isfinite(float(text)):
        raise _Inexact  # readers with floats alone would take it for infinite
    return int(text)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Inexact
    return value


def size_of(rows: Sequence[Sequence[Any]]) -> int:
    """About how many bytes of JSON the rows are; never much more than they are, so that it can enforce a limit."""
    size = sum(map(len, rows))
    kinds = _kinds(rows)
    if str in kinds:  # by far the most frequent of them
        size += sum(map(len, [cell for cell in chain.from_iterable(rows) if type(cell) is str]))
    if kinds & _NOT_TEXT:
        size += sum(_length(cell) for cell in chain.from_iterable(rows) if type(cell) in _NOT_TEXT)
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
