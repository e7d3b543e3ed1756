"""`tool_http_request`: what is sent, what comes back, and what no caller can reach."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rrext.client.client import Client
from rrext.engine.local_engine import LocalEngine
from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.nodes.basic.http_request import HttpRequestNode, Rate
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_node
from rrext.testing.sessions import pair

PNG = b"\x89PNG\r\n\x1a\n\0\0"
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/png": (200, {"content-type": "image/png"}, PNG),
    "/latin": (200, {"content-type": "text/plain; charset=iso-8859-1"}, "größe".encode("latin-1")),
    "/broken-text": (200, {"content-type": "text/plain"}, b"gr\xf6\xdfe"),
    "/no-json": (200, {"content-type": "application/json"}, b'{"a": NaN}'),
    "/none": (204, {}, b""),
    "/missing": (404, {"content-type": "application/problem+json"}, b'{"title": "not here"}'),
    "/large": (200, {"content-type": "text/plain"}, b"x" * 100_001),
    "/packed": (200, {"content-encoding": "br"}, b"x"),
    "/circle": (302, {"location": "/circle"}, b""),
    "/there": (307, {"location": "/echo?from=there"}, b""),
    "/seen": (303, {"location": "/echo?seen"}, b""),
    "/up": (302, {"location": "/allowed/%2e%2e/echo"}, b""),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if path == "/hang":
            self.server.hanging.set()
            self.rfile.read(1)  # returns when the client is gone
            self.server.left.set()
            return
        asked = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": body.decode()}
        self.server.asked.append(asked)
        status, headers, content = ANSWERS.get(path, (200, {"content-type": "application/json"}, json.dumps(asked).encode()))
        if path == "/elsewhere":
            status, headers = 307, {"location": f"{self.server.other}/echo"}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer

    def log_message(self, format: str, *args: Any) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        self.hanging, self.left = threading.Event(), threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.other = f"http://localhost:{self.server_address[1]}"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    running.asked.clear()
    running.hanging.clear()
    running.left.clear()
    return running


class Sender:
    """Sends requests through a node."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self.address = address

    async def ask(self, path: str, method: str = "GET", **more: Any) -> Any:
        url = path if "://" in path else self.address + path
        return await self.client.tool(tool="http_request", input={"url": url, "method": method, **more})

    async def echo(self, path: str = "/echo", method: str = "GET", **more: Any) -> dict[str, Any]:
        """What the server got."""
        found: dict[str, Any] = (await self.ask(path, method, **more))["json"]
        return {**found, "headers": {name.lower(): value for name, value in found["headers"].items()}}

    async def refused(self, path: str, method: str = "GET", **more: Any) -> RrextError:
        with pytest.raises(RrextError) as caught:
            await self.ask(path, method, **more)
        return caught.value


@asynccontextmanager
async def node(server: Server, **config: Any) -> AsyncIterator[Sender]:
    async with open_node(HttpRequestNode, {"allowPrivateAddresses": True, "rateLimitPerSecond": 0, **config}) as client:
        yield Sender(client, server.address)


async def test_a_request_has_what_its_caller_gave(server: Server) -> None:
    async with node(server) as sender:
        got = await sender.echo(
            "/users/:id/:part?a=1#end",
            "POST",
            path_params={"id": 7, "part": "a/b c"},
            query_params={"page": 2, "all": True, "q": "x&y"},
            headers={"X-Note": "hello", "Accept-Encoding": "gzip"},
            bearer_token="t0ken-of-a-caller",
            body_json={"name": "Ada"},
        )
        assert (got["method"], got["path"]) == ("POST", "/users/7/a%2Fb%20c?a=1&page=2&all=true&q=x%26y")
        told = {name: got["headers"].get(name) for name in ("x-note", "authorization", "content-type", "accept-encoding")}
        assert told == {
            "x-note": "hello",
            "authorization": "Bearer t0ken-of-a-caller",
            "content-type": "application/json",
            "accept-encoding": "identity",
        }
        assert json.loads(got["body"]) == {"name": "Ada"}
        got = await sender.echo(method="PUT", basic_auth={"username": "ada", "password": "ü"}, body_json="[1]")
        assert base64.b64decode(got["headers"]["authorization"].removeprefix("Basic ")).decode() == "ada:ü"
        assert got["body"] == "[1]"
        form = {"type": "x_www_form_urlencoded", "urlencoded": {"a": "1 2", "b": "&"}}
        got = await sender.echo(method="POST", body=form, auth={"type": "api_key", "api_key": {"key": "X-Key", "value": "v"}})
        assert (got["body"], got["headers"]["x-key"]) == ("a=1+2&b=%26", "v")
        key = {"type": "api_key", "api_key": {"key": "k", "value": "v", "add_to": "query_param"}}
        got = await sender.echo(method="PATCH", auth=key, body={"type": "form_data", "form_data": {"a": "x"}})
        assert got["path"] == "/echo?k=v"
        assert got["headers"]["content-type"].startswith("multipart/form-data; boundary=")
        assert 'name="a"\r\n\r\nx\r\n' in got["body"]
        raw = {"type": "raw", "raw": {"content": "<a/>", "content_type": "application/xml"}}
        assert (await sender.echo(method="DELETE", body=raw))["headers"]["content-type"] == "application/xml"


