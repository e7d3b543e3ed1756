"""`GraphNode`: the tools that every graph database has, whatever its kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.extras import missing_packages
from rrext.nodes.base.node import Node
from rrext.nodes.base.questions import question_text
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.base.switches import Switch
from rrext.nodes.databases.limits import MAX_ROWS, QUERY_ROWS
from rrext.nodes.databases.markdown import markdown_table
from rrext.nodes.graph.backend import GraphBackend
from rrext.nodes.graph.calls import Allowed, CypherCall
from rrext.nodes.graph.database import Graph, GraphLimits
from rrext.nodes.graph.questions import Asker
from rrext.nodes.graph.shown import shown_schema
from rrext.nodes.llm.bound import LLM_SLOT, ModelBound
from rrext.nodes.llm.limits import DATA_ROWS
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False, "destructiveHint": True}
STEPS = {"readOnlyHint": False, "destructiveHint": False}

ALLOW_EXECUTE = Switch("allow_execute", refusal="execute tool is disabled for this node (set allow_execute=true)")
MODEL_BOUND = ModelBound()

Cypher = Annotated[str, msgspec.Meta(min_length=1, description="One Cypher statement.")]
Alias = Annotated[str | None, msgspec.Meta(description="The same as `query`.")]
Params = Annotated[
    dict[str, Any] | None, msgspec.Meta(description="The values of $name in the statement, by their names without the $.")
]
Mode = Annotated[
    Literal["object", "array"],
    msgspec.Meta(description='A row as "object" by column name, or as "array" in the order of `columns`.'),
]


class GraphNode(Node):
    """The tools of one graph database. Reading is always possible; `allow_execute` adds statements of any kind."""

    class_types = ("database",)
    capabilities = ("database",)
    lanes = {"questions": ("table", "text", "answers")}
    invoke = LLM_SLOT

    extra: ClassVar[str] = ""
    """The extra of rrext that has all that the node needs."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Modules of its driver."""

    class Config:
        allow_execute: Annotated[bool, "Offer execute, begin, commit and rollback: statements of any kind."] = False
        statement_timeout: Annotated[
            float, "Seconds that one statement may take, its rows included; 0: only the call's own deadline counts."
        ] = 30.0
        max_execute_rows: Annotated[int, "Rows that execute answers at most; more are an error, and nothing is kept."] = (
            MAX_ROWS
        )
        session_idle: Annotated[float, "Seconds after which a transaction that nobody uses is rolled back."] = 300.0
        allowed_functions: Annotated[
            tuple[str, ...], "Functions that query may call beside those known to only read, as `apoc.text.*`."
        ] = ()
        allowed_procedures: Annotated[
            tuple[str, ...], "Procedures that query may call beside those known to only read, by their full names."
        ] = ()
        max_attempts: Annotated[int, "How often the language model may try to write Cypher for one question."] = 3
        description: Annotated[str, "What a model should know of the graph when it writes Cypher for a question."] = ""

    config: Any
    shared: Graph

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages(cls.extra, *cls.packages)

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> GraphBackend:
        """The database that the settings mean. Imports the driver and connects to nothing."""
        raise NotImplementedError

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Graph]:
        limits = GraphLimits(config.statement_timeout, config.session_idle)
        graph = Graph(await ctx.in_thread(cls.backend, config, ctx), limits, shown=ctx.shown)
        ctx.on_disconnect(graph.sessions.lost)
        try:
            yield graph
        finally:
            await ctx.in_thread(graph.close)

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
        call, text = CypherCall(self.shared, ctx, self._allowed(), row_mode), _text(query, sql)
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
    def dialect(self) -> dict[str, str]:
        """Which Cypher the database speaks. Answers `{dialect}`: neo4j or ladybug."""
        return {"dialect": self.shared.backend.dialect.name}

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
    def get_cypher(self, question: Annotated[str, msgspec.Meta(min_length=1)], *, ctx: ToolContext) -> dict[str, Any]:
        """Let the language model write Cypher for a question, without running it. Answers `{valid: true, cypher}`.

        The statement only reads, and the database understands it. A question that no data can answer gives
        `{valid: false, answer}`.

        Args:
            question: What is to be known, in plain words.
        """
        return self._asker(ctx).cypher(question).as_json()

    @tool_function(group="database", annotations=READS, available=MODEL_BOUND)
    def get_data(
        self,
        question: Annotated[str, msgspec.Meta(min_length=1)],
        limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] = DATA_ROWS,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Answer a question with data: a language model writes Cypher, which only reads, and it is run.

        Answers `{valid: true, columns, rows, cypher, row_limit, truncated}`. A question that no data can answer gives
        `{valid: false, answer}`.

        Args:
            question: What is to be known, in plain words.
            limit: Rows of the answer at most.
        """
        return self._asker(ctx).data(question, limit)

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        found = self._asker(ctx).data(question_text(question), DATA_ROWS)
        if not found["valid"]:
            self.emit("text", found["answer"])
            self.emit("answers", {"answer": found["answer"], "expectJson": False})
            return
        table = markdown_table(found["columns"], found["rows"])
        self.emit("table", table)
        self.emit("text", table)
        is_json = bool(question.get("expectJson"))
        self.emit("answers", {"answer": found["rows"] if is_json else table, "expectJson": is_json})

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
        call = CypherCall(self.shared, ctx, self._allowed(), row_mode)
        return call.execute(_text(query, sql), params or {}, self.config.max_execute_rows, session_id=session_id)

    @tool_function(group="database", annotations=STEPS, available=ALLOW_EXECUTE)
    def begin(self, *, ctx: ToolContext) -> dict[str, str]:
        """Begin a transaction. Answers `{session_id}`, which execute, commit and rollback take.

        Only the connection that began it can use it. It is rolled back when that ends, or when it is not used for long.
        """
        ALLOW_EXECUTE.require(self, "begin")
        return {"session_id": self.shared.sessions.begin(ctx).id}

    @tool_function(group="database", annotations=WRITES, available=ALLOW_EXECUTE)
    def commit(self, session_id: str, *, ctx: ToolContext) -> dict[str, bool]:
        """Keep all that a transaction did, and end it. Answers `{ok: true}`.

        Args:
            session_id: From begin.
        """
        ALLOW_EXECUTE.require(self, "commit")
        with self.shared.sessions.using(session_id, ctx) as session:
            try:
                session.transaction.commit(ctx)
            finally:
                session.end()
        return {"ok": True}

    @tool_function(group="database", annotations=STEPS, available=ALLOW_EXECUTE)
    def rollback(self, session_id: str, *, ctx: ToolContext) -> dict[str, bool]:
        """Undo all that a transaction did, and end it. Answers `{ok: true}`.

        Args:
            session_id: From begin.
        """
        ALLOW_EXECUTE.require(self, "rollback")
        with self.shared.sessions.using(session_id, ctx) as session:
            session.end()
        return {"ok": True}

    def _allowed(self) -> Allowed:
        return self.config.allowed_functions, self.config.allowed_procedures

    def _asker(self, ctx: ToolContext) -> Asker:
        return Asker(self, self.shared, ctx, CypherCall(self.shared, ctx, self._allowed()), self.config.max_attempts)


def _text(query: str | None, sql: str | None) -> str:
    given = [text for text in (query, sql) if text is not None]
    if len(given) != 1 or not given[0].strip():
        path = "/input/query" if sql is None or query is not None else "/input/sql"
        raise InvalidArguments.at(path, 'expected exactly one of "query" and "sql", which is not blank')
    return given[0]
