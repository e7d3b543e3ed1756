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


OFFERS: dict[str, Any] = {
    "prompts/list": {
        "": {"prompts": [{"name": "first", "arguments": [{"name": "a"}]}, {"title": "nameless"}], "nextCursor": "x:y"},
        "x:y": {"prompts": [{"name": "second"}]},
    },
    "resources/list": {"": {"resources": [{"uri": "own://a?b=c", "name": "a"}, 7]}},
    "resources/templates/list": {"": {"resourceTemplates": [{"uriTemplate": "own://{+path}", "name": "t"}]}},
}
OWN = "own://a?b=c"
URI = f"rrext:///outside/mcp_1/{OWN}"


@pytest.fixture(scope="module", params=[False, True], ids=["modern", "legacy"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of each era, before a pipeline with the tools of a server that gives these results."""
    folder = tmp_path_factory.mktemp("outside")
    act = {"name": "act", "inputSchema": {"type": "object"}}
    code = f"""
import sys
sys.path.insert(0, {str(SERVER)!r})
from line_server import *
RESULTS, OFFERS = {[*RESULTS, *FAILURES]!r}, {OFFERS!r}

def handle(request):
    method, params = request["method"], request.get("params", {{}})
    if method == "tools/call":
        answer(request, RESULTS[params["arguments"]["at"]])
    elif params.get("name") == "nobody":
        refuse(request, "no such prompt", -32602)
    else:
        found = OFFERS[method]
        answer(request, found(params) if callable(found) else found[params.get("cursor", "")])

def prompt(params):
    if params["name"] == "asks":
        return {{"resultType": "input_required", "inputRequests": {{"a": {{"method": "elicitation/create"}}}}}}
    return {{"description": json.dumps(params), "messages": []}}

OFFERS["prompts/get"] = prompt
OFFERS["resources/read"] = lambda params: {{"contents": [{{"uri": params["uri"], "text": "read"}}]}}
OFFERS["completion/complete"] = lambda params: {{"completion": {{"values": [json.dumps(params["ref"])]}}}}
serve(handle, tools=[{act!r}], prompts={{}}, resources={{}}, completions={{}})
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


def of(result: dict[str, Any]) -> dict[str, Any]:
    """The members of a result without those of an era."""
    return {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}


@pytest.mark.promise("mcp:passes-on")
def test_prompts_and_resources_of_a_server_have_the_names_and_uris_of_its_node(host: Host) -> None:
    first = host.result("prompts/list")
    assert first["prompts"] == [{"name": "mcp_1__first", "arguments": [{"name": "a"}]}]
    assert of(host.result("prompts/list", {"cursor": first["nextCursor"]})) == {"prompts": [{"name": "mcp_1__second"}]}
    assert of(host.result("resources/list")) == {"resources": [{"uri": URI, "name": "a"}]}
    (template,) = host.result("resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "rrext:///outside/mcp_1/own://{+path}"


@pytest.mark.promise("mcp:passes-on")
def test_a_prompt_a_resource_and_a_completion_are_those_of_the_server(host: Host) -> None:
    for name in ("mcp_1__first", "first"):  # of a single server
        prompt = host.result("prompts/get", {"name": name, "arguments": {"a": "1"}})
        assert json.loads(prompt["description"]).items() >= {"name": "first", "arguments": {"a": "1"}}.items()
    for uri in (URI, OWN):  # a link in a result has the URI of the server
        assert of(host.result("resources/read", {"uri": uri})) == {"contents": [{"uri": uri, "text": "read"}]}
    for kind, known, own in (("prompt", {"name": "mcp_1__first"}, {"name": "first"}), ("resource", {"uri": URI}, {"uri": OWN})):
        asked = {"ref": {"type": f"ref/{kind}", **known}, "argument": {"name": "a", "value": ""}}
        (told,) = host.result("completion/complete", asked)["completion"]["values"]
        assert json.loads(told) == {"type": f"ref/{kind}", **own}


@pytest.mark.promise("mcp:passes-on")
def test_what_is_not_offered_is_refused_with_the_number_of_the_server(host: Host) -> None:
    assert host.failure("prompts/get", {"name": "mcp_1__nobody"})["code"] == -32602
    assert host.failure("prompts/get", {"name": "nobody"})["code"] == -32602
    assert "asks for more input" in host.failure("prompts/get", {"name": "mcp_1__asks"})["message"]
    assert host.failure("resources/read", {"uri": "rrext:///outside/mcp_2/own://a"})["code"] == -32602
    assert host.failure("prompts/list", {"cursor": "2:"})["code"] == -32602
    unknown = {"ref": {"type": "ref/other", "name": "first"}, "argument": {}}
    assert host.failure("completion/complete", unknown)["code"] == -32602
    assert host.failure("logging/setLevel", {"level": "loud"})["code"] == -32602
    assert of(host.result("logging/setLevel", {"level": "error"})) == {}


@pytest.mark.promise("mcp:passes-on")
def test_the_way_to_the_offers_of_a_server_is_no_tool(host: Host) -> None:
    assert [tool["name"] for tool in host.result("tools/list")["tools"]] == ["act"]
    asked = {"name": "rrext/request", "arguments": {"method": "tools/list", "params": {}}}
    assert host.result("tools/call", asked)["isError"] is True