async def test_an_answer_is_what_the_server_said(server: Server) -> None:
    async with node(server, allowHEAD=True) as sender:
        told = await sender.ask("/png")
        assert (told["body"], told["body_encoding"], told["json"]) == (base64.b64encode(PNG).decode(), "base64", None)
        assert (told["status_code"], told["status_text"], told["content_type"]) == (200, "OK", "image/png")
        assert (await sender.ask("/latin"))["body"] == "größe"
        assert (await sender.ask("/broken-text"))["body"] == "gr\ufffd\ufffde"
        told = await sender.ask("/no-json")
        assert (told["body"], told["json"]) == ('{"a": NaN}', None)
        told = await sender.ask("/none")
        assert (told["status_code"], told["body"]) == (204, "")
        told = await sender.ask("/missing")
        assert (told["status_code"], told["json"]) == (404, {"title": "not here"})
        told = await sender.ask("/large", "HEAD")
        assert (told["body"], told["headers"]["content-length"]) == ("", "100001")
        assert len((await sender.ask("/large"))["body"]) == 100_001


async def test_limits_end_a_request(server: Server) -> None:
    async with node(server, maxAnswer=100_000, rateLimitPerMinute=6, maxConcurrentRequests=1) as sender:
        assert (await sender.refused("/large")).code == "http_answer_too_large"
        assert (await sender.refused("/packed")).code == "http_bad_answer"
        assert (await sender.refused("/circle")).code == "http_redirected"
        late = await sender.refused("/hang", timeout=2)
        assert (late.code, late.message) == ("http_timeout", f"Server {server.address} was not done within 2 s")
        assert isinstance(await sender.refused("/echo", timeout=301), InvalidArguments)
        assert await asyncio.to_thread(server.left.wait, 50)
        server.hanging.clear()
        server.left.clear()
        hanging = asyncio.ensure_future(sender.ask("/hang"))
        assert await asyncio.to_thread(server.hanging.wait, 50)
        assert "maxConcurrentRequests" in (await sender.refused("/echo")).message
        hanging.cancel()
        assert await asyncio.to_thread(server.left.wait, 50), "a cancel closes the connection"
        await sender.ask("/echo")
        limited = await sender.refused("/echo")
        assert (limited.code, limited.data["retryAfter"] > 0) == ("http_rate_limited", True)
        assert "6 requests per minute" in limited.message


def test_a_rate_fills_evenly() -> None:
    rate = Rate(2, 1.0, "second")
    taken = []
    for now in (0.0, 0.0, 0.0, 0.25, 0.5, 0.5, 9.0, 9.0, 9.0):
        wait = rate.wait(now)
        taken.append(wait)
        if not wait:
            rate.left -= 1
    assert taken == [0, 0, 0.5, 0.25, 0, 0.5, 0, 0, 0.5]


@pytest.mark.promise("http-request:allowed-alone")
@pytest.mark.parametrize("value", ["..", ".", "%2e%2E", "../..", "..\\x", "a/../b"])
async def test_a_value_for_the_path_leads_to_no_other_folder(server: Server, value: str) -> None:
    async with node(server) as sender:
        for path in ("/users/:id/profile", "/users/:id"):
            refused = await sender.refused(path, path_params={"id": value})
            assert (refused.code, refused.data["errors"][0]["path"]) == ("invalid_arguments", "/input/path_params/id"), path
        for path in ("/users/../profile", "/users/.:id/profile"):
            refused = await sender.refused(path, path_params={"id": "."} if ":" in path else {})
            assert refused.code == "invalid_arguments", path
        assert server.asked == []
        assert (await sender.echo("/users/:id/x", path_params={"id": "a..b"}))["path"] == "/users/a..b/x"


