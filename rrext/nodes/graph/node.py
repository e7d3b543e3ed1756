"""`GraphNode`: the tools of graph databases, whose language is Cypher, and the transactions that their calls run in."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from rrext.errors import InvalidArguments, RrextError, ToolError, near_matches
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.child.process import ProcessLost
from rrext.nodes.databases.calls import Answer, StatementCall
from rrext.nodes.databases.cells import Rows, size_of, unique_names
from rrext.nodes.databases.database import RunningStatement, SharedDatabase, TimerThread, cancellation, too_slow
from rrext.nodes.databases.failure import CYPHER
from rrext.nodes.databases.node import (
    ALLOW_EXECUTE,
    MAX_ROWS,
    MODEL_BOUND,
    QUERY_ROWS,
    READS,
    WRITES,
    DatabaseNode,
    DatabaseQuestion,
    Mode,
    Question,
    RowMode,
)
from rrext.nodes.graph.backend import BackendTransaction, GraphBackend, GraphCursor, GraphSchema, Property, RelationshipType
from rrext.nodes.graph.gate import ReadingCypher, read_only
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

Cypher = Annotated[str, msgspec.Meta(min_length=1, description="One Cypher statement.")]
Alias = Annotated[str | None, msgspec.Meta(description="The same as `query`.")]
Params = Annotated[
    dict[str, Any] | None, msgspec.Meta(description="The values of $name in the statement, by their names without the $.")
]


class GraphNode(DatabaseNode):
    """The tools of one graph database."""

    class Config(DatabaseNode.Config):
        allowed_functions: Annotated[
            tuple[str, ...], "Functions that query may call beside those known to only read, as `apoc.text.*`."
        ] = ()
        allowed_procedures: Annotated[
            tuple[str, ...], "Procedures that query may call beside those known to only read, by their full names."
        ] = ()
        description: Annotated[str, "What a model should know of the graph when it writes Cypher for a question."] = ""

    shared: Graph

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        """Make the backend of the settings. Imports the driver and connects to nothing."""
        raise NotImplementedError

    @classmethod
    def database(cls, config: Any, ctx: SetupContext) -> Graph:
        backend = cls.backend(config, ctx)
        return Graph(backend, statement=config.statement_timeout, session_idle=config.session_idle, shown=ctx.shown)

    # reading

    @tool_function(group="database", annotations=READS)
    def query(
        self,
        query: Cypher | None = None,
        sql: Alias = None,
        params: Params = None,
        limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] = QUERY_ROWS,
        explain: bool = False,
        row_mode: Mode = "object",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Run a statement that only reads. Answers `{columns, types, rows, row_count, truncated}`, or `{plan}` with `explain`.

        If there are more rows than `limit`, `truncated` is true; read them with a larger limit, or all of them with
        query_stream. Nodes are `{id, labels, properties}`, relationships `{id, type, start, end, properties}`.

        Args:
            limit: Rows of the answer at most.
            explain: Answer how the database would run the statement, without running it.
        """
        call, text = CypherCall(self.shared, ctx, self._allowed(), row_mode, encodes=True), _text(query, sql)
        return call.explain(text, params or {}) if explain else call.query(text, params or {}, limit)

    @tool_function(group="database", annotations=READS)
    def query_stream(
        self,
        query: Cypher | None = None,
        sql: Alias = None,
        params: Params = None,
        row_mode: Mode = "object",
        chunk_rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500,
        *,
        ctx: ToolContext,
    ) -> Generator[list[Any], None, dict[str, Any]]:
        """Run a statement that only reads, and stream rows of any number as chunks; then answers `{columns, types,
        row_count}`.

        Args:
            chunk_rows: Rows of a chunk at most; a chunk of large rows has fewer.
        """
        call = CypherCall(self.shared, ctx, self._allowed(), row_mode)
        return (yield from call.stream(_text(query, sql), params or {}, chunk_rows))

    @tool_function(group="database", annotations=READS)
    def get_schema(self, label: str | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """What the graph holds. Answers `{database, nodes, relationships}`.

        `nodes` has for each label `{properties: [{property, type, key?}]}`, `relationships` for each type also `ends`, a
        list of `{from, to}`. Where the database declares no schema, properties and ends are those of samples. It is the
        snapshot that was taken when the schema was first asked for; refresh_schema takes a new one.

        Args:
            label: Only this label or type of relationship, and for a label the relationships that begin or end there.
        """
        return shown_schema(self.shared.schema(ctx), label)

    @tool_function(group="database", annotations=READS)
    def refresh_schema(self, *, ctx: ToolContext) -> dict[str, Any]:
        """Read the schema again. Answers as get_schema does, and `refreshed_at`, the time in UTC."""
        schema = self.shared.schema(ctx, refresh=True)
        return {**shown_schema(schema), "refreshed_at": datetime.now(UTC).isoformat()}

    # questions in natural language

    @tool_function(group="database", annotations=READS, available=MODEL_BOUND)
    def get_cypher(self, question: Question, *, ctx: ToolContext) -> dict[str, Any]:
        """Let the language model write Cypher for a question, without running it. Answers `{valid: true, cypher}`.

        The statement only reads, and the database understands it. A question that no data can answer gives
        `{valid: false, answer}`.
        """
        return self.asked(question, ctx).written(self, ctx, question).as_json(CYPHER)

    def asked(self, question: str, ctx: ToolContext) -> DatabaseQuestion:
        call = CypherCall(self.shared, ctx, self._allowed())

        def check(cypher: str) -> str:
            call.explain(cypher, {})
            return call.checked(cypher, {}).text

        return DatabaseQuestion(
            CYPHER,
            self.shared.backend.dialect.name,
            context=lambda: [schema_text(self.shared.schema(ctx)), *filter(None, [self.config.description])],
            check=check,
            query=lambda cypher, limit: call.query(cypher, {}, limit),
        )

    # statements of any kind

    @tool_function(group="database", annotations=WRITES, available=ALLOW_EXECUTE)
    def execute(
        self,
        query: Cypher | None = None,
        sql: Alias = None,
        session_id: str | None = None,
        params: Params = None,
        row_mode: Mode = "object",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Run a statement of any kind. Answers `{columns, types, rows, affected_rows, counters?}`.

        Without a session it is a transaction of its own: all of it is kept, or nothing if it fails. More rows than
        `max_execute_rows` are an error. `affected_rows` is how many nodes and relationships it created, deleted or changed,
        each counted once; null if that cannot be told. `counters` is what the database itself counts.

        Args:
            session_id: The transaction that it belongs to, from begin.
        """
        ALLOW_EXECUTE.require(self, "execute")
        call = CypherCall(self.shared, ctx, self._allowed(), row_mode, encodes=True)
        return call.execute(_text(query, sql), params or {}, self.config.max_execute_rows, session_id=session_id)

    def _allowed(self) -> Allowed:
        return self.config.allowed_functions, self.config.allowed_procedures


def _text(query: str | None, sql: str | None) -> str:
    given = [text for text in (query, sql) if text is not None]
    if len(given) != 1 or not given[0].strip():
        path = "/input/query" if sql is None or query is not None else "/input/sql"
        raise InvalidArguments.at(path, 'expected exactly one of "query" and "sql", which is not blank')
    return given[0]


Allowed: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"
"""Functions and procedures that a read-only statement may call beside the known ones."""


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


def shown_schema(schema: GraphSchema, label: str | None = None) -> dict[str, Any]:
    """`{database, nodes, relationships}`. Raises `ToolError` (`label_not_found`) with near names."""
    nodes, relationships = schema.nodes, schema.relationships
    if label is not None:
        if label not in nodes and label not in relationships:
            raise _not_found(schema, label)
        nodes = {name: properties for name, properties in nodes.items() if name == label}
        relationships = {name: kind for name, kind in relationships.items() if name == label or _touches(kind, label)}
    return {
        "database": schema.database,
        "nodes": {name: {"properties": _properties(properties)} for name, properties in nodes.items()},
        "relationships": {
            name: {
                "properties": _properties(kind.properties),
                "ends": [{"from": start, "to": end} for start, end in kind.ends],
            }
            for name, kind in relationships.items()
        },
    }


def schema_text(schema: GraphSchema) -> str:
    """A line for each label and each kind of relationship, as patterns of Cypher."""
    lines = [f"(:{_quoted(name)} {{{_columns(properties)}}})" for name, properties in schema.nodes.items()]
    for name, kind in schema.relationships.items():
        for start, end in kind.ends or (("", ""),):
            left, right = (f"(:{_quoted(label)})" if label else "()" for label in (start, end))
            lines.append(f"{left}-[:{_quoted(name)} {{{_columns(kind.properties)}}}]->{right}")
    return "\n".join(lines)


def _properties(properties: tuple[Property, ...]) -> list[dict[str, Any]]:
    return [{"property": entry.name, "type": entry.type, **({"key": True} if entry.is_key else {})} for entry in properties]


def _columns(properties: tuple[Property, ...]) -> str:
    return ", ".join(f"{_quoted(entry.name)}: {entry.type}" for entry in properties)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _touches(kind: RelationshipType, label: str) -> bool:
    return any(label in ends for ends in kind.ends)


def _not_found(schema: GraphSchema, label: str) -> ToolError:
    near = near_matches(label, [*schema.nodes, *schema.relationships])
    return ToolError(
        f'There is no label or relationship type "{label}" in the graph "{schema.database}"',
        code="label_not_found",
        hint=f"Did you mean {' or '.join(near)}?" if near else "refresh_schema reads the schema again.",
        data={"near": near},
    )


SCHEMA_ROWS: Final = 10_000
"""Rows of one query of the schema: labels, properties, samples."""

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
