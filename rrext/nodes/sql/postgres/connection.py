"""Connections to PostgreSQL: loaders of values, and notices of the server. Importing this imports psycopg."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.errors import Diagnostic
from psycopg.types.string import TextLoader

from rrext.nodes.databases.cells import JsonDocument, json_document
from rrext.nodes.sql.backend import Warnings

AS_TEXT: Final = (
    *("interval", "timetz", "inet", "cidr", "uuid", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
"""Types whose values stay in PostgreSQL's text form: Python's own would lose something, such as months of an interval."""

OR_TEXT: Final = ("date", "time", "timestamp", "timestamptz")
"""Types with values that Python's own cannot hold (`infinity`, years before 1 and after 9999): those stay texts."""


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
    """Register how values are read: as Python values, or as the server's text if Python or JSON has no equal value."""
    made = AdaptersMap(psycopg.adapters)
    for name in AS_TEXT:
        made.register_loader(name, TextLoader)
    for name in OR_TEXT:
        made.register_loader(name, _or_text(_own_loader(made, made.types[name].oid)))
    made.register_loader("jsonb", _JsonbLoader)
    made.register_loader("json", _JsonLoader)
    for info in made.types:
        if info.array_oid:
            own = _array_loader(_own_loader(made, info.array_oid), of_json=info.name in ("json", "jsonb"))
            made.register_loader(info.array_oid, own)
    return made


def _own_loader(made: AdaptersMap, oid: int) -> type[Loader]:
    return made.get_loader(oid, psycopg.pq.Format.TEXT)  # type: ignore[return-value]


def _or_text(own: type[Loader]) -> type[Loader]:
    class OrText(Loader):
        """The driver's own loader, and the server's text where that has no value for it."""

        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = own(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return OrText


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
