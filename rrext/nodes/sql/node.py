"""`SqlNode`: the tools of SQL databases of every kind, the call of a tool from its input to its answer, and the import of
rows from the answers lane.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import msgspec

from rrext.errors import InvalidArguments, NotFound, RrextError, ToolError, near_matches
from rrext.nodes.base.node import Switch
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.calls import Answer, StatementCall
from rrext.nodes.databases.database import DatabaseSession
from rrext.nodes.databases.failure import SQL
from rrext.nodes.databases.node import (
    ALLOW_EXECUTE,
    LONGEST_WAIT,
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
from rrext.nodes.sql.backend import Backend, SqlTable, schema_text, split_name
from rrext.nodes.sql.database import PoolLimits, Result, SqlDatabase, SqlTransaction, check_statement
from rrext.nodes.sql.dialect import ReadingSql, SqlDialect
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
        return self.shared.all_tables(ctx).as_json(table)

    @tool_function(group="database", annotations=READS)
    def refresh_schema(self, *, ctx: ToolContext) -> dict[str, Any]:
        """Read the schema again. Answers as get_schema does, and `refreshed_at`, the time in UTC."""
        schema = self.shared.all_tables(ctx, refresh=True)
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
            context=lambda: [schema_text(self.shared.all_tables(ctx), question)],
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


class SqlCall(StatementCall[SqlDatabase]):
    """A call of an SQL database."""

    def query(self, sql: str, params: Sequence[Any], limit: int, *, explain: bool) -> Answer:
        """`{columns, types, rows, row_count, truncated}` of a statement that only reads; `warnings` and `plan` if there are
        any."""
        statement = self._database.judged(sql, self._ctx)
        sent = statement.sql
        if explain:
            if statement.kind != "select":
                raise InvalidArguments.at("/input/explain", f"only a query has a plan, and this is {statement.kind.upper()}")
            sent = self._database.backend.explain(sent)
        with self._pointing_at_tables(statement):
            result, rows, answer = self._read(partial(self._reading, sent, params), limit)
        plan = plan_lines(result.columns, rows) if explain or statement.kind == "explain" else []
        return {**answer, **({"plan": plan} if plan else {}), **_notes_of(result)}

    def checked(self, sql: str) -> str:
        """The query, if it only reads and the database can plan it."""
        statement = self._database.judged(sql, self._ctx)
        if statement.kind != "select":
            raise InvalidArguments.at("/input/sql", "expected a query that gives data, as SELECT")
        self.query(statement.sql, (), 1, explain=True)
        return statement.sql

    def stream(self, sql: str, params: Sequence[Any], chunk_rows: int) -> Generator[list[Any], None, Answer]:
        """Stream chunks of rows of a statement that only reads, then `{columns, types, row_count}` and `warnings` if any."""
        statement = self._database.judged(sql, self._ctx)
        with self._pointing_at_tables(statement):
            result, answer = yield from self._streamed(partial(self._reading, statement.sql, params), chunk_rows)
        return {**answer, **_notes_of(result)}

    @contextmanager
    def _reading(self, sql: str, params: Sequence[Any], timeout: float) -> Generator[Result, None, None]:
        with (
            self._database.transaction(self._ctx, read_only=True, timeout=timeout) as transaction,
            transaction.statement(sql, params, self._ctx) as result,
        ):
            yield result

    @contextmanager
    def _pointing_at_tables(self, statement: ReadingSql) -> Generator[None, None, None]:
        """Add the names of similar tables to a failure about a missing table."""
        try:
            yield
        except ToolError as error:
            if error.code == "sql_failed":
                self._point_at_tables(error, statement)
            raise

    def _point_at_tables(self, error: ToolError, statement: ReadingSql) -> None:
        try:
            schema = self._database.schema(self._ctx)
        except RrextError:
            return  # the first failure is the one to report
        missing = [name for name in statement.tables if name not in schema.tables and name in error.message]
        near = list(dict.fromkeys(found for name in missing for found in near_matches(name, schema.tables)))
        if near:
            error.hint = f"Did you mean {' or '.join(near)}?"
            error.data["near"] = near

    def execute(self, sql: str, params: Sequence[Any], max_rows: int, *, session_id: str | None) -> Answer:
        """`{columns, types, rows, affected_rows}` of a statement of any kind, in a session or in a transaction of its own;
        and `warnings` if there are any."""
        check_statement(sql)
        only = max_rows if session_id is None else None

        def run(transaction: SqlTransaction) -> Answer:
            result, answer = self._executed(
                transaction.statement(sql, params, self._ctx, only=only),
                max_rows,
                lambda result: {"affected_rows": result.affected},
                "Nothing that it wrote outside of a session was kept.",
            )
            return {**answer, **_notes_of(result)}

        return self._in_transaction(run, session_id)

    def _in_session(self, session: DatabaseSession[SqlTransaction], run: Callable[[SqlTransaction], Answer]) -> Answer:
        answer = super()._in_session(session, run)
        if not session.transaction.is_open:
            if not self._database.backend.statements_may_commit:
                session.end()
                raise ToolError(
                    "The statement ended the transaction of its session by itself: what it kept is kept, the rest is undone",
                    code="transaction_ended",
                    hint="End a session with commit or rollback.",
                )
            session.transaction.begin_again()
        return answer


def _notes_of(result: Result) -> Answer:
    notes: Answer = {"warnings": result.warnings} if result.warnings else {}
    return {**notes, "copied": dict(result.copied)} if result.copied else notes


TREE: Final = ("id", "parent", "notused", "detail")
"""SQLite's columns: a row is a child of the row whose id is its parent."""


