"""Where pipelines run: each in a process of its own over WebSockets, all in the server elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ws_server import PATIENCE, WsServer

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


TOLD = 3000
"""Lines of a call: far more than are told in the time of its answer."""
CHATTY = """
from rrext import Node, tool_function
class Chatty(Node):
    provider = "chatty"
    @tool_function
    def count(self, first: int) -> None:
        for number in range(first, first + 3000):
            print(number)
"""


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_all_lines_that_a_pipeline_printed_are_told_in_order_also_if_it_ends_meanwhile(tmp_path: Path, isolation: str) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    control = [{"classType": "tool", "from": "webhook_1"}]
    chatty = {"id": "chatty_1", "provider": "chatty", "config": {}, "control": control}
    pipeline = {"components": [PIPELINE["components"][0], chatty], "project_id": "chatty"}
    with WsServer("--nodes", str(tmp_path / "chatty.py"), "--isolation", isolation) as server, server.client() as client:
        token = client.body("execute", pipeline=pipeline)["token"]
        client.body("rrext_monitor", token=token, types=["OUTPUT"])
        lines: list[int] = []

        def hears() -> dict[str, Any]:
            message = json.loads(client.socket.recv(PATIENCE))
            if message.get("event") == "output":
                lines.append(int(message["body"]["output"]))
            return message

        client.post("rrext_process", subcommand="tool", token=token, tool="count", input={"first": 0})
        while len(lines) < TOLD:
            hears()
        number = client.post("rrext_process", subcommand="tool", token=token, tool="count", input={"first": TOLD})
        while hears().get("request_seq") != number:
            pass
        client.post("terminate", token=token)
        while len(lines) < 2 * TOLD:
            hears()
        assert lines == [*range(2 * TOLD)]


def test_a_pipeline_of_a_client_that_spawned_the_server_runs_in_it() -> None:
    with Client.spawn(command=[sys.executable, "-m", "rrext", "serve", "--nodes", str(DYING)]) as client:
        pids = {
            client.tool(tool="pid", token=client.use(pipeline={**PIPELINE, "project_id": name})["token"])
            for name in ("one", "two")
        }
        assert len(pids) == 1
