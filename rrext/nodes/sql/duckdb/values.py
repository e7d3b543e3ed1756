"""Values of DuckDB's types: their conversion to cells of answers, and from JSON to parameters.

| type | JSON |
|---|---|
| DECIMAL | a number if the type has at most 15 digits, else its text |
| BIGNUM | its text, as of any number of digits |
| INTERVAL | an ISO 8601 duration with months: "P1M2DT3H" |
| DATE, TIMESTAMP before year 1 and after 9999 | ISO 8601 text with a sign before the year: "-0043-03-15" |
| TIMESTAMP_NS, TIMESTAMPTZ_NS, TIME_NS | ISO 8601 text with all nine digits |
| GEOMETRY | its text: "POINT (1 2)" |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import duckdb
import msgspec

from rrext.nodes.databases.cells import EXACT_DIGITS, bytes_in, iso_year, json_cell, json_document

Convert = Callable[[Any], Any]

_FROM_TEXT: Final = frozenset({"INTERVAL", "TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIME_NS", "GEOMETRY"})
"""Types whose Python values would lose something: their text is read instead."""
_PLAIN: Final = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
        "UHUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "TIME", "UUID", "BLOB",
    }
)  # fmt: skip
"""Types that need no conversion."""
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE")
_BEYOND: Final = re.compile(
    r"(?P<year>\d+)(?P<day>-\d\d-\d\d)(?P<bc> \(BC\))?"
    r"(?: (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?P<offset>[-+][\d:]+)?)?"
)
_NESTED: Final = frozenset({"list", "array", "struct", "map", "tuple"})

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<years>[-+]?\d+)Y)?(?:(?P<months>[-+]?\d+)M)?(?:(?P<weeks>[-+]?\d+)W)?(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_PARTS: Final = re.compile(r"(-?\d+) (year|month|day)s?|(-?)(\d+):(\d+):(\d+(?:\.\d+)?)")


# results


def exact_type(kind: Any) -> str | None:
    """The type as which a column of this type is read so that nothing is lost; None for the same type."""
    name = str(kind)
    if name in _PLAIN:
        return None
    if name in _FROM_TEXT:
        return "VARCHAR"
    if kind.id not in _NESTED:
        return None
    parts = sources_of_types(kind)
    exact = [exact_type(part) for _, part in parts]
    if not any(exact):
        return None
    types = [found or str(part) for found, (_, part) in zip(exact, parts, strict=True)]
    match kind.id:
        case "list":
            return f"{types[0]}[]"
        case "array":
            return f"{types[0]}[{dict(kind.children)['size']}]"
        case "map":
            return f"MAP({types[0]}, {types[1]})"
        case "struct":
            names = [_quoted(label) for label, _ in parts]
            return f"STRUCT({', '.join(f'{label} {found}' for label, found in zip(names, types, strict=True))})"
        case _:
            return f"TUPLE({', '.join(types)})"


def sources_of_types(kind: Any) -> list[tuple[str, Any]]:
    """The types within a nested one, by name."""
    return [(name, part) for name, part in kind.children if not isinstance(part, int)]


def converter(kind: Any) -> Convert | None:
    """The function that makes a value of this type fit for `json_cell`; None if none is needed."""
    name = str(kind)
    if name in _PLAIN:
        return None
    if name in _CONVERTERS:
        return _CONVERTERS[name]
    if kind.id == "decimal":
        return _short if dict(kind.children)["precision"] <= EXACT_DIGITS else _digits
    if kind.id not in _NESTED:
        return None
    parts = sources_of_types(kind)
    within = [converter(part) for _, part in parts]
    if not any(within):
        return None
    match kind.id:
        case "list" | "array":
            return lambda value: None if value is None else [_with(within[0], entry) for entry in value]
        case "map":
            return lambda value: _map(value, within[0], within[1])
        case "struct":
            convert = {label: found for (label, _), found in zip(parts, within, strict=True)}
            return lambda value: (
                None if value is None else {label: _with(convert.get(label), entry) for label, entry in value.items()}
            )
        case _:
            return lambda value: (
                None if value is None else [_with(found, entry) for found, entry in zip(within, value, strict=True)]
            )


def _with(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _map(value: Any, key: Convert | None, entry: Convert | None) -> Any:
    return {_with(key, k): _with(entry, v) for k, v in value.items()} if isinstance(value, dict) else value


def _json(value: Any) -> Any:
    return json_document(value, may_repeat=True) if isinstance(value, str) else value


def _digits(value: Any) -> Any:
    return None if value is None else json_cell(value)


def _short(value: Any) -> Any:
    return None if value is None else float(value)


def _moment(value: Any) -> Any:
    """A date or timestamp in ISO 8601. If Python has none, the driver gives DuckDB's text, as `0044-03-15 (BC) 10:00:00.5`."""
    if not isinstance(value, str):
        return value if value is None else value.isoformat()
    found = _BEYOND.fullmatch(value)
    if found is None:
        return value
    date = f"{iso_year(int(found['year']), is_bc=found['bc'] is not None)}{found['day']}"
    if found["time"] is None:
        return date
    fraction = f".{found['fraction']:0<6}" if found["fraction"] else ""
    return f"{date}T{found['time']}{fraction}{found['offset'] or ''}{':00' if len(found['offset'] or '') == 3 else ''}"


