"""The protocol over HTTP: the same answers as on stdio."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from http_server import ACCEPT, HttpServer, request
from mcp_host import Host


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """A server of this machine, without tokens."""
    with HttpServer("--max-frame", "200000") as server:
        yield server


CALLS: list[tuple[str, Any]] = [
    ("add", {"a": 2}),
    ("add", {"b": "x"}),
    ("add", {}),
    *[("echo", {"value": value}) for value in (None, True, 7, 1.5, "text", [1, "b"], {"a": {"b": []}})],
    ("nothing", {}),
    ("numbers", {"value": [1, 2]}),
    ("numbers", {"value": ["x"]}),
    ("either", {"value": {"a": 1}}),
    ("boxed", {"value": {"a": 1}}),
    ("blob", {"data": b64encode(b"\x89PNG\r\n\x1a\n").decode()}),
    ("blob", {"data": b64encode(b"\x00").decode()}),
    ("boxed_blob", {"data": b64encode(b"\x00").decode()}),
    ("typed", {"name": "x", "box": {"a": 1}}),
    ("typed", {"name": "x", "box": '{"a": 1}'}),
    ("typed", {"name": '{"a": 1}'}),
    ("typed", '{"name": "x"}'),
    ("typed", "name"),
    ("nobody", {}),
    ("for_ada", {}),
]


@pytest.mark.promise("mcp:http:same-answers")
def test_calls_are_answered_as_on_stdio(server: HttpServer, modern: Host) -> None:
    listed = server.result("tools/list")
    assert {tool["name"]: tool for tool in listed["tools"]} == {
        tool["name"]: tool for tool in modern.result("tools/list")["tools"]
    }
    assert (listed["ttlMs"], listed["cacheScope"]) == (60000, "private")
    for name, arguments in CALLS:
        params = {"name": name, "arguments": arguments}
        there = modern.answer(modern.ask("tools/call", params))
        _, here = server.ask("tools/call", params)
        if isinstance(arguments, str) and not arguments.startswith("{"):
            assert here["error"]["code"] == -32602
            continue
        assert here.keys() == there.keys(), (name, arguments, here, there)
        if "result" in here:
            assert here["result"].pop("_meta", {}).get("rrext/error") == there["result"].pop("_meta", {}).get("rrext/error")
            assert here["result"] == there["result"]
        else:
            assert here["error"] == there["error"]


def test_an_object_that_a_model_wrote_as_text_is_the_object_where_one_is_wanted(server: HttpServer) -> None:
    assert server.call("typed", name="x", box='{"a": 1}')["structuredContent"]["result"][5] == "dict"
    assert server.call("typed", name='{"a": 1}')["structuredContent"]["result"][0] == "str"
    assert server.call("typed", name="x", box="[1]")["isError"]


def test_a_deadline_and_its_error_are_those_of_stdio(server: HttpServer) -> None:
    meta = {"rrext/timeout": 0.05}
    result = server.result("tools/call", {"name": "wait", "arguments": {"key": "never"}, "_meta": meta})
    assert result["_meta"]["rrext/error"]["code"] == "tool_timeout"


def test_the_calls_within_a_call_are_progress_with_a_message(server: HttpServer) -> None:
    given = {"node": "", "tool": "add", "input": {"a": 1}}
    params = {"name": "ask_async", "arguments": given, "_meta": {"progressToken": "p"}}
    _, _, body = server.send("POST", *request("tools/call", params))
    messages = [msgspec.json.decode(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    assert [message["params"]["message"] for message in messages[:-1]] == ["calls probe_1.add", "probe_1.add has ended"]
    assert messages[-1]["result"]["structuredContent"] == {"sum": 2}


def test_cutting_the_connection_cancels_the_call(server: HttpServer) -> None:
    with server.waiting("wait", key="cut"):
        pass
    while server.call("journal", key="cut")["structuredContent"]["result"] != ["unwound"]:
        pass


def test_what_nodes_keep_for_a_connection_is_released_after_each_call() -> None:
    here = Path(__file__).resolve().parent
    with HttpServer("--nodes", str(here / "changing_nodes.py"), files=[here / "changing.pipe"]) as server:
        while len(server.call("connections_gone")["structuredContent"]["result"]) < 3:
            pass


@pytest.mark.promise("mcp:one-answer")
def test_a_batch_over_http_is_refused_with_the_ids_of_its_requests(server: HttpServer) -> None:
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    _, headers, _ = server.send("POST", msgspec.json.encode(initialize), ACCEPT)
    session = {**ACCEPT, "Mcp-Session-Id": headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "method": "ping"}
    for batch, ids in ([{**ping, "id": 1}, ping, 7, {**ping, "id": "b"}], [1, "b"]), ([], [None]), ([ping], [None]):
        status, _, body = server.send("POST", b" " + msgspec.json.encode(batch), session)
        answer: Any = msgspec.json.decode(body)
        refusals = answer if isinstance(answer, list) else [answer]
        assert (status, [each["id"] for each in refusals]) == (400, ids)
        assert {each["error"]["code"] for each in refusals} == {-32600}
    status, _, body = server.send("POST", b"[1", session)
    assert (status, msgspec.json.decode(body)["error"]["code"]) == (400, -32600)
    status, _, body = server.send("POST", b" " + msgspec.json.encode({**ping, "id": 1}), session)
    assert (status, b'"id":1' in body) == (200, True)
