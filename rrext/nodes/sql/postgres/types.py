"""Types of a PostgreSQL database: their names in answers, the values of parameters, dates and times, over libpq.

Importing this imports psycopg. All values of parameters go as text; answers of `query` can be sent back unchanged.

| value | goes as |
|---|---|
| text | what the server expects there, in its own notation: a date, a range, JSON text |
| date of ISO 8601 before year 1 or after 9999 | as the server reads it, if it expects a date or a timestamp |
| integer, number, boolean | the literal of the same digits: an integer, else a numeric; JSON for a `json` or `jsonb` |
| `{"base64": "…"}`, and nothing else in it | bytes, if the server expects a `bytea` |
| list | an array; JSON for a `json` or `jsonb` |
| object | JSON |

Dates, times and intervals are read as PostgreSQL writes them, into ISO 8601, and dates of ISO 8601 are written as PostgreSQL
reads them. How the server writes them is a setting of the session (DateStyle, IntervalStyle), which is the caller's:
`interval::text` and
`to_json` follow it too, so it is never changed; each of the forms is read here.

Years before 1 and after 9999 have a sign in ISO 8601, which counts a year 0: `-0043-03-15` is in 44 BC. PostgreSQL reads no
such years. The texts of `infinity`, which ISO 8601 does not have, stay what they are.
"""

from __future__ import annotations

import fcntl
import json
import re
import select
import struct
import termios
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from math import copysign
from time import monotonic
from typing import Any, Final

import msgspec
from psycopg import Connection, OperationalError, adapters
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from rrext.errors import InvalidArguments, ResultTooLarge
from rrext.limits import KIB
from rrext.nodes.databases.cells import bytes_in, iso_year
from rrext.nodes.sql.driver_limits import KEPT_STATEMENTS, LARGEST_CHUNK, LONGEST_KEPT, POSTGRES_CHUNK

_IS: Final = "OPERATOR(pg_catalog.=)"
"""Users may have operators of the same name."""

_FACTS: Final = f"""
SELECT t.oid, CASE WHEN t.typtype {_IS} 'd' THEN t.typbasetype END,
  CASE WHEN t.typcategory {_IS} 'A' AND t.typlen {_IS} '-1' THEN t.typelem END, coalesce(e.typdelim, ',')
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid {_IS} t.typelem WHERE t.oid {_IS} '{{}}'"""


class ParameterType(msgspec.Struct, frozen=True):
    """The type that the server expects of a parameter."""

    oid: int
    """The number declared to the server, which reports an error if it expects another type by now."""
    base: int
    """The base type of a domain; for other types the type itself."""
    element: ParameterType | None = None
    delimiter: str = ","


