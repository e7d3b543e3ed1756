"""HTTP has limits, and an end: slow, many and deaf clients harm no other, and calls are answered at the end."""

from __future__ import annotations

import asyncio
import resource
import select
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from http_server import HttpServer, request, two_users
from mcp_host import PATIENCE
from starlette.types import Receive, Scope, Send

from rrext.faces.http import listener
from rrext.faces.http.address import Address
from rrext.limits import DEFAULTS

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


def resident(server: HttpServer) -> int:
    """Bytes of the server in memory."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """A server of this machine, without tokens."""
    with HttpServer("--max-frame", "200000") as server:
        yield server


def test_bodies_and_headers_have_limits(server: HttpServer) -> None:
    assert server.ask("tools/call", {"name": "echo", "arguments": {"value": "x" * 200_000}})[0] == 413
    try:
        assert server.ask("tools/list", X="x" * 200_000)[0] == 400
    except ConnectionError:  # the answer came, and the connection was closed, before the whole header was sent
        pass
    assert server.call("add", a=1)["structuredContent"] == {"sum": 2}


def test_the_oldest_silent_connections_give_way_and_the_others_go_on(server: HttpServer) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port), PATIENCE) for _ in range(550)]
    gone: set[int] = set()
    poll = select.poll()
    for end in held:
        poll.register(end, select.POLLIN)
    while len(gone) < 550 - 256:
        for fd, _ in poll.poll(PATIENCE * 1000):
            gone.add(fd)
            poll.unregister(fd)
    assert server.call("add", a=1)["structuredContent"] == {"sum": 2}
    for end in held:
        end.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_calls_of_clients_that_vanish_leave_nothing_behind() -> None:
    body, headers = request("tools/call", {"name": "wait", "arguments": {"key": "left"}, "pad": "x" * (10 * MIB)})
    with HttpServer(first="import gc\n\ngc.disable()\ngc.enable = gc.disable") as server:
        server.call("add", a=1)
        before = resident(server)
        with ExitStack() as stack:
            clients = [stack.enter_context(closing(server.connect())) for _ in range(6)]
            for client in clients:
                client.request("POST", "/mcp", body, headers)
            while len(server.call("journal", key="left began")["structuredContent"]["result"]) < 6:
                pass
            assert resident(server) - before > 60 * MIB
        while resident(server) - before > 30 * MIB:
            server.call("add", a=1)


@pytest.mark.promise("ws:user:memory")
def test_calls_of_a_user_whose_bodies_are_over_the_users_limit_wait_and_are_refused(tmp_path: Path) -> None:
    ada, bob, options = two_users(tmp_path)
    large = {"name": "wait", "arguments": {"key": "full"}, "pad": "x" * (3 * MIB)}
    first = "import rrext.faces.http.budget as budget\n\nbudget.ROOM_TIMEOUT = 1.0"
    with HttpServer(*options, "--max-user-bytes", str(4 * MIB), first=first) as server, ExitStack() as stack:
        for number in (1, 2):
            client = stack.enter_context(closing(server.connect()))
            client.request("POST", "/mcp", *request("tools/call", large, **ada))
            journal = {"name": "journal", "arguments": {"key": "full began"}}
            while len(server.result("tools/call", journal, **bob)["structuredContent"]["result"]) < number:
                pass
        more = {**large, "name": "add", "arguments": {"a": 1}}
        status, answer = server.ask("tools/call", more, **ada)
        assert (status, "max_user_bytes" in str(answer)) == (429, True)
        assert server.ask("tools/call", more, **bob)[0] == 200


@pytest.mark.promise("ws:user:memory")
def test_calls_of_a_user_whose_answers_are_not_read_wait_for_room(tmp_path: Path) -> None:
    ada, bob, options = two_users(tmp_path)
    size = 8 * MIB
    body, headers = request("tools/call", {"name": "large", "arguments": {"size": size, "key": "deaf"}}, **ada)
    head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": len(body)}.items())
    message = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n".encode() + body
    journal = {"name": "journal", "arguments": {"key": "deaf"}}
    with HttpServer(*options, "--max-user-bytes", str(3 * size)) as server, ExitStack() as stack:

        def begun() -> int:
            return len(server.result("tools/call", journal, **bob)["structuredContent"]["result"])

        server.result("tools/call", {"name": "large", "arguments": {"size": size}}, **bob)
        crowd = [
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE))) for _ in range(12)
        ]
        for end in crowd:
            end.sendall(message)
        while not begun():
            pass
        for number in range(50):
            add = {"name": "add", "arguments": {"a": number}}
            assert server.result("tools/call", add, **bob)["structuredContent"] == {"sum": number + 1}
        assert begun() < 8, "more began than the limit of their user is for"
        with ThreadPoolExecutor(len(crowd)) as pool:
            found = list(pool.map(lambda end: b"".join(iter(lambda: end.recv(MIB), b"")), crowd))
        assert [answer.startswith(b"HTTP/1.1 200") and b"x" * size in answer for answer in found] == [True] * len(crowd)


def test_a_client_that_never_reads_hinders_no_other(server: HttpServer) -> None:
    body, headers = request("tools/call", {"name": "echo", "arguments": {"value": "x" * 150_000}})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    message = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as deaf:
        sending = threading.Thread(target=lambda: _send(deaf, message * 200), daemon=True)
        sending.start()
        for number in range(50):
            assert server.call("add", a=number)["structuredContent"] == {"sum": number + 1}
        deaf.shutdown(socket.SHUT_RDWR)
    sending.join(PATIENCE)


class Pouring:
    """An app that reads a request and pours its answer out."""

    def __init__(self) -> None:
        self.on_answer = lambda: None
        self.is_busy = False
        self.ends: list[str] = []
        self.over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        self.ends.append(message["type"])

    async def run(self) -> None:
        await self.over.wait()

    def drain(self) -> None: ...

    def give_up(self) -> None: ...


@pytest.mark.parametrize(
    "sent", [b"", b"POST / HTTP/1.1\r\nHost:", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"]
)
async def test_a_client_that_sends_no_whole_request_is_cut_off(sent: bytes, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_a_client_that_reads_no_answer_is_cut_off(port: int, app: Pouring) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while not app.ends:
        await asyncio.sleep(0.01)
    assert app.ends == ["http.request"]
    read = 0
    with suppress(ConnectionError):
        while piece := await reader.read(1_000_000):
            read += len(piece)
    assert read < 100_000_000
    writer.close()


async def test_a_client_that_reads_its_whole_answer_slowly_gets_it(port: int, app: Pouring) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    read = 0
    while piece := await reader.read(5_000_000):
        read += len(piece)
        await asyncio.sleep(0.001)
    assert read > 100_000_000
    writer.close()


async def test_small_answers_leave_at_once(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm, each one after the first would wait for an acknowledgement."""
    accepted: list[socket.socket] = []
    make = asyncio.selector_events._SelectorSocketTransport.__init__

    def noted(self: Any, loop: Any, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        make(self, loop, sock, *args, **kwargs)
        accepted.append(sock)

    monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "__init__", noted)
    with socket.create_connection(("127.0.0.1", port)):
        while not accepted:
            await asyncio.sleep(0)
    assert accepted[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def app() -> Pouring:
    return Pouring()


@pytest.fixture
async def port(app: Pouring, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A port whose clients have a fifth of a second."""
    monkeypatch.setattr(listener, "CLIENT_PATIENCE", 0.2)
    monkeypatch.setattr(listener, "LOOK_INTERVAL", 0.02)
    found: list[Address] = []
    process: Any = SimpleNamespace(host=SimpleNamespace(loop=asyncio.get_running_loop()), limits=DEFAULTS)
    clients = listener.HttpClients(Address("127.0.0.1", 0), lambda process: app, found.append, tokens=None)
    clients.start(process)
    yield found[0].port
    clients.close()
    app.over.set()
    await asyncio.sleep(0)


def _send(end: socket.socket, message: bytes) -> None:
    try:
        end.sendall(message)
    except OSError:
        pass


@pytest.mark.promise("mcp:http:ends")
def test_a_call_that_ends_in_time_is_answered_after_the_signal_and_no_new_request_is_then(tmp_path: Path) -> None:
    path, nodes = tmp_path / "file", ["--nodes", str(HERE / "changing_nodes.py")]
    with (
        HttpServer(*nodes, files=[HERE / "changing.pipe"]) as server,
        server.waiting("await_file", path=str(path)) as answer,
    ):
        server.process.terminate()
        while server.ask("tools/list")[0] != 503:
            pass
        path.touch()
        assert b"passed" in answer.read()
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.promise("mcp:http:ends")
def test_a_call_that_does_not_end_is_answered_when_the_server_ends() -> None:
    with HttpServer("--drain", "0.2") as server, server.waiting("wait", key="never") as answer:
        server.process.terminate()
        assert b"shutting_down" in answer.read()
        assert server.process.wait(PATIENCE) == 0


def test_a_subscription_ends_with_the_server() -> None:
    with HttpServer() as server:
        connection = server.connect()
        connection.request("POST", "/mcp", *request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        with closing(connection), connection.getresponse() as answer:
            while b"acknowledged" not in answer.readline():
                pass
            server.process.terminate()
            assert b'"resultType":"complete"' in answer.read()
        assert server.process.wait(PATIENCE) == 0
