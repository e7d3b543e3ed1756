"""Many clients at once, and hostile ones: none harms another, and each is answered."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from ws_server import PATIENCE, WsClient, WsServer, certificate, resident

pytestmark = [pytest.mark.promise("ws:load"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


def test_a_port_of_many_clients_has_descriptors_for_them() -> None:
    with WsServer(limits="-S -n 256") as server:
        line = next(line for line in limits_of(server) if line.startswith("Max open files"))
        soft, hard = line.split()[3:5]
        assert int(soft) >= min(4096, int(hard))


def limits_of(server: WsServer) -> list[str]:
    """What the system allows the process."""
    return Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()


def test_without_descriptors_new_clients_wait_and_the_others_are_served() -> None:
    with WsServer(limits="-n 64") as server:
        with server.client() as client:
            waiting = [server.connected() for _ in range(100)]
            while "a client cannot be taken now: Too many open files" not in server.log:
                assert client.body("rrext_ping") == {"pong": True}
            assert client.body("rrext_ping") == {"pong": True}
            for end in waiting:
                end.close()
            assert server.request("GET", "/ping")[0] == 200
        server.end()
        assert "Traceback" not in server.log
        assert server.log.count("cannot be taken") <= 10


OPENS = 5_000


def test_thousands_of_opens_in_flight_all_end(open_server: WsServer) -> None:
    with open_server.client() as client, open_server.client() as other:
        numbers = {client.post("rrext_process", subcommand="open") for _ in range(OPENS)}
        assert other.body("rrext_ping") == {"pong": True}
        closes = set()
        while numbers or closes:  # each open gets its pipe when an earlier one is closed
            answer = json.loads(client.socket.recv(PATIENCE))
            assert answer["success"], answer
            if answer["request_seq"] in numbers:
                numbers.remove(answer["request_seq"])
                closes.add(client.post("rrext_process", subcommand="close", pipe_id=answer["body"]["pipe_id"]))
            else:
                closes.remove(answer["request_seq"])
        assert client.body("rrext_get_task_status")["threads"] == {"limit": 64, "used": 0, "waiting": 0}


def test_thousands_of_opens_of_a_client_that_vanishes_hold_up_nobody(open_server: WsServer) -> None:
    with open_server.client() as other:
        with open_server.client() as client:
            for _ in range(OPENS):
                client.post("rrext_process", subcommand="open")
            for _ in range(10):
                other.post("rrext_process", subcommand="open")
            vanish(client)
        answers = [json.loads(other.socket.recv(PATIENCE)) for _ in range(10)]
        for answer in answers:
            other.body("rrext_process", subcommand="close", pipe_id=answer["body"]["pipe_id"])
        while other.body("rrext_get_task_status")["threads"] != {"limit": 64, "used": 0, "waiting": 0}:
            pass


def vanish(client: WsClient) -> None:
    """End the connection without a word; a close alone would wait for the thread that reads."""
    client.socket.socket.shutdown(socket.SHUT_RDWR)
    client.socket.socket.close()


def test_a_client_that_stops_reading_keeps_nobody_from_pipes_and_answers(open_server: WsServer) -> None:
    with open_server.client(max_queue=1) as deaf, open_server.client() as other:
        deaf.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        size = len(json.dumps(deaf.body("rrext_services")))
        before = resident(open_server)
        for _ in range(400):
            deaf.post("rrext_services")
        for number in range(200):
            assert other.tool("add", {"a": number}) == {"sum": number + 1}
        pipe = other.body("rrext_process", subcommand="open", mimeType="text/plain")["pipe_id"]
        assert other.body("rrext_process", subcommand="close", pipe_id=pipe)
        assert resident(open_server) - before < 30 << 20 < 400 * size
        vanish(deaf)
    with open_server.client() as other:
        while other.body("rrext_get_task_status")["threads"]["used"]:
            pass


LOST = 5


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_client_that_hears_of_output_and_vanishes_while_tools_report_stops_nobody(isolation: str) -> None:
    """What is logged while an answer is written to it was output of the tool, on its way to the same client."""
    with WsServer("--trust-clients", "--isolation", isolation) as server:
        with server.client() as other:
            for _ in range(LOST):
                with server.client() as client:
                    client.body("rrext_monitor", token="*", types=["OUTPUT"])
                    for _ in range(18):
                        given = {"subcommand": "tool", "tool": "report_async", "input": {"to": 100_000}}
                        client.post("rrext_process", **given, progress=True)
                    client.socket.recv(PATIENCE)
                    client.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    vanish(client)
                assert other.body("rrext_ping") == {"pong": True}
        server.end()
        lines = server.log.splitlines()[2:]
        assert not [line for line in lines if "calls that did not finish in time are given up" not in line]
        assert len(lines) <= LOST


HALF_OPEN = 100


def test_clients_of_tls_that_vanish_leave_nothing_and_half_a_handshake_costs_little(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(cafile=cert)
    with WsServer("--tls-cert", str(cert), "--tls-key", str(key)) as server:
        for _ in range(10):
            with server.client(ssl=context) as client:
                client.post("rrext_process", subcommand="tool", tool="wait", input={"key": "for-ever"})
                client.body("rrext_process", subcommand="open")
                vanish(client)
        before = resident(server)
        waiting = [server.connected() for _ in range(HALF_OPEN)]
        with server.client(ssl=context) as client:
            assert resident(server) - before < HALF_OPEN * (200 << 10)
            while client.body("rrext_get_task_status")["threads"]["used"]:
                pass
        for end in waiting:
            end.close()
        server.end()
        assert "Traceback" not in server.log


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize("more", [b"Content-Length: 5\r\n\r\nhello", b"X: y\r\n" * 500 + b"\r\n"])
def test_a_handshake_that_cannot_be_read_ends_its_connection(open_server: WsServer, more: bytes) -> None:
    with open_server.connected() as end:
        end.sendall(HANDSHAKE + more)
        answer = b"".join(iter(lambda: end.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_request_in_the_same_breath_as_the_handshake_is_answered(open_server: WsServer) -> None:
    request = b'{"type":"request","seq":7,"command":"rrext_ping"}'
    with open_server.connected() as end:
        end.sendall(HANDSHAKE + b"\r\n" + bytes((0x81, 0x80 | len(request))) + bytes(4) + request)
        answer = b""
        while b'"pong":true' not in answer:
            answer += (piece := end.recv(4096))
            assert piece, answer


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\xc1\x84\0\0\0\0abcd", 1002),  # compressed, which no handshake agreed on
        (b"\x81\x04abcd", 1002),  # not masked
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in pieces
        (b"\x80\x80\0\0\0\0", 1002),  # a further piece of nothing
        (b"\x82\xff" + (1 << 63).to_bytes(8, "big") + bytes(4), 1009),
    ],
)
def test_a_frame_that_no_client_sends_ends_its_connection_at_once(open_server: WsServer, frame: bytes, code: int) -> None:
    with open_server.client() as client:
        client.socket.socket.sendall(frame)
        with pytest.raises(ConnectionClosed) as closed:
            client.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
