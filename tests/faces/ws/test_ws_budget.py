"""The memory of a user over all of its connections: which connections are read, which wait, and what the dashboard shows."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ws_load import HANDSHAKE
from test_ws_unread import answers, deaf_client
from ws_server import ADA, BOB, PATIENCE, WsClient, WsServer, certificate, keys_file, resident

from rrext.errors import TooManyRequests
from rrext.faces.http.budget import BUDGET_LOOK, NOTED, ROOM_TIMEOUT, Body, Budgets, UserBudget

pytestmark = pytest.mark.promise("ws:user:memory")

MIB = 1 << 20
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

    def give_up(self) -> None:
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
            budget.leave(holders[step])
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


async def test_a_body_over_http_waits_for_room_and_is_refused_without() -> None:
    loop, budget, _ = budget_of(LIMIT)
    body, other = Body(budget), Body(budget)
    await body.grow(1)
    waiting = asyncio.ensure_future(other.grow(LIMIT))
    await asyncio.sleep(0)
    assert not waiting.done()
    loop.pass_time(ROOM_TIMEOUT + 1)
    with pytest.raises(TooManyRequests, match="max_user_bytes"):
        await waiting


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


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize("with_tls", [False, True])
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


@contextmanager
def deaf_with_answer(server: WsServer) -> Iterator[WsClient]:
    """A client that has asked for one large answer, most of which waits in the server."""
    with deaf_client(server, ADA) as deaf:
        for _ in range(3):  # it takes no more after these
            deaf.post("rrext_ping")
        deaf.post("rrext_process", subcommand="tool", tool="large", input={"size": SIZE})
        yield deaf
        deaf.socket.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize("with_tls", [False, True])
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
        deaf.post(end)
        dashboard(server, ADA, lambda found: found["overview"]["heldBytes"] < MIB)
        with deaf_with_answer(server):
            dashboard(server, ADA, lambda found: any(row["heldUp"] for row in found["connections"]))
