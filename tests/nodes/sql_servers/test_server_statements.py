"""Statements that are stopped, limited or large: what the server itself then does."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from postgres_server import Database
from served import Served, until

from rrext.errors import ResultTooLarge, RrextError, ToolError
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.testing import open_node


async def test_a_cancelled_call_ends_its_statement_in_the_server(served: Served):
    async with served.open(allowed_functions=["pg_sleep", "sleep"]) as client:
        for tool in ("query", "execute"):
            asked = asyncio.ensure_future(client.tool(tool=tool, input={"sql": served.sleep}))
            await until(served.busy)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await until(lambda: served.busy() == 0)
        assert (await client.tool(tool="query", input={"sql": "SELECT 1 AS a"}))["rows"] == [{"a": 1}]


async def test_a_calls_own_timeout_ends_its_statement_in_the_server(served: Served):
    async with served.open(allowed_functions=["pg_sleep", "sleep"]) as client:
        with pytest.raises(RrextError) as late:
            await client.tool(tool="query", input={"sql": served.sleep}, timeout=0.3)
        assert late.value.code == "tool_timeout"
        await until(lambda: served.busy() == 0)


@pytest.mark.parametrize("tool", ["query", "execute"])
async def test_the_statement_timeout_is_said_and_holds_in_the_server(served: Served, tool: str):
    async with served.open(allowed_functions=["pg_sleep", "sleep"], statement_timeout=0.2) as client:
        with pytest.raises(ToolError) as late:
            await client.tool(tool=tool, input={"sql": served.sleep})
        assert late.value.code == "statement_timeout"
        await until(lambda: served.busy() == 0)


async def test_a_cancelled_statement_in_a_session_leaves_a_session_that_can_be_rolled_back(served: Served):
    async with served.open() as client:
        await client.tool(tool="execute", input={"sql": "CREATE TABLE t (a int)"})
        session = (await client.tool(tool="begin"))["session_id"]
        await client.tool(tool="execute", input={"sql": "INSERT INTO t VALUES (1)", "session_id": session})
        asked = asyncio.ensure_future(client.tool(tool="execute", input={"sql": served.sleep, "session_id": session}))
        await until(served.busy)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: served.busy() == 0)
        assert await client.tool(tool="rollback", input={"session_id": session}) == {"ok": True}
    assert served.count("t") == 0


async def test_a_failed_statement_in_a_session_refuses_the_commit_on_postgresql_and_not_on_mysql(served: Served):
    async with served.open() as client:
        await client.tool(tool="execute", input={"sql": "CREATE TABLE t (a int PRIMARY KEY)"})
        session = (await client.tool(tool="begin"))["session_id"]
        insert = {"sql": "INSERT INTO t VALUES (1)", "session_id": session}
        await client.tool(tool="execute", input=insert)
        with pytest.raises(ToolError, match="(?i)duplicate"):
            await client.tool(tool="execute", input=insert)
        if served.node is MysqlNode:
            await client.tool(tool="commit", input={"session_id": session})
            assert served.count("t") == 1
            return
        with pytest.raises(ToolError) as refused:
            await client.tool(tool="commit", input={"session_id": session})
        assert refused.value.code == "transaction_aborted"
        await client.tool(tool="rollback", input={"session_id": session})
        assert served.count("t") == 0


async def test_a_deadlock_is_said_and_the_session_knows_what_it_ended(served: Served):
    async with served.open() as client:
        await client.tool(tool="execute", input={"sql": "CREATE TABLE t (a int PRIMARY KEY, b int)"})
        await client.tool(tool="execute", input={"sql": "INSERT INTO t VALUES (1, 0), (2, 0)"})
        one, other = [(await client.tool(tool="begin"))["session_id"] for _ in range(2)]

        async def add(session: str, key: int) -> object:
            statement = {"sql": "UPDATE t SET b = b + 1 WHERE a = $1", "params": [key], "session_id": session}
            return await client.tool(tool="execute", input=statement)

        await add(one, 1)
        await add(other, 2)
        outcomes = await asyncio.gather(add(one, 2), add(other, 1), return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, ToolError)]
        assert [error.code for error in failed] == ["database_locked"]
        loser, winner = (one, other) if isinstance(outcomes[0], ToolError) else (other, one)
        await client.tool(tool="commit", input={"session_id": winner})
        with pytest.raises(ToolError):
            await client.tool(tool="commit", input={"session_id": loser})
    assert served.database.run("SELECT sum(b) FROM t")[0][0] == 2


async def test_a_large_result_is_streamed_in_little_memory(served: Served):
    async with served.open() as client:
        rows, characters = 0, 0

        def take(chunk: list[list[str]]) -> None:
            nonlocal rows, characters
            rows += len(chunk)
            characters += sum(len(row[0]) for row in chunk)

        await client.tool(tool="query", input={"sql": "SELECT 1"})  # what is imported on first use is no memory of rows
        tracemalloc.start()
        try:
            query = {"sql": f"SELECT REPEAT('x', 1000) FROM ({served.many} LIMIT 60000) AS s", "row_mode": "array"}
            answer = await client.tool(tool="query_stream", input=query, on_chunk=take, timeout=50)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (rows, characters, answer["row_count"]) == (60_000, 60_000_000, 60_000)
        assert peak < 20_000_000  # of 60 that pass


async def test_large_rows_are_refused_before_they_fill_the_memory(served: Served):
    row = "repeat('x', 10000000)"
    if served.node is MysqlNode:
        sql, limit = f"SELECT {row} FROM seq_1_to_64", "max_result"
    else:
        sql, limit = f"SELECT {row} FROM generate_series(1, 64)", "LARGEST_CHUNK"
    async with served.open() as client:
        for tool in ("query", "execute"):
            with pytest.raises(ResultTooLarge) as refused:
                await client.tool(tool=tool, input={"sql": sql})
            assert refused.value.data["limit"] == limit
            assert limit != "max_result" or refused.value.data["size"] < 21_000_000, "one row was read, not a batch of them"
            assert "fewer" in str(refused.value.hint)
        assert (await client.tool(tool="query", input={"sql": "SELECT 1 AS a"}))["rows"] == [{"a": 1}]


async def test_a_row_that_no_answer_can_hold_is_not_read_into_values(postgres_database: Database):
    async with open_node(PostgresNode, {**postgres_database.settings, "allow_execute": True}) as client:
        session = (await client.tool(tool="begin"))["session_id"]
        for step in ({}, {"session_id": session}):
            with pytest.raises(ResultTooLarge) as refused:
                await client.tool(tool="execute", input={"sql": "SELECT array_fill(1, ARRAY[20000000])", **step})
            assert refused.value.data["limit"] == "LARGEST_ROW"
        with pytest.raises(ToolError) as over:
            await client.tool(tool="commit", input={"session_id": session})
        assert over.value.code == "session_not_found"


async def test_a_large_result_that_is_cut_short_leaves_a_connection_that_works(served: Served):
    async with served.open(pool_size=1) as client:
        for _ in range(3):
            answer = await client.tool(tool="query", input={"sql": served.many, "limit": 2, "row_mode": "array"})
            assert (answer["rows"], answer["truncated"]) == ([[1], [2]], True)
        with pytest.raises(ToolError) as large:
            await client.tool(tool="execute", input={"sql": served.many})
        assert large.value.code == "too_many_rows"
        assert (await client.tool(tool="query", input={"sql": "SELECT 1 AS a"}))["rows"] == [{"a": 1}]


async def test_what_a_call_sets_in_its_session_is_gone_for_the_next_one(served: Served):
    is_mysql = served.node is MysqlNode
    sets = (
        ["SET @a = 1", "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", "SELECT GET_LOCK('l', 0)", "USE mysql"]
        if is_mysql
        else ["SET search_path = pg_catalog", "SELECT pg_advisory_lock(1)", "CREATE TEMP TABLE z (a int)", "LISTEN x"]
    )
    state = (
        "SELECT @a IS NULL AND LOCATE('ANSI_QUOTES', @@sql_mode) = 0 AND IS_FREE_LOCK('l') AND DATABASE() <> 'mysql' AS clean"
        if is_mysql
        else "SELECT current_setting('search_path') <> 'pg_catalog' AND to_regclass('pg_temp.z') IS NULL AND NOT EXISTS "
        "(SELECT FROM pg_listening_channels()) AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory') AS clean"
    )
    async with served.open(pool_size=1) as client:
        for statement in sets:
            await client.tool(tool="execute", input={"sql": statement})
            answer = await client.tool(tool="execute", input={"sql": state})
            assert answer["rows"] in ([{"clean": True}], [{"clean": 1}]), statement


async def test_values_are_bound_and_never_become_part_of_the_statement(served: Served):
    nasty = ["'; DROP TABLE t; --", "\\' OR 1=1 --", '"', "%s %(a)s :b ? $1", "é😀\u2028", "a\\", "\\", "''", "\r\n\t"]
    async with served.open() as client:
        await client.tool(tool="execute", input={"sql": "CREATE TABLE t (n int, v varchar(100))"})
        if served.node is MysqlNode:
            await client.tool(tool="execute", input={"sql": "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"})
        for number, value in enumerate(nasty):
            insert = {"sql": "INSERT INTO t VALUES ($2, $1)", "params": [value, number]}
            assert (await client.tool(tool="execute", input=insert))["affected_rows"] == 1
            query = {"sql": "SELECT v, '$1 %s' AS w FROM t WHERE v = $1 AND n = $2", "params": [value, number]}
            assert (await client.tool(tool="query", input=query))["rows"] == [{"v": value, "w": "$1 %s"}]


async def test_null_booleans_numbers_and_json_are_bound(served: Served):
    async with served.open() as client:
        sql = f"SELECT CASE WHEN $1 = {served.boolean} THEN 1 ELSE 0 END AS t, $2 + 1 AS i, CAST($3 * 2 AS DECIMAL(4, 1)) AS f"
        answer = await client.tool(tool="query", input={"sql": sql, "params": [True, 2**40, 1.25]})
        assert answer["rows"] == [{"t": 1, "i": 2**40 + 1, "f": 2.5}]
        await client.tool(tool="execute", input={"sql": "CREATE TABLE j (v json, n int)"})
        insert = {"sql": "INSERT INTO j VALUES ($1, $2)", "params": [{"a": [1, "x'y"]}, None]}
        await client.tool(tool="execute", input=insert)
    text, nothing = served.database.run("SELECT v, n FROM j")[0]
    assert nothing is None
    assert text in ({"a": [1, "x'y"]}, '{"a": [1, "x\'y"]}')


async def test_several_statements_in_one_text_are_refused_and_none_runs(served: Served):
    async with served.open() as client:
        await client.tool(tool="execute", input={"sql": "CREATE TABLE t (a int)"})
        with pytest.raises(RrextError) as refused:
            await client.tool(tool="execute", input={"sql": "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"})
        assert refused.value.code == "invalid_arguments"
    assert served.count("t") == 0


async def test_a_connection_that_cannot_be_cleaned_is_replaced_and_nobody_notices(postgres_database: Database):
    config = {**postgres_database.settings, "allow_execute": True, "pool_size": 1, "statement_timeout": 0}
    async with open_node(PostgresNode, config) as client:
        for _ in range(3):
            first = (await client.tool(tool="query", input={"sql": "SELECT 1 AS a"}))["rows"]
            postgres_database.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle' AND pid <> pg_backend_pid()"
            )
            assert (await client.tool(tool="execute", input={"sql": "SELECT 1 AS a"}))["rows"] == first
