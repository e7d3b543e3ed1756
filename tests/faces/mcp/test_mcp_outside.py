"""A host gets what a server outside said, byte for byte: its blocks, their order, and all members of each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_host import Host

SERVER = Path(__file__).resolve().parents[2] / "providers" / "mcp"
TEXT = {"text": "words", "type": "text"}
IMAGE = {"type": "image", "data": "R0lGODlh", "mimeType": "image/png", "annotations": {"priority": 0.5}}
LINK = {"uri": "file:///c", "name": "c", "type": "resource_link", "size": 3, "icons": [{"src": "https://c/i.png"}]}
PAGE = {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "text/html", "text": "<p>"}, "_meta": {"k": 1}}
BLOB = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "application/gzip", "blob": "H4sI"}}
RESULTS: list[dict[str, Any]] = [
    {"content": [TEXT]},
    {"content": [{**TEXT, "annotations": {"audience": ["user"], "lastModified": "2026-01-01T00:00:00Z"}}]},
    {"content": [IMAGE]},
    {"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/x-own"}]},
    {"content": [PAGE]},
    {"content": [BLOB]},
    {"content": [LINK]},
    {"content": [LINK, TEXT, IMAGE, TEXT, PAGE, BLOB]},
    {"content": []},
    {"content": [{"type": "of tomorrow", "new": [None, 1e-7, "\u2028"]}]},
    {"content": [TEXT], "structuredContent": {"a": [1]}, "_meta": {"org.example/x": {"y": 1}}},
    {"content": [IMAGE, TEXT], "structuredContent": {"a": 1}},
]
FAILURES: list[dict[str, Any]] = [
    {"content": [TEXT, IMAGE, {**TEXT, "annotations": {"priority": 1}}], "isError": True},
    {"content": [TEXT], "structuredContent": {"why": "so"}, "isError": True},
    {"content": [], "isError": True},
]


@pytest.fixture(scope="module", params=[False, True], ids=["modern", "legacy"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of each era, before a pipeline with the tools of a server that gives these results."""
    folder = tmp_path_factory.mktemp("outside")
    act = {"name": "act", "inputSchema": {"type": "object"}}
    code = f"""
import sys
sys.path.insert(0, {str(SERVER)!r})
from line_server import *
RESULTS = {[*RESULTS, *FAILURES]!r}
serve(lambda request: answer(request, RESULTS[request["params"]["arguments"]["at"]]), tools=[{act!r}])
"""
    (folder / "server.py").write_text(code)
    connections = folder / "connections.toml"
    connections.write_text(f'[out]\nprovider = "mcp"\ncommand = {json.dumps([sys.executable, str(folder / "server.py")])}\n')
    connections.chmod(0o600)
    node = {"id": "mcp_1", "provider": "tool_mcp_client", "config": {"server": "out"}}
    source = {"id": "tools_1", "provider": "tools", "config": {}}
    node["control"] = [{"classType": "tool", "from": "tools_1"}]
    pipeline = folder / "outside.pipe"
    pipeline.write_text(json.dumps({"components": [source, node], "source": "tools_1", "project_id": "p"}))
    with Host("--connections", str(connections), files=[pipeline], shakes_hands=request.param) as host:
        yield host


@pytest.mark.promise("mcp:passes-on")
def test_a_result_is_what_the_server_said(host: Host) -> None:
    for at, result in enumerate(RESULTS):
        found = host.call("act", at=at)
        found.pop("resultType", None)
        assert json.dumps(found["content"]) == json.dumps(result["content"])
        assert found == result


@pytest.mark.promise("mcp:passes-on")
def test_a_failure_is_what_the_server_said_beside_the_code(host: Host) -> None:
    for at, result in enumerate(FAILURES, len(RESULTS)):
        found = host.call("act", at=at)
        found.pop("resultType", None)
        assert found.pop("_meta")["rrext/error"]["code"] == "tool_failed"
        assert json.dumps(found["content"]) == json.dumps(result["content"])
        assert found == result
