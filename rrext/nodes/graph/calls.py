"""One call of a tool that runs a statement: from its input to its answer."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from rrext.errors import InvalidArguments
from rrext.nodes.databases.calls import Answer, StatementCall
from rrext.nodes.databases.cells import Rows
from rrext.nodes.databases.node import RowMode
from rrext.nodes.graph.database import Graph
from rrext.nodes.graph.gate import ReadingCypher, read_only
from rrext.nodes.graph.transaction import GraphResult, GraphTransaction
from rrext.tools.context import ToolContext

Allowed: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Functions and procedures that a read-only statement may call beside the known ones."""


class CypherCall(StatementCall[Graph]):
    """A call of a graph database."""

    def __init__(
        self,
        graph: Graph,
        ctx: ToolContext,
        allowed: Allowed = ((), ()),
        row_mode: RowMode = "object",
        *,
        encodes: bool = False,
    ) -> None:
        super().__init__(graph, ctx, row_mode, encodes=encodes)
        self._allowed = allowed

    def checked(self, cypher: str, params: Mapping[str, Any]) -> ReadingCypher:
        """Check that the statement only reads; return its sent form. Raises `InvalidArguments` for a missing parameter."""
        statement = read_only(cypher, self._database.backend.dialect, *self._allowed)
        missing = [name for name in statement.parameters if name not in params]
        if missing:
            raise InvalidArguments.at("/input/params", f"${missing[0]} has no value here")
        return statement

    def query(self, cypher: str, params: Mapping[str, Any], limit: int) -> Answer:
        """`{columns, types, rows, row_count, truncated}` of a statement that only reads; and `plan` if it asked for one."""
        statement = self.checked(cypher, self._valid(params))
        result, rows, answer = self._read(partial(self._reading, statement, params), limit)
        return {**answer, "plan": _plan(result.plan, rows)} if statement.is_plan else answer

    @contextmanager
    def _reading(self, statement: ReadingCypher, params: Mapping[str, Any], timeout: float) -> Iterator[GraphResult]:
        with (
            self._database.transaction(self._ctx, read_only=True, timeout=timeout) as work,
            work.statement(statement.text, params, self._ctx) as result,
        ):
            yield result
            if statement.is_plan:
                result.plan = result.cursor.plan()

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Answer:
        """`{plan}` of a statement that only reads."""
        statement = self.checked(cypher, self._valid(params))

        if statement.is_plan:  # the statement is an EXPLAIN itself
            result, rows, _ = self._read(partial(self._reading, statement, params), 1)
            return {"plan": _plan(result.plan, rows)}

        def attempt(timeout: float) -> Any:
            with self._database.transaction(self._ctx, read_only=True, timeout=timeout) as work:
                return work.explain(statement.text, params, self._ctx)

        return {"plan": plan_lines(self._database.reading(self._ctx, attempt))}

    def stream(self, cypher: str, params: Mapping[str, Any], chunk_rows: int) -> Generator[list[Any], None, Answer]:
        """Chunks of rows of a statement that only reads, and then `{columns, types, row_count}`."""
        statement = self.checked(cypher, self._valid(params))
        _, answer = yield from self._streamed(partial(self._reading, statement, params), chunk_rows)
        return answer

    def execute(self, cypher: str, params: Mapping[str, Any], max_rows: int, *, session_id: str | None) -> Answer:
        """`{columns, types, rows, affected_rows, counters}` of any statement, in a session or a transaction of its own."""
        sent = self._database.backend.changing(cypher)
        self._valid(params)

        def run(work: GraphTransaction) -> Answer:
            statement = work.statement(sent, params, self._ctx, counts=True)
            return self._executed(statement, max_rows, _changes, "Nothing that it wrote was kept.")[1]

        return self._in_transaction(run, session_id)

    def _valid(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The checked parameters. Raises `InvalidArguments` for an integer too large for the database."""
        for name, value in params.items():
            _check_integers(value, f"/input/params/{name}", self._database.backend.integers)
        return params


def _changes(result: GraphResult) -> Answer:
    counters = result.cursor.counters()
    return {"affected_rows": result.cursor.affected(), **({} if counters is None else {"counters": counters})}


def _plan(plan: Any, rows: Rows) -> list[str]:
    """The lines of a requested plan: the database returns the plan beside the rows, or as their only value."""
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


SHOWN: Final = ("Details", "EstimatedRows", "Rows", "DbHits", "Time")
"""The fields of an operator to show; plans that the server draws as text are shown unchanged."""


def plan_lines(plan: Any) -> list[str]:
    """The lines of a plan: its text, or for a Bolt server a line for each operator, above the operators that feed it."""
    if isinstance(plan, str):
        return plan.rstrip().split("\n")
    return list(_operators(plan, 0)) if isinstance(plan, Mapping) else [str(plan)]


def _operators(plan: Mapping[str, Any], depth: int) -> Iterator[str]:
    arguments = plan.get("args") or {}
    drawn = arguments.get("string-representation")
    if depth == 0 and isinstance(drawn, str):
        yield from drawn.rstrip().split("\n")
        return
    told = [f"{name}: {arguments[name]}" for name in SHOWN if name in arguments]
    told += [f"{name}: {plan[name]}" for name in ("rows", "dbHits") if name in plan and name.capitalize() not in arguments]
    yield f"{'  ' * depth}+ {plan.get('operatorType', '')}{' (' + ', '.join(told) + ')' if told else ''}"
    for child in plan.get("children") or ():
        yield from _operators(child, depth + 1)
