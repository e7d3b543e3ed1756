"""The shared state of all calls of a graph node: its backend, its sessions, and the snapshot of its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from rrext.nodes.databases.sessions import Sessions
from rrext.nodes.databases.timer_thread import TimerThread
from rrext.nodes.graph.backend import GraphBackend, GraphSchema
from rrext.nodes.graph.limits import SCHEMA_ROWS
from rrext.nodes.graph.transaction import GraphTransaction
from rrext.tools.context import ToolContext

T = TypeVar("T")


class GraphLimits(msgspec.Struct, frozen=True):
    """Limits in seconds: of one statement, and of an idle session."""

    statement: float
    session_idle: float


class Graph:
    """One graph database; the first call connects. Thread-safe.

    `shown` makes a text with settings safe to show.
    """

    def __init__(self, backend: GraphBackend, limits: GraphLimits, *, shown: Callable[[str], str] = str) -> None:
        self.backend = backend
        self.shown = shown
        self._limits = limits
        self._schema: GraphSchema | None = None
        self._watch = TimerThread()
        self.sessions = Sessions(self._begin_session, self._watch, limits.session_idle)

    def begin(self, ctx: ToolContext, *, read_only: bool, timeout: float) -> GraphTransaction:
        """Begin a transaction; the caller closes it. A statement may take `timeout` seconds; 0: no limit."""
        self.backend.prepare(ctx)
        transaction = self.backend.transaction(read_only=read_only, timeout=timeout, check=ctx.check)
        limit = self._limits.statement
        work = GraphTransaction(self.backend, transaction, self._watch, timeout, limit=limit, writes=not read_only)
        try:
            work.start(ctx)
        except BaseException:
            work.close()
            raise
        return work

    def _begin_session(self, ctx: ToolContext, *, read_only: bool) -> GraphTransaction:
        """Begin the transaction of a session."""
        return self.writing(ctx, lambda timeout: self.begin(ctx, read_only=read_only, timeout=timeout))

    @contextmanager
    def transaction(self, ctx: ToolContext, *, read_only: bool, timeout: float) -> Iterator[GraphTransaction]:
        """A transaction of one call: rolled back at the end of the block unless it was committed."""
        work = self.begin(ctx, read_only=read_only, timeout=timeout)
        try:
            yield work
        finally:
            work.close()

    def reading(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, which only reads, with its seconds, and return its result. It is repeated if another call's fault
        ended the graph process."""
        return self.backend.repeated(attempt, ctx, reads=True, timeout=self._limits.statement)

    def writing(self, ctx: ToolContext, attempt: Callable[[float], T]) -> T:
        """Run `attempt`, which may write; it is repeated only if nothing of it had begun."""
        return self.backend.repeated(attempt, ctx, reads=False, timeout=self._limits.statement)

    def schema(self, ctx: ToolContext, *, refresh: bool = False) -> GraphSchema:
        """The snapshot of the schema; read when it is first asked for, and again with `refresh`."""
        found = self._schema
        if found is None or refresh:
            found = self.backend.read_schema(self._reader(ctx))
            found = self._schema = msgspec.structs.replace(found, database=self.shown(found.database))
        return found

    def _reader(self, ctx: ToolContext) -> Callable[[str], list[list[Any]]]:
        def run(cypher: str) -> list[list[Any]]:
            def attempt(timeout: float) -> list[list[Any]]:
                with (
                    self.transaction(ctx, read_only=True, timeout=timeout) as transaction,
                    transaction.statement(cypher, {}, ctx) as result,
                ):
                    return result.cursor.fetch(SCHEMA_ROWS)

            return self.reading(ctx, attempt)

        return run

    def close(self) -> None:
        """Roll back every session and end every connection."""
        self.sessions.close()
        self._watch.close()
        self.backend.close()
