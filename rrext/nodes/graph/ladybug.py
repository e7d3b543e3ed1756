"""`graph_ladybug`: a graph database in a file or in memory, which needs no server. It runs in a process of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec

from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child.process import ChildRequest, NodeProcess, module_command
from rrext.nodes.child.supervisor import Supervisor
from rrext.nodes.databases.failure import Failure
from rrext.nodes.graph.backend import (
    BackendTransaction,
    GraphBackend,
    GraphCursor,
    GraphSchema,
    Property,
    RelationshipType,
    Rows,
)
from rrext.nodes.graph.backend import Rows as RunsReads
from rrext.nodes.graph.dialect import CypherDialect
from rrext.nodes.graph.ladybug_rules import (
    LADYBUG,
    LADYBUG_FAILED,
    EmbeddedError,
    EmbeddedSettings,
    GraphBegin,
    GraphCommit,
    GraphEnd,
    GraphExplain,
    GraphFetch,
    GraphOpen,
    GraphRows,
    GraphRun,
    check_embedded,
    failure_of,
)
from rrext.nodes.graph.node import GraphNode
from rrext.tools.context import ToolContext


class LadybugNode(GraphNode):
    """An embedded graph database. Labels and relationship types are declared with CREATE NODE TABLE and CREATE REL TABLE.

    Processes take turns with the file between their transactions; where all have `allow_execute` off, several read it at
    once. Statements that read or write other files of the machine are refused, also in `execute`.

    Ladybug works in a process of its own, as some wrong uses of its functions end that, and some statements cannot be
    stopped. Such a call fails with `graph_crashed` or `statement_timeout`. Others that only read are done again on the next
    process; open transactions are lost.
    """

    provider = "graph_ladybug"
    title = "Ladybug"
    extra = "graph-embedded"
    packages = ("ladybug",)

    paths = {"path": "file"}

    class Config(GraphNode.Config):
        path: Annotated[
            str, "The file. A relative one begins at --root, or else at the folder of the pipeline's file. Empty: in memory."
        ] = ""
        memory_mb: Annotated[int, "Megabytes that the database may use for its pages."] = 256
        threads: Annotated[int, "Threads that one statement may use."] = 2
        lock_timeout: Annotated[float, "Seconds that a call waits until another transaction has written."] = 10.0
        wait: Annotated[
            float, msgspec.Meta(ge=0, le=3600), "Seconds that a call waits for other processes that use the file."
        ] = 10.0

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.path and not config.allow_execute and not os.path.exists(path(config.path)):
            yield "path", f'There is no graph database "{config.path}"; "allow_execute": true would make an empty one.'

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        from rrext.nodes.graph.ladybug_rules import EmbeddedSettings

        return ProcessBackend(
            EmbeddedSettings(
                path=ctx.path(config.path) if config.path else "",
                read_only=not config.allow_execute,
                memory_mb=config.memory_mb,
                threads=config.threads,
                lock_timeout=config.lock_timeout,
                procedures=config.allowed_procedures,
                wait=ctx.wait(config.wait),
                owner=os.getpid(),
            )
        )


CLOSING_TIMEOUT: Final = 10.0
"""Seconds for the process to roll back open transactions and close the database."""

FIRST_ROWS: Final = 64
"""Rows that come with the answer to a statement, so that most need one answer only."""

CLOSED: Final = "The graph database is closed: the node is being unloaded"
CRASHED: Final = "graph_crashed"
WHAT: Final = "the graph database"

T = TypeVar("T")


class ProcessBackend(GraphBackend):
    """One database in a process, which the first call starts.

    Some wrong uses of Ladybug's functions end the process that they happen in, and some statements cannot be stopped.
    Another process is started then. Calls that only read are done again there; a call that wrote, or ends the process by
    itself, fails with `graph_crashed`. Commits to a file are kept; a database in memory is lost.
    """

    dialect: ClassVar[CypherDialect] = LADYBUG
    integers: ClassVar[range] = range(-(2**63), 2**64)

    def __init__(self, settings: EmbeddedSettings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._opened: NodeProcess | None = None  # the process that has opened the database
        self.supervisor = Supervisor(self._started, closed=CLOSED, memory="" if settings.path else WHAT)

    def prepare(self, ctx: ToolContext) -> None:
        process = self.supervisor.process()
        if self._opened is not process:
            process.ask(GraphOpen(), ctx)
            self._opened = process

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        return self.supervisor.repeated(attempt, ctx, reads=reads, timeout=timeout)

    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> BackendTransaction:
        return _RemoteTransaction(self, next(self._numbers), read_only, timeout)

    def read_schema(self, run: RunsReads) -> GraphSchema:
        return declared_schema(run, os.path.basename(self._settings.path) or "memory")

    def changing(self, cypher: str) -> str:
        return check_embedded(cypher, self._settings.procedures)

    def failure(self, error: Exception) -> Failure | None:
        return failure_of(error)

    def _started(self) -> NodeProcess:
        lost = "What was committed is still there." if self._settings.path else "What was in memory is lost."
        return NodeProcess(
            module_command("rrext.nodes.graph.ladybug_worker"),
            self._settings,
            what=WHAT,
            crash=(CRASHED, f"The statement may use a function wrongly, as id(null). Another process is started. {lost}"),
            closed=CLOSED,
        )

    def close(self) -> None:
        self.supervisor.close(CLOSING_TIMEOUT)


class _RemoteTransaction(BackendTransaction):
    """A transaction in the process."""

    def __init__(self, backend: ProcessBackend, number: int, read_only: bool, timeout: float) -> None:
        self._backend = backend
        self._number = number
        self._read_only = read_only
        self._timeout = timeout
        self._ctx = ToolContext()  # until the transaction is cancelled as a whole
        self._process: NodeProcess | None = None

    def start(self) -> None:
        self._process = self._backend.supervisor.process()
        self._ask(GraphBegin(self._number, self._read_only, self._timeout))

    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> GraphCursor:
        answer = self.rows(GraphRun(self._number, cypher, msgspec.json.encode(params), FIRST_ROWS, counts))
        return _RemoteCursor(self, self._number, answer)

    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        return msgspec.json.decode(self._ask(GraphExplain(self._number, cypher, msgspec.json.encode(params))))

    def commit(self) -> None:
        self._ask(GraphCommit(self._number))
        self._backend.supervisor.wrote()

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.notify(GraphEnd(self._number))

    def cancel(self) -> None:
        self._ctx.token.cancel("timeout")  # whoever waits for an answer leaves; the reason is known to who cancels

    def rows(self, request: ChildRequest) -> GraphRows:
        """Send a request for rows and return them."""
        return msgspec.json.decode(self._ask(request), type=GraphRows)

    def _ask(self, request: ChildRequest) -> bytes:
        process = self._process
        assert process is not None  # started, and not ended
        try:
            return process.ask(request, self._ctx)
        except Exception as error:
            if getattr(error, "code", None) == LADYBUG_FAILED:
                raise EmbeddedError(str(error)) from None
            raise


class _RemoteCursor:
    """The rows of a statement that runs in the process."""

    def __init__(self, transaction: _RemoteTransaction, number: int, first: GraphRows) -> None:
        self._transaction = transaction
        self._number = number
        self._rows: list[list[Any]] = first.rows
        self._is_last = first.is_last
        self._counters = first.counters
        self.columns = first.columns
        self.types = first.types

    def fetch(self, size: int, /) -> list[list[Any]]:
        if not self._rows and not self._is_last:
            answer = self._transaction.rows(GraphFetch(self._number, size))
            self._rows, self._is_last = answer.rows, answer.is_last
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def counters(self) -> dict[str, int] | None:
        return self._counters

    def affected(self) -> int | None:
        return None if self._counters is None else sum(self._counters.values())

    def plan(self) -> Any:
        return None  # it is the only row

    def close(self) -> None:
        self._rows, self._is_last = [], True


def declared_schema(run: Rows, database: str) -> GraphSchema:
    """Read the declared tables of nodes and of relationships."""
    tables = sorted((row[0], row[1]) for row in run("CALL show_tables() RETURN name, type"))
    return GraphSchema(
        database,
        {name: _properties(run, name) for name, kind in tables if kind == "NODE"},
        {name: RelationshipType(_properties(run, name), _ends(run, name)) for name, kind in tables if kind == "REL"},
    )


def _properties(run: Rows, table: str) -> tuple[Property, ...]:
    rows: list[list[Any]] = run(f"CALL table_info({_text(table)}) RETURN *")
    return tuple(Property(row[1], row[2], row[-1] is True) for row in rows)


def _ends(run: Rows, table: str) -> tuple[tuple[str, str], ...]:
    return tuple((row[0], row[1]) for row in run(f"CALL show_connection({_text(table)}) RETURN *"))


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
