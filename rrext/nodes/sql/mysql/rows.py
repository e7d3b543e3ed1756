"""A statement on a MySQL connection, and its rows as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.databases.cells import EXACT_DIGITS, rows_within
from rrext.nodes.sql.backend import Warnings
from rrext.nodes.sql.limits import MOST_WARNINGS
from rrext.nodes.sql.mysql.types import DECIMALS, MysqlTypes, decimal_digits

if TYPE_CHECKING:
    from pymysql import Connection

MYSQL_DRAINED: Final = 2000
"""Rows that are read and dropped before an unwanted statement is cancelled: a cancel opens another connection."""


class MysqlRows:
    """The part of a DBAPI cursor that rrext uses. `cancel` makes the statement end soon."""

    def __init__(self, raw: Connection[Any], sql: str, types: MysqlTypes, cancel: Callable[[], None]) -> None:
        from pymysql.cursors import SSCursor
        from pymysql.err import OperationalError

        self._raw = raw
        self._types = types
        self._is_cut = False
        self._cancel = cancel
        self._given = 0
        self._cursor = SSCursor(raw)
        try:
            self._cursor.execute(sql)
        except RuntimeError:  # the server asked for a local file: it gets none, and the connection is closed
            raw.close()
            raise OperationalError(2013, "the server asked for a file of this machine; the connection was closed") from None
        self.description: Sequence[Sequence[Any]] | None = self._cursor.description
        self._is_over = self.description is None
        if self._is_over:
            self._refuse_more()
        else:
            self._read_short_decimals()

    def _read_short_decimals(self) -> None:
        """Read a decimal of so few digits that a float has them all as a number; the others stay texts."""
        converters: list[Any] = self._result.converters
        for place, field in enumerate(self._result.fields):
            if field.type_code in DECIMALS and decimal_digits(field) <= EXACT_DIGITS:
                converters[place] = (converters[place][0], float)

    @property
    def rowcount(self) -> int:
        """The number of changed rows; for a statement with rows, the number fetched so far."""
        return self._cursor.rowcount if self.description is None else self._given

    @property
    def _result(self) -> Any:
        return vars(self._cursor)["_result"]

    @property
    def types(self) -> Sequence[str | None]:
        """The type names of the table columns. After a cancel no query is sent, because the cancel may hit that query."""
        fields: Any = getattr(self._result, "fields", ())
        return self._types.names(self._raw, fields, may_ask=not self._is_cut)

    @property
    def warnings(self) -> Sequence[str]:
        """The server's warnings for the statement; costs a round trip only if there are some."""
        count = self._result.warning_count
        if not count or self._is_cut:
            return ()
        found = Warnings()
        with self._raw.cursor() as cursor:
            cursor.execute(f"SHOW WARNINGS LIMIT {MOST_WARNINGS}")
            for level, code, message in cursor.fetchall():
                found.add(f"{level} {code}: {message}")
        found.count = max(found.count, count)  # the server keeps fewer than it counts
        return found.texts

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        """Fetch at most `size` rows; none at the end."""
        if self._is_over:
            return ()
        rows = self._next(size)
        self._given += len(rows)
        if not rows:
            self._is_over = True
            self._refuse_more()
        return rows

    def _next(self, size: int) -> Sequence[Sequence[Any]]:
        return rows_within(iter(self._cursor.fetchone, None), size)

    def _refuse_more(self) -> None:
        """Refuse further results of a procedure: an answer holds one result, and dropping the others would lose data."""
        from pymysql.err import NotSupportedError

        while self._cursor.nextset():
            if self._cursor.description is not None:
                self._is_over = False
                raise NotSupportedError(1235, "the statement gives more than one result")

    def close(self) -> None:
        """End the statement. A statement with many rows left is cancelled."""
        from pymysql.err import MySQLError

        try:
            if not self._is_over and self._next(MYSQL_DRAINED) and self._cursor.fetchone() is not None:
                self._is_cut = True
                self._cancel()
            self._cursor.close()
        except MySQLError:
            if not self._raw.open:
                raise
        finally:
            self._is_over = True
            vars(self._cursor)["connection"] = None  # no rows are read when the cursor is collected
