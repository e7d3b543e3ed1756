"""What goes wrong between a node and its server: each a clear error, and the node works again when the server does."""

from __future__ import annotations

import asyncio
import os
import signal

import psycopg
import pytest
from free_ports import free_port
from postgres_server import Database
from served import Served, until

from rrext import Client
from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.sql.mysql import MysqlNode
from rrext.nodes.sql.postgres.types import ask


async def one(client: Client) -> int:
    """What the simplest query answers."""
    answer = await client.tool(tool="query", input={"sql": "SELECT 1 AS one"})
    return answer["rows"][0]["one"]


async def execute(client: Client, sql: str, **more: object) -> dict:
    return await client.tool(tool="execute", input={"sql": sql, **more})


async def begin(client: Client) -> str:
    return (await client.tool(tool="begin"))["session_id"]


async def test_a_server_that_restarted_between_two_calls_is_not_noticed_by_the_second(served: Served):
    async with served.open() as client:
        assert await one(client) == 1
        await execute(client, "CREATE TABLE t (a int)")
        served.server.restart()
        assert await one(client) == 1
        await execute(client, "INSERT INTO t VALUES (1)")
    assert served.count("t") == 1


async def test_several_connections_that_broke_at_once_are_all_replaced(served: Served):
    async with served.open(pool_size=4) as client:
        sessions = [await begin(client) for _ in range(4)]
        for session in sessions:
            await client.tool(tool="rollback", input={"session_id": session})
        served.server.restart()
        assert await asyncio.gather(*(one(client) for _ in range(8))) == [1] * 8


async def test_a_restart_in_a_transaction_is_said_and_nothing_of_it_is_kept(served: Served):
    async with served.open() as client:
        await execute(client, "CREATE TABLE t (a int)")
        session = await begin(client)
        await execute(client, "INSERT INTO t VALUES (1)", session_id=session)
        served.server.restart()
        with pytest.raises(ToolError) as lost:
            await execute(client, "INSERT INTO t VALUES (2)", session_id=session)
        assert lost.value.code == "connection_lost"
        with pytest.raises(ToolError, match="unknown or expired transaction session"):
            await client.tool(tool="commit", input={"session_id": session})
        again = await begin(client)
        await execute(client, "INSERT INTO t VALUES (3)", session_id=again)
        await client.tool(tool="commit", input={"session_id": again})
    assert served.database.run("SELECT a FROM t") in ([(3,)], ((3,),))


async def test_a_commit_that_finds_no_server_fails_and_nothing_is_kept(served: Served):
    async with served.open() as client:
        await execute(client, "CREATE TABLE t (a int)")
        session = await begin(client)
        await execute(client, "INSERT INTO t VALUES (1)", session_id=session)
        served.server.restart()
        with pytest.raises(ToolError) as lost:
            await client.tool(tool="commit", input={"session_id": session})
        assert lost.value.code == "connection_lost"
    assert served.count("t") == 0


async def test_a_server_that_stops_in_a_statement_fails_it_and_the_next_call_finds_the_new_one(served: Served):
    async with served.open(allowed_functions=["pg_sleep", "sleep"]) as client:
        asked = asyncio.ensure_future(client.tool(tool="query", input={"sql": served.sleep}))
        await until(served.busy)
        await asyncio.to_thread(served.server.restart)
        with pytest.raises(ToolError) as lost:
            await asked
        assert lost.value.code == "connection_lost"
        assert await one(client) == 1


async def test_a_statement_that_wrote_is_not_sent_again_when_its_connection_is_lost(served: Served):
    async with served.open() as client:
        await execute(client, "CREATE TABLE t (a int)")
        asked = asyncio.ensure_future(execute(client, served.sleep))
        await until(served.busy)
        await asyncio.to_thread(served.server.restart)
        with pytest.raises(ToolError):
            await asked
        assert served.busy() == 0


async def test_a_stopped_server_is_said_and_found_again_when_it_is_back(served: Served):
    async with served.open() as client:
        served.server.stop()
        with pytest.raises(Unavailable, match="cannot be reached") as gone:
            await one(client)
        assert str(served.server.port) in str(gone.value)
        with pytest.raises(Unavailable):
            await begin(client)
        served.server.start()
        assert await one(client) == 1


