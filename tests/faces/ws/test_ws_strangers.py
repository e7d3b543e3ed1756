"""Strangers at the port: however many wait, and whatever keys they guess, who shows a key gets in."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ws_load import HANDSHAKE
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from ws_server import ADA, PATIENCE, WsClient, WsServer, certificate, keys_file, plain_environment

from rrext.errors import UsageError
from rrext.faces.http.address import Proxies, counted
from rrext.faces.http.door import MAX_STRANGERS_OF_ADDRESS, Arrival, Door

pytestmark = pytest.mark.promise("ws:strangers")

WRONG = {"Authorization": "Bearer a-wrong-key-0123456789"}
FEW = "from rrext.cli.commands.servers import serve\nserve.MAX_CONNECTIONS = 32\n"
"""A port of 32 connections, half of which may be without a key."""
QUICK = "from rrext.faces.http import door\ndoor.WRONG_KEY_DELAY = 0.001\n"
"""A door whose late answers are not late."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(keys_file(tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def busy_server(keys: str) -> Iterator[WsServer]:
    """A server that others have guessed keys at."""
    with WsServer("--keys", keys, "--log-level", "info", "--behind-proxy", "127.0.0.1, ::1", first=QUICK) as server:
        yield server


@contextmanager
def silent(
    server: WsServer, count: int, sent: bytes = HANDSHAKE + b"\r\n", addresses: int = 1
) -> Iterator[list[socket.socket]]:
    """Connections that say nothing more."""
    port = "127.0.0.1", server.port
    ends = [socket.create_connection(port, PATIENCE, (f"127.0.0.{2 + n % addresses}", 0)) for n in range(count)]
    try:
        for end in ends:
            end.sendall(sent)
        yield ends
    finally:
        for end in ends:
            end.close()


@pytest.mark.parametrize("addresses", [1, 2])
def test_silent_handshakes_do_not_shut_out_a_client_with_a_key(server: WsServer, addresses: int) -> None:
    with silent(server, 70 * addresses, addresses=addresses) as ends:
        for end in ends:
            assert end.recv(12) == b"HTTP/1.1 101"
        with server.client(ADA, source_address=("127.0.0.2", 0)) as client:
            assert client.body("rrext_ping") == {"pong": True}


async def test_a_hundred_clients_that_connect_at_once_all_get_in(server: WsServer) -> None:
    async def pong() -> bool:
        async with connect(server.url, proxy=None, compression=None) as end:
            await end.send(json.dumps({"type": "request", "seq": 1, "command": "auth", "arguments": {"auth": ADA}}))
            return bool(json.loads(await end.recv())["success"])

    assert all(await asyncio.gather(*(pong() for _ in range(100))))


