"""`SqlNode`: the tools of SQL databases of every kind."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, ClassVar

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.node import Switch
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.failure import SQL
from rrext.nodes.databases.limits import QUERY_ROWS
from rrext.nodes.databases.node import (
    ALLOW_EXECUTE,
    LONGEST_WAIT,
    MAX_ROWS,
    MODEL_BOUND,
    READS,
    WRITES,
    DatabaseNode,
    Mode,
    Question,
)
from rrext.nodes.databases.questions import DatabaseQuestion
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.calls import SqlCall
from rrext.nodes.sql.database import PoolLimits, SqlDatabase
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.row_import import insert_rows
from rrext.nodes.sql.schema import schema_text
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

ALLOW_INSERT = Switch("allow_insert")

Sql = Annotated[str, msgspec.Meta(min_length=1, description="One SQL statement.")]
Params = Annotated[list[Any] | None, msgspec.Meta(description="The values of $1, $2, … in the statement.")]


class SqlNode(DatabaseNode):
    """The tools of one SQL database."""

    lanes = {**DatabaseNode.lanes, "answers": ("text",)}

    class Config(DatabaseNode.Config):
        pool_size: Annotated[
            int, msgspec.Meta(ge=1, le=1000), "Connections at most. Every open transaction has one of its own."
        ] = 8
        pool_timeout: Annotated[
            float, msgspec.Meta(ge=0, le=LONGEST_WAIT), "Seconds that a call waits for a free connection."
        ] = 10.0
        allowed_functions: Annotated[
            tuple[str, ...], "Functions that query may call beside those known to only read, as `my_function` or `st_*`."
        ] = ()
        allow_insert: Annotated[bool, "Insert the rows that come on the answers lane."] = False
        insert_table: Annotated[str, "The table that rows from the answers lane go into."] = ""

    sql_dialect: ClassVar[SqlDialect]
    """The record of the dialect that the database understands."""
    shared: SqlDatabase

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> Backend:
        """Make the backend of the settings. Imports the driver and connects to nothing."""
        raise NotImplementedError

    @classmethod
    def database(cls, config: Any, ctx: SetupContext) -> SqlDatabase:
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
        return SqlCall(self.shared, ctx, row_mode, encodes=True).query(_text(sql), params or (), limit, explain=explain)

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
        return self.asked(question, ctx).written(self, ctx, question).as_json(SQL)

    def asked(self, question: str, ctx: ToolContext) -> DatabaseQuestion:
        call = SqlCall(self.shared, ctx, "object")
        return DatabaseQuestion(
            SQL,
            self.sql_dialect.name,
            context=lambda: [schema_text(self.shared.schema(ctx), question)],
            check=call.checked,
            query=lambda sql, limit: call.query(sql, (), limit, explain=False),
        )

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
        call = SqlCall(self.shared, ctx, row_mode, encodes=True)
        return call.execute(_text(sql), params or (), self.config.max_execute_rows, session_id=session_id)


def _text(sql: str) -> str:
    if not sql.strip():
        message = '"sql" is required and must be a non-empty string'
        raise InvalidArguments(message, data={"errors": [{"path": "/input/sql", "message": "is blank"}]})
    return sql
