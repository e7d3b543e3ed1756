"""Permits over the Model Context Protocol of a server with keys: each user has calls of its own that wait for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ws_server import ADA, BOB, WsServer, keys_file

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