async def test_listing_tools_and_the_dialect_need_no_server(served: Served):
    served.server.stop()
    async with served.open() as client:
        assert {"query", "execute", "get_schema"} <= {tool["name"] for tool in await client.tools()}
        dialect = "mysql" if served.node is MysqlNode else "postgres"
        assert await client.tool(tool="dialect") == {"dialect": dialect}


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("password", "not-the-passw0rd", "(?i)password authentication failed|access denied"),
        ("user", "nobody_known", "(?i)nobody_known"),
        ("database", "no_such_database", "(?i)no_such_database"),
    ],
)
async def test_wrong_settings_are_refused_in_the_servers_words_without_the_password(
    served: Served, setting: str, value: str, says: str
):
    async with served.open(**{setting: value}) as client:
        with pytest.raises(ToolError, match=says) as refused:
            await one(client)
        assert refused.value.code == "connection_refused"
        assert refused.value.hint
        assert_no_secrets(served, refused.value, "not-the-passw0rd")


async def test_a_closed_port_and_an_unknown_host_are_said(served: Served):
    async with served.open(port=free_port()) as client:
        with pytest.raises(Unavailable, match="cannot be reached.*refused"):
            await one(client)
    async with served.open(host="no-such-host.invalid") as client:
        with pytest.raises(Unavailable, match=r"no-such-host\.invalid.*cannot be reached") as unknown:
            await one(client)
        assert_no_secrets(served, unknown.value)


async def test_a_server_without_tls_is_refused_where_tls_is_required(served: Served):
    async with served.open(sslmode="require") as client:
        with pytest.raises(RrextError, match="(?i)SSL") as refused:
            await one(client)
        assert_no_secrets(served, refused.value)
    async with served.open(sslmode="prefer") as client:
        assert await one(client) == 1


async def test_an_exhausted_pool_is_said_and_works_again_when_a_session_ends(served: Served):
    async with served.open(pool_size=2, pool_timeout=0.5) as client:
        sessions = [await begin(client) for _ in range(2)]
        with pytest.raises(ToolError, match="2 of them by open transactions") as exhausted:
            await begin(client)
        assert exhausted.value.code == "pool_exhausted"
        await client.tool(tool="rollback", input={"session_id": sessions[0]})
        assert await one(client) == 1


async def test_a_server_that_takes_no_more_connections_is_said(served: Served):
    held = []
    try:
        while len(held) < 60:
            try:
                held.append(served.database.connect())
            except Exception:
                break
        async with served.open() as client:
            with pytest.raises(Unavailable, match="(?i)too many"):
                await one(client)
            for _ in range(2):  # the look below still holds one for a moment
                held.pop().close()
            await until(lambda: _connects(served))
            assert await one(client) == 1
    finally:
        for connection in held:
            connection.close()


def _connects(served: Served) -> bool:
    try:
        served.database.connect().close()
    except Exception:
        return False
    return True


async def test_a_url_says_the_same_as_the_settings_and_a_broken_one_is_not_repeated(served: Served):
    url = served.database.url
    async with served.open(url=url, password="", host="unused.invalid") as client:
        assert await one(client) == 1
    async with served.open(url=url.replace("://", "//")) as client:
        with pytest.raises(RrextError, match="is no URL") as broken:
            await one(client)
        assert_no_secrets(served, broken.value)


def assert_no_secrets(served: Served, error: RrextError, *more: str) -> None:
    """Nothing of an error that a caller or a log may show has a password in it."""
    shown = f"{error!r} {error} {error.hint} {error.data}"
    for secret in (served.database.password, served.database.url, *more):
        assert secret not in shown


def test_a_server_that_does_not_answer_is_given_up(postgres_database: Database):
    """As one whose machine was cut off: nothing comes back, not even an error."""
    connection = postgres_database.connect()
    pid = connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(psycopg.OperationalError, match="did not answer within"):
            ask(connection, b"BEGIN", 0.05)
        assert connection.closed
    finally:
        os.kill(pid, signal.SIGCONT)
        connection.close()


async def test_a_connection_that_an_administrator_ends_is_said_and_replaced(served: Served):
    async with served.open(pool_size=1) as client:
        session = await begin(client)
        await asyncio.to_thread(end_connections, served)
        with pytest.raises(ToolError) as lost:
            await execute(client, "SELECT 1", session_id=session)
        assert lost.value.code == "connection_lost"
        assert await one(client) == 1


def end_connections(served: Served) -> None:
    """End everybody else's connection to the database."""
    if served.node is not MysqlNode:
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'served' AND pid <> pg_backend_pid()"
        served.database.run(sql)
        return
    others = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = 'served' AND ID <> CONNECTION_ID()"
    for (other,) in served.database.run(others):
        served.database.run(f"KILL {other}")
