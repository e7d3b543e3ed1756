"""The state that all calls of a graph node share, and a transaction with the call that waits for it: limits of time,
cancellation, and rrext's own errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rrext.errors import RrextError, ToolError
from rrext.nodes.child.process import ProcessLost
from rrext.nodes.databases.cells import Rows, size_of, unique_names
from rrext.nodes.databases.database import RunningStatement, SharedDatabase, TimerThread, cancellation, too_slow
from rrext.nodes.databases.failure import CYPHER
from rrext.nodes.graph.backend import BackendTransaction, GraphBackend, GraphCursor, GraphSchema
from rrext.tools.context import ToolContext

SCHEMA_ROWS: Final = 10_000
"""Rows of one query of the schema: labels, properties, samples."""


class GraphTransaction:
    """One transaction. A failed statement ends it as a whole: only `close` is allowed then. Used by one thread at a time.

    `timeout`: seconds that each step may take, 0 for no limit: the rest of the node's `limit`.
    """

    def __init__(
        self,
        backend: GraphBackend,
        transaction: BackendTransaction,
        watch: TimerThread,
        timeout: float,
        *,
        limit: float,
        writes: bool,
    ) -> None:
        self._backend = backend
        self._transaction: BackendTransaction | None = transaction
        self._watch = watch
        self._timeout = timeout
        self._limit = limit
        self._writes = writes
        self.is_broken = False

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be committed."""
        return self._transaction is not None and not self.is_broken

    def start(self, ctx: ToolContext) -> None:
        """Connect and begin."""
        with self._step(ctx) as transaction:
            transaction.start()
        if self.is_broken:  # the transaction was stopped too late for a statement to fail
            ctx.check()
            raise CYPHER.error(too_slow(self._limit))

    @contextmanager
    def statement(
        self, cypher: str, params: Mapping[str, Any], ctx: ToolContext, *, counts: bool = False
    ) -> Iterator[GraphResult]:
        """Run a statement; its rows can be fetched in the block. Its failures, and the block's, become rrext's errors."""
        with self._step(ctx) as transaction:
            cursor = transaction.run(cypher, params, counts=counts)
            try:
                yield GraphResult(cursor)
            finally:
                cursor.close()

    def explain(self, cypher: str, params: Mapping[str, Any], ctx: ToolContext) -> Any:
        """The plan of a statement."""
        with self._step(ctx) as transaction:
            return transaction.explain(cypher, params)

    def commit(self, ctx: ToolContext) -> None:
        """Commit. Raises `ToolError` (`transaction_failed`) if a statement failed before.

        The error's `data` says `committed: null` if the answer to the commit is lost, so that the outcome is unknown.
        """
        is_unknown = False
        try:
            with self._step(ctx) as transaction:
                try:
                    transaction.commit()
                except Exception as error:
                    is_unknown = self._is_unanswered(error)
                    raise
        except RrextError as error:
            if is_unknown:
                error.data["committed"] = None
                error.hint = UNKNOWN
            raise

    def _is_unanswered(self, error: Exception) -> bool:
        """Whether a commit failed without an answer of the database."""
        if isinstance(error, ProcessLost):
            return error.is_unknown
        failure = self._backend.failure(error)
        return failure is None or failure.kind == "lost"

    def close(self) -> None:
        """Roll back uncommitted changes and return the connection. May be called twice."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.end()

    @contextmanager
    def _step(self, ctx: ToolContext) -> Iterator[BackendTransaction]:
        transaction = self._transaction
        if transaction is None or self.is_broken:
            raise ToolError(
                "A statement of this transaction failed, and with it the whole transaction",
                code="transaction_failed",
                hint='Only "rollback" is left; begin anew after it.',
            )
        ctx.check()
        stop = RunningStatement(transaction.cancel, self._watch, self._timeout, ctx)
        try:
            with stop:
                yield transaction
            if stop.reason is not None:  # too late to fail, but the connection may be closed
                self.is_broken = True
        except BaseException as error:
            self.is_broken = True
            told = self._error_of(error, stop, ctx) if isinstance(error, Exception) else error
            try:
                if told is error:
                    raise
                raise told from None  # the driver's error quotes the statement
            finally:
                del told  # its traceback references this frame

    def _error_of(self, error: Exception, stop: RunningStatement, ctx: ToolContext) -> Exception:
        """The caller's error for an exception. The reason of a stop comes first: the errors that follow from it say little."""
        if ctx.cancelled and (stopped := cancellation(ctx)) is not None:
            return stopped
        if stop.reason == "timeout":
            return CYPHER.error(too_slow(self._limit))
        if isinstance(error, RrextError):
            return self._with_outcome(error) if isinstance(error, ProcessLost) else error
        failure = self._backend.failure(error)
        if failure is None:
            return error
        return self._with_outcome(CYPHER.error(failure)) if failure.kind == "lost" else CYPHER.error(failure)

    def _with_outcome(self, error: RrextError) -> RrextError:
        """The error of a transaction lost before its commit, with its outcome."""
        if self._writes:
            error.data["committed"] = False
            error.hint = f"Nothing of this transaction was kept. {error.hint or ''}".strip()
        return error


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


BATCH: Final = 500
"""Rows that are fetched at once."""

UNKNOWN: Final = "Whether the transaction was kept is not known: look before you send it again."


class GraphResult:
    """The rows of one statement, in batches."""

    def __init__(self, cursor: GraphCursor) -> None:
        self.cursor = cursor
        self.columns = unique_names(cursor.columns)
        self.types = cursor.types
        self.plan: Any = None
        """The plan of a statement that requested one, once it is over."""

    def batch(self, at_most: int, /) -> tuple[Rows, int]:
        """Fetch the next rows and their approximate bytes; no rows at the end."""
        rows: Rows = [*self.cursor.fetch(min(at_most, BATCH))]
        return rows, size_of(rows)
