"""The memory of a user over all of its connections: which connections are read, which wait, and what the dashboard shows."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ws_http import task_of_echo
from test_ws_load import HANDSHAKE
from test_ws_unread import answers, deaf_client
from ws_server import ADA, BOB, PATIENCE, WsClient, WsServer, certificate, keys_file, resident

from rrext.errors import TooManyRequests
from rrext.faces.http.budget import BUDGET_LOOK, NOTED, ROOM_TIMEOUT, Budgets, UserBudget
from rrext.faces.http.door import ARRIVAL, Arrival
from rrext.faces.http.exchange import Exchange, new_exchange

pytestmark = pytest.mark.promise("ws:user:memory")

MIB = 1 << 20
SERVED = [("none", False), ("process", True)]
"""Isolation, and whether with TLS: the two meet nowhere in the code."""
LIMIT = 10 * NOTED


class FakeLoop:
    """A loop whose time passes by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, action: Callable[[], None]) -> object:
        self.due.append((self.now + seconds, action))
        return action

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.due and min(when for when, _ in self.due) <= until:
            when, action = min(self.due, key=lambda entry: entry[0])
            self.due.remove((when, action))
            self.now = when
            action()
        self.now = until


class FakeHolder:
    """A connection."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self.is_unfinished = False
        self.is_held_up = False
        self.is_ended = False

    def hold_up(self, *, is_held_up: bool) -> None:
        assert is_held_up != self.is_held_up
        self.is_held_up = is_held_up

    def refuse(self) -> None:
        self.is_ended = True


def budget_of(*sizes: int, unfinished: bool = True) -> tuple[FakeLoop, UserBudget, list[FakeHolder]]:
    """A budget whose holders keep so much."""
    loop = FakeLoop()
    budget = UserBudget(cast(Any, loop), LIMIT)
    holders = [FakeHolder() for _ in sizes]
    for holder, size in zip(holders, sizes, strict=True):
        holder.held_bytes, holder.is_unfinished = size, unfinished
        budget.note(holder)
    return loop, budget, holders


NUMBERS = st.integers(0, 4)
CHANGES = st.tuples(NUMBERS, st.sampled_from([0, 1, NOTED, LIMIT // 2, LIMIT, 30 * LIMIT]), st.booleans())


@given(st.lists(st.one_of(CHANGES, NUMBERS, st.just("look")), max_size=30))
def test_whatever_connections_keep_one_unfinished_message_goes_on_and_nobody_waits_for_nothing(steps: list[Any]) -> None:
    loop, budget, holders = budget_of(0, 0, 0, 0, 0)
    gone: set[FakeHolder] = set()
    for step in steps:
        if isinstance(step, tuple):
            number, size, unfinished = step
            holder = holders[number]
            if holder.is_held_up:
                size = min(size, holder.held_bytes)  # it reads nothing
            holder.held_bytes, holder.is_unfinished = size, unfinished
            if holder not in gone:
                budget.note(holder)
        elif isinstance(step, int):
            budget.remove(holders[step])
            gone.add(holders[step])
        else:
            loop.pass_time(BUDGET_LOOK)
        there = [holder for holder in holders if holder not in gone]
        counted = [holder.held_bytes for holder in there if holder.held_bytes >= NOTED]
        assert budget.total == sum(counted)
        held_up = [holder for holder in holders if holder.is_held_up]
        assert not held_up or budget.total > LIMIT
        assert all(holder.held_bytes > LIMIT // len(counted) for holder in held_up), "it has its fair share"
        unfinished_ones = [holder for holder in there if holder.is_unfinished]
        complete = sum(held for held in (each.held_bytes for each in there if not each.is_unfinished) if held >= NOTED)
        if unfinished_ones and complete <= LIMIT:
            assert not all(holder.is_held_up for holder in unfinished_ones), "all wait for each other"
        free = [holder for holder in there if not holder.is_held_up and holder.held_bytes > LIMIT // max(1, len(counted))]
        assert budget.total <= LIMIT or len(free) <= 1


def test_a_message_without_room_ends_its_connection_after_a_while_and_the_favoured_one_never() -> None:
    loop, _, (first, second, small) = budget_of(LIMIT, LIMIT, NOTED)
    assert [holder.is_held_up for holder in (first, second, small)] == [False, True, False]
    loop.pass_time(ROOM_TIMEOUT - 1)
    assert not second.is_ended
    loop.pass_time(2)
    assert (first.is_ended, second.is_ended, small.is_ended) == (False, True, False)


def test_calls_that_run_and_keep_the_limit_let_no_further_message_in() -> None:
    loop, budget, (first, second, third) = budget_of(LIMIT, LIMIT, LIMIT)
    first.held_bytes, first.is_unfinished = LIMIT + 1, False  # it is complete, and its call runs
    budget.note(first)
    assert [holder.is_held_up for holder in (first, second, third)] == [True, True, True]
    first.held_bytes = 0
    loop.pass_time(BUDGET_LOOK)
    assert [holder.is_held_up for holder in (first, second, third)] == [False, False, True]


def test_unread_answers_hold_up_reading_and_end_nothing() -> None:
    loop, _, (first, second) = budget_of(LIMIT, LIMIT, unfinished=False)
    loop.pass_time(2 * ROOM_TIMEOUT)
    assert second.is_held_up
    assert [holder.is_ended for holder in (first, second)] == [False, False]
    first.held_bytes = second.held_bytes = 0  # the client has read
    loop.pass_time(BUDGET_LOOK)
    assert [holder.is_held_up for holder in (first, second)] == [False, False]


def test_without_keys_each_connection_has_a_budget_of_its_own() -> None:
    loop = cast(Any, FakeLoop())
    budgets, own = Budgets(loop, LIMIT, has_users=True), Budgets(loop, LIMIT, has_users=False)
    assert (one := budgets.of("ada")) is budgets.of("ada")
    assert one is not budgets.of("bob")
    assert own.of("local") is not own.of("local")


class FakeTransport:
    """A transport whose client reads by hand."""

    unsent = 0
    is_closed = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_closed


def request_of(budgets: Budgets, transport: FakeTransport | None = None, arrival: Any = None) -> Exchange:
    """A request of the user ada, of a connection of its own or of that of an earlier one."""
    arrival = arrival or Arrival(cast(Any, None), "", 0.0)
    arrival.transport = transport or FakeTransport()
    return new_exchange({"state": {ARRIVAL: arrival}}, budgets, "ada")


async def test_a_body_over_http_waits_for_room_and_is_refused_without() -> None:
    loop = FakeLoop()
    budgets = Budgets(cast(Any, loop), LIMIT, has_users=True)
    body, other = request_of(budgets), request_of(budgets)
    await body.grow(LIMIT)
    waiting = asyncio.ensure_future(other.grow(LIMIT))
    await asyncio.sleep(0)
    assert not waiting.done()
    loop.pass_time(ROOM_TIMEOUT + 1)
    with pytest.raises(TooManyRequests, match="max_user_bytes"):
        await waiting


@pytest.mark.parametrize("end", ["reads", "leaves"])
def test_an_answer_over_http_counts_until_the_client_has_read_it_or_is_gone(end: str) -> None:
    loop = FakeLoop()
    budgets = Budgets(cast(Any, loop), LIMIT, has_users=True)
    transport, arrival = FakeTransport(), Arrival(cast(Any, SimpleNamespace(leave=lambda arrival: None)), "", 0.0)
    exchange = request_of(budgets, transport, arrival)
    exchange.keep(2 * LIMIT)
    assert exchange.held == 2 * LIMIT
    transport.unsent = LIMIT + 1
    exchange.answered()
    with pytest.raises(TooManyRequests, match="max_user_bytes"):
        request_of(budgets).require_room()
    if end == "reads":
        transport.unsent = 0
    else:
        arrival.gone()
    loop.pass_time(BUDGET_LOOK)
    request_of(budgets).require_room()
    assert budgets.of("ada").total == 0


def test_the_result_for_a_client_that_is_gone_counts_until_its_call_has_ended() -> None:
    transport = FakeTransport()
    exchange = request_of(Budgets(cast(Any, FakeLoop()), LIMIT, has_users=True), transport)
    exchange.keep(LIMIT)
    transport.is_closed = True
    assert (exchange.held, exchange.is_gone, exchange.is_broken) == (LIMIT, True, False)
    exchange.answered()
    assert exchange.held == 0


def test_what_is_unread_on_a_connection_counts_once_however_many_requests_it_has() -> None:
    budgets = Budgets(cast(Any, FakeLoop()), LIMIT, has_users=True)
    transport, arrival = FakeTransport(), Arrival(cast(Any, None), "", 0.0)
    transport.unsent = LIMIT
    for _ in range(3):
        exchange = request_of(budgets, transport, arrival)
        exchange.answered()
    assert budgets.of("ada").total == LIMIT


# a real server

SIZE = 15 * MIB
PAD = b" " * MIB


class Sender:
    """A client that sends one large message, at first without its end, and has a thread for that."""

    def __init__(self, server: WsServer, key: str) -> None:
        self.end = server.connected()
        self.end.sendall(HANDSHAKE + b"\r\n")
        self._received = b""
        self.until(b"\r\n\r\n")
        self.message(b'{"type":"request","seq":1,"command":"auth","arguments":{"auth":"%b"}}' % key.encode())
        self.until(b"displayName")
        self.may_end = Event()
        self._thread = Thread(target=self._send, daemon=True)
        self._thread.start()

    def message(self, text: bytes) -> None:
        self.end.sendall(bytes((0x81, 0xFE)) + len(text).to_bytes(2, "big") + bytes(4) + text)

    def until(self, wanted: bytes) -> bytes:
        """What comes, until this comes; or everything, if it does not."""
        while wanted not in self._received and (piece := self.end.recv(4096)):
            self._received += piece
        received, self._received = self._received, b""
        return received

    def _send(self) -> None:
        request = b'{"type":"request","seq":2,"command":"rrext_ping","arguments":{}}'
        try:
            self.end.sendall(bytes((0x81, 0xFF)) + (SIZE + len(request)).to_bytes(8, "big") + bytes(4))
            for _ in range(SIZE // MIB):
                self.end.sendall(PAD)
            self.may_end.wait(PATIENCE)
            self.end.sendall(request)
        except OSError:
            pass  # the server cut it off

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *failure: object) -> None:
        self.may_end.set()
        self.end.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.end.close()


@contextmanager
def small_server(folder: Path, *options: str, **env: str) -> Iterator[WsServer]:
    """A server whose users have little memory."""
    with WsServer("--keys", str(keys_file(folder)), "--max-user-bytes", str(4 * MIB), *options, env=env) as server:
        yield server


def dashboard(server: WsServer, key: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The dashboard of a user, once it is so."""
    with server.client(key) as client:
        while not reached(found := client.body("rrext_dashboard")):
            pass
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_unfinished_messages_of_a_user_fill_no_memory_and_all_are_answered_in_the_end(tmp_path: Path) -> None:
    with small_server(tmp_path) as server, ExitStack() as stack, server.client(BOB) as bob:
        assert bob.tool("add", {"a": 1}) == {"sum": 2}
        before = resident(server)
        senders = [stack.enter_context(Sender(server, ADA)) for _ in range(5)]
        found = dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] >= SIZE)
        assert found["overview"]["heldBytes"] < SIZE + 8 * MIB
        assert sum(row["heldUp"] for row in found["connections"]) >= 3
        assert resident(server) - before < SIZE + 20 * MIB
        assert bob.body("rrext_dashboard")["overview"]["heldBytes"] < MIB
        for sender in senders:
            sender.may_end.set()
        for sender in senders:
            assert b'"pong":true' in sender.until(b'"pong":true')
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] < MIB)


