"""Rows from the answers lane into a table: all of them or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rrext.errors import NotFound, ToolError
from rrext.nodes.sql.database import SqlDatabase
from rrext.nodes.sql.schema import SqlTable
from rrext.tools.context import ToolContext

MAX_INSERT_ROWS: Final = 10_000
"""Rows of one answer. They are one transaction, which holds locks in the database until the last one is inserted."""


def insert_rows(database: SqlDatabase, ctx: ToolContext, table_name: str, answer: Any) -> int:
    """Insert the rows of an answer and return their number; all of them or none. Blocks.

    Raises `ToolError`: `table_not_found`, `not_rows`, `unknown_column`, `too_many_rows`, and the database's errors.
    """
    rows = rows_of(answer)
    if not rows:
        return 0
    table = database.schema(ctx).table(table_name)
    _check_columns(table, rows)
    with database.transaction(ctx, read_only=False) as transaction:
        for row in rows:
            names = list(row)
            with transaction.statement(_insert(database, table, names), [_cell(row[name]) for name in names], ctx):
                pass
        transaction.commit(ctx)
    return len(rows)


def rows_of(answer: Any) -> Sequence[Mapping[str, Any]]:
    """The rows of an answer: an object, a list of objects, `{rows: [...]}`, or the JSON text of one of these."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            raise _not_rows("a text that is no JSON") from None
    if isinstance(answer, Mapping) and set(answer) == {"rows"}:
        answer = answer["rows"]
    rows = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(rows, list):
        raise _not_rows("a text" if isinstance(answer, str) else "null" if answer is None else "a number, true or false")
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or not row:
            raise _not_rows(f"element {index}, which is no object with columns")
    if len(rows) > MAX_INSERT_ROWS:
        raise ToolError(
            f"The answer has {len(rows):,} rows: MAX_INSERT_ROWS is {MAX_INSERT_ROWS:,}",
            code="too_many_rows",
            hint="Send them in several answers.",
            data={"limit": "MAX_INSERT_ROWS", "maximum": MAX_INSERT_ROWS},
        )
    return rows


def _not_rows(what: str) -> ToolError:
    return ToolError(
        f"Expected rows to insert, as objects by column name; the answer has {what}",
        code="not_rows",
        hint='Send {"column": value, …}, or a list of such objects.',
    )


def _check_columns(table: SqlTable, rows: Sequence[Mapping[str, Any]]) -> None:
    known = [column.name for column in table.columns]
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in known:
            found = NotFound.near(f'The table "{table.name}" has no column "{name}".', str(name), known)
            raise ToolError(found.message, code="unknown_column", hint=found.hint, data=found.data)


def _insert(database: SqlDatabase, table: SqlTable, names: Sequence[str]) -> str:
    quote = database.backend.dialect.quote
    columns = ", ".join(_quoted(name, quote) for name in names)
    values = ", ".join(f"${position}" for position in range(1, len(names) + 1))
    target = ".".join(_quoted(part, quote) for part in table.name.split("."))
    return f"INSERT INTO {target} ({columns}) VALUES ({values})"


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _cell(value: Any) -> Any:
    """A value for a cell: objects and lists become JSON text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
