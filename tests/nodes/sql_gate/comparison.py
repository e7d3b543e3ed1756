"""`query` beside the driver alone: statements that both are asked, what each answers, and a count of the answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from postgres_server import Database
from sql_contract import Desk

from rrext.errors import RrextError
from rrext.nodes.databases.cells import json_rows, unique_names
from rrext.nodes.sql.mysql_values import name_of_expression

__all__ = ["Alone", "Comparison", "Found", "mysql_alone", "numbers", "postgres_alone", "sqlite_alone"]

Found: TypeAlias = tuple[list[str], list[str] | None, Sequence[Sequence[Any]]]
Alone: TypeAlias = Callable[[str], Found]
"""A statement → the names of its columns, their types if the driver tells them, and its rows, as the driver alone has them."""
ROWS: Final = 25_000


class Comparison:
    """Asks a node and its driver the same, and keeps what is answered otherwise."""

    def __init__(
        self, desk: Desk, alone: Alone, failures: type[Exception] | tuple[type[Exception], ...], *, in_order: bool = True
    ) -> None:
        """`in_order`: rows have to come in the same order, also where the statement leaves it open."""
        self._desk = desk
        self._in_order = in_order
        self._alone = alone
        self._failures = failures
        self.counts: Counter[str] = Counter()
        self.refused: list[tuple[str, str]] = []
        """Statements that the database runs and the gate refuses, each with the message."""
        self.different: list[str] = []

    async def ask(self, sql: str) -> None:
        wanted: Found | None
        try:
            wanted = self._alone(sql)
        except self._failures:
            wanted = None
        try:
            answer = await self._desk("query", sql=sql, limit=ROWS, row_mode="array")
        except RrextError as error:
            if wanted is None:
                self.counts["failed"] += 1
            elif error.code == "not_read_only" or "line" in error.data:
                self.counts["refused"] += 1
                self.refused.append((sql, error.message))
            else:
                self.different.append(f"{sql}: {error.code} {error.message}, not {wanted}")
            return
        self.counts["same"] += 1
        if wanted is None:
            self.different.append(f"{sql}: the driver alone fails")
        elif (said := _difference(wanted, answer, in_order=self._in_order)) is not None:
            self.different.append(f"{sql}: {said}")


def _difference(wanted: Found, answer: dict[str, Any], *, in_order: bool) -> str | None:
    names, types, rows = wanted
    expected = [*map(repr, _settled(json_rows([list(row) for row in rows], nested_as_text=False)))]
    found = [*map(repr, _settled(answer["rows"]))]
    if answer["columns"] != unique_names(names):
        return f"columns {answer['columns']}, not {names}"
    if types is not None and answer["types"] != types:
        return f"types {answer['types']}, not {types}"
    if found != expected and (in_order or sorted(found) != sorted(expected)):
        return f"rows {answer['rows']}, not {expected}"
    return None


def _settled(rows: Any) -> Any:
    """As it comes out of JSON."""
    return json.loads(json.dumps(rows, default=str))


_SHORT: Final = re.compile(r"(?:numeric|decimal)\((?:\d|1[0-5]),-?\d+\)(\[\])?(?: unsigned)?", re.IGNORECASE)


def numbers(types: Sequence[str | None], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The rows with decimals of at most 15 digits as numbers: the type of the column says it."""

    def number(kind: str | None, cell: Any) -> Any:
        found = _SHORT.fullmatch(kind or "")
        if found is None or cell is None:
            return cell
        return [number(kind and kind[:-2], entry) for entry in cell] if found[1] else float(cell)

    return [[number(kind, cell) for kind, cell in zip(types, row, strict=True)] for row in rows]


def sqlite_alone(connection: Any) -> Alone:
    def alone(sql: str) -> Found:
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description], None, cursor.fetchmany(ROWS)

    return alone


def postgres_alone(connection: Any, database: Database) -> Alone:
    """`connection` reads values as rrext does: with its `adapters`."""
    known: dict[tuple[int, int], str] = {}

    def name_of(kind: int, modifier: int) -> str:
        if (kind, modifier) not in known:
            with database.connect() as other:
                row = other.execute("SELECT format_type(%s, %s)", (kind, None if modifier < 0 else modifier)).fetchone()
                assert row is not None
                known[kind, modifier] = row[0]
        return known[kind, modifier]

    def alone(sql: str) -> Found:
        cursor = connection.execute(sql.encode())
        result = cursor.pgresult
        assert result is not None
        types = [name_of(result.ftype(index), result.fmod(index)) for index in range(result.nfields)]
        return [column.name for column in cursor.description or ()], types, numbers(types, cursor.fetchmany(ROWS))

    return alone


def mysql_alone(connection: Any) -> Alone:
    """`connection` reads values as rrext does: with its `conv`."""

    def alone(sql: str) -> Found:
        cursor = connection.cursor()
        cursor.execute(sql)
        types = [name_of_expression(field) for field in getattr(cursor._result, "fields", ())]
        return [column[0] for column in cursor.description or ()], None, numbers(types, cursor.fetchmany(ROWS))

    return alone
