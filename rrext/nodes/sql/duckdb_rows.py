"""The rows of a statement in the process of a DuckDB database, in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import duckdb

from rrext.errors import ResultTooLarge
from rrext.limits import DEFAULTS
from rrext.nodes.sql.cells import json_rows, rows_within, size_of
from rrext.nodes.sql.duckdb_engine import RowStream
from rrext.nodes.sql.duckdb_values import converter, exact_type

__all__ = ["ExactRows", "PlanRows", "Reading", "ResultRows", "needs_exact"]

_RESULT: Final = '"rrext: rows of a statement"'


class Reading(Protocol):
    """Rows that are read bit by bit. `read` gives rows and whether they were the last."""

    columns: list[str]
    types: list[str | None]

    def read(self, size: int) -> tuple[list[Any], bool]: ...

    def interrupt(self) -> None:
        """Make what reads them in another thread fail soon, beside the connection of the statement."""
        ...

    def close(self) -> None: ...


def needs_exact(kinds: Sequence[Any]) -> bool:
    """Whether columns of these types lose something when the driver makes values of Python of them."""
    return any(exact_type(kind) is not None for kind in kinds)


class ResultRows:
    """The rows of a result that a connection has open."""

    __slots__ = ("_converters", "_nested_as_text", "_rows", "columns", "types")

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], kinds: Sequence[Any], *, nested_as_text: bool
    ):
        self.columns = list(names)
        self.types: list[str | None] = [str(kind) for kind in kinds]
        converters = [converter(kind) for kind in kinds]
        self._converters = converters if any(converters) else None
        self._nested_as_text = nested_as_text
        self._rows: Iterator[Any] = iter(connection.fetchone, None)

    def read(self, size: int) -> tuple[list[Any], bool]:
        taken = rows_within(self._rows, size)
        is_last = False
        if len(taken) < size:
            ahead = next(self._rows, None)
            if ahead is None:
                is_last = True
            else:  # the rows are large
                self._rows = chain((ahead,), self._rows)
        _check_size(taken)
        rows = taken if self._converters is None else [_converted(row, self._converters) for row in taken]
        return json_rows(rows, nested_as_text=self._nested_as_text), is_last

    def interrupt(self) -> None:
        return

    def close(self) -> None:
        self._rows = iter(())

    def __repr__(self) -> str:
        return f"<ResultRows {', '.join(self.columns)}>"


def _converted(row: Sequence[Any], converters: Sequence[Any]) -> list[Any]:
    return [value if convert is None else convert(value) for value, convert in zip(row, converters, strict=True)]


class ExactRows(ResultRows):
    """The rows of a query with columns of which Python's own values would lose something, as months of an interval.

    The statement itself runs as it is. A second connection reads its rows as a stream, those columns as text.
    """

    __slots__ = ("_reader",)

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        statement: duckdb.Statement,
        params: Sequence[Any],
        *,
        nested_as_text: bool,
    ):
        relation = connection.sql(statement, params=list(params) or None)
        kinds = relation.types
        self._reader = connection.cursor()
        names = [f"c{number}" for number in range(len(kinds))]
        cells = [
            f"CAST({name} AS {exact})" if (exact := exact_type(kind)) else name for name, kind in zip(names, kinds, strict=True)
        ]
        self._reader.register(_RESULT.strip('"'), RowStream(relation))
        self._reader.execute(f"SELECT {', '.join(cells)} FROM {_RESULT} AS result({', '.join(names)})")
        super().__init__(self._reader, relation.columns, kinds, nested_as_text=nested_as_text)

    def interrupt(self) -> None:
        self._reader.interrupt()

    def close(self) -> None:
        super().close()
        self._reader.close()


class PlanRows:
    """A plan as lines of text. DuckDB gives it as one text, under a heading."""

    __slots__ = ("_lines", "columns", "types")

    def __init__(self, found: Sequence[Sequence[Any]]) -> None:
        self.columns = ["plan"]
        self.types: list[str | None] = ["VARCHAR"]
        self._lines = list(chain.from_iterable(_lines(heading, text, alone=len(found) == 1) for heading, text in found))

    def read(self, size: int) -> tuple[list[Any], bool]:
        taken, self._lines = self._lines[:size], self._lines[size:]
        return [[line] for line in taken], not self._lines

    def interrupt(self) -> None:
        return

    def close(self) -> None:
        self._lines = []

    def __repr__(self) -> str:
        return f"<PlanRows {len(self._lines)} lines>"


def _lines(heading: str, text: str, *, alone: bool) -> list[str]:
    lines = text.rstrip("\n").split("\n")
    return lines if alone else [f"{heading}:", *lines]


def _check_size(rows: Sequence[Sequence[Any]]) -> None:
    """Nothing travels that the server would refuse. Raises `ResultTooLarge`."""
    size = size_of(rows)
    if size > DEFAULTS.max_result:
        raise ResultTooLarge.of(size, DEFAULTS.max_result, "The part of the result that was read")