@pytest.mark.system
def test_150_published_clients_that_connect_at_once_all_get_in(server: WsServer) -> None:
    program = (
        "import asyncio, sys\nfrom rocketride import RocketRideClient\n"
        "async def main():\n"
        "    clients = [RocketRideClient(uri=sys.argv[1], auth=sys.argv[2]) for _ in range(150)]\n"
        "    await asyncio.gather(*(client.connect() for client in clients))\n"
        "    await asyncio.gather(*(client.disconnect() for client in clients))\n"
        "asyncio.run(main())"
    )
    python = os.environ["RREXT_ROCKETRIDE_1_5_0"]
    done = subprocess.run(
        [python, "-c", program, server.url, ADA], env=plain_environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:", HANDSHAKE + b"\r\n"])
def test_connections_without_a_key_leave_places_and_are_told_in_few_lines(keys: str, sent: bytes) -> None:
    with WsServer("--keys", keys, first=FEW) as server:
        with ExitStack() as stack:
            known = stack.enter_context(server.client(ADA))
            for _ in range(3):
                stack.enter_context(silent(server, 64, sent))
                assert server.request("GET", "/healthz")[0] == 200
                with server.client(ADA) as client:
                    assert client.body("rrext_ping") == {"pong": True}
            assert known.body("rrext_ping") == {"pong": True}
        server.end()
        lines = [line for line in server.log.splitlines() if "cut off" in line]
        assert sum(int(line.split("request: ")[1].split()[0]) for line in lines) >= 3 * 64 - 16
        assert all(" of 127.0.0.2" in line for line in lines)
        assert len(server.log.splitlines()) <= 3 + len(lines) <= 40


def test_half_handshakes_of_tls_leave_places(keys: str, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    with WsServer("--keys", keys, "--tls-cert", str(cert), "--tls-key", str(key), first=FEW) as server:
        with silent(server, 64, b"") as ends, server.client(ADA, ssl=context) as client:
            assert client.body("rrext_ping") == {"pong": True}
            assert [end.recv(1) for end in ends[:32]] == [b""] * 32
        server.end()
        assert "Traceback" not in server.log


def test_the_silent_have_less_time_in_a_crowd(keys: str) -> None:
    first = (
        "from rrext.faces.http import door, listener\ndoor.CROWD, door.CROWD_PATIENCE, listener.LOOK_INTERVAL = 4, 0.1, 0.05\n"
    )
    with WsServer("--keys", keys, first=first) as server, server.client(ADA) as client, silent(server, 1) as (alone,):
        crowd = [server.connected() for _ in range(6)]
        for end in crowd:
            assert end.recv(1) == b""
            end.close()
        assert client.body("rrext_ping") == {"pong": True}
        alone.sendall(b"\x89\x80\0\0\0\0")
        answer = b""
        while not answer.endswith(b"\x8a\0"):
            answer += (piece := alone.recv(4096))
            assert piece


class Clock:
    """A loop of which only the time is asked, and calls at a time are kept."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, action: object) -> None: ...


@given(st.lists(st.tuples(st.sampled_from(["enter", "know", "forget", "leave", "look"]), st.integers(0, 40)), max_size=200))
def test_every_newcomer_has_a_place_and_only_the_oldest_strangers_lose_theirs(steps: list[tuple[str, int]]) -> None:
    most, clock = 32, Clock()
    door = Door(clock, most)  # type: ignore[arg-type] # ty
    inside: list[Arrival] = []
    known: set[Arrival] = set()
    for step, number in steps:
        clock.now += 1
        if step == "enter":
            arrival = door.enter(f"10.0.0.{number % 3}")
            arrival.cut = lambda arrival=arrival: inside.remove(arrival)
            inside.append(arrival)
        elif step == "look":
            door.cut_off_crowds()
        elif inside:
            arrival = inside[number % len(inside)]
            if step == "know" and len(known) < 30:
                arrival.accept_client()
                known.add(arrival)
            elif step == "forget":
                arrival.mark_stranger()
                known.discard(arrival)
            elif step == "leave":
                arrival.gone()
                arrival.gone()
                inside.remove(arrival)
                known.discard(arrival)
        assert known <= set(inside)
        assert len(inside) <= most
        assert len(set(inside) - known) <= most // 2


def test_one_address_has_no_more_than_its_share() -> None:
    door, cut = Door(Clock(), 1_000_000), list[int]()  # type: ignore[arg-type]
    for number in range(MAX_STRANGERS_OF_ADDRESS + 3):
        door.enter(f"2001:db8::{number:x}").cut = lambda number=number: cut.append(number)
    assert cut == [0, 1, 2]


# wrong keys


def test_wrong_keys_are_late_and_then_too_many_and_a_right_one_of_the_same_address_gets_in(busy_server: WsServer) -> None:
    server = busy_server
    guess = {**WRONG, "X-Forwarded-For": "192.0.2.1"}
    statuses = [server.request("GET", path, headers=guess)[0] for path in ("/metrics", "/mcp", "/status/feed") * 10]
    assert statuses[:20] == [401] * 20
    assert statuses[-5:] == [429] * 5
    status, headers, _ = server.request("POST", "/webhook", b"x", guess)
    assert (status, 0 < int(headers["retry-after"]) <= 60) == (429, True)
    right = {"Authorization": f"Bearer {ADA}", "X-Forwarded-For": "192.0.2.1"}
    assert server.request("GET", "/metrics", headers=right)[0] == 200
    of_address: dict[str, Any] = {"additional_headers": {"X-Forwarded-For": "192.0.2.1"}}
    with server.client(None, **of_address) as client:
        assert client.failure("auth", auth="wrong")[0] == "too_many_requests"
        with pytest.raises(ConnectionClosed) as closed:
            client.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
    with server.client(ADA, **of_address) as client:
        assert client.body("rrext_ping") == {"pong": True}
    assert server.request("GET", "/metrics", headers={**WRONG, "X-Forwarded-For": "192.0.2.2"})[0] == 401


def test_wrong_keys_are_one_line_a_second_with_their_address(keys: str) -> None:
    with WsServer("--keys", keys, first=QUICK) as server:
        for _ in range(30):
            server.request("GET", "/metrics", headers=WRONG)
        for _ in range(3):
            with server.client() as client:
                client.post("auth", auth="a-wrong-key-0123456789")
                client.socket.socket.shutdown(socket.SHUT_RDWR)  # the late answer has no reader
        server.end()
    lines = [line for line in server.log.splitlines() if "wrong keys: " in line]
    assert sum(int(line.split("wrong keys: ")[1].split()[0]) for line in lines) >= 33
    assert all(line.endswith(" of 127.0.0.1") for line in lines)
    assert len(lines) < 20
    assert "Traceback" not in server.log
    assert "0123456789" not in server.log


def test_strangers_have_no_other_lines_in_the_log(keys: str) -> None:
    with WsServer("--keys", keys, "--log-level", "info", first=QUICK) as server:
        for _ in range(3):
            with server.client() as client:
                for command in ("auth", "deauth", "rrext_public_probe", "rrext_ping", "initialize", "execute"):
                    client.ask(command, **({"auth": "", "clientName": "nobody"} if command == "auth" else {}))
                client.socket.send("no JSON")
                assert client.answer(0)["code"] == "parse_error"
        with server.client(ADA):
            pass
        server.heard("ws-4 ends")
    assert [line.split()[2:5] for line in server.log.splitlines() if " ws-" in line] == [
        ["rrext.server", "ws-4", "is"],
        ["rrext.server", "ws-4", "ends:"],
    ]


def test_a_door_remembers_wrong_keys_for_a_while() -> None:
    clock = Clock()
    door = Door(clock, 100)  # type: ignore[arg-type]
    delays = [door.count_wrong_key("10.0.0.1")[0] for _ in range(20)]
    assert delays[:5] == [0] * 5
    assert delays == sorted(delays)
    assert delays[-1] > 1
    assert door.count_wrong_key("10.0.0.1")[1] is not None
    assert door.count_wrong_key("10.0.0.2") == (0, None)
    clock.now += 3600
    assert door.count_wrong_key("10.0.0.1") == (0, None)


# proxies

ADDRESS = st.ip_addresses().map(str) | st.just("unknown") | st.text("0123456789.:[]%,x ", max_size=12)


@given(st.lists(ADDRESS, max_size=6), st.ip_addresses(network="198.51.100.0/24").map(str), st.booleans())
def test_what_a_client_writes_before_its_address_changes_nothing(spoofed: list[str], client: str, has_port: bool) -> None:
    proxies = Proxies(["10.0.0.0/8,::1", "2001:db8::/32"])
    hop = f"{client}:4711" if has_port else client
    for passed in ([hop], [f"{hop}, 10.1.2.3"], [hop, " [2001:db8::5]:80 "]):
        assert proxies.client_of("10.0.0.1", [*spoofed, *passed]) == client
        assert proxies.client_of("::ffff:10.0.0.1", [", ".join([*spoofed, *passed])]) == client
    assert proxies.client_of("203.0.113.1", [client]) == "203.0.113.1"


@pytest.mark.parametrize(
    "told", [[], [""], ["unknown"], ["_hidden"], ["1.2.3.4.5"], ["[::1"], ["1.2.3.4:x"], ["198.51.100.7, "]]
)
def test_a_proxy_that_tells_no_address_is_taken_for_the_client(told: list[str]) -> None:
    assert Proxies(["10.0.0.1"]).client_of("10.0.0.1", told) == "10.0.0.1"


def test_a_site_of_ipv6_is_counted_as_one() -> None:
    assert counted("2001:db8:0:1::7%eth0") == counted("2001:db8:0:1:ffff::") == "2001:db8:0:1::/64"
    assert counted("::ffff:192.0.2.1") == "192.0.2.1"


def test_options_of_proxies_that_make_no_sense_are_refused(keys: str) -> None:
    for text in ("nginx", "10.0.0.1/8", "", "10.0.0.0/33"):
        with pytest.raises(UsageError, match="--behind-proxy"):
            Proxies([text])
    with WsServer("--behind-proxy", "127.0.0.1") as server:
        assert "clients need keys" in server.log  # whoever reaches the proxy reaches the port


def login(server: WsServer, **headers: str) -> str:
    """The line of the log about the login of a client with these headers."""
    name = f"client-{len(server.log)}"
    with server.client(additional_headers=headers) as client:
        client.body("auth", auth=ADA, clientName=name)
        assert client.body("rrext_ping") == {"pong": True}
        while name not in server.log:
            pass
    return next(line for line in server.log.splitlines() if name in line)


def test_only_a_proxy_is_believed(keys: str, busy_server: WsServer) -> None:
    told = {"X-Forwarded-For": "198.51.100.1, 203.0.113.5"}
    assert login(busy_server, **told).endswith("from 203.0.113.5")
    with WsServer("--keys", keys, "--log-level", "info", env={"FORWARDED_ALLOW_IPS": "*"}) as server:
        assert login(server, **told).endswith("from 127.0.0.1")


def test_the_audit_log_has_the_address_of_a_client(busy_server: WsServer) -> None:
    with busy_server.client(ADA, additional_headers={"X-Forwarded-For": "2001:db8::7"}) as client:
        client.tool("who")
        while "address=" not in busy_server.log:
            client.body("rrext_ping")
    line = next(line for line in busy_server.log.splitlines() if "tool=who" in line)
    assert line.endswith(" user=ada address=2001:db8::7")


def test_a_page_without_tls_is_not_that_of_a_port_with_it(busy_server: WsServer) -> None:
    def status(origin: str, **more: str) -> int:
        return busy_server.request("GET", "/ping", headers={"Host": "app.example", "Origin": origin, **more})[0]

    assert status("https://app.example", **{"X-Forwarded-Proto": "https"}) == 200
    assert status("http://app.example", **{"X-Forwarded-Proto": "HTTPS"}) == 403
    assert status("http://app.example", **{"X-Forwarded-Proto": "http"}) == 200
    assert status("http://app.example", **{"X-Forwarded-Proto": "https, http"}) == 200  # which is the client's is unknown


# what a proxy may read otherwise


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_request_of_two_lengths_is_refused_and_its_connection_ends(open_server: WsServer, method: str) -> None:
    lengths = "Content-Length: 4\r\nTransfer-Encoding: chunked"
    request = f"{method} /ping HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n0\r\n\r\n"
    with open_server.connected() as end:
        end.sendall(request.encode() + b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: end.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "frames",
    [
        b"\x81\x82\0\0\0\0\xc3(",
        b"\x81\x83\0\0\0\0\xed\xa0\x80",
        b"\x01\x81\0\0\0\0\xc3\x80\x81\0\0\0\0(",
        b"\x01\x81\0\0\0\0\xc3\x80\x80\0\0\0\0",
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_text_that_is_not_utf8_ends_its_connection(open_server: WsServer, frames: bytes, at_once: bool) -> None:
    with open_server.connected() as end:
        end.sendall(HANDSHAKE + b"\r\n" + (frames if at_once else b""))
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += end.recv(4096)
        end.sendall(b"" if at_once else frames)
        answer += b"".join(iter(lambda: end.recv(4096), b""))
    assert answer.endswith(b"\x88\x02" + (1007).to_bytes(2, "big"))


def test_a_text_of_any_letters_is_taken_in_whole_and_in_pieces(open_server: WsServer) -> None:
    text = "ü😀" * 40_000  # letters of several bytes at the borders of pieces

    def frame(first: int, piece: bytes) -> bytes:
        return bytes((first, 0x80 | 127)) + len(piece).to_bytes(8, "big") + bytes(4) + piece

    with open_server.client() as client:
        assert isinstance(client, WsClient)
        for cut in (0, 100_001):
            request = {"type": "request", "seq": cut + 1, "command": "rrext_ping", "arguments": {"_meta": {"text": text}}}
            message = json.dumps(request, ensure_ascii=False).encode()
            pieces = frame(0x01, message[:cut]) + frame(0x80, message[cut:]) if cut else frame(0x81, message)
            client.socket.socket.sendall(pieces)
            assert client.answer(cut + 1)["success"]
