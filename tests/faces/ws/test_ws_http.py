"""The HTTP endpoints beside the WebSockets."""

from __future__ import annotations

import json
import socket

import pytest
from ws_server import ADA, PATIENCE, WsServer

pytestmark = pytest.mark.promise("ws:http")

VERSION = "2026-07-28"
FORM = {"Content-Type": "multipart/form-data; boundary=xyz"}


@pytest.fixture
def public_key(open_server: WsServer) -> str:
    """The public key of the server's pipeline."""
    with open_server.client() as client:
        (task,) = (task for task in client.body("rrext_get_tasks")["tasks"] if task["token"] == "face")
        return task["publicToken"]


@pytest.fixture
def headers(public_key: str) -> dict[str, str]:
    """Those of a text for the pipeline."""
    return {"Authorization": f"Bearer {public_key}", "Content-Type": "text/plain; charset=utf-8"}


def test_life_signs_need_no_key(server: WsServer) -> None:
    assert server.request("GET", "/ping")[::2] == (200, b'{"pong":true}')
    assert json.loads(server.request("GET", "/version")[2])["name"] == "rrext"
    assert server.request("GET", "/healthz")[::2] == (200, b"ok")
    assert server.request("GET", "/nothing")[0] == 404
    assert server.request("POST", "/ping")[0] == 405
    assert server.request("GET", "/ping", headers={"Host": "evil.example"})[0] == 421


def test_metrics_need_a_key_and_name_no_user(server: WsServer) -> None:
    assert server.request("GET", "/metrics")[0] == 401
    assert server.request("GET", "/metrics", headers={"Authorization": "Bearer wrong"})[0] == 401
    with server.client(ADA) as client:
        client.tool("who")
        status, headers, body = server.request("GET", "/metrics", headers={"Authorization": f"Bearer {ADA}"})
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    assert int(values["rrext_connections"]) >= 1
    assert int(values["rrext_calls_total"]) >= 1
    assert b"ada" not in body


def test_a_body_goes_through_the_pipeline(open_server: WsServer, headers: dict[str, str]) -> None:
    status, answered, body = open_server.request("POST", "/webhook?name=a.txt", b"hello", headers)
    assert (status, answered["content-type"]) == (200, "application/json")
    result = json.loads(body)
    assert (result["name"], result["reply"]) == ("a.txt", ["HELLO\n\n"])


def test_the_key_may_stand_alone_in_its_header(open_server: WsServer, public_key: str) -> None:
    headers = {"Authorization": public_key, "Content-Type": "text/plain"}
    assert open_server.request("POST", "/webhook", b"hello", headers)[0] == 200


def test_each_part_of_a_form_is_an_object(open_server: WsServer, headers: dict[str, str]) -> None:
    parts = [
        b'Content-Disposition: form-data; name="note"\r\n\r\nfirst',
        b'Content-Disposition: form-data; name="f"; filename="b.txt"\r\nContent-Type: text/plain\r\n\r\nsecond',
    ]
    body = b"".join(b"--xyz\r\n" + part + b"\r\n" for part in parts) + b"--xyz--\r\n"
    status, _, answer = open_server.request("POST", "/webhook", body, headers | FORM)
    assert status == 200, answer
    first, second = json.loads(answer)["objects"]
    assert (first["name"], first["reply"]) == ("note", ["FIRST\n\n"])
    assert (second["name"], second["reply"]) == ("b.txt", ["SECOND\n\n"])


@pytest.mark.parametrize(
    "body", [b"", b"--xyz--\r\n", b"rubbish", b"--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--\r\n"]
)
def test_a_form_that_cannot_be_read_is_refused(open_server: WsServer, headers: dict[str, str], body: bytes) -> None:
    status, _, answer = open_server.request("POST", "/webhook", body, headers | FORM)
    assert (status, json.loads(answer)["code"]) == (400, "invalid_arguments")


def test_only_the_public_key_of_a_running_pipeline_opens_the_webhook(server: WsServer) -> None:
    for key in ({}, {"Authorization": "Bearer pk_wrong"}, {"Authorization": f"Bearer {ADA}"}, {"Authorization": "Basic x y"}):
        status, headers, body = server.request("POST", "/webhook", b"x", key)
        assert (status, headers["www-authenticate"], json.loads(body)["code"]) == (401, "Bearer", "not_authenticated")
    assert server.request("GET", "/webhook")[0] == 405


def test_a_public_key_is_for_its_pipeline_alone_and_ends_with_it(server: WsServer) -> None:
    with server.client(ADA) as client:
        assert client.ask("auth", auth="pk_nothing")["success"] is False
        (task,) = client.body("rrext_get_tasks")["tasks"]
        assert server.request("GET", "/metrics", headers={"Authorization": f"Bearer {task['publicToken']}"})[0] == 401
        own = client.body("execute", pipeline=task_of_echo(), token="hook")["publicToken"]
        headers = {"Authorization": f"Bearer {own}", "Content-Type": "text/plain"}
        assert json.loads(server.request("POST", "/webhook", b"hi", headers)[2])["out"] == ["hi\n\n"]
        client.body("terminate", token="hook")
        assert server.request("POST", "/webhook", b"hi", headers)[0] == 401


def task_of_echo() -> dict[str, object]:
    """A pipeline that returns texts."""
    out = {"id": "out", "provider": "response_text", "config": {"laneName": "out"}, "input": [{"lane": "text", "from": "w"}]}
    return {"components": [{"id": "w", "provider": "webhook", "config": {}}, out], "source": "w", "project_id": "echo"}


def test_a_failure_is_no_success_and_has_what_came_before_it(open_server: WsServer, headers: dict[str, str]) -> None:
    status, _, body = open_server.request("POST", "/webhook", b"fail:", headers)
    answer = json.loads(body)
    assert status == 500
    assert answer["error"]["code"] == "tool_failed"
    assert "accident" not in body.decode()  # the text of an exception stays in the log


def test_a_body_over_the_limit_is_refused() -> None:
    with WsServer("--max-frame", "1000") as server, server.client() as client:
        (task,) = client.body("rrext_get_tasks")["tasks"]
        headers = {"Authorization": f"Bearer {task['publicToken']}"}
        status, _, body = server.request("POST", "/webhook", b"x" * 1001, headers)
        assert (status, json.loads(body)["code"]) == (413, "frame_too_large")
        assert server.request("POST", "/webhook", b"x" * 1000, headers)[0] == 200


def test_a_client_that_goes_away_leaves_no_pipe(open_server: WsServer, public_key: str) -> None:
    request = (
        f"POST /webhook HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {public_key}\r\nContent-Length: 5\r\n\r\nhello"
    )
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", open_server.port), PATIENCE) as end:
            end.sendall(request.encode())
    with open_server.client() as client:
        while client.body("rrext_get_task_status")["threads"]["used"]:
            pass


def model_context(server: WsServer, key: str | None, method: str, **params: object) -> tuple[int, dict[str, object]]:
    """The status and the answer of a request of the protocol."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": method} | (
        {} if key is None else {"Authorization": f"Bearer {key}"}
    )
    if "name" in params:
        headers["Mcp-Name"] = str(params["name"])
    status, _, answer = server.request("POST", "/mcp", json.dumps(body).encode(), headers)
    return status, json.loads(answer)


def test_the_model_context_protocol_has_the_tools_that_the_user_sees(server: WsServer) -> None:
    assert model_context(server, None, "tools/list")[0] == 401
    status, answer = model_context(server, ADA, "tools/call", name="who", arguments={})
    assert status == 200, answer
    assert answer["result"]["structuredContent"]["user"] == "ada"  # type: ignore[index]
