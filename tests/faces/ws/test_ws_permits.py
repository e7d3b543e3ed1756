"""Permits over the Model Context Protocol of a server with keys: each user has calls of its own that wait for one."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from ws_server import ADA, BOB, PATIENCE, WsServer, keys_file

VERSION = "2026-07-28"
ALLOW = {"action": "accept", "content": {"allow": True}}
ASKING: dict[str, Any] = {
    "components": [
        {
            "id": "tools_1",
            "provider": "tools",
            "config": {"tools": [{"type": "node", "node": "probe_1", "tool": "note", "name": "write", "permission": "ask"}]},
        },
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]},
    ],
    "source": "tools_1",
}


def called(server: WsServer, key: str, name: str, **params: Any) -> dict[str, Any]:
    """The answer to a call of a host whose user can be asked."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, **params, "_meta": meta}}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}
    body = json.dumps(message).encode()
    return json.loads(server.request("POST", "/mcp", body, {**headers, "Authorization": f"Bearer {key}"})[2])


@pytest.mark.promise("mcp:permits:once")
@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_permit_is_for_its_user_and_calls_that_wait_for_one_delay_no_other_user(tmp_path: Path, isolation: str) -> None:
    path = tmp_path / "asking.pipe"
    path.write_text(json.dumps(ASKING))
    options = ("--keys", str(keys_file(tmp_path)), "--isolation", isolation, "--threads", "1")
    with WsServer(*options, files=[path]) as server:
        write: dict[str, Any] = {"arguments": {"key": "adas"}}
        results = [called(server, ADA, "write", **write)["result"] for _ in range(20)]
        assert [result["resultType"] for result in results] == ["input_required"] * 20
        last = results[-1]
        again = {**write, "requestState": last["requestState"], "inputResponses": dict.fromkeys(last["inputRequests"], ALLOW)}
        assert called(server, BOB, "write", **again)["error"]["code"] == -32602
        assert called(server, BOB, "journal", arguments={"key": "adas"})["result"]["structuredContent"] == {"result": []}
        assert called(server, ADA, "write", **again)["result"]["resultType"] == "complete"
        assert called(server, ADA, "write", **again)["error"]["code"] == -32602
        assert called(server, BOB, "journal", arguments={"key": "adas"})["result"]["structuredContent"] == {"result": ["ran"]}


@pytest.mark.promise("mcp:permits:once")
@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_permit_ends_with_its_pipeline_and_with_the_key_of_its_user(tmp_path: Path, isolation: str) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.pipe").write_text(json.dumps({**ASKING, "project_id": name}))
    keys = keys_file(tmp_path)
    text = keys.read_text()
    files = [tmp_path / "one.pipe", tmp_path / "two.pipe"]
    with WsServer("--keys", str(keys), "--isolation", isolation, files=files) as server, server.client(ADA) as ada:
        write: dict[str, Any] = {"arguments": {"key": "k"}}

        def asked(tool: str) -> dict[str, Any]:
            result = called(server, ADA, tool, **write)["result"]
            answers = dict.fromkeys(result["inputRequests"], ALLOW)
            return {**write, "requestState": result["requestState"], "inputResponses": answers}

        own = {"pipeline": {**ASKING, "project_id": "own"}, "token": "own"}
        ada.body("execute", **own)
        again = asked("own__write")
        ada.body("terminate", token="own")
        ada.body("execute", **own)
        assert called(server, ADA, "own__write", **again)["error"]["code"] == -32602
        again = asked("one__write")
        assert called(server, ADA, "two__write", **again)["error"]["code"] == -32602
        keys.write_text(text.replace(f'"{ADA}" = "ada"\n', ""))
        server.process.send_signal(signal.SIGHUP)
        with pytest.raises(ConnectionClosed):
            ada.socket.recv(PATIENCE)
        keys.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        while server.request("GET", "/metrics", headers={"Authorization": f"Bearer {ADA}"})[0] != 200:
            pass
        assert called(server, ADA, "one__write", **again)["error"]["code"] == -32602
        for name in ("own", "one", "two"):
            seen = called(server, ADA, f"{name}__journal", arguments={"key": "k"})["result"]["structuredContent"]
            assert seen == {"result": []}
