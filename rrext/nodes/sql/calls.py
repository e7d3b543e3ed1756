"""One call of a tool that runs a statement: from its input to its answer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rrext.errors import InvalidArguments, RrextError, ToolError, near_matches
from rrext.nodes.databases.calls import StatementCall, collected
from rrext.nodes.databases.cells import Rows
from rrext.nodes.databases.node import RowMode
from rrext.nodes.databases.sessions import DatabaseSession
from rrext.nodes.databases.statements import session_is_over, too_many_rows
from rrext.nodes.sql.database import SqlDatabase
from rrext.nodes.sql.gate.statement import ReadingSql
from rrext.nodes.sql.plans import plan_lines
from rrext.nodes.sql.transaction import Result, SqlTransaction, check_statement
from rrext.tools.context import ToolContext


class SqlCall(StatementCall):
    """A call of an SQL database."""

    def __init__(self, database: SqlDatabase, ctx: ToolContext, row_mode: RowMode) -> None:
        super().__init__(ctx, row_mode)
        self._database = database

    def query(self, sql: str, params: Sequence[Any], limit: int, *, explain: bool) -> dict[str, Any]:
        """`{columns, types, rows, row_count, truncated}` of a statement that only reads, and `warnings` if there are any."""
        statement = self._database.gate.read_only(sql)
        sent = statement.sql
        if explain:
            if statement.kind != "select":
                raise InvalidArguments.at("/input/explain", f"only a query has a plan, and this is {statement.kind.upper()}")
            sent = self._database.backend.explain(sent)

        def attempt(timeout: float) -> tuple[Result, Rows]:
            with self._reading(sent, params, timeout) as result:
                return result, collected(result, limit + 1)

        with self._pointing_at_tables(statement):
            result, rows = self._database.reading(self._ctx, attempt)
        is_truncated = len(rows) > limit
        if is_truncated:
            rows.pop()
        plan = plan_lines(result.columns, rows) if explain or statement.kind == "explain" else []
        return {
            "columns": result.columns,
            "types": result.types,
            "rows": self._shaped(rows, result.columns),
            "row_count": len(rows),
            "truncated": is_truncated,
            **({"plan": plan} if plan else {}),
            **_said(result),
        }

    def checked(self, sql: str) -> str:
        """The query, if it only reads and the database can plan it."""
        statement = self._database.gate.read_only(sql)
        if statement.kind != "select":
            raise InvalidArguments.at("/input/sql", "expected a query that gives data, as SELECT")
        self.query(statement.sql, (), 1, explain=True)
        return statement.sql

    def stream(self, sql: str, params: Sequence[Any], chunk_rows: int) -> Generator[list[Any], None, dict[str, Any]]:
        """Stream chunks of rows of a statement that only reads, then `{columns, types, row_count}` and `warnings` if any."""
        statement = self._database.gate.read_only(sql)

        with self._pointing_at_tables(statement):
            result, count = yield from self._streamed(
                lambda attempt: self._database.reading(self._ctx, attempt),
                lambda timeout: self._reading(statement.sql, params, timeout),
                chunk_rows,
            )
        return {"columns": result.columns, "types": result.types, "row_count": count, **_said(result)}

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

    def execute(self, sql: str, params: Sequence[Any], max_rows: int, *, session_id: str | None) -> dict[str, Any]:
        """`{columns, types, rows, affected_rows}` of a statement of any kind, in a session or in a transaction of its own;
        and `warnings` if there are any."""
        check_statement(sql)
        if session_id is not None:
            with self._database.sessions.using(session_id, self._ctx) as session:
                return self._in_session(session, sql, params, max_rows)

        def attempt(timeout: float) -> dict[str, Any]:
            with self._database.transaction(self._ctx, read_only=False, timeout=timeout) as transaction:
                answer = self._executed(transaction, sql, params, max_rows, is_only=True)
                if transaction.is_open:
                    transaction.commit(self._ctx)
            return answer

        return self._database.writing(self._ctx, attempt)

    def _executed(
        self, transaction: SqlTransaction, sql: str, params: Sequence[Any], max_rows: int, *, is_only: bool
    ) -> dict[str, Any]:
        with transaction.statement(sql, params, self._ctx, only=max_rows if is_only else None) as result:
            rows = collected(result, max_rows + 1)
            if len(rows) > max_rows:
                raise too_many_rows(max_rows, "Nothing that it wrote outside of a session was kept.")
            affected = result.affected
        return {
            "columns": result.columns,
            "types": result.types,
            "rows": self._shaped(rows, result.columns),
            "affected_rows": affected,
            **_said(result),
        }

    def _in_session(
        self, session: DatabaseSession[SqlTransaction], sql: str, params: Sequence[Any], max_rows: int
    ) -> dict[str, Any]:
        transaction = session.transaction
        try:
            answer = self._executed(transaction, sql, params, max_rows, is_only=False)
        except RrextError as error:
            if not transaction.is_open:  # later statements would be committed one by one
                session.end()
                session_is_over(error)
            raise
        if not transaction.is_open:
            if not self._database.backend.statements_may_commit:
                session.end()
                raise ToolError(
                    "The statement ended the transaction of its session by itself: what it kept is kept, the rest is undone",
                    code="transaction_ended",
                    hint="End a session with commit or rollback.",
                )
            transaction.begin_again()
        return answer


def _said(result: Result) -> dict[str, list[str]]:
    return {"warnings": result.warnings} if result.warnings else {}
