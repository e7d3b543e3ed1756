"""Connections to PostgreSQL: loaders of values, and notices of the server. Importing this imports psycopg."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.errors import Diagnostic
from psycopg.types import TypeInfo
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader

from rrext.nodes.databases.cells import EXACT_DIGITS, JsonDocument, json_document
from rrext.nodes.sql.backend import Warnings
from rrext.nodes.sql.postgres.moments import iso_interval, iso_moment, iso_time

AS_TEXT: Final = (
    *("numeric", "timetz", "inet", "cidr", "uuid", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
"""Types whose values stay in PostgreSQL's text form: Python's own, or a float, would lose something."""

SHORT_NUMERIC: Final = TypeInfo("rrext.short_numeric", 1, 2)
"""Stands for `numeric` of so few digits that a float has them all. The loaders alone know it: a server numbers no type so."""


class PostgresConnection(psycopg.Connection[Any]):
    """A connection with the notices of its last statement."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notices = Warnings()
        self.add_notice_handler(self._note)

    def _note(self, notice: Diagnostic) -> None:
        parts = (notice.message_primary, notice.message_detail, notice.message_hint)
        self.notices.add(f"{notice.severity_nonlocalized}: {' '.join(part for part in parts if part)}")


@cache
def adapters() -> AdaptersMap:
    """Register how values are read: as Python values, or as text if Python or JSON has no equal value. A type has one form."""
    made = AdaptersMap(psycopg.adapters)
    for name in AS_TEXT:
        made.register_loader(name, TextLoader)
    for name in ("date", "timestamp", "timestamptz"):
        made.register_loader(name, _MomentLoader)
    made.register_loader("time", _TimeLoader)
    made.register_loader("interval", _IntervalLoader)
    made.register_loader("jsonb", _JsonbLoader)
    made.register_loader("json", _JsonLoader)
    SHORT_NUMERIC.register(made)
    made.register_loader(SHORT_NUMERIC.oid, FloatLoader)
    for info in made.types:
        if info.array_oid:
            own = made.get_loader(info.array_oid, psycopg.pq.Format.TEXT)
            made.register_loader(info.array_oid, _array_loader(own, of_json=info.name in ("json", "jsonb")))  # type: ignore[arg-type]
    return made


def loader_of(oid: int, modifier: int) -> int:
    """The number by which the loader of a column is registered: a `numeric(12,2)` is a number, one of any length a text."""
    if oid in _SHORT and modifier >= 0 and (modifier - 4) >> 16 <= EXACT_DIGITS:
        return _SHORT[oid]
    return oid


_SHORT: Final = {1700: SHORT_NUMERIC.oid, 1231: SHORT_NUMERIC.array_oid}


class _MomentLoader(Loader):
    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        info: Any = self.connection and self.connection.info
        self._iso = iso_moment(info.parameter_status("DateStyle") or "", lambda: info.timezone)

    def load(self, data: Any) -> str:
        return self._iso(bytes(data).decode())


class _TimeLoader(Loader):
    def load(self, data: Any) -> str:
        return iso_time(bytes(data).decode())


class _IntervalLoader(Loader):
    def load(self, data: Any) -> str:
        return iso_interval(bytes(data).decode())


class _JsonbLoader(Loader):
    def load(self, data: Any) -> JsonDocument | str:
        return json_document(bytes(data).decode())


class _JsonLoader(Loader):
    """`json` keeps the text as it was written, with keys that an object has twice."""

    def load(self, data: Any) -> JsonDocument | str:
        return json_document(bytes(data).decode(), may_repeat=True)


def _array_loader(own: type[Loader], *, of_json: bool) -> type[Loader]:
    class ArrayOrText(Loader):
        """The driver's own loader, and the server's text of an array that does not begin with its first element."""

        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = own(oid, context).load

        def load(self, data: Any) -> Any:
            text = bytes(data)
            if text.startswith(b"["):
                return text.decode()
            return _lists_as_text(self._load(text)) if of_json else self._load(text)

    return ArrayOrText


def _lists_as_text(array: list[Any]) -> list[Any]:
    """The array with JSON arrays as their text, as a list in a list is another dimension of the array."""
    made: list[Any] = []
    for entry in array:
        if isinstance(entry, list):
            made.append(_lists_as_text(entry))
        elif isinstance(entry, JsonDocument) and isinstance(entry.value, list):
            made.append(json.dumps(entry.value, ensure_ascii=False))
        else:
            made.append(entry)
    return made
