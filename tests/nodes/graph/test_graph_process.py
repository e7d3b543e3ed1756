"""The embedded graph works in a process of its own: what ends or holds up its engine ends one call, and never the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from graph_world import GraphWorld

from rrext.errors import RrextError
from rrext.nodes.graph import ladybug_rules as embedded_calls
from rrext.nodes.graph.ladybug import LadybugNode, ProcessBackend
from rrext.nodes.graph.ladybug_rules import EmbeddedSettings
from rrext.nodes.graph.node import CypherCall, Graph
from rrext.tools.context import ToolContext

CITY = "CREATE NODE TABLE City(name STRING PRIMARY KEY)"


def world(path: Path | None = None, **settings: Any) -> GraphWorld:
    return GraphWorld("ladybug", LadybugNode, {"allow_execute": True, "path": str(path or ""), **settings})


@pytest.mark.promise("graph:engine:ends-alone")
@pytest.mark.parametrize("wrong", ["RETURN id(null) AS x", "RETURN coalesce(date('290000-01-01')) AS x"])
async def test_a_query_that_ends_the_engine_fails_alone_and_what_was_committed_is_there(wrong: str, tmp_path: Path) -> None:
    async with world(tmp_path / "graph").open(is_filled=False) as tools:
        await tools("execute", query=CITY)
        await tools("execute", query="CREATE (:City {name: 'Oslo'})")
        assert (await tools.fails("query", query=wrong)).code == "graph_crashed"
        assert await tools.rows("MATCH (c:City) RETURN c.name") == [["Oslo"]]


def process_of(backend: ProcessBackend) -> int:
    return backend.supervisor.process().id


def nobody_minds() -> None:
    return


def test_a_process_that_was_killed_fails_what_it_did_and_is_replaced(tmp_path: Path) -> None:
    backend = ProcessBackend(EmbeddedSettings(str(tmp_path / "graph"), False, 64, 1, 1.0))
    try:
        transaction = backend.transaction(read_only=False, timeout=10.0, check=nobody_minds)
        transaction.start()
        transaction.run(CITY, {}).close()
        first = process_of(backend)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(RrextError) as caught:
            transaction.commit()
        assert caught.value.code == "graph_crashed"
        transaction.end()
        again = backend.transaction(read_only=True, timeout=10.0, check=nobody_minds)
        again.start()
        assert again.run("CALL show_tables() RETURN name", {}).fetch(10) == []  # what was not committed is not there
        again.end()
        assert process_of(backend) != first
    finally:
        backend.close()


@pytest.mark.parametrize("spoil", ["cut", "changed"])
def test_a_log_that_ends_in_half_a_record_is_read_up_to_there_and_kept(spoil: str, tmp_path: Path) -> None:
    path, log = tmp_path / "graph", tmp_path / "graph.wal"
    settings = EmbeddedSettings(str(path), False, 64, 1, 1.0)

    def call(backend: ProcessBackend) -> CypherCall:
        return CypherCall(Graph(backend, statement=10.0, session_idle=60.0), ToolContext(), row_mode="array")

    def written(backend: ProcessBackend, text: str) -> None:
        transaction = backend.transaction(read_only=False, timeout=10.0, check=nobody_minds)
        transaction.start()
        transaction.run(text, {}).close()
        transaction.commit()
        transaction.end()

    backend = ProcessBackend(settings)
    written(backend, "CREATE NODE TABLE Visit (day INT64 PRIMARY KEY)")
    for day in range(3):
        written(backend, f"CREATE (:Visit {{day: {day}}})")
    os.kill(process_of(backend), signal.SIGKILL)
    backend.close()
    data = bytearray(log.read_bytes())
    if spoil == "cut":
        del data[-9:]
    else:
        data[-20] ^= 0xFF
    log.write_bytes(data)
    backend = ProcessBackend(settings)
    try:
        rows = call(backend).query("MATCH (v:Visit) RETURN v.day ORDER BY v.day", {}, 10)["rows"]
        assert rows == [[0], [1]]
        assert (tmp_path / "graph.wal.damaged").read_bytes() == data
        written(backend, "CREATE (:Visit {day: 7})")
    finally:
        backend.close()
    backend = ProcessBackend(settings)
    try:
        assert call(backend).query("MATCH (v:Visit) RETURN count(*)", {}, 10)["rows"] == [[3]]
    finally:
        backend.close()


def test_a_statement_that_cannot_be_stopped_ends_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_calls.GraphBegin, "patience", 0.1)
    backend = ProcessBackend(EmbeddedSettings("", False, 64, 1, 1.0))
    graph = Graph(backend, statement=5.0, session_idle=60.0)
    try:
        assert CypherCall(graph, ToolContext(), row_mode="array").query("RETURN 1 AS x", {}, 10)["rows"] == [[1]]
        os.kill(process_of(backend), signal.SIGSTOP)  # it listens to nothing now
        with pytest.raises(RrextError) as caught:
            CypherCall(graph, ToolContext()).query("RETURN 1 AS x", {}, 10)
        assert caught.value.code == "statement_timeout"
        assert CypherCall(graph, ToolContext(), row_mode="array").query("RETURN 2 AS x", {}, 10)["rows"] == [[2]]
    finally:
        graph.close()


def test_the_process_knows_no_secret_and_ends_with_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETRIDE_TOKEN", "hush-hush")
    backend = ProcessBackend(EmbeddedSettings("", False, 64, 1, 1.0))
    number = process_of(backend)
    assert b"hush-hush" not in Path(f"/proc/{number}/environ").read_bytes()
    backend.close()
    assert not Path(f"/proc/{number}").exists()
    with pytest.raises(RrextError, match="is closed"):
        backend.supervisor.process()


def test_a_process_that_cannot_close_its_database_does_not_outlive_its_server() -> None:
    code = """
import io, threading
from rrext.nodes.graph import ladybug_worker as embedded_worker

class Stuck:
    def close(self):
        threading.Event().wait()

embedded_worker.LEAVING_TIMEOUT = 0.1
embedded_worker.LadybugWorker(Stuck(), io.BytesIO()).serve(io.BytesIO())
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=30, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")
