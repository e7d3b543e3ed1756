"""A call that runs a statement, of SQL and graph databases alike: its rows, its chunks, and its transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain, islice
from typing import Any, Final, Generic, Protocol, TypeVar

from rrext.errors import ResultTooLarge, RrextError, ToolError
from rrext.limits import DEFAULTS
from rrext.nodes.databases.cells import Rows
from rrext.nodes.databases.database import DatabaseSession, SharedDatabase
from rrext.nodes.databases.node import RowMode
from rrext.tools.context import ToolContext
from rrext.tools.results import JsonText, NotJson, table_json

ENCODED_ROWS: Final = 500
"""Rows of an answer that are encoded at once, without a Python object for each: of fewer, that gains less than its setup."""
CHUNK_BYTES: Final = 256 * 1024
"""Bytes after which a chunk is sent, whatever its number of rows; approximate."""


class RowBatches(Protocol):
    """The rows of a running statement. `batch` fetches the next ones in JSON and their approximate bytes; none at the end."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def types(self) -> list[str | None]: ...

    def batch(self, at_most: int, /) -> tuple[Rows, int]: ...


D = TypeVar("D", bound=SharedDatabase[Any, Any, Any])
R = TypeVar("R", bound=RowBatches)
Statement = AbstractContextManager[R]
Answer = dict[str, Any]


class StatementCall(Generic[D]):
    """A call, its database, and the form of its rows: objects by column name, or arrays."""

    def __init__(self, database: D, ctx: ToolContext, row_mode: RowMode, *, encodes: bool = False) -> None:
        """`encodes`: the answer goes to a client as it is, so its rows may be JSON text already."""
        self._database = database
        self._ctx = ctx
        self._as_objects = row_mode == "object"
        self._encodes = encodes

    def _read(self, statement: Callable[[float], Statement[R]], limit: int) -> tuple[R, Rows, Answer]:
        """Run a statement that reads: the statement, its rows, and `{columns, types, rows, row_count, truncated}`.

        `statement` gets its seconds; it may be repeated.
        """

        def attempt(timeout: float) -> tuple[R, Rows]:
            with statement(timeout) as result:
                return result, collected(result, limit + 1)

        result, rows = self._database.reading(self._ctx, attempt)
        is_truncated = len(rows) > limit
        if is_truncated:
            rows.pop()
        return result, rows, {**self._table(result, rows), "row_count": len(rows), "truncated": is_truncated}

    def _streamed(
        self, statement: Callable[[float], Statement[R]], chunk_rows: int
    ) -> Generator[list[Any], None, tuple[R, Answer]]:
        """Yield the rows of a statement in chunks; return the statement and `{columns, types, row_count}`."""

        def attempt(timeout: float) -> tuple[ExitStack, R, Iterator[Rows]]:
            """Run everything up to the first chunk: chunks that the caller has seen cannot be taken back."""
            with ExitStack() as stack:
                rows = stack.enter_context(statement(timeout))
                chunks = _chunks(rows, chunk_rows)
                first = list(islice(chunks, 1))
                return stack.pop_all(), rows, chain(first, chunks)

        count = 0
        stack, rows, chunks = self._database.reading(self._ctx, attempt)
        with stack:
            for chunk in chunks:
                self._ctx.check()
                count += len(chunk)
                yield self._shaped(chunk, rows.columns)
        return rows, {"columns": rows.columns, "types": rows.types, "row_count": count}

    def _in_transaction(self, run: Callable[[Any], Answer], session_id: str | None) -> Answer:
        """The answer of `run`, in the transaction of a session, or in one of its own, which is committed."""
        if session_id is not None:
            with self._database.sessions.using(session_id, self._ctx) as session:
                return self._in_session(session, run)

        def attempt(timeout: float) -> Answer:
            with self._database.transaction(self._ctx, read_only=False, timeout=timeout) as transaction:
                answer = run(transaction)
                if transaction.is_open:
                    transaction.commit(self._ctx)
            return answer

        return self._database.writing(self._ctx, attempt)

    def _in_session(self, session: DatabaseSession[Any], run: Callable[[Any], Answer]) -> Answer:
        try:
            return run(session.transaction)
        except RrextError as error:
            if not session.transaction.is_open:  # later statements would be committed one by one
                session.end()
                error.hint = f"{error.hint or ''} The transaction is rolled back, and its session is over.".strip()
                error.data["session"] = "over"
            raise

    def _executed(self, statement: Statement[R], max_rows: int, facts: Callable[[R], Answer], kept: str) -> tuple[R, Answer]:
        """Run a statement of any kind: `{columns, types, rows}` and its `facts`, which are known after its last row.

        Raises `ToolError` (`too_many_rows`) for more rows than `max_execute_rows`; `kept` tells what became of its writes.
        """
        with statement as result:
            rows = collected(result, max_rows + 1)
            if len(rows) > max_rows:
                raise ToolError(
                    f"The statement gives more rows than max_execute_rows ({max_rows:,})",
                    code="too_many_rows",
                    hint=f"Add a LIMIT, or read with query_stream. {kept}",
                    data={"limit": "max_execute_rows", "maximum": max_rows},
                )
            found = facts(result)
        return result, {**self._table(result, rows), **found}

    def _table(self, result: RowBatches, rows: Rows) -> Answer:
        return {"columns": result.columns, "types": result.types, "rows": self._written(rows, result.columns)}

    def _written(self, rows: Rows, columns: list[str]) -> list[Any] | JsonText:
        if self._encodes and len(rows) >= ENCODED_ROWS:
            try:
                return table_json(rows, columns if self._as_objects else None)
            except NotJson:
                pass  # the check of the whole answer says where it is wrong, if it is
        return self._shaped(rows, columns)

    def _shaped(self, rows: Rows, columns: list[str]) -> list[Any]:
        return [dict(zip(columns, row, strict=False)) for row in rows] if self._as_objects else rows


def _too_large(size: int) -> ResultTooLarge:
    error = ResultTooLarge.of(size, DEFAULTS.max_result, "The part of the result that was read")
    error.hint = "Ask for fewer rows or columns, or read the rows with query_stream."
    return error


def collected(source: RowBatches, at_most: int) -> Rows:
    """Fetch up to `at_most` rows. Raises `ResultTooLarge` beyond `max_result`."""
    rows: Rows = []
    size = 0
    while (room := at_most - len(rows)) > 0:
        batch, nbytes = source.batch(room)
        if not batch:
            break
        size += nbytes
        if size > DEFAULTS.max_result:
            raise _too_large(size)
        rows += batch
    return rows


def _chunks(source: RowBatches, at_most: int) -> Iterator[Rows]:
    chunk: Rows = []
    size = 0
    while True:
        batch, nbytes = source.batch(at_most - len(chunk))
        if not batch:
            break
        chunk += batch
        size += nbytes
        if len(chunk) >= at_most or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
