"""One call of a tool that runs a statement: from its input to its answer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from rrext.errors import InvalidArguments, RrextError
from rrext.nodes.databases.calls import StatementCall, collected
from rrext.nodes.databases.cells import Rows
from rrext.nodes.databases.node import RowMode
from rrext.nodes.databases.statements import session_is_over, too_many_rows
from rrext.nodes.graph.backend import GraphCursor
from rrext.nodes.graph.database import Graph
from rrext.nodes.graph.gate import ReadingCypher, read_only
from rrext.nodes.graph.plans import plan_lines
from rrext.nodes.graph.transaction import GraphResult, GraphTransaction
from rrext.tools.context import ToolContext

Allowed: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Functions and procedures that a read-only statement may call beside the known ones."""


class CypherCall(StatementCall):
    """A call of a graph database."""

    def __init__(self, graph: Graph, ctx: ToolContext, allowed: Allowed = ((), ()), row_mode: RowMode = "object") -> None:
        super().__init__(ctx, row_mode)
        self._graph = graph
        self._allowed = allowed

    def checked(self, cypher: str, params: Mapping[str, Any]) -> ReadingCypher:
        """Check that the statement only reads; return its sent form. Raises `InvalidArguments` for a missing parameter."""
        statement = read_only(cypher, self._graph.backend.dialect, *self._allowed)
        missing = [name for name in statement.parameters if name not in params]
        if missing:
            raise InvalidArguments.at("/input/params", f"${missing[0]} has no value here")
        return statement

    def query(self, cypher: str, params: Mapping[str, Any], limit: int) -> dict[str, Any]:
        """`{columns, types, rows, row_count, truncated}` of a statement that only reads; and `plan` if it asked for one."""
        statement = self.checked(cypher, self._valid(params))

        def attempt(timeout: float) -> dict[str, Any]:
            with self._reading(statement, params, timeout) as result:
                rows = collected(result, limit + 1)
                plan = _plan(result.cursor, rows) if statement.is_plan else None
            is_truncated = len(rows) > limit
            if is_truncated:
                rows.pop()
            return {
                "columns": result.columns,
                "types": result.types,
                "rows": self._shaped(rows, result.columns),
                "row_count": len(rows),
                "truncated": is_truncated,
                **({} if plan is None else {"plan": plan}),
            }

        return self._graph.reading(self._ctx, attempt)

    @contextmanager
    def _reading(self, statement: ReadingCypher, params: Mapping[str, Any], timeout: float) -> Iterator[GraphResult]:
        with (
            self._graph.transaction(self._ctx, read_only=True, timeout=timeout) as work,
            work.statement(statement.text, params, self._ctx) as result,
        ):
            yield result

    def explain(self, cypher: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{plan}` of a statement that only reads."""
        statement = self.checked(cypher, self._valid(params))

        def attempt(timeout: float) -> dict[str, Any]:
            with self._graph.transaction(self._ctx, read_only=True, timeout=timeout) as work:
                if statement.is_plan:  # the statement is an EXPLAIN itself
                    with work.statement(statement.text, params, self._ctx) as result:
                        return {"plan": _plan(result.cursor, result.batch(1)[0])}
                return {"plan": plan_lines(work.explain(statement.text, params, self._ctx))}

        return self._graph.reading(self._ctx, attempt)

    def stream(self, cypher: str, params: Mapping[str, Any], chunk_rows: int) -> Generator[list[Any], None, dict[str, Any]]:
        """Chunks of rows of a statement that only reads, and then `{columns, types, row_count}`."""
        statement = self.checked(cypher, self._valid(params))

        result, count = yield from self._streamed(
            lambda attempt: self._graph.reading(self._ctx, attempt),
            lambda timeout: self._reading(statement, params, timeout),
            chunk_rows,
        )
        return {"columns": result.columns, "types": result.types, "row_count": count}

    def execute(self, cypher: str, params: Mapping[str, Any], max_rows: int, *, session_id: str | None) -> dict[str, Any]:
        """`{columns, types, rows, affected_rows, counters}` of any statement, in a session or a transaction of its own."""
        sent = self._graph.backend.changing(cypher)
        self._valid(params)
        if session_id is not None:
            with self._graph.sessions.using(session_id, self._ctx) as session:
                work = session.transaction
                try:
                    return self._executed(work, sent, params, max_rows)
                except RrextError as error:
                    if work.is_broken:
                        session.end()  # later statements would be committed one by one
                        session_is_over(error)
                    raise

        def attempt(timeout: float) -> dict[str, Any]:
            with self._graph.transaction(self._ctx, read_only=False, timeout=timeout) as own:
                answer = self._executed(own, sent, params, max_rows)
                own.commit(self._ctx)
            return answer

        return self._graph.writing(self._ctx, attempt)

    def _executed(self, work: GraphTransaction, cypher: str, params: Mapping[str, Any], max_rows: int) -> dict[str, Any]:
        with work.statement(cypher, params, self._ctx, counts=True) as result:
            rows = collected(result, max_rows + 1)
            if len(rows) > max_rows:
                raise too_many_rows(max_rows, "Nothing that it wrote was kept.")
            counters, affected = result.cursor.counters(), result.cursor.affected()
        return {
            "columns": result.columns,
            "types": result.types,
            "rows": self._shaped(rows, result.columns),
            "affected_rows": affected,
            **({} if counters is None else {"counters": counters}),
        }

    def _valid(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The checked parameters. Raises `InvalidArguments` for an integer too large for the database."""
        for name, value in params.items():
            _check_integers(value, f"/input/params/{name}", self._graph.backend.integers)
        return params


def _plan(cursor: GraphCursor, rows: Rows) -> list[str]:
    """The lines of a requested plan: the database returns the plan beside the rows, or as their only value."""
    plan = cursor.plan()
    return plan_lines(rows[0][0] if plan is None and rows else plan)


def _check_integers(value: Any, path: str, allowed: range) -> None:
    if isinstance(value, int) and value not in allowed:
        raise InvalidArguments.at(path, "an integer of Cypher has 64 bits: this one is too large")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_integers(entry, f"{path}/{key}", allowed)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _check_integers(entry, f"{path}/{index}", allowed)