def _interval(value: Any) -> Any:
    """DuckDB's `1 year 2 months -3 days 04:05:06.7` in ISO 8601."""
    if not isinstance(value, str):
        return value
    years = months = days = 0
    time = ""
    for number, unit, sign, hours, minutes, seconds in _PARTS.findall(value):
        if unit:
            years, months, days = (
                years + int(number) * (unit == "year"),
                months + int(number) * (unit == "month"),
                days + int(number) * (unit == "day"),
            )
        else:
            seconds = seconds.rstrip("0").rstrip(".") if "." in seconds else seconds
            parts = ((int(hours), "H"), (int(minutes), "M"), (seconds.lstrip("0") or "0", "S"))
            shown = [(f"0{number}" if str(number).startswith(".") else number, unit) for number, unit in parts]
            time = "".join(f"{sign}{number}{unit}" for number, unit in shown if str(number) != "0")
    date = "".join(f"{number}{unit}" for number, unit in ((years, "Y"), (months, "M"), (days, "D")) if number)
    return f"P{date}{'T' + time if time else ''}" if date or time else "PT0S"


def _timestamp(value: Any) -> Any:
    """DuckDB's `2026-01-01 00:00:00.123456789+00` in ISO 8601."""
    if not isinstance(value, str):
        return value
    text = value.replace(" ", "T", 1)
    return f"{text}:00" if re.fullmatch(r".*T.*[-+]\d\d", text) else text


_CONVERTERS: Final[dict[str, Convert]] = {
    "JSON": _json,
    **dict.fromkeys(_MOMENTS, _moment),
    "BIGNUM": _digits,
    "INTERVAL": _interval,
    "TIMESTAMP_NS": _timestamp,
    "TIMESTAMPTZ_NS": _timestamp,
}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# parameters


def parameters(values: Sequence[Any], types: Mapping[str, Any]) -> list[Any]:
    """JSON values as parameters; `types` are those that the statement expects, by the number of the parameter.

    Raises `InvalidArguments` for `{"base64": …}` that is none.
    """
    return [_parameter(value, types.get(str(number)), f"/input/params/{number - 1}") for number, value in enumerate(values, 1)]


def _parameter(value: Any, kind: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    name = str(kind) if kind is not None else "UNKNOWN"
    if name == "JSON":
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if isinstance(value, dict) and (data := bytes_in(value, path)) is not None:
        return data
    if isinstance(value, int):
        return value if -(2**127) <= value < 2**128 else str(value)
    if isinstance(value, float):
        return repr(value) if name.startswith("DECIMAL") else value
    if isinstance(value, str):
        if name in _MOMENTS:
            return value.removeprefix("+")  # of a year after 9999, which DuckDB reads without the sign alone
        return value.encode() if name == "BLOB" else _duration(value) if name == "INTERVAL" else value
    return _untyped(value, path) if name in ("UNKNOWN", "VARIANT", "ANY") else _nested(value, kind, path)


def _nested(value: Any, kind: Any, path: str) -> Any:
    """A list or an object for a type that may have parts."""
    if kind.id not in _NESTED:
        return _untyped(value, path)
    parts = sources_of_types(kind)
    if isinstance(value, list):
        within = [part for _, part in parts]
        if kind.id in ("list", "array"):
            return [_parameter(entry, within[0], path) for entry in value]
        if kind.id == "tuple" and len(value) == len(within):
            return tuple(_parameter(entry, part, path) for entry, part in zip(value, within, strict=True))
        return _untyped(value, path)
    if kind.id == "map":
        key, within = parts[0][1], parts[1][1]
        return duckdb.Value({_parameter(k, key, path): _parameter(v, within, path) for k, v in value.items()}, kind)
    of_names = {label.lower(): part for label, part in parts}
    return {label: _parameter(entry, of_names.get(label.lower()), path) for label, entry in value.items()}


def _untyped(value: Any, path: str) -> Any:
    """A list or an object without a known type: a list or a struct if all parts fit one, else JSON."""
    plain = _plain(value, path)
    if _shape(plain) is None:
        return duckdb.Value(msgspec.json.encode(value).decode(), duckdb.sqltype("JSON"))
    return plain


def _plain(value: Any, path: str) -> Any:
    """The value with its bytes decoded."""
    if isinstance(value, dict):
        data = bytes_in(value, path)
        return {label: _plain(entry, path) for label, entry in value.items()} if data is None else data
    return [_plain(entry, path) for entry in value] if isinstance(value, list) else value


def _shape(value: Any) -> object:
    """The common type of two values if one list may hold both; None for a value that no typed list or struct holds."""
    if isinstance(value, list):
        shapes = {shape for entry in value if (shape := _shape(entry)) != "null"}
        return None if None in shapes or len(shapes) > 1 else ("list", *shapes)
    if isinstance(value, dict):
        shapes = [_shape(entry) for entry in value.values()]
        folded = {label.lower() for label in value}
        return (
            None
            if None in shapes or not all(value) or not value or len(folded) < len(value)
            else ("struct", *zip(value, shapes, strict=True))
        )
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**127) <= value < 2**127:
        return None
    return "null" if value is None else type(value).__name__


def _duration(text: str) -> str:
    """An ISO 8601 duration as DuckDB reads intervals; any other text as it is."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return text
    turned = found["sign"] == "-"
    said: list[str] = []
    for unit in ("years", "months", "weeks", "days", "hours", "minutes", "seconds"):
        number = found[unit]
        if number is not None:
            shown = number.removeprefix("+")
            if turned:
                shown = shown[1:] if shown.startswith("-") else f"-{shown}"
            said.append(f"{shown} {unit}")
    return " ".join(said)