def test_a_message_that_gets_no_room_is_told_the_limit(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import rrext.faces.http.budget as budget\n\nbudget.ROOM_TIMEOUT = 1.0\n")
    with small_server(tmp_path, PYTHONPATH=str(tmp_path)) as server, Sender(server, ADA) as first:
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] >= SIZE)
        with Sender(server, ADA) as second:
            assert second.until(b"max_user_bytes").endswith(b"\x88\x10\x03\xf1max_user_bytes")
        first.may_end.set()
        assert b'"pong":true' in first.until(b'"pong":true')


def test_a_body_of_a_host_that_gets_no_room_is_told_the_limit(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import rrext.faces.http.budget as budget\n\nbudget.ROOM_TIMEOUT = 1.0\n")
    headers = {"Authorization": f"Bearer {ADA}", "Content-Type": "application/json", "Accept": "application/json"}
    with small_server(tmp_path, PYTHONPATH=str(tmp_path)) as server, Sender(server, ADA) as first:
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] >= SIZE)
        status, _, answer = server.request("POST", "/mcp", PAD * 3, headers)
        assert status == 429
        assert b"max_user_bytes" in answer
        first.may_end.set()


def test_a_client_that_is_held_up_by_its_unread_answers_goes_on_when_it_reads(tmp_path: Path) -> None:
    """With a process for each pipeline, what is unread waits there."""
    none = ("--isolation", "none")
    with small_server(tmp_path, *none) as server, deaf_client(server, ADA) as deaf, deaf_client(server, ADA) as other:
        numbers, others = ({each.post("rrext_services") for _ in range(60)} for each in (deaf, other))
        dashboard(server, ADA, lambda found: sum(row["heldUp"] for row in found["connections"]) == 2)  # who send nothing more
        with server.client(BOB) as bob:
            assert bob.tool("add", {"a": 1}) == {"sum": 2}
        numbers.add(deaf.post("rrext_ping"))
        assert all(answer["success"] for answer in answers(deaf, numbers) + answers(other, others))
        assert deaf.body("rrext_ping") == {"pong": True}


