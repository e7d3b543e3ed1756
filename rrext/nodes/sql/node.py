"""`SqlNode`: the tools that every SQL database has, whatever its kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.extras import missing_packages
from rrext.nodes.base.node import Node
from rrext.nodes.base.questions import question_text
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.base.switches import Switch
from rrext.nodes.databases.limits import MAX_ROWS, QUERY_ROWS
from rrext.nodes.databases.markdown import markdown_table
from rrext.nodes.llm.bound import LLM_SLOT, ModelBound
from rrext.nodes.llm.limits import DATA_ROWS
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.calls import RowMode, SqlCall
from rrext.nodes.sql.database import PoolLimits, SqlDatabase
from rrext.nodes.sql.limits import LONGEST_WAIT, MOST_ROWS
from rrext.nodes.sql.questions import data_for, sql_for
from rrext.nodes.sql.rows_in import insert_rows
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False, "destructiveHint": True}
STEPS = {"readOnlyHint": False, "destructiveHint": False}

ALLOW_EXECUTE = Switch("allow_execute", refusal="execute tool is disabled for this node (set allow_execute=true)")
ALLOW_INSERT = Switch("allow_insert")
MODEL_BOUND = ModelBound()

Sql = Annotated[str, msgspec.Meta(min_length=1, description="One SQL statement.")]
Question = Annotated[str, msgspec.Meta(min_length=1, description="What to find out, in plain words.")]
Params = Annotated[list[Any] | None, msgspec.Meta(description="The values of $1, $2, … in the statement.")]
Mode = Annotated[
    RowMode, msgspec.Meta(description='A row as "object" by column name, or as "array" in the order of `columns`.')
]


class SqlNode(Node):
    """The tools of one SQL database. Reading is always possible; `allow_execute` adds statements of any kind."""

    class_types = ("database",)
    capabilities = ("database",)
    invoke = LLM_SLOT
    lanes = {"questions": ("table", "text", "answers"), "answers": ("text",)}

    extra: ClassVar[str] = "sql"
    """The extra of rrext that has all that the node needs."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Modules of its driver."""

    class Config:
        allow_execute: Annotated[bool, "Offer execute, begin, commit and rollback: statements of any kind."] = False
        statement_timeout: Annotated[
            float,
            msgspec.Meta(ge=0, le=LONGEST_WAIT),
            "Seconds that one statement may take, its rows included; 0: only the call's own deadline counts.",
        ] = 30.0
        max_execute_rows: Annotated[
            int,
            msgspec.Meta(ge=1, le=MOST_ROWS),
            "Rows that execute answers at most; more are an error, and nothing is kept.",
        ] = MAX_ROWS
        pool_size: Annotated[
            int, msgspec.Meta(ge=1, le=1000), "Connections at most. Every open transaction has one of its own."
        ] = 8
        pool_timeout: Annotated[
            float, msgspec.Meta(ge=0, le=LONGEST_WAIT), "Seconds that a call waits for a free connection."
        ] = 10.0
        session_idle: Annotated[
            float, msgspec.Meta(gt=0, le=86_400), "Seconds after which a transaction that nobody uses is rolled back."
        ] = 300.0
        allowed_functions: Annotated[
            tuple[str, ...], "Functions that query may call beside those known to only read, as `my_function` or `st_*`."
        ] = ()
        max_attempts: Annotated[int, "How often the language model may try to write SQL for one question."] = 3
        allow_insert: Annotated[bool, "Insert the rows that come on the answers lane."] = False
        insert_table: Annotated[str, "The table that rows from the answers lane go into."] = ""

    config: Any
    shared: SqlDatabase

    @classmethod
    def unavailable(cls) -> str | None:
        return missing_packages(cls.extra, *cls.packages)

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> Backend:
        """The database that the settings mean. Imports the driver and connects to nothing."""
        raise NotImplementedError

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[SqlDatabase]:
        database = await ctx.in_thread(cls._prepare, config, ctx)
        ctx.on_disconnect(database.sessions.lost)
        try:
            yield database
        finally:
            await ctx.in_thread(database.close)

    @classmethod
    def _prepare(cls, config: Any, ctx: SetupContext) -> SqlDatabase:
        limits = PoolLimits(config.pool_size, config.pool_timeout, config.statement_timeout, config.session_idle)
        return SqlDatabase(cls.backend(config, ctx), limits, config.allowed_functions, shown=ctx.shown)

    # reading

    @tool_function(group="database", annotations=READS)
    def query(
        self,
        sql: Sql,
        params: Params = None,
        limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] = QUERY_ROWS,
        explain: bool = False,
        row_mode: Mode = "object",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Run a statement that only reads. Answers `{columns, types, rows, row_count, truncated}`.

        The database runs it in a read-only transaction. If there are more rows than `limit`, `truncated` is true; read
        them with a larger limit, or all of them with query_stream.

        Args:
            limit: Rows of the answer at most.
            explain: Answer how the database would run the statement, without running it: also as `plan`, a list of lines.
        """
        return SqlCall(self.shared, ctx, row_mode).query(_text(sql), params or (), limit, explain=explain)

    @tool_function(group="database", annotations=READS)
    def query_stream(
        self,
        sql: Sql,
        params: Params = None,
        row_mode: Mode = "object",
        chunk_rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500,
        *,
        ctx: ToolContext,
    ) -> Generator[list[Any], None, dict[str, Any]]:
        """Run a statement that only reads, and stream rows of any number as chunks; then answers `{columns, types, row_count}`.

        Each chunk is a list of rows. However large the result is, only a chunk of it is held in memory.

        Args:
            chunk_rows: Rows of a chunk at most; a chunk of large rows has fewer.
        """
        return (yield from SqlCall(self.shared, ctx, row_mode).stream(_text(sql), params or (), chunk_rows))

    @tool_function(group="database", annotations=READS)
    def dialect(self) -> dict[str, str]:
        """Which SQL the database speaks. Answers `{dialect}`: sqlite, duckdb, postgres or mysql."""
        return {"dialect": self.shared.backend.dialect.name}

    @tool_function(group="database", annotations=READS)
    def get_schema(self, table: str | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """The tables with their columns and keys. Answers `{database, tables}`.

        `tables` has for each name `{columns: [{column, type}], primary_key?, foreign_keys?, view?}`.

        It is the snapshot that was taken when the schema was first asked for; refresh_schema takes a new one.

        Args:
            table: Only this table.
        """
        return self.shared.schema(ctx).as_json(table)

    @tool_function(group="database", annotations=READS)
    def refresh_schema(self, *, ctx: ToolContext) -> dict[str, Any]:
        """Read the schema again. Answers as get_schema does, and `refreshed_at`, the time in UTC."""
        schema = self.shared.schema(ctx, refresh=True)
        return {**schema.as_json(), "refreshed_at": schema.read_at.isoformat()}

    # questions

    @tool_function(group="database", annotations=READS, available=MODEL_BOUND)
    def get_sql(self, question: Question, *, ctx: ToolContext) -> dict[str, Any]:
        """Have the language model write the SQL that answers a question. Answers `{sql, valid: true}`.

        The statement only reads, and the database accepts it. If the question needs no data: `{answer, valid: false}`.
        """
        return sql_for(self, self.shared, ctx, question, self.config.max_attempts).as_json()

    @tool_function(group="database", annotations=READS, available=MODEL_BOUND)
    def get_data(
        self, question: Question, limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] = DATA_ROWS, *, ctx: ToolContext
    ) -> dict[str, Any]:
        """Answer a question from the database. Answers `{valid: true, columns, rows, sql, row_limit, truncated}`.

        If the question needs no data: `{answer, valid: false}`. If there are more rows than `limit`, `truncated` is true.

        Args:
            limit: Rows at most.
        """
        return data_for(self, self.shared, ctx, question, limit, self.config.max_attempts)

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        """Rows as a Markdown table on `table` and `text`; on `answers` the same, or the rows if it expects JSON."""
        found = data_for(self, self.shared, ctx, question_text(question), DATA_ROWS, self.config.max_attempts)
        text = markdown_table(found["columns"], found["rows"]) if found["valid"] else found["answer"]
        if found["valid"]:
            self.emit("table", text)
        self.emit("text", text)
        expect_json = bool(question.get("expectJson"))
        self.emit("answers", {"answer": found.get("rows", text) if expect_json else text, "expectJson": expect_json})

    def write_answers(self, answer: dict[str, Any], ctx: ToolContext) -> None:
        """Insert the rows of an answer; all of them or none."""
        ALLOW_INSERT.require(self, "insert")
        count = insert_rows(self.shared, ctx, self.config.insert_table, answer["answer"])
        self.emit("text", f"{count} rows were inserted into {self.shared.shown(self.config.insert_table)}")

    # statements of any kind

    @tool_function(group="database", annotations=WRITES, available=ALLOW_EXECUTE)
    def execute(
        self, sql: Sql, session_id: str | None = None, params: Params = None, row_mode: Mode = "object", *, ctx: ToolContext
    ) -> dict[str, Any]:
        """Run a statement of any kind. Answers `{columns, types, rows, affected_rows}`.

        Without a session it is a transaction of its own: all of it is kept, or nothing if it fails. More rows than
        `max_execute_rows` are an error. `affected_rows` is how many rows it changed.

        Args:
            session_id: The transaction that it belongs to, from begin.
        """
        ALLOW_EXECUTE.require(self, "execute")
        call = SqlCall(self.shared, ctx, row_mode)
        return call.execute(_text(sql), params or (), self.config.max_execute_rows, session_id=session_id)

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
        return self._end(session_id, ctx, keep=True)

    @tool_function(group="database", annotations=STEPS, available=ALLOW_EXECUTE)
    def rollback(self, session_id: str, *, ctx: ToolContext) -> dict[str, bool]:
        """Undo all that a transaction did, and end it. Answers `{ok: true}`.

        Args:
            session_id: From begin.
        """
        ALLOW_EXECUTE.require(self, "rollback")
        return self._end(session_id, ctx, keep=False)

    def _end(self, session_id: str, ctx: ToolContext, *, keep: bool) -> dict[str, bool]:
        with self.shared.sessions.using(session_id, ctx) as session:
            ctx.check()
            if keep:
                session.transaction.commit()
            session.end()
        return {"ok": True}


def _text(sql: str) -> str:
    if not sql.strip():
        message = '"sql" is required and must be a non-empty string'
        raise InvalidArguments(message, data={"errors": [{"path": "/input/sql", "message": "is blank"}]})
    return sql
