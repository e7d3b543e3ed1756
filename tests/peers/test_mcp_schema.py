"""Answers of every kind fit the models that the official SDK makes of the protocol's schema, in both eras."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from mcp_server import COMMAND
from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError
from pydantic import TypeAdapter

PNG = "iVBORw0KGgo="
CALLS = [
    ("add", {"a": 1}),
    ("add", {"b": "x"}),
    ("nobody", {}),
    ("echo", {"value": None}),
    ("echo", {"value": [1]}),
    ("echo", {"value": {"a": 1}}),
    ("numbers", {"value": [1]}),
    ("blob", {"data": PNG}),
    ("blob", {"data": "AA=="}),
    ("report", {"to": 3}),
    ("crash", {}),
]
REQUESTS = [
    ("tools/list", {}),
    ("tools/list", {"cursor": "x"}),
    ("nothing/here", {}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greeting", "arguments": {"question": "Who?"}}),
    ("prompts/get", {"name": "farewell"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "rrext:///judge/files_1/judge.pipe"}),
    ("resources/read", {"uri": "rrext:///judge/files_1/none"}),
    ("tools/call", {"name": "shout", "arguments": {"text": "hello"}}),
    ("tools/call", {"name": "write_down", "arguments": {"key": "asked"}, "_meta": {"rrext/timeout": 2.0}}),
    *(("tools/call", {"name": name, "arguments": arguments}) for name, arguments in CALLS),
]
ASKS = {"elicitation": {}}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": ASKS}


def conversation(sent: str, numbers: set[int]) -> list[str]:
    """What a server says to these lines. Its input ends when the requests of these numbers are answered, as then it waits for
    no call for long."""
    said: list[str] = []
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(sent)
        server.stdin.flush()
        while numbers:
            said.append(server.stdout.readline())
            message = json.loads(said[-1])
            if "method" not in message:
                numbers.discard(message["id"])
        server.stdin.close()
        said += server.stdout
    assert server.returncode == 0
    return said


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_answers_fit_the_schema(version: str) -> None:
    modern = version == "2026-07-28"
    asked: list[tuple[str, dict[str, Any]]] = [*REQUESTS]
    if modern:
        asked = [("server/discover", {}), ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}), *asked]
    else:
        hello = {"protocolVersion": version, "capabilities": ASKS, "clientInfo": {"name": "x", "version": "1"}}
        asked = [("initialize", hello), ("ping", {}), *asked]
    lines: list[dict[str, Any]] = []
    for number, (method, params) in enumerate(asked):
        meta = {"progressToken": number, **(META if modern else {}), **params.get("_meta", {})}
        lines.append({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}})
    if not modern:
        lines.insert(1, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    answered: set[str] = set()
    for line in conversation(sent, {line["id"] for line in lines if "id" in line and line["method"] != "subscriptions/listen"}):
        message = json.loads(line)
        if "method" in message and "id" in message:
            TypeAdapter(methods.SERVER_REQUESTS[message["method"], version]).validate_json(line, strict=True)
            answered.add(message["method"])
        elif "method" in message:
            model = methods.SERVER_NOTIFICATIONS[message["method"], version]
            TypeAdapter(model).validate_json(line, strict=True)
            answered.add(message["method"])
        elif "error" in message:
            JSONRPCError.model_validate_json(line, strict=True)
            answered.add("error")
        else:
            method = asked[message["id"]][0]
            TypeAdapter(methods.SERVER_RESULTS[method, version]).validate_json(json.dumps(message["result"]), strict=True)
            answered.add(method)
    kinds = {method for method, _ in asked} - {"nothing/here", "subscriptions/listen"}
    told = {"notifications/subscriptions/acknowledged"} if modern else {"elicitation/create", "notifications/cancelled"}
    if version < "2025-06-18":
        told = set()
    assert answered == kinds | {"error", "notifications/progress"} | told
