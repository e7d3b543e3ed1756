"""External MCP servers over Streamable HTTP: unreachable, restarted, refusing, endless."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from free_ports import free_port
from mcp_connections import PATIENCE, Connect

from rrext.errors import ResultTooLarge, ToolError, Unavailable
from rrext.limits import KIB, Limits
from rrext.tools.context import ToolContext

INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
TOOLS = {"tools": [{"name": "act"}]}


class Request:
    """A request as a hand-written server sees it, and its answers."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        line, *lines = head.decode().split("\r\n")
        self.http_method = line.split()[0]
        self.headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines if each)}
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.method = self.message.get("method", "")
        self.writer = writer

    def answer(self, result: Any, *headers: str) -> None:
        self.send("200 OK", json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode(), *headers)

    def send(self, status: str, body: bytes = b"", *headers: str) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
        self.writer.write("\r\n".join([*head, "", ""]).encode() + body)


Handler = Callable[[Request], Awaitable[None] | None]


@asynccontextmanager
async def serving(handle: Handler, port: int = 0, *, shakes_hands: bool = True) -> AsyncIterator[str]:
    """A server that answers as one of 2025-11-25, without sessions; `handle` gets what is neither handshake nor list.

    Without handshakes it gets all.
    """

    writers: list[asyncio.StreamWriter] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = Request(head, b"", writer)
                length = int(request.headers.get("content-length", "0"))
                request = Request(head, await reader.readexactly(length), writer)
                if not shakes_hands:
                    handle(request)
                elif request.method == "server/discover":
                    request.send("404 Not Found")
                elif request.method == "initialize":
                    request.answer(INFO)
                elif request.method == "tools/list":
                    request.answer(TOOLS)
                elif request.method.startswith("notifications/"):
                    request.send("202 Accepted")
                elif request.http_method != "POST":
                    request.send("405 Method Not Allowed")
                else:
                    waiting = handle(request)
                    if waiting is not None:
                        await waiting
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", port)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    for writer in writers:
        writer.close()


async def test_a_server_that_is_not_there_is_one_readable_error(connect: Connect) -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"cannot be reached.*http://127.0.0.1:{port}/mcp") as caught:
        await connect(url=f"http://127.0.0.1:{port}/mcp").tools()
    assert "URL" in (caught.value.hint or "")


async def test_a_refused_key_says_the_status(connect: Connect) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="HTTP 401 Unauthorized"):
            await connect(url=f"http://127.0.0.1:{port}/mcp").tools()


async def test_the_headers_of_the_connection_arrive(connect: Connect) -> None:
    seen: list[str | None] = []

    def act(request: Request) -> None:
        seen.append(request.headers.get("authorization"))
        request.answer({"content": []})

    async with serving(act) as url:
        headers = {"Authorization": "env:KEY"}
        provider = connect(url=url, headers=headers, variables={"KEY": "Bearer swordfish"})
        await provider.call("act", {}, ToolContext())
    assert seen == ["Bearer swordfish"]


async def test_the_authorization_of_a_caller_arrives_with_its_calls_if_it_is_forwarded(connect: Connect) -> None:
    seen: list[str | None] = []

    def act(request: Request) -> None:
        seen.append(request.headers.get("authorization"))
        request.answer({"content": []})

    async with serving(act) as url:
        forwarding = connect(url=url, headers={"Authorization": "ours"}, forward_authorization=True)
        silent = connect(url=url)
        for context in (ToolContext(authorization="Bearer one"), ToolContext(authorization="Bearer two"), ToolContext()):
            await forwarding.call("act", {}, context)
        await silent.call("act", {}, ToolContext(authorization="Bearer one"))
    assert seen == ["Bearer one", "Bearer two", "ours", None]


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ("500 Oh No", ToolError, "HTTP 500 Oh No"),
        ("429 Too Many Requests", ToolError, "HTTP 429"),
        ("302 Found", ToolError, "Unexpected content type|Redirect"),
        ("200 OK", ToolError, "no message of the protocol"),
    ],
)
async def test_an_http_error_fails_its_call_alone(connect: Connect, status: str, error: type[Exception], message: str) -> None:
    calls = 0

    def act(request: Request) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            request.send(status, b"<html>", "Location: http://127.0.0.1:1/elsewhere")
        else:
            request.answer({"content": [{"type": "text", "text": "fine"}]})

    async with serving(act) as url:
        provider = connect(url=url)
        with pytest.raises(error, match=message):
            await provider.call("act", {}, ToolContext())
        assert await provider.call("act", {}, ToolContext()) == "fine"
    assert calls == 2


ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{}}'


