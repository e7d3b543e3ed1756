"""The rows of a statement in the process of a DuckDB database, in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import duckdb

from rrext.errors import ResultTooLarge
from rrext.limits import DEFAULTS
from rrext.nodes.databases.cells import json_rows, rows_within, size_of
from rrext.nodes.sql.duckdb.values import converter, exact_type


def needs_exact(kinds: Sequence[Any]) -> bool:
    """Whether the driver's Python values would lose something of columns of these types."""
    return any(exact_type(kind) is not None for kind in kinds)


class ResultRows:
    """The rows of a result that a connection has open."""

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
        rows = taken if self._converters is None else [_converted(row, self._converters) for row in taken]
        rows = json_rows(rows, nested_as_text=self._nested_as_text)
        _check_size(rows)
        return rows, is_last

    def close(self) -> None:
        self._rows = iter(())


def _converted(row: Sequence[Any], converters: Sequence[Any]) -> list[Any]:
    return [value if convert is None else convert(value) for value, convert in zip(row, converters, strict=True)]


class ExactRows(ResultRows):
    """The rows of a query with columns whose Python values would lose something, such as months of an interval.

    Those columns are read as text, by a query around the unchanged statement; `kinds` are
    the types of its columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        statement: duckdb.Statement,
        params: Sequence[Any],
        names: Sequence[str],
        kinds: Sequence[Any],
        *,
        nested_as_text: bool,
    ) -> None:
        numbered = [f"c{number}" for number in range(len(kinds))]
        exact = [exact_type(kind) for kind in kinds]
        cells = [f"CAST({name} AS {kind})" if kind else name for name, kind in zip(numbered, exact, strict=True)]
        source = f"(\n{_unterminated(statement.query)}\n) AS result({', '.join(numbered)})"
        connection.execute(f"SELECT {', '.join(cells)} FROM {source}", list(params) or None)
        super().__init__(connection, names, kinds, nested_as_text=nested_as_text)


def _unterminated(sql: str) -> str:
    """The statement without the semicolons at its end, which comments may follow."""
    data = sql.encode()
    end = len(data)
    for start, kind in reversed(duckdb.tokenize(sql)):
        if kind == duckdb.token_type.comment:
            continue
        if data[start : start + 1] != b";":
            break
        end = start
    return data[:end].decode()


def _check_size(rows: Sequence[Sequence[Any]]) -> None:
    """Refuse rows that the server would refuse. Raises `ResultTooLarge`."""
    size = size_of(rows)
    if size > DEFAULTS.max_result:
        raise ResultTooLarge.of(size, DEFAULTS.max_result, "The part of the result that was read")