def plan_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A plan's lines: SQLite's as a tree, MySQL's as a table, others as they are. None for a plan without text, as in JSON."""
    if tuple(columns) == TREE:
        return _tree(rows)
    if len(columns) > 2:
        return _table(columns, rows)
    if not all(isinstance(row[-1], str) for row in rows):
        return []
    return [line.rstrip() for row in rows for line in row[-1].splitlines()]


def _tree(rows: Sequence[Sequence[Any]]) -> list[str]:
    depths = {0: -1}
    lines: list[str] = []
    for number, parent, _, detail in rows:  # parents come before their children
        depths[number] = depths.get(parent, -1) + 1
        lines.append("  " * depths[number] + str(detail))
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    cells = [[columns[place] for place in kept]]
    cells += [["" if row[place] is None else str(row[place]) for place in kept] for row in rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(kept))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


MAX_INSERT_ROWS: Final = 10_000
"""Rows of one answer. They are one transaction, which holds locks in the database until the last one is inserted."""


def insert_rows(database: SqlDatabase, ctx: ToolContext, table_name: str, answer: Any) -> int:
    """Insert the rows of an answer and return their number; all of them or none. Blocks.

    Raises `ToolError`: `table_not_found`, `not_rows`, `unknown_column`, `too_many_rows`, and the database's errors.
    """
    rows = rows_of(answer)
    if not rows:
        return 0
    table = database.schema(ctx).table(table_name)
    _check_columns(table, rows)
    with database.transaction(ctx, read_only=False) as transaction:
        for row in rows:
            names = list(row)
            with transaction.statement(_insert(database, table, names), [_cell(row[name]) for name in names], ctx):
                pass
        transaction.commit(ctx)
    return len(rows)


def rows_of(answer: Any) -> Sequence[Mapping[str, Any]]:
    """The rows of an answer: an object, a list of objects, `{rows: [...]}`, or the JSON text of one of these."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            raise _not_rows("a text that is no JSON") from None
    if isinstance(answer, Mapping) and set(answer) == {"rows"}:
        answer = answer["rows"]
    rows = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(rows, list):
        raise _not_rows("a text" if isinstance(answer, str) else "null" if answer is None else "a number, true or false")
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or not row:
            raise _not_rows(f"element {index}, which is no object with columns")
    if len(rows) > MAX_INSERT_ROWS:
        raise ToolError(
            f"The answer has {len(rows):,} rows: MAX_INSERT_ROWS is {MAX_INSERT_ROWS:,}",
            code="too_many_rows",
            hint="Send them in several answers.",
            data={"limit": "MAX_INSERT_ROWS", "maximum": MAX_INSERT_ROWS},
        )
    return rows


def _not_rows(what: str) -> ToolError:
    return ToolError(
        f"Expected rows to insert, as objects by column name; the answer has {what}",
        code="not_rows",
        hint='Send {"column": value, …}, or a list of such objects.',
    )


def _check_columns(table: SqlTable, rows: Sequence[Mapping[str, Any]]) -> None:
    known = [column.name for column in table.columns]
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in known:
            found = NotFound.near(f'The table "{table.name}" has no column "{name}".', str(name), known)
            raise ToolError(found.message, code="unknown_column", hint=found.hint, data=found.data)


def _insert(database: SqlDatabase, table: SqlTable, names: Sequence[str]) -> str:
    quote = database.backend.dialect.quote
    columns = ", ".join(_quoted(name, quote) for name in names)
    values = ", ".join(f"${position}" for position in range(1, len(names) + 1))
    target = ".".join(_quoted(part, quote) for part in split_name(table.name))
    return f"INSERT INTO {target} ({columns}) VALUES ({values})"


def _quoted(name: str, quote: str) -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _cell(value: Any) -> Any:
    """A value for a cell: objects and lists become JSON text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
