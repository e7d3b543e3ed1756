"""A statement on a MySQL connection, and its rows as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rrext.nodes.databases.cells import rows_within
from rrext.nodes.sql.backend import Warnings
from rrext.nodes.sql.limits import MOST_WARNINGS, MYSQL_DRAINED
from rrext.nodes.sql.mysql.types import MysqlTypes

if TYPE_CHECKING:
    from pymysql import Connection


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
        except RuntimeError:  # the server asked for a file of ours: it gets none, and is not spoken to any more
            raw.close()
            raise OperationalError(2013, "the server asked for a file of this machine; the connection was closed") from None
        self.description: Sequence[Sequence[Any]] | None = self._cursor.description
        self._is_over = self.description is None
        if self._is_over:
            self._refuse_more()

    @property
    def rowcount(self) -> int:
        """Rows that were changed; of a statement with rows, how many were fetched so far."""
        return self._cursor.rowcount if self.description is None else self._given

    @property
    def _result(self) -> Any:
        return vars(self._cursor)["_result"]

    @property
    def types(self) -> Sequence[str | None]:
        """The names as the tables have them. After a cancel nothing is asked, as it may hit what is asked next."""
        fields: Any = getattr(self._result, "fields", ())
        return self._types.names(self._raw, fields, may_ask=not self._is_cut)

    @property
    def warnings(self) -> Sequence[str]:
        """What the server says of the statement, which costs a round trip only if there is something."""
        count = self._result.warning_count
        if not count or self._is_cut:
            return ()
        found = Warnings()
        with self._raw.cursor() as cursor:
            cursor.execute(f"SHOW WARNINGS LIMIT {MOST_WARNINGS}")
            for level, code, message in cursor.fetchall():
                found.add(f"{level} {code}: {message}")
        found.count = max(found.count, count)  # the server keeps fewer than there were
        return found.texts

    def fetchmany(self, size: int, /) -> Sequence[Sequence[Any]]:
        """The next rows, at most `size`; none at the end."""
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
        """A procedure may give several results, of which an answer can hold one: better none than not all."""
        from pymysql.err import NotSupportedError

        while self._cursor.nextset():
            if self._cursor.description is not None:
                self._is_over = False
                raise NotSupportedError(1235, "the statement gives more than one result")

    def close(self) -> None:
        """End the statement. One with many rows left is cancelled."""
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
            vars(self._cursor)["connection"] = None  # nothing is read when it is collected
