"""The state that all calls of a graph node share."""

from __future__ import annotations

from typing import Any, Final

from rrext.nodes.databases.database import SharedDatabase
from rrext.nodes.graph.backend import GraphBackend, GraphSchema
from rrext.nodes.graph.transaction import GraphTransaction
from rrext.tools.context import ToolContext

SCHEMA_ROWS: Final = 10_000
"""Rows of one query of the schema: labels, properties, samples."""


class Graph(SharedDatabase[GraphBackend, GraphTransaction, GraphSchema]):
    """One graph database."""

    def begin(self, ctx: ToolContext, *, read_only: bool, timeout: float | None = None) -> GraphTransaction:
        self.backend.prepare(ctx)
        limit = self._statement
        timeout = limit if timeout is None else timeout
        transaction = self.backend.transaction(read_only=read_only, timeout=timeout, check=ctx.check)
        work = GraphTransaction(self.backend, transaction, self._watch, timeout, limit=limit, writes=not read_only)
        try:
            work.start(ctx)
        except BaseException:
            work.close()
            raise
        return work

    def read_schema(self, ctx: ToolContext) -> GraphSchema:
        def run(cypher: str) -> list[list[Any]]:
            def attempt(timeout: float) -> list[list[Any]]:
                with (
                    self.transaction(ctx, read_only=True, timeout=timeout) as transaction,
                    transaction.statement(cypher, {}, ctx) as result,
                ):
                    return result.cursor.fetch(SCHEMA_ROWS)

            return self.reading(ctx, attempt)

        return self.backend.read_schema(run)
