"""`ProcessBackend`: the embedded graph database in a process of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, ClassVar, Final

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.child_engine import ChildEngine, Request
from rrext.nodes.children import module_command
from rrext.nodes.graph.backend import Cursor, GraphBackend, GraphSchema, Transaction
from rrext.nodes.graph.backend import Rows as RunsReads
from rrext.nodes.graph.embedded_calls import ENGINE_FAILED, Commit, End, Explain, Fetch, Interrupt, Open, Rows, Run, Start
from rrext.nodes.graph.embedded_rules import EmbeddedError, EmbeddedSettings, changing, failure_of, schema_of
from rrext.nodes.sql.backend import Failure
from rrext.tools.context import ToolContext

__all__ = ["ProcessBackend"]

PATIENCE: Final = 10.0
"""Seconds for the process to undo what is open and to close the database."""
STUCK: Final = 5.0
"""Seconds after which a statement that does not stop ends with its process: some of the engine's functions never look up."""
FIRST: Final = 64
"""Rows that come with the answer to a statement, so that most need one answer only."""

CLOSED: Final = "The graph database is closed: the node is being unloaded"
CRASHED: Final = "graph_crashed"


class ProcessBackend(GraphBackend):
    """One database in a process, which the first call starts.

    Some wrong uses of the engine's functions end the process that they happen in, and some statements cannot be stopped.
    Here that is nobody else's: calls that wait for it then fail with `graph_crashed`, and the next one starts another
    process. What was committed to a file is still there; a database in memory begins anew.
    """

    dialect: ClassVar[str] = "ladybug"

    __slots__ = ("_is_closed", "_lock", "_numbers", "_opened", "_process", "_settings")

    def __init__(self, settings: EmbeddedSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._process: ChildEngine | None = None
        self._opened: ChildEngine | None = None  # the process that has the database open
        self._is_closed = False

    def prepare(self) -> None:
        process = self.process()
        if self._opened is not process:
            process.ask(Open(), ToolContext())
            self._opened = process

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> Transaction:
        return _RemoteTransaction(self, next(self._numbers), read_only, timeout)

    def read_schema(self, run: RunsReads) -> GraphSchema:
        return schema_of(self._settings, run)

    def changing(self, cypher: str) -> str:
        return changing(self._settings, cypher)

    def failure(self, error: Exception) -> Failure | None:
        return failure_of(error)

    def process(self) -> ChildEngine:
        """The process, started if there is none. Raises `Unavailable` if that cannot be."""
        with self._lock:
            if self._is_closed:
                raise Unavailable(CLOSED)
            if self._process is None or self._process.is_over:
                self._process = self._started()
            return self._process

    def _started(self) -> ChildEngine:
        lost = "A database in memory begins anew." if not self._settings.path else "What was committed is still there."
        return ChildEngine(
            module_command("rrext.nodes.graph.embedded_worker", msgspec.json.encode(self._settings).decode()),
            what="the graph database",
            crash=(CRASHED, f"The statement may use a function wrongly, as id(null). Another process is started. {lost}"),
            closed=CLOSED,
        )

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.close(PATIENCE)

    def __repr__(self) -> str:
        return f"<ProcessBackend {'open' if self._process is not None else 'not open'}>"


class _RemoteTransaction(Transaction):
    """A transaction in the process."""

    __slots__ = ("_backend", "_number", "_process", "_read_only", "_since", "_timeout")

    def __init__(self, backend: ProcessBackend, number: int, read_only: bool, timeout: float) -> None:
        self._backend = backend
        self._number = number
        self._read_only = read_only
        self._timeout = timeout
        self._process: ChildEngine | None = None
        self._since: float | None = None

    def start(self) -> None:
        self._process = self._backend.process()
        self._ask(Start(self._number, self._read_only, self._timeout))

    def run(self, cypher: str, params: Mapping[str, Any]) -> Cursor:
        answer = self.rows(Run(self._number, cypher, msgspec.json.encode(params), FIRST))
        return _RemoteCursor(self, self._number, answer)

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        return msgspec.json.decode(self._ask(Explain(self._number, cypher, msgspec.json.encode(params))))

    def commit(self) -> None:
        self._ask(Commit(self._number))

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.tell(End(self._number))

    def cancel(self) -> None:
        process = self._process
        if process is None:
            return
        now = monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > STUCK:
            process.kill()
        else:
            process.tell(Interrupt(self._number))

    def rows(self, request: Request) -> Rows:
        """Rows that a request asks for."""
        return msgspec.json.decode(self._ask(request), type=Rows)

    def _ask(self, request: Request) -> bytes:
        process = self._process
        assert process is not None  # started, and not ended
        try:
            return process.ask(request, ToolContext())  # who waits no longer has the transaction cancelled
        except Exception as error:
            if getattr(error, "code", None) == ENGINE_FAILED:
                raise EmbeddedError(str(error)) from None
            raise

    def __repr__(self) -> str:
        return f"<_RemoteTransaction {self._number}>"


class _RemoteCursor:
    """The rows of a statement that runs in the process."""

    __slots__ = ("_is_last", "_number", "_rows", "_transaction", "columns")

    def __init__(self, transaction: _RemoteTransaction, number: int, first: Rows) -> None:
        self._transaction = transaction
        self._number = number
        self._rows: list[list[Any]] = first.rows
        self._is_last = first.is_last
        self.columns = first.columns

    def fetch(self, size: int, /) -> list[list[Any]]:
        if not self._rows and not self._is_last:
            answer = self._transaction.rows(Fetch(self._number, size))
            self._rows, self._is_last = answer.rows, answer.is_last
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def counters(self) -> dict[str, int] | None:
        return None

    def close(self) -> None:
        self._rows, self._is_last = [], True
