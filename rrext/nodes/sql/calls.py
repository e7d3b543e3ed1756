"""One call of a tool that runs an SQL statement: from its input to its answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from rrext.errors import InvalidArguments, RrextError, ToolError, near_matches
from rrext.nodes.databases.calls import Answer, StatementCall
from rrext.nodes.databases.sessions import DatabaseSession
from rrext.nodes.sql.database import SqlDatabase
from rrext.nodes.sql.gate.tokens import ReadingSql
from rrext.nodes.sql.transaction import Result, SqlTransaction, check_statement


class SqlCall(StatementCall[SqlDatabase]):
    """A call of an SQL database."""

    def query(self, sql: str, params: Sequence[Any], limit: int, *, explain: bool) -> Answer:
        """`{columns, types, rows, row_count, truncated}` of a statement that only reads; `warnings` and `plan` if there are
        any."""
        statement = self._database.judged(sql, self._ctx)
        sent = statement.sql
        if explain:
            if statement.kind != "select":
                raise InvalidArguments.at("/input/explain", f"only a query has a plan, and this is {statement.kind.upper()}")
            sent = self._database.backend.explain(sent)
        with self._pointing_at_tables(statement):
            result, rows, answer = self._read(partial(self._reading, sent, params), limit)
        plan = plan_lines(result.columns, rows) if explain or statement.kind == "explain" else []
        return {**answer, **({"plan": plan} if plan else {}), **_said(result)}

    def checked(self, sql: str) -> str:
        """The query, if it only reads and the database can plan it."""
        statement = self._database.judged(sql, self._ctx)
        if statement.kind != "select":
            raise InvalidArguments.at("/input/sql", "expected a query that gives data, as SELECT")
        self.query(statement.sql, (), 1, explain=True)
        return statement.sql

    def stream(self, sql: str, params: Sequence[Any], chunk_rows: int) -> Generator[list[Any], None, Answer]:
        """Stream chunks of rows of a statement that only reads, then `{columns, types, row_count}` and `warnings` if any."""
        statement = self._database.judged(sql, self._ctx)
        with self._pointing_at_tables(statement):
            result, answer = yield from self._streamed(partial(self._reading, statement.sql, params), chunk_rows)
        return {**answer, **_said(result)}

    @contextmanager
    def _reading(self, sql: str, params: Sequence[Any], timeout: float) -> Generator[Result, None, None]:
        with (
            self._database.transaction(self._ctx, read_only=True, timeout=timeout) as transaction,
            transaction.statement(sql, params, self._ctx) as result,
        ):
            yield result

    @contextmanager
    def _pointing_at_tables(self, statement: ReadingSql) -> Generator[None, None, None]:
        """Add the names of similar tables to a failure about a missing table."""
        try:
            yield
        except ToolError as error:
            if error.code == "sql_failed":
                self._point_at_tables(error, statement)
            raise

    def _point_at_tables(self, error: ToolError, statement: ReadingSql) -> None:
        try:
            schema = self._database.schema(self._ctx)
        except RrextError:
            return  # the first failure is the one to report
        missing = [name for name in statement.tables if name not in schema.tables and name in error.message]
        near = list(dict.fromkeys(found for name in missing for found in near_matches(name, schema.tables)))
        if near:
            error.hint = f"Did you mean {' or '.join(near)}?"
            error.data["near"] = near

    def execute(self, sql: str, params: Sequence[Any], max_rows: int, *, session_id: str | None) -> Answer:
        """`{columns, types, rows, affected_rows}` of a statement of any kind, in a session or in a transaction of its own;
        and `warnings` if there are any."""
        check_statement(sql)
        only = max_rows if session_id is None else None

        def run(transaction: SqlTransaction) -> Answer:
            result, answer = self._executed(
                transaction.statement(sql, params, self._ctx, only=only),
                max_rows,
                lambda result: {"affected_rows": result.affected},
                "Nothing that it wrote outside of a session was kept.",
            )
            return {**answer, **_said(result)}

        return self._in_transaction(run, session_id)

    def _in_session(self, session: DatabaseSession[SqlTransaction], run: Callable[[SqlTransaction], Answer]) -> Answer:
        answer = super()._in_session(session, run)
        if not session.transaction.is_open:
            if not self._database.backend.statements_may_commit:
                session.end()
                raise ToolError(
                    "The statement ended the transaction of its session by itself: what it kept is kept, the rest is undone",
                    code="transaction_ended",
                    hint="End a session with commit or rollback.",
                )
            session.transaction.begin_again()
        return answer


def _said(result: Result) -> dict[str, list[str]]:
    return {"warnings": result.warnings} if result.warnings else {}


TREE: Final = ("id", "parent", "notused", "detail")
"""SQLite's columns: a row is a child of the row whose id is its parent."""


def plan_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A plan's lines: SQLite's as a tree, MySQL's as a table, others as they are. None for a plan without text, as in JSON."""
    if tuple(columns) == TREE:
        return _tree(rows)
    if len(columns) > 2:
        return _table(columns, rows)
    if not all(isinstance(row[-1], str) for row in rows):
        return []
    return [line.rstrip() for row in rows for line in row[-1].splitlines()]


def _tree(rows: Sequence[Sequence[Any]]) -> list[str]:
    depths = {0: -1}
    lines: list[str] = []
    for number, parent, _, detail in rows:  # parents come before their children
        depths[number] = depths.get(parent, -1) + 1
        lines.append("  " * depths[number] + str(detail))
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    cells = [[columns[place] for place in kept]]
    cells += [["" if row[place] is None else str(row[place]) for place in kept] for row in rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