@pytest.mark.parametrize(("isolation", "with_tls"), SERVED)
def test_calls_of_many_connections_of_a_user_begin_as_far_as_its_limit_goes(
    tmp_path: Path, isolation: str, with_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--isolation", isolation, "--max-user-bytes", str(3 * SIZE)]
    if with_tls:
        cert, key = certificate(tmp_path)
        options += ["--tls-cert", str(cert), "--tls-key", str(key)]
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with small_server(tmp_path, *options) as server, ExitStack() as stack, server.client(BOB) as bob:
        assert len(bob.tool("large", {"size": SIZE})) == SIZE
        crowd = [stack.enter_context(deaf_client(server, ADA)) for _ in range(12)]
        stack.callback(lambda: [deaf.socket.socket.shutdown(socket.SHUT_RDWR) for deaf in crowd])
        given = {"subcommand": "tool", "tool": "large", "input": {"size": SIZE, "key": "crowd"}}
        for deaf in crowd:  # it takes no more after these
            for _ in range(3):
                deaf.post("rrext_ping")
        numbers = [deaf.post("rrext_process", **given) for deaf in crowd]
        for number in range(200):
            assert bob.tool("add", {"a": number}) == {"sum": number + 1}
        assert 0 < len(bob.tool("journal", {"key": "crowd"})) < 8, "more began than the limit of their user is for"
        with ThreadPoolExecutor(len(crowd)) as pool:  # which of them began is not known
            found = list(pool.map(WsClient.answer, crowd, numbers))
        assert [len(answer["body"]["result"]) for answer in found] == [SIZE] * len(crowd)


def deaf_request(server: Any, path: str, body: bytes, headers: dict[str, str], context: ssl.SSLContext | None) -> socket.socket:
    """A connection with a request whose answer is not read yet."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    plain.settimeout(PATIENCE)
    plain.connect(("127.0.0.1", server.port))
    end = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Content-Length": str(len(body)), **headers}.items())
    end.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n".encode() + body)
    return end


def whole(end: socket.socket) -> bytes:
    """Everything that comes on a connection."""
    return b"".join(iter(lambda: end.recv(1 << 20), b""))


def host_request(name: str, arguments: dict[str, Any], user: str = ADA) -> tuple[bytes, dict[str, str]]:
    """A call of a tool by a host of a user that makes no handshake."""
    about = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments, "_meta": meta}}
    headers = {"Authorization": f"Bearer {user}", "Content-Type": "application/json", "Mcp-Method": "tools/call"}
    more = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Name": name}
    return json.dumps(call).encode(), headers | more


@pytest.mark.parametrize(("isolation", "with_tls"), SERVED)
def test_calls_of_many_connections_over_http_begin_as_far_as_the_limit_of_their_user_goes(
    tmp_path: Path, isolation: str, with_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 8 * MIB
    options = ["--isolation", isolation, "--max-user-bytes", str(3 * size)]
    context: ssl.SSLContext | None = None
    if with_tls:
        cert, key = certificate(tmp_path)
        options += ["--tls-cert", str(cert), "--tls-key", str(key)]
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        context = ssl.create_default_context(cafile=str(cert))
    with small_server(tmp_path, *options) as server, ExitStack() as stack, server.client(BOB) as bob:
        assert len(bob.tool("large", {"size": size})) == size
        request = host_request("large", {"size": size, "key": "crowd"})
        crowd = [stack.enter_context(closing(deaf_request(server, "/mcp", *request, context))) for _ in range(12)]
        while not bob.tool("journal", {"key": "crowd"}):
            pass
        for number in range(200):
            assert bob.tool("add", {"a": number}) == {"sum": number + 1}
        assert 0 < len(bob.tool("journal", {"key": "crowd"})) < 8, "more began than the limit of their user is for"
        with ThreadPoolExecutor(len(crowd)) as pool:  # which of them began is not known
            found = list(pool.map(whole, crowd))
        assert [answer.count(b"x" * size) for answer in found] == [2] * len(crowd), [answer[:300] for answer in found]


@pytest.mark.promise("ws:users:apart")
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_the_end_of_a_call_over_http_ends_no_call_of_another_user(tmp_path: Path, isolation: str) -> None:
    with small_server(tmp_path, "--isolation", isolation) as server, server.client(BOB) as bob:
        waiting = deaf_request(server, "/mcp", *host_request("wait", {"key": "both"}, BOB), None)
        with closing(waiting):
            while not bob.tool("journal", {"key": "both began"}):
                pass
            for _ in range(5):
                assert server.request("POST", "/mcp", *host_request("add", {"a": 1}))[0] == 200
            bob.tool("open_gate", {"key": "both"})
            assert b"passed" in whole(waiting)


def test_a_webhook_is_refused_while_answers_of_its_pipelines_owner_are_not_read(tmp_path: Path) -> None:
    with small_server(tmp_path, "--isolation", "none") as server, server.client(ADA) as ada:
        public = ada.body("execute", pipeline=task_of_echo(), token="hook")["publicToken"]
        headers = {"Authorization": f"Bearer {public}", "Content-Type": "text/plain"}
        with closing(deaf_request(server, "/webhook", b"y" * SIZE, headers, None)) as deaf:
            while server.request("POST", "/webhook", b"hi", headers)[0] == 200:
                pass  # the large answer is not made yet
            status, _, answer = server.request("POST", "/webhook", b"hi", headers)
            assert (status, b"max_user_bytes" in answer) == (429, True)
            assert whole(deaf).count(b"y" * SIZE) == 1
        assert server.request("POST", "/webhook", b"hi", headers)[0] == 200


@contextmanager
def deaf_with_answer(server: WsServer) -> Iterator[WsClient]:
    """A client that has asked for one large answer, most of which waits in the server."""
    with deaf_client(server, ADA) as deaf:
        for _ in range(3):  # it takes no more after these
            deaf.post("rrext_ping")
        deaf.post("rrext_process", subcommand="tool", tool="large", input={"size": SIZE})
        yield deaf
        with suppress(OSError):  # the server has closed it
            deaf.socket.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("isolation", "with_tls"), SERVED)
def test_one_large_answer_that_is_not_read_holds_up_its_connection(
    tmp_path: Path, isolation: str, with_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--isolation", isolation]
    if with_tls:
        cert, key = certificate(tmp_path)
        options += ["--tls-cert", str(cert), "--tls-key", str(key)]
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with small_server(tmp_path, *options) as server, deaf_with_answer(server) as deaf:
        dashboard(server, ADA, lambda found: any(row["heldUp"] for row in found["connections"]))
        deaf.post("rrext_process", subcommand="tool", tool="large", input={"size": 1, "key": "later"})
        with server.client(ADA) as other:
            assert other.tool("journal", {"key": "later"}) == []


@pytest.mark.parametrize("end", ["deauth", "shutdown"])
def test_an_answer_that_is_not_read_counts_for_its_user_also_after_a_goodbye(tmp_path: Path, end: str) -> None:
    options = ("--isolation", "none", "--drain", "0.1", "--max-user-bytes", str(SIZE + MIB))
    with small_server(tmp_path, *options) as server, deaf_with_answer(server) as deaf:
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] > SIZE // 2)
        goodbye = deaf.post(end)
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] < MIB)
        with server.client(ADA) as later:
            number = later.post("rrext_process", subcommand="tool", tool="large", input={"size": 1, "key": "later"})
            for _ in range(20):
                assert later.tool("journal", {"key": "later"}) == []
            assert len(deaf.answer(goodbye - 1)["body"]["result"]) == SIZE
            assert later.answer(number)["body"]["result"] == "x"
