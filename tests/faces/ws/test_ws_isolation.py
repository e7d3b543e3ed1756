"""Where pipelines run: each in a process of its own over WebSockets, all in the server elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ws_server import WsServer

from rrext.blocking import Client

DYING = Path(__file__).resolve().parents[2] / "tasks" / "dying_nodes.py"
PIPELINE = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "dying_1", "provider": "dying", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
    ]
}


@pytest.mark.promise("tasks:isolated")
@pytest.mark.parametrize("options", [(), ("--isolation", "process"), ("--isolation", "none")])
def test_over_websockets_a_pipeline_runs_in_a_process_of_its_own_unless_the_operator_wants_none(
    options: tuple[str, ...],
) -> None:
    with WsServer("--nodes", str(DYING), *options) as server, server.client() as client:
        tokens = [client.body("execute", pipeline={**PIPELINE, "project_id": name})["token"] for name in ("one", "two")]
        pids = {client.tool("pid", token=token) for token in tokens} | {server.process.pid}
        assert len(pids) == (1 if "none" in options else 3)


def test_a_pipeline_of_a_client_that_spawned_the_server_runs_in_it() -> None:
    with Client.spawn(command=[sys.executable, "-m", "rrext", "serve", "--nodes", str(DYING)]) as client:
        pids = {
            client.tool(tool="pid", token=client.use(pipeline={**PIPELINE, "project_id": name})["token"])
            for name in ("one", "two")
        }
        assert len(pids) == 1