class PostgresTypes:
    """The types of one database. Shared by its connections, which add to it."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str | None] = {}
        self._facts: dict[int, ParameterType] = {}
        self._statements: dict[str, tuple[int, ...] | None] = {}

    # results

    def names(self, connection: Connection[Any], columns: Sequence[tuple[int, int]]) -> list[str | None]:
        """The names of types with their modifiers, as `numeric(10,2)`. Queries the server for unknown ones."""
        names = self._names
        if not all(map(names.__contains__, columns)):
            self._ask_names(connection, sorted({column for column in columns if column not in names}))
        return [names[column] for column in columns]

    def _ask_names(self, connection: Connection[Any], unknown: list[tuple[int, int]]) -> None:
        asked: list[tuple[int, int]] = []
        for oid, modifier in unknown:
            known = adapters.types.get(oid)
            if known is not None and modifier == -1:
                self._names[oid, modifier] = known.regtype + "[]" * (oid == known.array_oid)
            else:
                asked.append((oid, modifier))
        if asked:
            calls = ", ".join(f"pg_catalog.format_type({oid}, {modifier})" for oid, modifier in asked)
            (row,) = rows_of(connection, f"SELECT {calls}".encode())
            self._names.update(zip(asked, row, strict=True))

    # parameters

    def parameters(self, connection: Connection[Any], sql: str, text: bytes) -> Sequence[ParameterType | None]:
        """The parameter types that the server infers; none if it cannot."""
        oids = self._statements.get(sql)
        if oids is None and sql not in self._statements:
            oids = described(connection, text)
            if len(sql) <= LONGEST_KEPT:
                if len(self._statements) >= KEPT_STATEMENTS:
                    self._statements.clear()
                self._statements[sql] = oids
        return [self._fact(connection, oid) for oid in oids or ()]

    def forget(self) -> None:
        """Drop the cached types, because tables may have changed: after a definition or a failed statement."""
        self._statements.clear()
        self._facts.clear()

    def _fact(self, connection: Connection[Any], oid: int) -> ParameterType:
        found = self._facts.get(oid)
        if found is None:
            found = self._facts[oid] = self._built_in(oid) or self._asked(connection, oid)
        return found

    def _built_in(self, oid: int) -> ParameterType | None:
        info = adapters.types.get(oid)
        if info is None:
            return None
        if info.array_oid != oid:
            return ParameterType(oid, oid)
        return ParameterType(oid, oid, ParameterType(info.oid, info.oid), info.delimiter)

    def _asked(self, connection: Connection[Any], oid: int) -> ParameterType:
        rows = rows_of(connection, _FACTS.format(oid).encode())
        _, base, element, delimiter = rows[0] if rows else ("", None, None, ",")
        if base:
            return msgspec.structs.replace(self._fact(connection, int(base)), oid=oid)
        of = self._fact(connection, int(element)) if element else None
        return ParameterType(oid, oid, of, delimiter or ",")


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


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME: Final = r"(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?"
_NUMBERS: Final = r"(?P<first>\d+)(?P<sign>[-/.])(?P<second>\d\d)(?P=sign)(?P<third>\d+)"
_ZONE: Final = r"(?: ?(?P<zone>[-+][\d:]+|(?!BC\b)[A-Za-z]\w*))?"
_PLAIN: Final = re.compile(rf"{_NUMBERS}(?: {_TIME}{_ZONE})?(?P<bc> BC)?")
_WORDY: Final = re.compile(
    rf"[A-Z][a-z]{{2}} (?:(?P<month>[A-Z][a-z]{{2}}) (?P<day>\d\d)|(?P<day_first>\d\d) (?P<month_last>[A-Z][a-z]{{2}})) "
    rf"{_TIME} (?P<year>\d+){_ZONE}(?P<bc> BC)?"
)
"""`Fri Jan 02 10:00:00 2026 CET`, of the style "Postgres"."""

_OFFSET: Final = re.compile(r"[-+]\d\d\Z")

_SPAN: Final = re.compile(
    r"(?P<verbose>@ )?(?:(?P<years>[-+]?\d+) years? ?)?(?:(?P<months>[-+]?\d+) mons? ?)?(?:(?P<days>[-+]?\d+) days? ?)?"
    r"(?:(?P<hours>[-+]?\d+) hours? ?)?(?:(?P<minutes>[-+]?\d+) mins? ?)?(?:(?P<seconds>[-+]?\d+(?:\.\d+)?) secs? ?)?"
    r"(?:(?P<sign>[-+]?)(?P<clock>\d+:\d\d:\d\d(?:\.\d+)?))?(?P<ago>ago)?"
)
"""The styles "postgres" and "postgres_verbose"."""

_SQL_SPAN: Final = re.compile(
    r"(?:(?P<of_months>[-+]?)(?P<years>\d+)-(?P<months>\d+) ?)?(?:(?P<of_days>[-+]?)(?P<days>\d+) (?=[-+\d]))?"
    r"(?:(?P<sign>[-+]?)(?P<clock>\d+:\d\d:\d\d(?:\.\d+)?))?"
)
"""The style "sql_standard"."""

SIGNED: Final = re.compile(r"(0000|[-+]\d{4,})(-\d\d-\d\d)(?:[T ](.+))?", re.DOTALL)


def iso_moment(style: str, zone: Callable[[], tzinfo]) -> Callable[[str], str]:
    """The function that makes ISO 8601 of a date or a timestamp. `style` is the session's DateStyle; `zone` gives its time
    zone, which says what an abbreviation in the text means."""
    order = _order(style)

    def convert(text: str) -> str:
        if len(text) == 10 and text[4] == "-":
            return text
        if len(text) == 19 and text[4] == "-":
            return f"{text[:10]}T{text[11:]}"
        if len(text) == 22 and text[4] == "-" and text[19] in "+-":
            return f"{text[:10]}T{text[11:]}:00"
        if (found := _PLAIN.fullmatch(text)) is not None:
            numbers = found.group("first", "second", "third")
            year, month, day = numbers if found["sign"] == "-" and len(numbers[0]) > 2 else [numbers[place] for place in order]
        elif (found := _WORDY.fullmatch(text)) is not None:
            month = f"{_MONTHS.index(found['month'] or found['month_last']) + 1:02}"
            year, day = found["year"], found["day"] or found["day_first"]
        else:
            return text
        year = iso_year(int(year), is_bc=found["bc"] is not None)
        date = f"{year}-{month}-{day}"
        if found["time"] is None:
            return date
        time = f"{found['time']}.{found['fraction']:0<6}" if found["fraction"] else found["time"]
        offset = found["zone"] or ""
        if offset[:1].isalpha():
            known = _offset(int(year), f"-{month}-{day}T{time}", offset, zone())
            if known is None:
                return text
            offset = known
        return f"{date}T{time}{offset}:00" if _OFFSET.match(offset) else f"{date}T{time}{offset}"

    return convert


def _order(style: str) -> Sequence[int]:
    """The places of year, month and day in a date of numbers that does not begin with the year."""
    return (2, 1, 0) if style.startswith("German") or style.endswith("DMY") else (2, 0, 1)


def _offset(year: int, rest: str, abbreviation: str, zone: tzinfo) -> str | None:
    """The offset that an abbreviation means at that time of the zone; None if Python does not know it."""
    if not 0 < year <= 9999:  # beyond Python's years; every 400 have the same calendar, and the rules of the first or the last
        year = year % 400 + 9600 if year > 0 else year % 400 or 400
    local = datetime.fromisoformat(f"{year:04}{rest}")
    for fold in (0, 1):
        at = local.replace(tzinfo=zone, fold=fold)
        if at.tzname() == abbreviation:
            return at.isoformat()[4 + len(rest) :]
    return None


def iso_time(text: str) -> str:
    """ISO 8601 of a time, with microseconds as Python writes them."""
    return text if len(text) == 8 or "." not in text else f"{text:0<15}"


def iso_interval(text: str) -> str:
    """ISO 8601 of an interval in any of the four styles, exactly as the style "iso_8601" writes it."""
    if text.startswith(("P", "inf", "-inf")):
        return text
    if (found := _SPAN.fullmatch(text)) is not None:
        turn = -1 if found["ago"] else 1
        date = [turn * int(found[unit] or 0) for unit in ("years", "months", "days")]
        parts = [found[unit] or "0" for unit in ("hours", "minutes", "seconds")] if found["clock"] is None else _clock(found)
        time = [_turned(part) for part in parts] if turn < 0 else parts
    elif (found := _SQL_SPAN.fullmatch(text)) is not None:
        of_months, of_days, sign = (found[name] or "" for name in ("of_months", "of_days", "sign"))
        date = [int(f"{of_months}{found['years'] or 0}"), int(f"{of_months}{found['months'] or 0}"), 0]
        date[2] = int(f"{of_days}{found['days'] or 0}")
        time = _clock(found, sign or of_days)
    else:
        return "PT0S" if text in ("0", "@ 0") else text
    days = "".join(f"{number}{unit}" for number, unit in zip(date, "YMD", strict=True) if number)
    clock = "".join(f"{number}{unit}" for part, unit in zip(time, "HMS", strict=True) if (number := _bare(part)) != "0")
    return f"P{days}{'T' if clock else ''}{clock}" if days or clock else "PT0S"


def _clock(found: re.Match[str], sign: str | None = None) -> list[str]:
    """Hours, minutes and seconds of `-04:05:06.7`, each with the sign of all."""
    sign = found["sign"] if sign is None else sign
    return [f"{sign}{part}" for part in (found["clock"] or "0:0:0").split(":")]


def _turned(number: str) -> str:
    return number[1:] if number.startswith("-") else f"-{number.removeprefix('+')}"


def _bare(number: str) -> str:
    """The number without `+`, zeros before it, and zeros at the end of its fraction."""
    sign = "-" if number.startswith("-") else ""
    whole, _, fraction = number.lstrip("+-").partition(".")
    digits = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{sign}{digits}.{fraction}" if fraction else "0" if digits == "0" else f"{sign}{digits}"


def readable(text: str) -> str:
    """A date or timestamp of ISO 8601 with a sign before its year, or in year 0, as PostgreSQL reads it; else the text."""
    found = SIGNED.fullmatch(text)
    if found is None:
        return text
    year = int(found[1])
    said, bc = (f"{year:04}", "") if year > 0 else (f"{1 - year:04}", " BC")
    return f"{said}{found[2]}{' ' + found[3] if found[3] else ''}{bc}"


def ask(connection: Connection[Any], text: bytes, timeout: float | None = None) -> None:
    """Run internal statements without results, such as `BEGIN`, in one round trip.

    Raises the driver's errors, and `psycopg.OperationalError` if there is no answer within `timeout` seconds.
    """
    connection.pgconn.send_query(text)
    settle(connection, timeout)


def send(connection: Connection[Any], text: bytes) -> None:
    """Send internal statements without waiting; `settle` waits, before any other statement is sent."""
    connection.pgconn.send_query(text)
    connection.pgconn.flush()


def settle(connection: Connection[Any], timeout: float | None = None) -> None:
    """Wait until the server has finished the statements of `tell`. Raises the errors of `ask`."""
    pgconn = connection.pgconn
    failed: Any = None
    while (result := next_result(pgconn, timeout)[0]) is not None:
        if result.error_message and failed is None:
            failed = result
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")


def rows_of(connection: Connection[Any], text: bytes, *values: bytes) -> list[list[str | None]]:
    """The few rows of an internal query, as texts; `values` are those of `$1`, `$2`, ….

    Ends a failed transaction first: it accepts no query.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status == TransactionStatus.INERROR:
        ask(connection, b"ROLLBACK")
    pgconn.send_query_params(text, values or None)
    rows: list[list[str | None]] = []
    failed: Any = None
    while (result := next_result(pgconn)[0]) is not None:
        if result.error_message:
            failed = result
        for row in range(result.ntuples):
            cells = (result.get_value(row, column) for column in range(result.nfields))
            rows.append([None if cell is None else cell.decode() for cell in cells])
    if failed is not None:
        raise error_from_result(failed, encoding="utf-8")
    return rows


