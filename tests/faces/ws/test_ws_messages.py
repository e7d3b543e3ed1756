"""Messages of WebSockets: text, bytes, sizes, pings, and clients that do not read."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from ws_server import PATIENCE, WsClient, WsServer, resident

from rrext.faces.ws.protocol import BINARY, TEXT, frame_head

pytestmark = pytest.mark.promise("ws:messages")


def test_any_path_is_one_and_the_dialect_is_that_of_the_first_message(open_server: WsServer) -> None:
    from websockets.sync.client import connect

    for path in ("", "/task/service", "/any/thing?x=1"):
        with connect(open_server.url + path, proxy=None) as socket:
            socket.send('{"jsonrpc":"2.0","id":"a","method":"rrext_ping"}')
            assert json.loads(socket.recv(PATIENCE)) == {"jsonrpc": "2.0", "id": "a", "result": {"pong": True}}


@pytest.mark.parametrize("payload", [b"", b"a", b"\n", "one\ntwo\0µ\n\n".encode(), bytes(range(128)) * 4096])
def test_bytes_follow_the_first_line_of_a_binary_message(open_server: WsServer, payload: bytes) -> None:
    with open_server.client() as client:
        pipe = client.body("rrext_process", subcommand="open", mimeType="text/plain")["pipe_id"]
        head = {"type": "request", "seq": 100, "command": "rrext_process"}
        head["arguments"] = {"subcommand": "write", "pipe_id": pipe}
        client.socket.send(json.dumps(head).encode() + b"\n" + payload)
        assert client.answer(100)["success"]
        written = client.body("rrext_process", subcommand="close", pipe_id=pipe).get("reply", [""])[0]
        assert written.rstrip("\n") == payload.decode("utf-8", "replace").upper().rstrip("\n")  # the node writes it so


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
@pytest.mark.parametrize(("kind", "opcode"), [(TEXT, Opcode.TEXT), (BINARY, Opcode.BINARY)])
def test_the_head_of_a_message_is_that_of_the_library(kind: int, opcode: Opcode, size: int) -> None:
    assert frame_head(kind, size) + bytes(size) == Frame(opcode, bytes(size)).serialize(mask=False)


def test_a_binary_message_without_a_line_is_json(open_server: WsServer) -> None:
    with open_server.client() as client:
        client.socket.send(b'{"type":"request","seq":7,"command":"rrext_ping"}')
        assert client.answer(7)["body"] == {"pong": True}


def test_bytes_go_with_a_write_alone(open_server: WsServer) -> None:
    with open_server.client() as client:
        client.socket.send(b'{"type":"request","seq":7,"command":"rrext_ping"}\nbytes')
        assert client.answer(7)["code"] == "invalid_arguments"
        client.socket.send(b'{"type":"request","seq":8,"command":"deauth"}\nbytes')
        assert client.answer(8)["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    "message", ["", "hello", "[]", b"\xff\xfe", b"\n", b"\n\n{}", '{"type":"request"}', "9" * 5000, "[" * 5000]
)
def test_a_malformed_message_is_answered_and_the_next_one_works(open_server: WsServer, message: str | bytes) -> None:
    with open_server.client() as client:
        client.socket.send(message)
        answer = json.loads(client.socket.recv(PATIENCE))
        assert (answer["success"], answer["request_seq"]) == (False, 0)
        assert client.body("rrext_ping") == {"pong": True}


def test_a_large_message_is_taken_whole(open_server: WsServer) -> None:
    with open_server.client() as client:
        pipe = client.body("rrext_process", subcommand="open", mimeType="lane/tags")["pipe_id"]
        head = {"type": "request", "seq": 100, "command": "rrext_process"}
        head["arguments"] = {"subcommand": "write", "pipe_id": pipe}
        client.socket.send(json.dumps(head).encode() + b"\n" + bytes(70 << 20))  # more than may wait for answers
        client.socket.ping().wait(PATIENCE)
        assert client.answer(100)["success"]
        assert client.body("rrext_process", subcommand="close", pipe_id=pipe)["name"]


def test_a_message_in_many_pieces_takes_no_more_memory_than_its_bytes(open_server: WsServer) -> None:
    with open_server.client() as client:
        for pieces in (1000, 200_000):  # the first for what any such message makes larger
            before = resident(open_server)
            send = client.socket.socket.sendall
            send(b"\x01\x81\0\0\0\0{")
            send(b"\x00\x81\0\0\0\0 \x00\x80\0\0\0\0" * pieces)
            client.socket.ping().wait(PATIENCE)
            assert resident(open_server) - before < 4 << 20
            rest = b'"type":"request","seq":7,"command":"rrext_ping"}'
            send(b"\x80" + bytes((0x80 | len(rest),)) + bytes(4) + rest)
            assert client.answer(7)["body"] == {"pong": True}


def test_an_idle_client_holds_nothing_of_its_last_message(open_server: WsServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(open_server.client()) for _ in range(30)]
        for client in clients:
            client.body("rrext_ping")
        before = resident(open_server)
        for client in clients:
            client.body("rrext_ping", _meta="x" * (1 << 20))
        assert resident(open_server) - before < 15 << 20


def test_pings_are_answered_while_calls_run(open_server: WsServer) -> None:
    with open_server.client() as client:
        number = client.post("rrext_process", subcommand="tool", tool="wait", input={"key": "for-ever"})
        assert client.socket.ping().wait(PATIENCE)
        assert client.body("cancel", requestId=number)["cancelled"]


def test_a_client_that_reads_nothing_harms_nobody(open_server: WsServer) -> None:
    with open_server.client(max_queue=1) as deaf, open_server.client() as other:
        text = "x" * 100_000
        for _ in range(300):  # 30 MB of answers, and pings that nobody reads the answers of
            post_echo(deaf, text)
            deaf.socket.ping()
        assert other.body("rrext_ping") == {"pong": True}
        assert other.tool("who")["pipe"] is None
        deaf.socket.socket.close()  # without its handshake, for which nobody reads
    with open_server.client() as other:
        assert other.body("rrext_ping") == {"pong": True}


def post_echo(client: WsClient, text: str) -> None:
    client.post("rrext_validate", pipeline={"components": [], "name": text})


def test_a_signal_answers_running_calls_and_closes_the_sockets() -> None:
    with WsServer("--drain", "0.2") as server, server.client() as client:
        number = client.post("rrext_process", subcommand="tool", tool="wait", input={"key": "for-ever"})
        client.body("rrext_ping")
        server.process.send_signal(signal.SIGTERM)
        assert client.answer(number)["code"] == "shutting_down"
        with pytest.raises(ConnectionClosed) as closed:
            client.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        assert server.process.wait(PATIENCE) == 0


def test_a_client_that_vanishes_leaves_no_pipe_and_no_call(open_server: WsServer) -> None:
    with open_server.client() as watcher:
        before = watcher.body("rrext_get_task_status")["threads"]["used"]
        with open_server.client() as client:
            client.body("rrext_process", subcommand="open")
            client.post("rrext_process", subcommand="tool", tool="wait", input={"key": "for-ever"})
            assert watcher.body("rrext_get_task_status")["threads"]["used"] > before
            client.socket.socket.close()
        while watcher.body("rrext_get_task_status")["threads"]["used"] > before:
            pass