@pytest.mark.promise("mcp-server:hostile:alone")
@pytest.mark.parametrize(
    ("kind", "body", "said", "logged"),
    [
        ("application/json", b'{"swagger":"2.0"}', "HTTP 200 with application/json", 0),
        ("application/json", b"[1]", "HTTP 200 with application/json", 0),
        ("application/json", b"", "HTTP 200 with application/json", 0),
        ("application/json", b'{"jsonrpc":"2.0","result":{}}', "HTTP 200 with application/json", 0),
        ("application/json", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "HTTP 200 with application/json", 0),
        ("application/json", b"[" * 100_000, "HTTP 200 with application/json", 0),
        ("application/json", ANSWER, "validation errors for InitializeResult", 0),
        ("text/html; charset=utf-8", b"<html>", "HTTP 200 with text/html,", 0),
        ("", b"hello", "HTTP 200 with no content type", 0),
        ("text/event-stream", b"data: hello\n\n", "Failed to parse SSE message", 2),
    ],
    ids=range(10),
)
async def test_a_server_that_does_not_speak_the_protocol_is_told_in_one_line(
    connect: Connect, caplog: pytest.LogCaptureFixture, kind: str, body: bytes, said: str, logged: int
) -> None:
    def answer(request: Request) -> None:
        whole = body % request.message.get("id", 0) if body is ANSWER else body
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(whole)}\r\n\r\n"
        request.writer.write(head.encode() + whole)

    async with serving(answer, shakes_hands=False) as url:
        with pytest.raises(Unavailable, match=said) as caught:
            await connect(url=url).tools()
    assert "\n" not in str(caught.value)
    lines = [caplog.handler.format(record) for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert len(lines) == logged
    assert not [line for line in lines if "\n" in line]


@pytest.mark.promise("mcp-server:hostile:alone")
async def test_a_large_answer_fails_its_call_alone(connect: Connect) -> None:
    def act(request: Request) -> None:
        size = request.message["params"]["arguments"]["size"]
        request.answer({"content": [{"type": "text", "text": "x" * size}]})

    async with serving(act) as url:
        provider = connect(url=url, limits=Limits(max_result=64 * KIB))
        with pytest.raises(ResultTooLarge, match="131,072"):
            await provider.call("act", {"size": 1_000_000}, ToolContext())
        assert await provider.call("act", {"size": 3}, ToolContext()) == "xxx"


async def test_a_large_event_fails_its_call_alone(connect: Connect) -> None:
    def act(request: Request) -> None:
        size = request.message["params"]["arguments"]["size"]
        result = {"content": [{"type": "text", "text": "x" * size}]}
        data = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        body = f"event: message\ndata: {data}\n\n".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        request.writer.write(head.encode() + body)

    async with serving(act) as url:
        provider = connect(url=url, limits=Limits(max_result=64 * KIB))
        with pytest.raises(ToolError):
            await provider.call("act", {"size": 1_000_000}, ToolContext())
        assert await provider.call("act", {"size": 3}, ToolContext()) == "xxx"


async def test_a_connection_that_breaks_in_a_call_fails_that_call_alone(connect: Connect) -> None:
    release = asyncio.Event()

    async def act(request: Request) -> None:
        if request.message["params"]["arguments"].get("breaks"):
            request.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            request.writer.close()
        else:
            await release.wait()
            request.answer({"content": [{"type": "text", "text": "fine"}]})

    async with serving(act) as url:
        provider = connect(url=url)
        other = asyncio.create_task(provider.call("act", {}, ToolContext()))
        with pytest.raises(ToolError, match="was lost during this call: the HTTP connection broke") as caught:
            await provider.call("act", {"breaks": True}, ToolContext())
        assert "may have run" in (caught.value.hint or "")
        release.set()
        assert await other == "fine"


async def test_a_change_that_is_announced_on_the_stream_of_a_session_is_told(connect: Connect) -> None:
    known = [{"name": "act"}]
    changing = asyncio.Event()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                request = Request(head, b"", writer)
                request = Request(head, await reader.readexactly(int(request.headers.get("content-length", "0"))), writer)
                if request.method == "server/discover":
                    request.send("400 Bad Request")
                elif request.method == "initialize":
                    request.answer(INFO, "Mcp-Session-Id: 1")
                elif request.method == "tools/list":
                    request.answer({"tools": known})
                elif request.http_method == "GET":
                    await changing.wait()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                    writer.write(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
                else:
                    request.send("202 Accepted")
        writer.close()

    async with await asyncio.start_server(converse, "127.0.0.1", 0) as server:
        provider = connect(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        assert [tool.name for tool in await provider.tools()] == ["act"]
        changed = asyncio.Event()
        provider.watch(changed.set)
        known.append({"name": "more"})
        changing.set()
        async with asyncio.timeout(PATIENCE):
            await changed.wait()
        assert [tool.name for tool in await provider.tools()] == ["act", "more"]


async def test_a_session_that_a_restarted_server_forgot_is_begun_anew(connect: Connect) -> None:
    began = 0
    known: set[str] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal began
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return writer.close()
            request = Request(head, b"", writer)
            request = Request(head, await reader.readexactly(int(request.headers.get("content-length", "0"))), writer)
            if request.method == "server/discover":
                request.send("400 Bad Request")
            elif request.method == "initialize":
                began += 1
                known.add(str(began))
                request.answer(INFO, f"Mcp-Session-Id: {began}")
            elif request.http_method == "DELETE":
                pass  # never answered
            elif request.headers.get("mcp-session-id") not in known:
                request.send("404 Not Found")
            elif request.method == "tools/list":
                request.answer(TOOLS)
            elif request.http_method != "POST" or request.method.startswith("notifications/"):
                request.send("202 Accepted" if request.http_method == "POST" else "405 Method Not Allowed")
            else:
                request.answer({"content": [{"type": "text", "text": request.headers["mcp-session-id"]}]})

    async with await asyncio.start_server(converse, "127.0.0.1", 0) as server:
        provider = connect(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        assert await provider.call("act", {}, ToolContext()) == "1"
        known.clear()
        with pytest.raises(Unavailable, match="The next call begins a new session"):
            await provider.call("act", {}, ToolContext())
        assert await provider.call("act", {}, ToolContext()) == "2"


async def test_a_server_that_dies_and_comes_back_is_called_again(connect: Connect) -> None:
    def act(request: Request) -> None:
        request.answer({"content": [{"type": "text", "text": "fine"}]})

    port = free_port()
    async with serving(act, port=port) as url:
        provider = connect(url=url)
        assert await provider.call("act", {}, ToolContext()) == "fine"
    with pytest.raises(Unavailable, match="cannot be reached"):
        await provider.call("act", {}, ToolContext())
    async with serving(act, port=port):
        assert await provider.call("act", {}, ToolContext()) == "fine"


async def test_a_cancelled_call_closes_its_request(connect: Connect) -> None:
    cancelled: list[Any] = []
    asked = asyncio.Event()
    told = asyncio.Event()

    async def act(request: Request) -> None:
        asked.set()
        await told.wait()

    original = Request.send

    def send(self: Request, status: str, *rest: Any) -> None:
        if self.method == "notifications/cancelled":
            cancelled.append(self.message["params"]["requestId"])
            told.set()
        original(self, status, *rest)

    Request.send = send  # a server of 2025-11-25 is told by a message
    try:
        async with serving(act) as url:
            provider = connect(url=url)
            call = asyncio.create_task(provider.call("act", {}, ToolContext()))
            await asked.wait()
            call.cancel()
            await told.wait()
    finally:
        Request.send = original
    assert len(cancelled) == 1
