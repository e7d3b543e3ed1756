"""Received frames: the usual ones are read here, all others by the library, and a client cannot tell which."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol
from websockets.uri import parse_uri
from ws_server import ADA, PATIENCE, WsServer, certificate, keys_file

from rrext.faces.ws.protocol import SocketProtocol, whole_messages

pytestmark = pytest.mark.promise("ws:messages")

SIZES = st.sampled_from([0, 1, 20, 60, 61, 62, 63, 64, 1_000, 65_450, 65_460, 66_000])
"""Bytes of padding: on both sides of each form of a length."""
FORMS = st.sampled_from(["text", "binary", "in two frames", "after a ping"])


def frames_of(body: bytes, form: str) -> bytes:
    """A message as a client sends it."""
    opcode = Opcode.BINARY if form == "binary" else Opcode.TEXT
    frames = [Frame(opcode, body)]
    if form == "in two frames":
        frames = [Frame(opcode, body[:7], fin=False), Frame(Opcode.CONT, body[7:])]
    elif form == "after a ping":
        frames = [Frame(Opcode.PING, b"are you there"), *frames]
    return b"".join(frame.serialize(mask=True) for frame in frames)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SIZES, FORMS), min_size=1, max_size=8), st.lists(st.integers(0, 1 << 17), max_size=5))
def test_every_message_is_answered_wherever_the_stream_is_cut(
    open_server: WsServer, messages: list[tuple[int, str]], cuts: list[int]
) -> None:
    stream = b""
    for seq, (size, form) in enumerate(messages):
        request = {"type": "request", "seq": seq, "command": "rrext_ping", "arguments": {"é": "x" * size}}
        stream += frames_of(json.dumps(request, ensure_ascii=False).encode(), form)
    with open_server.client() as client:
        ends = sorted({cut % len(stream) for cut in cuts} | {len(stream)})
        for start, end in zip([0, *ends], ends, strict=False):
            client.socket.socket.sendall(stream[start:end])
        assert [json.loads(client.socket.recv(PATIENCE))["request_seq"] for _ in messages] == list(range(len(messages)))


def test_two_texts_that_are_none_behind_a_key_end_a_connection_of_tls_once(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    auth = {"type": "request", "seq": 1, "command": "auth", "arguments": {"auth": ADA}}
    with WsServer("--keys", str(keys_file(tmp_path)), "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        with server.client(ssl=ssl.create_default_context(cafile=cert)) as client:
            client.socket.socket.sendall(frames_of(json.dumps(auth).encode(), "text") + 2 * frames_of(b"\xff", "text"))
            with pytest.raises(ConnectionClosedError, match="1007"):
                client.socket.recv(PATIENCE)
        server.end()
        assert "Traceback" not in server.log


class Connection:
    """The protocol of a connection after its handshake, whose library must not see a byte while `reads` is false."""

    def __init__(self) -> None:
        self.received: list[tuple[bytes, bool]] = []
        client, server = ClientProtocol(parse_uri("ws://localhost/")), ServerProtocol()
        client.send_request(client.connect())
        server.receive_data(b"".join(client.data_to_send()))
        (request,) = server.events_received()
        server.send_response(server.accept(request))  # type: ignore[arg-type]
        server.data_to_send()
        self.protocol: Any = SocketProtocol.__new__(SocketProtocol)
        vars(self.protocol).update(
            conn=server, close_sent=False, frames=[], _messages=[], _is_large=False, on_messages=self.received.extend,
            on_more=lambda: None,
        )  # fmt: skip

    def sees(self, data: bytes) -> bool:
        """Whether the library sees some of the data."""
        seen: list[bytes] = []
        receive = self.protocol.conn.receive_data
        self.protocol.conn.receive_data = lambda data: (seen.append(data), receive(data))
        self.protocol.data_received(data)
        self.protocol.conn.receive_data = receive
        return bool(seen)


def test_usual_messages_do_not_pass_the_parser_of_the_library() -> None:
    connection = Connection()
    two = frames_of(b"one", "text") + frames_of(bytes(300), "binary")
    assert not connection.sees(two)
    assert connection.sees(two + two[:5])  # the beginning of a message
    assert connection.sees(two[5:])
    assert not connection.sees(two)
    assert connection.sees(frames_of(b"in two frames", "in two frames"))
    assert not connection.sees(two)
    usual = [(b"one", False), (bytes(300), True)]
    assert connection.received == [*usual, *usual, *usual, *usual, (b"in two frames", False), *usual]


@pytest.mark.parametrize(
    "frame",
    [
        Frame(Opcode.TEXT, b"x").serialize(mask=False),
        b"\xc1\x81\0\0\0\0x",
        Frame(Opcode.TEXT, b"x", fin=False).serialize(mask=True),
        Frame(Opcode.CLOSE, b"").serialize(mask=True),
        Frame(Opcode.TEXT, b"\xff").serialize(mask=True),
        Frame(Opcode.BINARY, bytes(101)).serialize(mask=True),
        Frame(Opcode.BINARY, bytes(1 << 16)).serialize(mask=True),
    ],
    ids=["not masked", "an extension", "a beginning", "a close", "no UTF-8", "too long", "64 KiB"],
)
def test_what_is_unusual_is_left_to_the_library(frame: bytes) -> None:
    usual = frames_of(b"{}", "text")
    assert whole_messages(usual + frame + usual, 100) == ([(b"{}", False)], len(usual))
