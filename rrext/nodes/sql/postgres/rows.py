"""Connections to PostgreSQL, statements on them, and their rows a chunk at a time, over the connection's libpq.

psycopg's own cursors either hold a whole result in memory, or declare a cursor in the server, which costs two more round
trips, plans the query differently, and does not take every statement. Importing this imports psycopg.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import psycopg
from psycopg import NotSupportedError, capabilities
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.errors import Diagnostic, error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.types import TypeInfo
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader

from rrext.limits import DEFAULTS
from rrext.nodes.databases.cells import EXACT_DIGITS, JsonDocument, json_document
from rrext.nodes.sql.backend import Warnings
from rrext.nodes.sql.driver_limits import CANCEL_TIMEOUT, LARGEST_CHUNK, POSTGRES_CHUNK
from rrext.nodes.sql.postgres.types import (
    PostgresTypes,
    iso_interval,
    iso_moment,
    iso_time,
    next_result,
    too_large,
    too_large_chunk,
)

LARGEST_ROW: Final = 2 * DEFAULTS.max_result
"""Bytes of a row as the server writes it; one that is larger cannot be sent on, and is not even read into Python's values,
which would stop everything else in the process for seconds. Twice, as bytes are written as twice as many digits."""

POSTGRES_DRAINED: Final = 16
"""Chunks that are read and dropped before an unwanted statement is cancelled: a cancel opens another connection."""

DEFINES_NOTHING: Final = frozenset({b"INSERT", b"UPDATE", b"DELETE", b"MERGE"})
"""Commands without rows that change no table and no type."""


class ResultStream:
    """A statement and its rows: the part of a DBAPI cursor that rrext uses. One statement only, of any kind but `COPY`."""

    def __init__(
        self, connection: PostgresConnection, text: bytes, values: Sequence[tuple[bytes | None, int]], types: PostgresTypes
    ) -> None:
        """`values` are the parameters, each with the number of its type."""
        self._connection = connection
        self._types = types
        self._columns: list[tuple[int, int]] = []
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._rows: Sequence[Sequence[Any]] = ()
        self._taken = 0
        self._is_over = False
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        connection.notices.clear()
        if values:
            texts, oids = zip(*values, strict=True)
            self._pgconn.send_query_params(text, texts, param_types=oids)
        else:
            self._pgconn.send_query_params(text, None)
        if capabilities.has_stream_chunked():
            self._pgconn.set_chunked_rows_mode(POSTGRES_CHUNK)
        else:
            self._pgconn.set_single_row_mode()
        self._read(is_first=True)

    @property
    def types(self) -> Sequence[str | None]:
        return self._types.names(self._connection, self._columns)

    @property
    def warnings(self) -> Sequence[str]:
        return self._connection.notices.texts

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        """Fetch at most `size` rows; none at the end."""
        if self._taken >= len(self._rows):
            self._read()
        rows = self._rows[self._taken : self._taken + size]
        self._taken += len(rows)
        return rows

    def close(self) -> None:
        """End the statement. A statement with many rows left is cancelled, which fails the transaction as any cancel does."""
        if self._is_over:
            return
        read: Callable[[], None] = self._drop
        for _ in range(POSTGRES_DRAINED):
            read()
            if self._is_over:
                return
        self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        while not self._is_over:
            read()

    def _drop(self) -> None:
        result, _ = next_result(self._pgconn)
        self._is_over = result is None

    def _read(self, *, is_first: bool = False) -> None:
        """Take the next chunk, or at the end the statement's number of rows. Raises the server's error."""
        if self._is_over:
            self._rows, self._taken = (), 0
            return
        result, reads = next_result(self._pgconn)
        if result is None:
            self._end()
            return
        if reads > 1:
            self._check_rows(result)
        status = result.status
        if result.command_tuples is not None:  # the last chunk has the number; the empty result after it does not
            self.rowcount = result.command_tuples
        if status in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
            if is_first:
                self.description = [(_name(result, at),) for at in range(result.nfields)]
                self._columns = [(result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
                loaders = [loader_of(*column) for column in self._columns]
                self._transformer.set_loader_types(loaders, Format.TEXT)
            self._transformer.set_pgresult(result, set_loaders=False)
            self._rows, self._taken = self._transformer.load_rows(0, result.ntuples, tuple), 0
        if status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY):
            if status == ExecStatus.COMMAND_OK and (result.command_status or b"").split(b" ")[0] not in DEFINES_NOTHING:
                self._types.forget()
            self._end(keep_rows=True)
        elif status not in (ExecStatus.TUPLES_CHUNK, ExecStatus.SINGLE_TUPLE):
            self._fail(result)

    def _check_rows(self, result: PGresult) -> None:
        """Raise `ResultTooLarge` before values are made of too large a row, or of too many."""
        total = 0
        for row in range(result.ntuples):
            size = sum(len(result.get_value(row, column) or b"") for column in range(result.nfields))
            total += size
            if size > LARGEST_ROW or total > LARGEST_CHUNK:
                self._is_over = True
                self._pgconn.finish()  # the connection would keep as much memory for later statements
                if size > LARGEST_ROW:
                    raise too_large("A row has", size, LARGEST_ROW, "LARGEST_ROW")
                raise too_large_chunk(total)

    def _end(self, *, keep_rows: bool = False) -> None:
        while not self._is_over:
            self._drop()
        if not keep_rows:
            self._rows, self._taken = (), 0

    def _fail(self, result: PGresult) -> None:
        if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
            self._is_over = True
            self._pgconn.finish()  # the one way out of COPY that loses no time over its data
            raise NotSupportedError("COPY from or to the client is not possible here")
        self._end()
        raise error_from_result(result, encoding="utf-8")


def _name(result: PGresult, column: int) -> str:
    return (result.fname(column) or b"?column?").decode("utf-8", "replace")


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
