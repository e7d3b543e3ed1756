"""The status page: its files, its feed, pictures and `terminate`, over HTTP without a browser."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from page_feed import OpenPage, bearer, open_page, post
from ws_server import ADA, BOB, PATIENCE, WsServer

from rrext.faces.page.status_page import MAX_PAGES_OF_USER, NAMES

pytestmark = pytest.mark.promise("ws:page")

EVIL = "<script>alert('&\"')</script>"
FILES = {**{name: f"/status/{name}" for name in NAMES}, "index.html": "/", "picture.css": "/status/picture.css"}


@pytest.fixture(scope="module")
def trusting() -> Iterator[WsServer]:
    """A server without keys that trusts its clients."""
    with WsServer("--trust-clients") as server:
        yield server


def echo(node: str = "out", **more: Any) -> dict[str, Any]:
    """A pipeline that returns texts."""
    out = {"id": node, "provider": "response_text", "config": {"laneName": "out"}, "input": [{"lane": "text", "from": "w"}]}
    return {"components": [{"id": "w", "provider": "webhook", "config": {}}, out], "source": "w", **more}


# files


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_has_its_type_and_a_tag_and_needs_no_key(server: WsServer, name: str) -> None:
    status, headers, body = server.request("GET", FILES[name])
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
    assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-cache"
    assert len(body) < 20_000
    again = server.request("GET", FILES[name], headers={"If-None-Match": f'"other", W/{headers["etag"]}'})
    assert (again[0], again[2]) == (304, b"")
    assert server.request("HEAD", FILES[name])[::2] == (200, b"")
    assert server.request("POST", FILES[name])[0] == 405


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_comes_from_elsewhere_and_nothing_stands_in_the_markup(server: WsServer, name: str) -> None:
    _, headers, body = server.request("GET", FILES[name])
    text = body.decode().replace('"http://www.w3.org/2000/svg"', "")  # a name, of which nothing is loaded
    assert re.search(r"https?:|//\w+\.|@import|url\(", text) is None
    assert (
        re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|localStorage|sessionStorage|cookie", text)
        is None
    )
    if name == "index.html":
        assert re.search(r"<style|\sstyle=|\son\w+=|<script(?! type=\"module\" src=)", text) is None
        assert re.search(r"<input[^>]*\bname=", text) is None  # a form that is sent by mistake has no key in it
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert set(policy.values()) <= {"'none'", "'self'", "'script'"}


def test_what_is_no_file_is_not_found_and_the_page_is_not_framed(server: WsServer) -> None:
    for path in ("/status/", "/status/nothing", "/status/../page.css", "/status/index.html/", "/status/%2e%2e/limits.py"):
        assert server.request("GET", path)[0] == 404, path
    assert server.request("GET", "/")[1]["x-frame-options"] == "DENY"
    for path in ("/status/terminate", "/status/picture", "/status/tools"):
        assert (server.request("GET", path)[0], server.request("GET", path)[1]["allow"]) == (405, "POST")
    assert server.request("HEAD", "/status/feed", headers=bearer(ADA))[0] == 405


# who may ask


@pytest.mark.parametrize("key", [None, "wrong", BOB + "x"])
def test_what_the_page_tells_needs_a_key_in_its_header(server: WsServer, key: str | None) -> None:
    assert server.request("GET", "/status/feed", headers=bearer(key))[0] == 401
    assert server.request("GET", f"/status/feed?key={ADA}&authorization=Bearer%20{ADA}", headers=bearer(key))[0] == 401
    for path in ("/status/picture", "/status/terminate", "/status/tools"):
        status, body = post(server, path, "face", key)
        assert (status, json.loads(body)["code"]) == (401, "not_authenticated")
        assert post(server, f"{path}?key={ADA}", "face", key)[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},  # another server of this machine
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "rubbish"},
    ],
)
def test_no_other_page_reads_or_terminates(open_server: WsServer, headers: dict[str, str]) -> None:
    assert open_server.request("GET", "/status/feed", headers=headers)[0] == 403
    for path in ("/status/picture", "/status/terminate", "/status/tools"):
        body = b'{"token":"face"}'
        assert open_server.request("POST", path, body, {"Content-Type": "application/json", **headers})[0] == 403
    with open_server.client() as client:
        assert [task["token"] for task in client.body("rrext_get_tasks")["tasks"]] == ["face"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_no_form_terminates(open_server: WsServer, kind: str) -> None:
    with open_server.client() as client:
        client.body("execute", pipeline=echo(), token="formed")
        status, _, body = open_server.request("POST", "/status/terminate", b'{"token":"formed"}', {"Content-Type": kind})
        assert (status, json.loads(body)["code"]) == (400, "invalid_arguments")
        client.body("terminate", token="formed")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"token":null}', b'{"token":7}', b"[]", b"\xff", b'{"token":"\\ud800"}'])
def test_terminate_needs_a_token_even_if_one_pipeline_runs(open_server: WsServer, body: bytes) -> None:
    status, _, answer = open_server.request("POST", "/status/terminate", body, {"Content-Type": "application/json"})
    assert (status, json.loads(answer)["code"]) == (400, "invalid_arguments")


def test_a_body_over_the_limit_is_refused_before_it_is_read(open_server: WsServer) -> None:
    assert post(open_server, "/status/terminate", "x" * 10_000)[0] == 413


def test_the_page_of_an_address_of_many_names_may_ask_and_others_may_not(tmp_path: Any) -> None:
    with WsServer(address="0.0.0.0:0", env={"ROCKETRIDE_APIKEY": ADA}) as server:
        own = {"Host": f"status.example:{server.port}", "Origin": f"http://status.example:{server.port}"}
        assert post(server, "/status/terminate", "nothing", ADA, **own)[0] == 404
        assert post(server, "/status/terminate", "nothing", None, **own)[0] == 401
        assert post(server, "/status/terminate", "nothing", ADA, **{**own, "Origin": "http://evil.example"})[0] == 403


# what it tells


def test_the_feed_tells_of_pipelines_calls_nodes_edges_and_failures(trusting: WsServer) -> None:
    with open_page(trusting) as page, trusting.client() as client:
        client.body("execute", pipeline=echo(name="an echo"), token="echo", name="an echo")
        for _ in range(3):
            pipe = client.body("rrext_process", subcommand="open", token="echo", mimeType="text/plain")["pipe_id"]
            client.body("rrext_process", subcommand="write", pipe_id=pipe, data="hi")
            client.body("rrext_process", subcommand="close", pipe_id=pipe)
        client.failure("rrext_process", subcommand="tool", tool="unheard_of", token="face")
        client.tool("who", token="face")
        page.until(lambda page: page.rows.get("echo", {}).get("completed") == 3 and bool(page.failures))
        page.until(lambda page: page.rows["echo"]["calls"] == 9)
    row = page.rows["echo"]
    assert (row["name"], row["state"], row["own"], row["source"]) == ("an echo", "Running", True, "w")
    assert row["nodes"] == {"out": [3, 0, 0]}
    assert row["edges"] == [["data", "text", "out", 3]]
    assert row["objects"] == 3
    assert 0 < row["p50"] <= row["p99"]
    assert 0 < page.head["p50"] <= page.head["p99"]
    assert page.head["tasks"] == 2
    assert (page.rows["face"]["failedCalls"], page.head["failedCalls"], page.head["completed"]) == (1, 1, 3)
    assert page.head["serverBegan"] <= page.head["began"] <= page.head["now"]
    who = next(node for node, counts in page.rows["face"]["nodes"].items() if counts[0] == 1)
    assert ["control", "", who, 1] in page.rows["face"]["edges"]
    (failure,) = page.failures
    assert (failure["token"], failure["where"], failure["code"]) == ("face", "unheard_of", "tool_not_found")


def test_equal_failures_are_one_line_whose_number_grows(trusting: WsServer) -> None:
    with open_page(trusting) as page, trusting.client() as client:
        for _ in range(3):
            client.failure("rrext_process", subcommand="tool", tool="thrice", token="face")
        page.until(lambda page: any(each["where"] == "thrice" and each["count"] == 3 for each in page.failures))
        assert len({each["id"] for each in page.failures if each["where"] == "thrice"}) == 1


def test_the_times_of_tools_are_those_of_the_users_own_calls(server: WsServer) -> None:
    with open_page(server, ADA) as page, open_page(server, BOB), server.client(ADA) as ada:
        ada.tool("add", {"a": 1}, token="face")
        ada.failure("rrext_process", subcommand="tool", tool="add", input={"a": "x"}, token="face")
        page.until(lambda page: page.rows["face"]["calls"] == 2)
        told = json.loads(post(server, "/status/tools", "face", ADA)[1])
        (tool,) = told["tools"]
        assert (tool["tool"], tool["node"], tool["calls"], tool["failed"]) == ("add", "probe_1", 2, 1)
        assert sum(step[1] for step in tool["steps"]) == 2
        assert (told["step"] * told["steps"], told["steps"]) == (900, 90)
        assert json.loads(post(server, "/status/tools", "face", BOB)[1])["tools"] == []
        assert json.loads(post(server, "/status/tools", "never", ADA)[1])["tools"] == []


def test_a_call_at_work_is_told_of_its_node(trusting: WsServer) -> None:
    with open_page(trusting) as page, trusting.client() as client:
        number = client.post("rrext_process", subcommand="tool", tool="park", token="face")
        page.until(lambda page: any(counts[1] == 1 for counts in page.rows["face"]["nodes"].values()))
        client.body("cancel", requestId=number)
        page.until(lambda page: not any(counts[1] for counts in page.rows["face"]["nodes"].values()))


def test_a_terminated_pipeline_stays_on_the_page_as_ended(open_server: WsServer) -> None:
    with open_page(open_server) as page, open_server.client() as client:
        client.body("execute", pipeline=echo(), token="brief", name="brief")
        page.until(lambda page: "brief" in page.rows)
        assert post(open_server, "/status/terminate", "brief") == (200, b"{}")
        page.until(
            lambda page: any(row["state"] == "Cancelled" and row["name"].startswith("brief") for row in page.rows.values())
        )
        assert "brief" not in page.rows
        assert post(open_server, "/status/terminate", "brief")[0] == 200  # as the command answers for one that has ended
        assert post(open_server, "/status/terminate", "never")[0] == 404


def test_users_see_nothing_of_each_other(server: WsServer) -> None:
    with server.client(ADA) as ada, open_page(server, BOB) as bobs, open_page(server, ADA) as adas:
        ada.body("execute", pipeline=echo("adas_node"), token="adas_task", name="adas plans")
        for token in ("adas_task", "face"):
            opened = ada.body(
                "rrext_process", subcommand="open", token=token, object={"name": "adas.txt"}, mimeType="text/plain"
            )
            ada.body("rrext_process", subcommand="write", pipe_id=opened["pipe_id"], data="adas words")
            ada.body("rrext_process", subcommand="close", pipe_id=opened["pipe_id"])
        ada.failure("rrext_process", subcommand="tool", tool="adas_mistake", token="face")
        adas.until(lambda page: bool(page.failures) and page.rows["adas_task"]["completed"] == 1)
        adas.until(lambda page: len(page.lines) >= 7)
        bobs.look()
        bobs.look()
        assert post(server, "/status/picture", "adas_task", BOB)[0] == 404
        assert post(server, "/status/terminate", "adas_task", BOB)[0] == 404
        assert post(server, "/status/picture", "adas_task", ADA)[0] == 200
        ada.body("terminate", token="adas_task")
        bobs.look()
        bobs.look()
    assert "adas" not in bobs.text
    assert '"ada"' not in bobs.text
    assert (bobs.rows["face"]["nodes"], bobs.rows["face"]["p50"]) == ({}, None)
    assert [line for line in bobs.lines if "client=page" not in line] == []
    assert bobs.head["user"] == "bob"


def test_the_servers_pipeline_is_not_its_clients_to_terminate(server: WsServer) -> None:
    with open_page(server, ADA) as page:
        assert page.rows["face"]["own"] is False
    status, body = post(server, "/status/terminate", "face", ADA)
    assert json.loads(body)["code"] == "unavailable"
    assert status == 500


def test_the_log_is_for_trusted_clients_alone(trusting: WsServer, open_server: WsServer) -> None:
    for server, is_trusted in ((trusting, True), (open_server, False)):
        with open_page(server) as page, server.client() as client:
            client.failure("rrext_process", subcommand="tool", tool="crash", token="face")
            page.until(lambda page: bool(page.lines) and bool(page.failures))
            page.look()
        assert page.head["isTrusted"] is is_trusted
        assert any("WARNING rrext.failures" in line for line in page.lines) is is_trusted
        assert ("swordfish" in page.text) is is_trusted  # the text of the exception
        assert any("tool=crash" in line and "outcome=tool_failed" in line for line in page.lines) is not is_trusted


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for thread in Path(f"/proc/{pid}/task").glob("*/children") for child in thread.read_text().split()]


def workers(server: WsServer) -> list[int]:
    """The processes of pipelines, which a child of the server forks."""
    below = [pid for child in children(server.process.pid) for pid in children(child)]
    return [pid for pid in below if b"worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")
def test_pipelines_in_processes_of_their_own_are_shown_alike_and_fail_with_them() -> None:
    with WsServer("--isolation", "process", files=()) as server, open_page(server) as page, server.client() as client:
        client.body("execute", pipeline=echo(), token="apart", name="apart")
        pipe = client.body("rrext_process", subcommand="open", token="apart", mimeType="text/plain")["pipe_id"]
        client.body("rrext_process", subcommand="write", pipe_id=pipe, data="hi")
        client.body("rrext_process", subcommand="close", pipe_id=pipe)
        page.until(lambda page: page.rows.get("apart", {}).get("calls") == 3 and page.rows["apart"]["completed"] == 1)
        assert page.rows["apart"]["nodes"] == {"out": [1, 0, 0]}
        assert post(server, "/status/picture", "apart")[0] == 200
        for pid in workers(server):
            os.kill(pid, signal.SIGKILL)
        page.until(lambda page: [(row["name"], row["state"]) for row in page.rows.values()] == [("apart", "Failed")])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_restarts_are_told_and_the_counts_go_on(isolation: str) -> None:
    with WsServer("--isolation", isolation) as server, open_page(server) as page, server.client() as client:
        client.body("execute", pipeline=echo(), token="again", name="again")
        for token in ("again", "face"):
            client.failure("rrext_process", subcommand="tool", tool="nothing_such", token=token)
        page.until(lambda page: page.head["failedCalls"] == 2)
        client.body("restart", token="again")
        page.until(lambda page: bool(page.rows.get("again", {}).get("restarts")))
        restarts = page.rows["again"]["restarts"]
        assert (restarts["count"], restarts["reason"], page.rows["again"]["failedCalls"]) == (1, "restarted", 1)
        assert page.head["restarts"] == 1
        if isolation == "process":
            for pid in workers(server):
                os.kill(pid, signal.SIGKILL)
            page.until(lambda page: bool(page.rows.get("face", {}).get("restarts")))
            assert page.rows["face"]["restarts"]["reason"] == "lost"
            assert page.rows["face"]["failedCalls"] == 1


# pictures


def test_a_picture_shows_names_as_text_and_settings_not_at_all(open_server: WsServer) -> None:
    pipeline = echo(EVIL)
    pipeline["components"][1]["config"]["laneName"] = "a_setting"
    pipeline["components"][1]["name"] = "\u202e\x00<img src=x onerror=alert(1)>"
    with open_server.client() as client:
        client.body("execute", pipeline=pipeline, token="evil", name=EVIL)
        status, body = post(open_server, "/status/picture", "evil")
        client.body("terminate", token="evil")
    root = ElementTree.fromstring(body)
    assert status == 200
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "g",
        "path",
        "circle",
        "text",
    }
    assert not [key for element in root.iter() for key in element.attrib if key.startswith("on") or key in ("style", "href")]
    assert [group.attrib["data-node"] for group in root.iter() if "data-node" in group.attrib] == ["w", EVIL]
    (edge,) = (group.attrib for group in root.iter() if "data-edge" in group.attrib)
    assert edge == {"data-edge": "data", "data-names": "text", "data-from": "w", "data-to": EVIL}
    assert b"a_setting" not in body


def test_the_outline_of_the_servers_pipeline_has_none_of_its_settings(server: WsServer) -> None:
    with server.client(ADA) as client:
        outline = client.body("rrext_get_pipeline", token="face", outline=True)["outline"]
        assert client.failure("rrext_get_pipeline", token="face", outline=False)[0] == "unavailable"
    assert set(outline) == {"sources", "components"}
    assert {key for part in outline["components"] for key in part} == {"id", "provider", "name", "input", "control"}
    assert post(server, "/status/picture", "face", ADA)[0] == 200


# limits and ends


def test_a_user_has_a_limited_number_of_open_pages(server: WsServer) -> None:
    pages: list[AbstractContextManager[OpenPage]] = []
    while len(pages) < MAX_PAGES_OF_USER:
        page = open_page(server, ADA)
        with suppress(AssertionError):  # the server has not noticed yet that a page of another test is closed
            page.__enter__()
            pages.append(page)
    try:
        status, _, body = server.request("GET", "/status/feed", headers=bearer(ADA))
        assert (status, json.loads(body)["code"]) == (429, "too_many_requests")
        with open_page(server, BOB):
            pass
    finally:
        for page in pages:
            page.__exit__(None, None, None)
    while server.request("GET", "/status/picture", headers=bearer(ADA))[0] != 405:
        pass


def test_a_page_that_does_not_read_holds_up_nobody() -> None:
    with WsServer("--isolation", "none") as server, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(PATIENCE)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /status/feed HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert deaf.recv(15) == b"HTTP/1.1 200 OK"
        with open_page(server) as page, server.client() as client:
            for index in range(40):
                client.body("execute", pipeline=echo(description="x" * 2000), token=f"long_{index}")
            page.until(lambda page: len(page.rows) >= 41)
            for index in range(40):
                client.body("terminate", token=f"long_{index}")
            page.until(lambda page: "long_39" not in page.rows)


def test_the_end_of_the_server_ends_the_feeds_at_once() -> None:
    with WsServer() as server, open_page(server) as page:
        server.process.send_signal(signal.SIGTERM)
        page.until(lambda page: page.is_ended)
        assert server.process.wait(PATIENCE) == 0
