"""The parts of a call that runs a statement which SQL and graph databases share: rows of an answer, and streams of rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from rrext.errors import ResultTooLarge
from rrext.limits import DEFAULTS
from rrext.nodes.databases.cells import Rows
from rrext.nodes.databases.limits import CHUNK_BYTES
from rrext.nodes.databases.node import RowMode
from rrext.tools.context import ToolContext


class RowBatches(Protocol):
    """The rows of a running statement. `batch` fetches the next ones in JSON and their approximate bytes; none at the end."""

    @property
    def columns(self) -> list[str]: ...

    def batch(self, at_most: int, /) -> tuple[Rows, int]: ...


R = TypeVar("R", bound=RowBatches)
Begun = tuple[ExitStack, R, Iterator[Rows]]


class StatementCall:
    """A call and the form of its rows: objects by column name, or arrays."""

    def __init__(self, ctx: ToolContext, row_mode: RowMode) -> None:
        self._ctx = ctx
        self._as_objects = row_mode == "object"

    def _shaped(self, rows: Rows, columns: list[str]) -> list[Any]:
        return [dict(zip(columns, row, strict=False)) for row in rows] if self._as_objects else rows

    def _streamed(
        self,
        reading: Callable[[Callable[[float], Begun[R]]], Begun[R]],
        statement: Callable[[float], AbstractContextManager[R]],
        chunk_rows: int,
    ) -> Generator[list[Any], None, tuple[R, int]]:
        """Yield the rows of a statement in chunks; return the statement and the number of its rows.

        `reading` runs an attempt with its seconds, and may repeat it.
        """

        def attempt(timeout: float) -> Begun[R]:
            """Run everything up to the first chunk: chunks that the caller has seen cannot be taken back."""
            with ExitStack() as stack:
                rows = stack.enter_context(statement(timeout))
                chunks = _chunks(rows, chunk_rows)
                first = list(islice(chunks, 1))
                return stack.pop_all(), rows, chain(first, chunks)

        count = 0
        stack, rows, chunks = reading(attempt)
        with stack:
            for chunk in chunks:
                self._ctx.check()
                count += len(chunk)
                yield self._shaped(chunk, rows.columns)
        return rows, count


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
            error = ResultTooLarge.of(size, DEFAULTS.max_result, "The part of the result that was read")
            error.hint = "Ask for fewer rows or columns, or read the rows with query_stream."
            raise error
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
