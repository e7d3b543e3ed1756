"""What goes wrong around a graph database is said clearly, without secrets, and is over when its cause is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from bolt_server import PASSWORD, BoltServer
from free_ports import free_port
from graph_world import GraphWorld

from rrext.errors import ToolError, Unavailable
from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode
from rrext.testing import open_node


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoltServer]:
    """A server that tests may end; they leave it running."""
    server = BoltServer(tmp_path_factory.mktemp("own"))
    server.start()
    yield server
    server.stop()


def bolt(server: BoltServer, **settings: object) -> GraphWorld:
    return GraphWorld("neo4j", Neo4jNode, server.config(allow_execute=True, **settings))


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program that has the file `graph.lbug` open, until its stdin ends."""
    path = str(tmp_path / "graph.lbug")
    code = f"import ladybug, sys; d = ladybug.Database({path!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process
        process.communicate()


CRASH = """
import anyio, os, sys
from rrext.nodes.graph.ladybug import LadybugNode
from rrext.testing import open_node
async def main():
    async with open_node(LadybugNode, {"path": sys.argv[1], "allow_execute": True}) as client:
        await client.tool(tool="execute", input={"query": "CREATE NODE TABLE T(id INT64 PRIMARY KEY)"})
        for number in range(50):
            await client.tool(tool="execute", input={"query": "CREATE (:T {id: $n})", "params": {"n": number}})
        os._exit(9)
anyio.run(main)
"""


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The file of a process that ended hard, right after its fiftieth answer."""
    path = tmp_path / "graph.lbug"
    ended = subprocess.run([sys.executable, "-c", CRASH, str(path)], timeout=50, check=False)
    assert ended.returncode == 9
    return path


def is_there(path: Path) -> bool:
    return path.exists()


def ladybug(path: Path, **settings: object) -> GraphWorld:
    return GraphWorld("ladybug", LadybugNode, {"path": str(path), "allow_execute": True, **settings})


@pytest.mark.promise("data:secrets:never-shown")
async def test_a_wrong_password_is_said_and_never_shown(bolt_server: BoltServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with bolt(bolt_server, password="open-sesame").open() as tools:
        error = await tools.fails("query", query="RETURN $secret AS x", params={"secret": "swordfish"})
    assert isinstance(error, Unavailable)
    assert "does not accept this user and password" in error.message
    for secret in ("open-sesame", "swordfish"):
        assert secret not in f"{error.message} {error.hint} {error.data} {caplog.text}"


async def test_the_driver_tells_the_log_nothing_of_what_is_asked(
    bolt_server: BoltServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with bolt(bolt_server).open() as tools:
        await tools("query", query="RETURN $secret AS x", params={"secret": "swordfish"})
        await tools.fails("execute", query="RETURN 'swordfish' AS")
    assert "swordfish" not in caplog.text
    assert PASSWORD not in caplog.text


async def test_an_unknown_database_is_named(bolt_server: BoltServer) -> None:
    async with bolt(bolt_server, database="nowhere").open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
    assert isinstance(error, Unavailable)
    assert 'no database "nowhere"' in error.message
    assert "/" not in error.message  # the server tells its folder


@pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s", "bolt+ssc"])
async def test_tls_that_the_server_does_not_speak_is_said(bolt_server: BoltServer, scheme: str) -> None:
    uri = bolt_server.uri.replace("bolt", scheme)
    async with bolt(bolt_server, uri=uri).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
    assert isinstance(error, Unavailable)
    assert "TLS" in error.message


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
async def test_a_server_that_is_not_there_is_said(bolt_server: BoltServer, scheme: str) -> None:
    uri = f"{scheme}://127.0.0.1:{free_port()}"
    async with bolt(bolt_server, uri=uri).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
        assert await tools("dialect") == {"dialect": "neo4j"}
    assert isinstance(error, Unavailable)
    assert "no connection to 127.0.0.1" in error.message


@pytest.mark.parametrize("uri", ["", "localhost:7687", "http://x:1", "bolt://neo4j:open-sesame@host:7687"])
async def test_an_address_that_is_none_is_refused_and_not_quoted(bolt_server: BoltServer, uri: str) -> None:
    async with bolt(bolt_server, uri=uri).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
    assert '"uri" is no address' in error.message
    assert "open-sesame" not in f"{error.message} {error.hint}"


async def test_a_pool_that_is_used_up_is_named(bolt_server: BoltServer) -> None:
    async with bolt(bolt_server, pool_size=1, pool_timeout=3.0).open() as tools:
        session = (await tools("begin"))["session_id"]
        error = await tools.fails("query", query="RETURN 1 AS x")
        await tools("rollback", session_id=session)
        assert await tools.value("RETURN 1 AS x") == 1
    assert error.code == "pool_exhausted"
    assert "pool_timeout" in error.message


async def test_a_server_that_stands_still_holds_nobody_up(own_server: BoltServer) -> None:
    async with bolt(own_server, statement_timeout=4.0).open() as tools:
        assert await tools.value("RETURN 1 AS x") == 1
        own_server.freeze()
        try:
            error = await tools.fails("query", query="RETURN 1 AS x")
            assert error.code == "statement_timeout"
        finally:
            own_server.thaw()
        assert await tools.value("RETURN 2 AS x") == 2


async def test_a_server_that_restarts_within_a_transaction_ends_it_and_other_nodes_recover(own_server: BoltServer) -> None:
    async with bolt(own_server).open() as tools, bolt(own_server).open() as other:
        await tools("execute", query="MATCH (n) DETACH DELETE n")
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)
        assert await other.value("RETURN 1 AS x") == 1
        own_server.kill()
        assert isinstance(await other.fails("query", query="RETURN 1 AS x"), Unavailable)
        own_server.start()
        assert await other.value("RETURN 2 AS x") == 2
        error = await tools.fails("execute", query="CREATE (:City {name: 'Rome'})", session_id=session)
        assert error.code == "connection_lost"
        assert error.data["session"] == "over"
        assert error.data["committed"] is False
        assert (await tools.fails("commit", session_id=session)).code == "session_not_found"
        assert await tools.value("MATCH (c:City) RETURN count(*) AS n") == 0


async def test_a_commit_whose_answer_is_lost_says_that_nobody_knows(own_server: BoltServer) -> None:
    async with bolt(own_server, statement_timeout=4.0).open() as tools:
        session = (await tools("begin"))["session_id"]
        await tools("execute", query="CREATE (:City {name: 'Paris'})", session_id=session)
        own_server.freeze()
        try:
            error = await tools.fails("commit", session_id=session)
        finally:
            own_server.thaw()
    assert error.data["committed"] is None
    assert "not known" in (error.hint or "")


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "graph.lbug"
    path.write_bytes(b"not a graph" * 1000)
    async with ladybug(path).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
        assert isinstance(error, Unavailable)
        assert "not a valid" in error.message
        assert path.read_bytes() == b"not a graph" * 1000
        path.unlink()
        assert await tools.value("RETURN 1 AS x") == 1


@pytest.mark.promise("graph:file:in-turns")
async def test_nodes_on_the_same_file_take_turns(tmp_path: Path) -> None:
    world = ladybug(tmp_path / "graph.lbug")
    async with world.open() as first, world.open() as second:
        await first("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)")
        for number in range(3):
            await first("execute", query=f"CREATE (:T {{id: {2 * number}}})")
            await second("execute", query=f"CREATE (:T {{id: {2 * number + 1}}})")
        async with anyio.create_task_group() as group:
            for tools in (first, second) * 4:
                group.start_soon(lambda tools: tools.value("MATCH (t:T) RETURN count(*) AS n"), tools)
    async with world.open() as again:
        assert await again.value("MATCH (t:T) RETURN count(*) AS n") == 6


async def test_an_open_transaction_keeps_the_file_and_is_named_to_who_waits_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "graph.lbug"
    async with ladybug(path).open() as first, ladybug(path, wait=0.05).open() as second:
        session = (await first("begin"))["session_id"]
        await first("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)", session_id=session)
        error = await second.fails("query", query="RETURN 1 AS x")
        assert isinstance(error, Unavailable)
        assert "has it open" in error.message
        assert f"process {os.getpid()}" in error.message
        await first("commit", session_id=session)
    async with ladybug(path).open() as again:
        assert await again.value("MATCH (t:T) RETURN count(*) AS n") == 0


async def test_a_second_process_on_the_same_file_is_told_so(tmp_path: Path, other_process: subprocess.Popen[bytes]) -> None:
    async with ladybug(tmp_path / "graph.lbug", wait=0.5).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
        assert "has it open" in error.message
        other_process.kill()
        other_process.wait()
        assert await tools.value("RETURN 1 AS x") == 1


async def test_several_may_read_at_once_and_a_writer_gets_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "graph.lbug"
    async with ladybug(path).open() as tools:
        await tools("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)")
    readers = ladybug(path, allow_execute=False)
    async with readers.open() as first, readers.open() as second, ladybug(path).open() as writer:
        for reader in (first, second):
            assert await reader.value("MATCH (t:T) RETURN count(*) AS n") == 0
        await writer("execute", query="CREATE (:T {id: 1})")
        for reader in (first, second):
            assert await reader.value("MATCH (t:T) RETURN count(*) AS n") == 1


async def test_reading_what_is_not_there_makes_no_file(tmp_path: Path) -> None:
    async with ladybug(tmp_path / "graph.lbug", allow_execute=False).open() as tools:
        error = await tools.fails("query", query="RETURN 1 AS x")
    assert "there is none at its path" in error.message
    assert "allow_execute" in (error.hint or "")
    assert not is_there(tmp_path / "graph.lbug")


async def test_who_may_write_gets_the_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "graphs" / "graph.lbug"
    async with ladybug(path, allow_execute=False).open() as reader:
        assert isinstance(await reader.fails("query", query="RETURN 1 AS x"), Unavailable)
        assert not (tmp_path / "new").exists()
    async with ladybug(path).open() as tools:
        await tools("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)")
    assert is_there(path)


async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with ladybug(tmp_path / "file" / "graph.lbug").open() as tools:
        error = await tools.fails("execute", query="RETURN 1 AS x")
    assert isinstance(error, Unavailable)
    assert "exists" in error.message.lower() or "Not a directory" in error.message


async def test_what_was_answered_survives_the_end_of_the_process(crashed: Path) -> None:
    async with ladybug(crashed).open() as tools:
        assert await tools.value("MATCH (t:T) RETURN count(*) AS n") == 50


async def test_who_waits_too_long_for_his_turn_to_write_is_told(tmp_path: Path) -> None:
    async with ladybug(tmp_path / "graph.lbug", lock_timeout=0.5).open() as tools:
        session = (await tools("begin"))["session_id"]
        error = await tools.fails("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)")
        assert isinstance(error, ToolError)
        assert error.code == "database_locked"
        await tools("rollback", session_id=session)
        await tools("execute", query="CREATE NODE TABLE T(id INT64 PRIMARY KEY)")


async def test_a_path_may_not_lead_out_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    config = {"path": "../graph.lbug", "allow_execute": True}
    async with open_node(LadybugNode, config, root=tmp_path / "root") as client:
        with pytest.raises(Unavailable, match="leads out of the root"):
            await client.tool(tool="query", input={"query": "RETURN 1 AS x"})
    assert not is_there(tmp_path / "graph.lbug")