def described(connection: Connection[Any], text: bytes) -> tuple[int, ...] | None:
    """The type numbers that the server infers for the parameters of a statement; None if it cannot.

    One round trip, after which the open transaction is unchanged: failures stay behind a savepoint.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status != TransactionStatus.INTRANS:
        return None
    pgconn.enter_pipeline_mode()
    pgconn.send_query_params(b"SAVEPOINT rrext", None)
    pgconn.send_prepare(b"", text)
    pgconn.send_describe_prepared(b"")
    pgconn.pipeline_sync()
    pgconn.send_query_params(b"ROLLBACK TO SAVEPOINT rrext", None)
    pgconn.send_query_params(b"RELEASE SAVEPOINT rrext", None)
    pgconn.pipeline_sync()
    answers: list[PGresult] = []
    ends = 0
    while ends < 2:
        result, _ = next_result(pgconn)
        if result is not None:
            answers.append(result)
            ends += result.status == ExecStatus.PIPELINE_SYNC
        elif pgconn.status != ConnStatus.OK:
            raise OperationalError("the server closed the connection")
    pgconn.exit_pipeline_mode()
    shown = answers[2]  # after the answers to SAVEPOINT and to the parsing
    if shown.status != ExecStatus.COMMAND_OK:
        return None
    return tuple(shown.param_type(at) for at in range(shown.nparams))


LEAST_READ: Final = 8 * KIB
"""Bytes that libpq reads at least at a time, if there are as many; as many may come meanwhile, and hide what it read."""


def next_result(pgconn: PGconn, timeout: float | None = None) -> tuple[PGresult | None, int]:
    """Wait for the next result of the server; None when the statement is over. Other threads run meanwhile.

    Also how often something was read: 0 or 1 times, unless there was more than fits into libpq's buffer. Raises
    `ResultTooLarge` for more bytes than `LARGEST_CHUNK`, if it sees them: while libpq reads a large row, more may come unseen.
    What libpq leaves in the socket, because its buffer is full, counts when it is read.
    """
    until = None if timeout is None else monotonic() + timeout
    poll: select.poll | None = None
    arrived = reads = 0
    while (unsent := pgconn.flush()) or pgconn.is_busy():
        if poll is None:
            poll = select.poll()
        poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        ready = poll.poll(None if until is None else max(0.0, until - monotonic()) * 1000)
        if not ready and until is not None:
            pgconn.finish()
            raise OperationalError(f"the server did not answer within {timeout:g} s")
        if ready and ready[0][1] & ~select.POLLOUT:
            waiting = _waiting(pgconn.socket)
            if arrived + waiting > LARGEST_CHUNK:
                size = arrived + waiting
                pgconn.finish()
                raise too_large_chunk(size)
            pgconn.consume_input()
            arrived += max(waiting - _waiting(pgconn.socket), min(waiting, LEAST_READ))
            reads += 1
    return pgconn.get_result(), reads


def _waiting(socket: int) -> int:
    """The number of bytes that have arrived and are not read yet."""
    found = fcntl.ioctl(socket, termios.FIONREAD, bytes(4))
    return struct.unpack("i", found)[0]


def too_large_chunk(size: int) -> ResultTooLarge:
    return too_large(f"{POSTGRES_CHUNK} rows or fewer have", size, LARGEST_CHUNK, "LARGEST_CHUNK")


def too_large(what: str, size: int, maximum: int, limit: str) -> ResultTooLarge:
    return ResultTooLarge(
        f"{what} {size:,} bytes: {limit} is {maximum:,}",
        hint="Ask for fewer large columns, for parts of them with substring(), or for fewer rows.",
        data={"limit": limit, "maximum": maximum, "size": size},
    )
