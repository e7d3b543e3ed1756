"""What every SQL backend does alike. A folder that has a database subclasses `SqlContract` and says which one:

    class TestSqlite(SqlContract):
        @pytest.fixture
        def kind(self, tmp_path): return Kind(…)

Other folders put `tests/nodes/sql` on the path in their `conftest.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rrext.client.client import Client
from rrext.engine.local_engine import LocalEngine
from rrext.engine.tasks.task import Task
from rrext.errors import Cancelled, InvalidArguments, RrextError, ToolError, ToolNotFound, ToolTimeout, Unavailable
from rrext.limits import DEFAULTS, Limits
from rrext.nodes import BUILTIN
from rrext.nodes.base.node import Node
from rrext.nodes.databases.calls import ENCODED_ROWS
from rrext.nodes.sql.database import SqlDatabase
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.testing import pair

__all__ = ["Desk", "Kind", "SqlContract", "opened", "until"]


class Kind(msgspec.Struct, frozen=True):
    """One kind of database. Its tables are empty at the start of each test."""

    node: type[Node]
    config: Mapping[str, Any]
    dialect: str
    endless: str
    """A statement that reads, gives no row, and runs for minutes."""
    numbers: str
    """A statement that gives the column n with 1, 2, … up to {count}."""
    integer: str = "integer"
    text: str = "text"
    returning: bool = True
    """Whether INSERT … RETURNING gives rows."""
    item_types: tuple[str | None, str | None] = (None, None)
    """The database's names of the types of `items`: those of `integer` and `text`."""


class Desk:
    """A loaded database node and its clients."""

    def __init__(self, engine: LocalEngine, task: Task, client: Client) -> None:
        self.engine = engine
        self.task = task
        self.client = client

    async def __call__(self, tool: str, /, **input: Any) -> Any:
        return await self.client.tool(tool=tool, node_id="db", input=input)

    @property
    def database(self) -> SqlDatabase:
        """What the node's calls share."""
        return self.task.components["db"].shared

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Client]:
        """A second connection to the same node."""
        async with pair(self.engine) as client:
            yield client

    async def refusal(self, tool: str, /, **input: Any) -> RrextError:
        with pytest.raises(RrextError) as caught:
            await self(tool, **input)
        return caught.value


@asynccontextmanager
async def opened(
    node: type[Node], config: Mapping[str, Any], *, root: str | None = None, limits: Limits = DEFAULTS
) -> AsyncIterator[Desk]:
    engine = LocalEngine(
        catalog=Catalog([] if node.provider in BUILTIN else [node]), environment=Environment({}, {}), root=root, limits=limits
    )
    try:
        task = engine.load(
            {
                "source": "tools_1",
                "components": [
                    {"id": "tools_1", "provider": "tools", "config": {"mode": "Source"}},
                    {
                        "id": "db",
                        "provider": node.provider,
                        "config": dict(config),
                        "control": [{"classType": "tool", "from": "tools_1"}],
                    },
                ],
            }
        )
        async with pair(engine) as client:
            yield Desk(engine, task, client)
    finally:
        await engine.aclose()


async def until(condition: Any) -> None:
    """Return when an async condition holds; the test's own timeout ends it."""
    while not await condition():
        await asyncio.sleep(0.005)


