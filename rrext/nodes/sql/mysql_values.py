"""A statement on a MySQL connection, its rows as they arrive, and the types of its columns as MySQL and MariaDB write them
in SHOW COLUMNS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rrext.nodes.databases.cells import EXACT_DIGITS, rows_within
from rrext.nodes.sql.backend import Warnings
from rrext.nodes.sql.driver_limits import MOST_WARNINGS

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


KEPT_TABLES: Final = 512
"""Tables whose columns are cached."""

BINARY: Final = 63
"""The number of the character set of binary strings."""

LONGEST_CHARACTER: Final = 4
"""Bytes of a character in the connection's character set."""

UNSCALED: Final = 31
"""The decimals value of a floating-point column without declared digits."""

UNSIGNED, ENUM, SET = 32, 256, 2048
"""Flags of a column."""

_NUMBERS: Final = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_FLOATS: Final = {4: "float", 5: "double"}
_MOMENTS: Final = {7: "timestamp", 11: "time", 12: "datetime"}
_PLAIN: Final = {10: "date", 13: "year", 14: "date", 245: "json", 255: "geometry"}
DECIMALS: Final = frozenset({0, 246})
_BIT: Final = 16
_LONG_TEXTS: Final = frozenset({249, 250, 251, 252})
_VARIABLE: Final = frozenset({15, 253})
_FIXED: Final = 254
_SIZES: Final = ((2**8, "tiny"), (2**16, ""), (2**24, "medium"), (2**32, "long"))
"""Size limit in bytes -> prefix of the type name (tiny, medium, long)."""


class MysqlTypes:
    """Column types of one server's tables. Shared by its connections."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], dict[str, str]] = {}

    def names(self, raw: Connection[Any], fields: Sequence[Any], *, may_ask: bool) -> list[str | None]:
        """The names of types. Those of table columns come from the table; the server is asked once for each table."""
        return [self._of_table(raw, field, may_ask=may_ask) or name_of_expression(field) for field in fields]

    def _of_table(self, raw: Connection[Any], field: Any, *, may_ask: bool) -> str | None:
        if not field.org_name:
            return None
        key = field.db.decode(), field.org_table
        if may_ask and key not in self._tables:
            if len(self._tables) >= KEPT_TABLES:
                self._tables.clear()
            self._tables[key] = _columns(raw, *key)
        return self._tables.get(key, {}).get(field.org_name)

    def forget(self) -> None:
        """Drop the cached columns, because tables may have changed."""
        self._tables.clear()


def _columns(raw: Connection[Any], database: str, table: str) -> dict[str, str]:
    sql = "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    with raw.cursor() as cursor:
        cursor.execute(sql, (database, table))
        return dict(cursor.fetchall())


def name_of_expression(field: Any) -> str | None:
    """The name of an expression's type, from the protocol's metadata."""
    kind, length, scale, flags = field.type_code, field.length, field.scale, field.flags
    unsigned = " unsigned" if flags & UNSIGNED else ""
    if kind in _NUMBERS:
        return _NUMBERS[kind] + unsigned
    if kind in DECIMALS:
        return f"decimal({decimal_digits(field)},{scale}){unsigned}"
    if kind in _FLOATS:
        return _FLOATS[kind] + ("" if scale >= UNSCALED else f"({length},{scale})") + unsigned
    if kind in _MOMENTS:
        return _MOMENTS[kind] + (f"({scale})" if 0 < scale < UNSCALED else "")
    if kind == _BIT:
        return f"bit({length})"
    if flags & (ENUM | SET):
        return "enum" if flags & ENUM else "set"
    return _PLAIN.get(kind) or _text(field)


def decimal_digits(field: Any) -> int:
    """How many digits a column of decimals has: its length counts the sign and the point too."""
    return field.length - (field.scale > 0) - (not field.flags & UNSIGNED)


def _text(field: Any) -> str | None:
    is_binary = field.charsetnr == BINARY
    size = field.length if is_binary else field.length // LONGEST_CHARACTER
    if field.type_code in _LONG_TEXTS:
        return next(prefix for limit, prefix in _SIZES if size < limit) + ("blob" if is_binary else "text")
    if field.type_code in _VARIABLE or field.type_code == _FIXED:
        name = "binary" if is_binary else "char"
        return f"{'var' if field.type_code in _VARIABLE else ''}{name}({size})"
    return None
