"""`GraphNode`: the tools of graph databases of every kind."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.setup import SetupContext
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
)
from rrext.nodes.graph.backend import GraphBackend
from rrext.nodes.graph.calls import Allowed, CypherCall
from rrext.nodes.graph.database import Graph
from rrext.nodes.graph.schema_text import schema_text, shown_schema
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