class SqlContract:
    @pytest.fixture
    def kind(self) -> Kind:
        raise NotImplementedError

    @pytest.fixture
    async def db(self, kind: Kind) -> AsyncIterator[Desk]:
        async with opened(kind.node, {**kind.config, "allow_execute": True}) as desk:
            await desk("execute", sql=f"CREATE TABLE items (id {kind.integer} PRIMARY KEY, name {kind.text})")
            yield desk

    # reading and writing

    async def test_what_execute_writes_query_reads(self, db: Desk, kind: Kind) -> None:
        assert await db("execute", sql="INSERT INTO items VALUES ($1, $2), ($3, $4)", params=[1, "a", 2, None]) == {
            "columns": [],
            "types": [],
            "rows": [],
            "affected_rows": 2,
        }
        assert await db("query", sql="SELECT id, name FROM items ORDER BY id") == {
            "columns": ["id", "name"],
            "types": [*kind.item_types],
            "rows": [{"id": 1, "name": "a"}, {"id": 2, "name": None}],
            "row_count": 2,
            "truncated": False,
        }

    async def test_a_syntax_error_says_what_is_wrong_and_where(self, db: Desk) -> None:
        for tool in ("query", "execute"):
            error = await db.refusal(tool, sql="SELECT id,\n  name FRM items WHERE id = 1")
            assert error.code == "invalid_arguments"
            assert "syntax" in error.message
            assert error.data["errors"][0]["path"] == "/input/sql"
            assert (error.data["line"], error.data["column"]) in ((2, 12), (2, 8))  # MariaDB and others take FRM for an alias
        error = await db.refusal("query", sql="\n selct 1")
        assert (error.code, error.data["line"], error.data["column"]) == ("invalid_arguments", 2, 2)
        assert 'syntax error near "selct"' in error.message

    async def test_rows_are_objects_or_arrays(self, db: Desk) -> None:
        for tool in ("query", "execute"):
            assert (await db(tool, sql="SELECT 1 AS a, 2 AS b", row_mode="array"))["rows"] == [[1, 2]]
            assert (await db(tool, sql="SELECT 1 AS a, 2 AS b"))["rows"] == [{"a": 1, "b": 2}]

    async def test_many_rows_have_the_form_of_a_few(self, db: Desk, kind: Kind) -> None:
        sql = kind.numbers.format(count=ENCODED_ROWS)
        for tool in ("query", "execute"):
            given = {"limit": ENCODED_ROWS} if tool == "query" else {}
            assert (await db(tool, sql=sql, **given))["rows"] == [{"n": n + 1} for n in range(ENCODED_ROWS)]
            assert (await db(tool, sql=sql, row_mode="array", **given))["rows"] == [[n + 1] for n in range(ENCODED_ROWS)]

    async def test_columns_of_one_name_lose_no_cell(self, db: Desk) -> None:
        assert (await db("query", sql="SELECT 1 AS a, 2 AS a, 3 AS a"))["rows"] == [{"a": 1, "a_2": 2, "a_3": 3}]

    async def test_a_result_without_rows_still_has_columns(self, db: Desk, kind: Kind) -> None:
        assert await db("query", sql="SELECT id, name FROM items") == {
            "columns": ["id", "name"],
            "types": [*kind.item_types],
            "rows": [],
            "row_count": 0,
            "truncated": False,
        }

    async def test_changed_rows_are_counted_truly(self, db: Desk) -> None:
        await db("execute", sql="INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        assert (await db("execute", sql="UPDATE items SET name = 'x' WHERE id > 1"))["affected_rows"] == 2
        assert (await db("execute", sql="UPDATE items SET name = 'x' WHERE id > 9"))["affected_rows"] == 0
        assert (await db("execute", sql="DELETE FROM items"))["affected_rows"] == 3

    async def test_returning_gives_rows_and_counts_them(self, db: Desk, kind: Kind) -> None:
        if kind.returning:
            answer = await db("execute", sql="INSERT INTO items VALUES (1, 'a'), (2, 'b') RETURNING id")
            assert answer["columns"] == ["id"]
            assert len(answer["types"]) == 1
            assert (answer["rows"], answer["affected_rows"]) == ([{"id": 1}, {"id": 2}], 2)
        else:
            assert isinstance(await db.refusal("execute", sql="UPDATE items SET id = 1 RETURNING id"), RrextError)

    # parameters

    async def test_a_parameter_may_be_used_twice_and_in_any_order(self, db: Desk) -> None:
        await db("execute", sql="INSERT INTO items VALUES ($2, $1), ($3, $1)", params=["both", 1, 2])
        sql = "SELECT id FROM items WHERE name = $1 AND id <> $2 AND name = $1 ORDER BY id"
        for tool in ("query", "execute"):
            assert (await db(tool, sql=sql, params=["both", 2]))["rows"] == [{"id": 1}]

    async def test_what_only_looks_like_a_parameter_is_left_alone(self, db: Desk) -> None:
        sql = "SELECT '$1' AS a, '100%' AS b, '?' AS c, ':x %s %(y)s' AS d, name FROM items WHERE id = $1 /* $7 */ -- $8"
        await db("execute", sql="INSERT INTO items VALUES (5, 'five')")
        expected = [{"a": "$1", "b": "100%", "c": "?", "d": ":x %s %(y)s", "name": "five"}]
        for tool in ("query", "execute"):
            assert (await db(tool, sql=sql, params=[5]))["rows"] == expected

    async def test_without_parameters_nothing_is_bound_at_all(self, db: Desk) -> None:
        for params in ([], None):
            answer = await db("execute", sql="SELECT '%s ? :a $1' AS a, 7 % 4 AS b", params=params)
            assert answer["rows"] == [{"a": "%s ? :a $1", "b": 3}]

    async def test_a_value_is_never_part_of_the_statement(self, db: Desk) -> None:
        nasty = "x'); DROP TABLE items; -- \\' \" ` $1 %s \n é 🙂"
        await db("execute", sql="INSERT INTO items VALUES (1, $1)", params=[nasty])
        assert (await db("query", sql="SELECT name FROM items WHERE name = $1", params=[nasty]))["rows"] == [{"name": nasty}]

    @pytest.mark.parametrize(("sql", "params"), [("SELECT $2", [1]), ("SELECT $0", [1]), ("SELECT $1 + $3", [1, 2])])
    async def test_a_placeholder_out_of_range_is_bad_input(self, db: Desk, sql: str, params: list[Any]) -> None:
        error = await db.refusal("execute", sql=sql, params=params)
        assert isinstance(error, InvalidArguments)
        assert error.message.startswith("placeholder $")
        assert error.message.endswith(f"out of range for {len(params)} param(s)")

    async def test_a_value_that_no_placeholder_uses_is_bad_input(self, db: Desk) -> None:
        error = await db.refusal("execute", sql="SELECT $1", params=[1, 2])
        assert error.data["errors"][0]["path"] == "/input/params/1"

    # limits and streams

    @pytest.mark.promise("data:rows:never-cut")
    async def test_more_rows_than_the_limit_are_announced(self, db: Desk, kind: Kind) -> None:
        answer = await db("query", sql=kind.numbers.format(count=500), limit=10)
        assert [row["n"] for row in answer["rows"]] == [*range(1, 11)]
        assert (answer["row_count"], answer["truncated"]) == (10, True)
        answer = await db("query", sql=kind.numbers.format(count=10), limit=10)
        assert (answer["row_count"], answer["truncated"]) == (10, False)

    async def test_a_stream_gives_every_row_once_in_order(self, db: Desk, kind: Kind) -> None:
        chunks: list[Any] = []
        value = await db.client.tool(
            tool="query_stream",
            node_id="db",
            input={"sql": kind.numbers.format(count=5000), "chunk_rows": 700, "row_mode": "array"},
            on_chunk=chunks.append,
        )
        assert (value["columns"], len(value["types"]), value["row_count"]) == (["n"], 1, 5000)
        assert [row[0] for chunk in chunks for row in chunk] == [*range(1, 5001)]
        assert max(map(len, chunks)) <= 700

    async def test_a_stream_that_is_given_up_ends_in_the_database_too(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "pool_size": 1}) as db:
            sql = kind.numbers.format(count=10_000_000)
            arrived = asyncio.Event()
            call = asyncio.ensure_future(
                db.client.tool(tool="query_stream", node_id="db", input={"sql": sql}, on_chunk=lambda chunk: arrived.set())
            )
            await arrived.wait()  # rows come long before the last one is known
            call.cancel()
            with pytest.raises((asyncio.CancelledError, Cancelled)):
                await call
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    @pytest.mark.promise("data:rows:never-cut")
    async def test_too_many_rows_of_execute_are_an_error_and_nothing_is_kept(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "allow_execute": True, "max_execute_rows": 3}) as db:
            await db("execute", sql=f"CREATE TABLE items (id {kind.integer} PRIMARY KEY, name {kind.text})")
            assert len((await db("execute", sql=kind.numbers.format(count=3)))["rows"]) == 3
            error = await db.refusal("execute", sql=kind.numbers.format(count=4))
            assert (error.code, error.data["maximum"]) == ("too_many_rows", 3)
            if kind.returning:
                sql = "INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd') RETURNING id"
                assert (await db.refusal("execute", sql=sql)).code == "too_many_rows"
                assert (await db("query", sql="SELECT * FROM items"))["rows"] == []

    # read-only

    async def test_query_refuses_to_write(self, db: Desk) -> None:
        for sql in ("DELETE FROM items", "DROP TABLE items", "INSERT INTO items VALUES (1, 'a')", "UPDATE items SET id = 2"):
            for tool in ("query", "query_stream"):
                assert (await db.refusal(tool, sql=sql)).code in ("not_read_only", "invalid_arguments")
        assert (await db("query", sql="SELECT * FROM items"))["rows"] == []

    async def test_explain_shows_a_plan_and_runs_nothing(self, db: Desk, kind: Kind) -> None:
        assert (await db("query", sql=kind.endless, explain=True))["row_count"] > 0
        error = await db.refusal("query", sql=f"EXPLAIN {kind.endless}", explain=True)
        assert error.data["errors"][0]["path"] == "/input/explain"

    # off and on

    async def test_writing_is_off_unless_the_settings_allow_it(self, kind: Kind) -> None:
        async with opened(kind.node, kind.config) as db:
            names = {tool["name"] for tool in await db.client.tools()}
            assert {"query", "query_stream", "dialect", "get_schema", "refresh_schema"} <= names
            assert not {"execute", "begin", "commit", "rollback"} & names
            with pytest.raises((Unavailable, ToolNotFound)):
                await db("execute", sql="SELECT 1")
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    async def test_dialect_is_the_truth(self, db: Desk, kind: Kind) -> None:
        assert await db("dialect") == {"dialect": kind.dialect}

    # bad input

    @pytest.mark.parametrize("input", [{}, {"sql": ""}, {"sql": " \n"}, {"sql": 5}, {"sql": "SELECT 1", "params": {"a": 1}}])
    async def test_bad_input_is_invalid_arguments(self, db: Desk, input: dict[str, Any]) -> None:
        for tool in ("query", "execute"):
            assert isinstance(await db.refusal(tool, **input), InvalidArguments)

    async def test_a_statement_that_is_no_sql_is_invalid_arguments(self, db: Desk) -> None:
        error = await db.refusal("execute", sql="SELEC 1")
        assert isinstance(error, InvalidArguments)
        assert error.message.startswith("SQL execution failed: ")
        assert error.data["errors"][0]["path"] == "/input/sql"

    @pytest.mark.parametrize("sql", ["-- only a comment", "/* only one */", ";", " ;; -- x"])
    async def test_a_text_without_a_statement_is_bad_input(self, db: Desk, sql: str) -> None:
        for tool in ("query", "execute"):
            assert isinstance(await db.refusal(tool, sql=sql), InvalidArguments)

    async def test_placeholders_without_values_are_told_and_harm_no_session(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO items VALUES (1, 'a')", session_id=session)
        for tool, input in (("query", {}), ("execute", {}), ("execute", {"session_id": session})):
            error = await db.refusal(tool, sql="SELECT name FROM items WHERE id = $1", **input)
            assert error.code in ("invalid_arguments", "sql_failed")
        assert await db("rollback", session_id=session) == {"ok": True}

    async def test_several_statements_are_refused(self, db: Desk) -> None:
        for tool in ("query", "execute"):
            error = await db.refusal(tool, sql="SELECT 1; SELECT 2")
            assert error.code in ("invalid_arguments", "not_read_only")

    async def test_a_failure_tells_the_drivers_sentence_and_no_parameter(self, db: Desk) -> None:
        error = await db.refusal("execute", sql="SELECT * FROM no_such_table WHERE 1 = $1", params=[987654])
        assert error.code == "sql_failed"
        assert error.message.startswith("SQL execution failed: ")
        assert "no_such_table" in error.message
        assert "987654" not in error.message
        assert "SELECT" not in error.message

    async def test_a_misspelt_table_in_a_query_is_told_near_ones(self, db: Desk) -> None:
        for tool in ("query", "query_stream"):
            error = await db.refusal(tool, sql="SELECT * FROM itmes")
            assert error.code == "sql_failed"
            assert error.data["near"] == ["items"]
            assert error.hint == "Did you mean items?"

    # sessions

    async def test_a_session_is_seen_by_others_after_commit(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO items VALUES (1, 'a')", session_id=session)
        assert len((await db("execute", sql="SELECT * FROM items", session_id=session))["rows"]) == 1
        assert (await db("query", sql="SELECT * FROM items"))["rows"] == []
        assert await db("commit", session_id=session) == {"ok": True}
        assert (await db("query", sql="SELECT id FROM items"))["rows"] == [{"id": 1}]

    async def test_a_rolled_back_session_leaves_nothing(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO items VALUES (1, 'a')", session_id=session)
        assert await db("rollback", session_id=session) == {"ok": True}
        assert (await db("query", sql="SELECT * FROM items"))["rows"] == []

    async def test_a_session_that_is_over_or_made_up_is_unknown(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        await db("commit", session_id=session)
        for name in (session, "made-up"):
            for tool in ("commit", "rollback"):
                error = await db.refusal(tool, session_id=name)
                assert error.message == f"unknown or expired transaction session: {name}"
            assert (await db.refusal("execute", sql="SELECT 1", session_id=name)).code == "session_not_found"

    @pytest.mark.promise("data:session:owner-only")
    async def test_a_session_belongs_to_the_connection_that_began_it(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        async with db.another() as other:
            for tool, input in (("execute", {"sql": "SELECT 1"}), ("commit", {}), ("rollback", {})):
                with pytest.raises(ToolError, match="unknown or expired transaction session"):
                    await other.tool(tool=tool, node_id="db", input={**input, "session_id": session})
        await db("rollback", session_id=session)

    @pytest.mark.promise("data:session:owner-only")
    async def test_a_lost_connection_rolls_its_sessions_back(self, db: Desk) -> None:
        async with db.another() as other:
            session = (await other.tool(tool="begin", node_id="db", input={}))["session_id"]
            input = {"sql": "INSERT INTO items VALUES (1, 'a')", "session_id": session}
            await other.tool(tool="execute", node_id="db", input=input)

        async def can_write() -> bool:
            return (await db("execute", sql="INSERT INTO items VALUES (1, 'b')"))["affected_rows"] == 1

        assert await can_write()  # the lock of the first row is gone
        assert (await db("query", sql="SELECT name FROM items"))["rows"] == [{"name": "b"}]

    @pytest.mark.promise("data:session:owner-only")
    async def test_an_idle_session_is_rolled_back(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "allow_execute": True, "session_idle": 0.05}) as db:
            session = (await db("begin"))["session_id"]

            async def is_over() -> bool:
                return not len(db.database.sessions)

            await until(is_over)
            assert (await db.refusal("commit", session_id=session)).code == "session_not_found"

    async def test_a_failed_statement_leaves_a_session_to_be_rolled_back(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO items VALUES (1, 'a')", session_id=session)
        assert (await db.refusal("execute", sql="SELECT * FROM no_such_table", session_id=session)).code == "sql_failed"
        await db("rollback", session_id=session)
        assert (await db("query", sql="SELECT * FROM items"))["rows"] == []

    async def test_a_failed_statement_alone_leaves_nothing(self, db: Desk) -> None:
        await db("execute", sql="INSERT INTO items VALUES (2, 'b')")
        assert (await db.refusal("execute", sql="INSERT INTO items VALUES (1, 'a'), (2, 'b')")).code == "sql_failed"
        assert (await db("query", sql="SELECT id FROM items"))["rows"] == [{"id": 2}]

    async def test_transaction_statements_are_not_run(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        hidden = (
            "\ufeffCOMMIT",
            "/* /* */ */ COMMIT",
            "# x\nCOMMIT",
            "EXPLAIN ANALYZE COMMIT",
            "explain/**/analyze--\n commit",
        )
        for sql in ("COMMIT", "/* x */ ROLLBACK", "BEGIN", "start transaction", *hidden):
            for input in ({"sql": sql}, {"sql": sql, "session_id": session}):
                assert isinstance(await db.refusal("execute", **input), InvalidArguments)
        await db("rollback", session_id=session)

    async def test_two_calls_of_one_session_take_turns(self, db: Desk) -> None:
        session = (await db("begin"))["session_id"]
        calls = [db("execute", sql="INSERT INTO items VALUES ($1, 'x')", params=[n], session_id=session) for n in range(20)]
        await asyncio.gather(*calls)
        await db("commit", session_id=session)
        assert (await db("query", sql="SELECT count(*) AS c FROM items"))["rows"] == [{"c": 20}]

    # time

    async def test_a_statement_that_takes_too_long_ends_and_the_node_goes_on(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "statement_timeout": 1.5, "pool_size": 1}) as db:
            assert (await db.refusal("query", sql=kind.endless)).code == "statement_timeout"
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    @pytest.mark.promise("data:cancel:in-the-database")
    async def test_the_deadline_of_a_call_ends_its_statement(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "pool_size": 1}) as db:
            with pytest.raises(ToolTimeout):
                await db.client.tool(tool="query", node_id="db", input={"sql": kind.endless}, timeout=0.2)
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    @pytest.mark.promise("data:cancel:in-the-database")
    async def test_a_cancelled_call_frees_its_connection(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "pool_size": 1}) as db:
            await db("query", sql="SELECT 1")
            call = asyncio.ensure_future(db("query", sql=kind.endless))

            async def runs() -> bool:
                return db.database.connections_in_use > 0

            await until(runs)
            call.cancel()
            with pytest.raises((asyncio.CancelledError, Cancelled)):
                await call
            assert (await db("query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    async def test_unloading_ends_statements_and_sessions_that_are_open(self, kind: Kind) -> None:
        limits = msgspec.structs.replace(DEFAULTS, drain=0.05)  # how long the engine lets calls go on
        async with opened(kind.node, {**kind.config, "allow_execute": True}, limits=limits) as db:
            await db("begin")
            call = asyncio.ensure_future(db("query", sql=kind.endless))
            database = db.database

            async def runs() -> bool:
                return database.connections_in_use == 2

            await until(runs)
        with pytest.raises((RrextError, asyncio.CancelledError)):
            await call

        async def all_closed() -> bool:
            return database.connections_in_use == 0

        await until(all_closed)

    @pytest.mark.promise("data:cancel:in-the-database")
    async def test_a_cancel_hits_no_other_call(self, kind: Kind) -> None:
        async with opened(kind.node, {**kind.config, "pool_size": 3, "pool_timeout": 40}) as db:
            await db("query", sql="SELECT 1 AS a")

            async def give_up(pause: float) -> None:
                call = asyncio.ensure_future(db("query", sql=kind.endless))
                await asyncio.wait([call], timeout=pause)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)

            async def ask(number: int) -> bool:
                return (await db("query", sql="SELECT $1 AS a", params=[number]))["rows"] == [{"a": number}]

            given_up = [give_up(n % 7 / 200) for n in range(30)]
            right = await asyncio.gather(*(ask(n) for n in range(60)), *given_up)
            assert right[:60] == [True] * 60

            async def all_free() -> bool:
                return db.database.connections_in_use == 0

            await until(all_free)

    async def test_no_free_connection_is_a_clear_error(self, kind: Kind) -> None:
        config = {**kind.config, "allow_execute": True, "pool_size": 1, "pool_timeout": 0.5}
        async with opened(kind.node, config) as db:
            session = (await db("begin"))["session_id"]
            error = await db.refusal("begin")
            assert error.code == "pool_exhausted"
            assert "1 of them by open transactions" in error.message
            await db("rollback", session_id=session)
            await db("rollback", session_id=(await db("begin"))["session_id"])

    async def test_many_calls_at_once_all_get_their_own_answer(self, db: Desk) -> None:
        await db("execute", sql="INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        sql = "SELECT name, id * 100 + $1 AS n FROM items WHERE id = $2"
        answers = await asyncio.gather(*(db("query", sql=sql, params=[n, 1 + n % 3]) for n in range(60)))
        assert [answer["rows"][0]["n"] for answer in answers] == [(1 + n % 3) * 100 + n for n in range(60)]

    async def test_many_writers_at_once_lose_nothing(self, db: Desk) -> None:
        await asyncio.gather(*(db("execute", sql="INSERT INTO items VALUES ($1, 'x')", params=[n]) for n in range(40)))
        assert (await db("query", sql="SELECT count(*) AS c FROM items"))["rows"] == [{"c": 40}]

    # schema

    async def test_the_schema_has_columns_types_and_keys(self, db: Desk, kind: Kind) -> None:
        await db("execute", sql=f"CREATE TABLE parts (no {kind.integer}, item {kind.integer} REFERENCES items (id))"
                 if kind.dialect != "mysql" else
                 "CREATE TABLE parts (no integer, item integer, FOREIGN KEY (item) REFERENCES items (id))")  # fmt: skip
        await db("execute", sql="CREATE VIEW names AS SELECT name FROM items")
        await db("refresh_schema")
        schema = await db("get_schema")
        assert {"items", "parts", "names"} <= schema["tables"].keys()
        items = schema["tables"]["items"]
        assert [column["column"] for column in items["columns"]] == ["id", "name"]
        assert all(column["type"] for column in items["columns"])
        assert items["primary_key"] == ["id"]
        assert schema["tables"]["parts"]["foreign_keys"] == [
            {"columns": ["item"], "references": {"table": "items", "columns": ["id"]}}
        ]
        assert schema["tables"]["names"]["view"] is True
        assert await db("get_schema", table="items") == {"database": schema["database"], "tables": {"items": items}}

    async def test_the_schema_is_a_snapshot_until_it_is_refreshed(self, db: Desk, kind: Kind) -> None:
        await db("get_schema")
        await db("execute", sql=f"CREATE TABLE later (id {kind.integer})")
        error = await db.refusal("get_schema", table="later")
        assert error.code == "table_not_found"
        fresh = await db("refresh_schema")
        assert "later" in fresh["tables"]
        assert fresh["refreshed_at"].endswith("+00:00")
        assert "later" in (await db("get_schema", table="later"))["tables"]

    async def test_a_misspelt_table_is_told_near_ones(self, db: Desk) -> None:
        error = await db.refusal("get_schema", table="item")
        assert (error.code, error.data["near"]) == ("table_not_found", ["items"])