@pytest.mark.promise("http-request:allowed-alone")
async def test_methods_and_addresses_that_are_not_allowed_are_not_asked(server: Server) -> None:
    allowed = [{"whitelistPattern": f"^{server.address}/(allowed|there|seen|up|elsewhere|echo\\?)"}, {"whitelistPattern": " "}]
    async with node(server, allowPOST=False, urlWhitelist=allowed, allowGET=False, allowPUT=True) as sender:
        refused = await sender.refused("/allowed", "POST")
        assert isinstance(refused, Unavailable)
        assert (refused.message, "allowPOST" in str(refused.hint)) == ("Requests with the method POST are off", True)
        assert isinstance(await sender.refused("/allowed", "HEAD"), Unavailable)
        assert (await sender.refused("/echo", "PUT")).code == "url_not_allowed"
        assert (await sender.refused("/seen", "PUT")).code == "unavailable", "the redirect is one to GET"
        assert (await sender.refused("/up", "PUT")).code == "http_redirected"
        assert (await sender.refused("/elsewhere", "PUT")).code == "url_not_allowed"
        assert [each["path"] for each in server.asked] == ["/seen", "/up", "/elsewhere"]
        assert (await sender.echo("/there", "PUT", body_json=[1]))["body"] == "[1]"
        assert server.asked[-1]["path"] == "/echo?from=there"
        server.asked.clear()
        host = server.address.removeprefix("http://")
        for url in (
            f"http://user:word@{host}/allowed",
            f"{server.address}/allowed/../echo",
            f"{server.address}/allowed/%2e%2e/echo",
            f"{server.address}/allowed/..%5Cecho",
            "file:///etc/passwd",
            "/allowed",
            f"{server.address}/allowed?{'x' * 9000}",
        ):
            refused = await sender.refused(url, "PUT") if "://" in url else await sender.refused(f"{url}://", "PUT")
            assert isinstance(refused, InvalidArguments | ToolError), url
            assert refused.code in ("invalid_arguments", "url_not_allowed"), url
        for more in (
            {"headers": {"Host": "other"}},
            {"headers": {"X-A": "a\r\nHost: other"}},
            {"headers": {"X A": "a"}},
            {"path_params": {"id": "1"}},
            {"auth": {"type": "bearer"}},
            {"body": {"type": "raw"}},
        ):
            assert isinstance(await sender.refused("/allowed", "PUT", **more), InvalidArguments), more
        assert server.asked == []


@pytest.mark.promise("http-request:secrets-stay")
async def test_secrets_of_a_caller_reach_its_server_alone(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    secret = "correct-horse-battery-staple"
    key = {"type": "api_key", "api_key": {"key": "k", "value": secret, "add_to": "query_param"}}
    with caplog.at_level(logging.DEBUG):
        async with node(server) as sender:
            there = await sender.echo("/there", "POST", bearer_token=secret, body_json={})
            assert there["headers"]["authorization"] == f"Bearer {secret}"
            given = {"X-Key": secret, "Cookie": secret, "Accept": "text/html"}
            elsewhere = await sender.echo("/elsewhere", "POST", basic_auth={"password": secret}, headers=given, body_json={})
            assert (elsewhere["headers"]["accept"], elsewhere["headers"]["content-type"]) == ("text/html", "application/json")
            assert not {"authorization", "x-key", "cookie"} & elsewhere["headers"].keys()
            await sender.ask("/missing", auth=key)
            for path in ("/packed", "http://127.0.0.1:1/"):
                refused = await sender.refused(path, auth=key, headers={"X-Key": secret})
                assert secret not in repr((refused, refused.hint, refused.data))
    assert any("HTTP Request" in line for line in caplog.messages)
    assert secret not in caplog.text


@pytest.mark.promise("http-request:public-alone")
async def test_private_addresses_need_the_word_of_an_operator(server: Server) -> None:
    async with open_node(HttpRequestNode) as client:
        sender = Sender(client, server.address)
        for address in (server.address, server.other, "http://169.254.169.254/latest", "http://[::1]:1", "http://2130706433/"):
            refused = await sender.refused(f"{address}/echo")
            assert refused.code == "private_address", address
        assert "allowPrivateAddresses" in str((await sender.refused("/echo")).hint)
    engine = LocalEngine()
    component: dict[str, Any] = {"id": "n", "provider": "tool_http_request", "config": {"allowPrivateAddresses": True}}
    component["control"] = [{"classType": "tool", "from": "s"}]
    pipeline = {"components": [{"id": "s", "provider": "tools", "config": {}}, component]}
    try:
        engine.load(pipeline, token="t", owner="ada", remote=True)
        async with pair(engine, trusted=True) as client:
            refused = await Sender(client, server.address).refused("/echo")
            assert (refused.code, "--trust-clients" in str(refused.hint)) == ("private_address", True)
    finally:
        await engine.aclose()
    assert server.asked == []


def test_a_check_finds_a_pattern_that_is_none() -> None:
    rows = [{"whitelistPattern": "^https://a/"}, {"whitelistPattern": "https://["}]
    component = {"id": "n", "provider": "tool_http_request", "config": {"urlWhitelist": rows, "serverNames": "x"}}
    pipeline = {"components": [{"id": "s", "provider": "tools", "config": {}}, component]}
    problems = load_pipeline(pipeline, Catalog(installed=False), Environment()).problems
    assert [(each.code, each.path) for each in problems if "config" in each.code] == [
        ("unknown_config_key", "/components/1/config/serverNames"),
        ("invalid_config", "/components/1/config/urlWhitelist/1"),
    ]
