"""rrext's own clients and commands over a WebSocket: with keys, with TLS, and when no server is there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ws_server import ADA, BOB, PATIENCE, WsServer, certificate, plain_environment

from rrext import Client, NotAuthenticated, NotConnected, ServerExited, UsageError, blocking
from rrext.transports.web import WebAddress
from rrext.wire import websocket
from rrext.wire.websocket import WebSocketClient, frame_of, masked

pytestmark = pytest.mark.promise("ws:client")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_shows_its_key(server: WsServer, backend: str) -> None:
    async def talk() -> None:
        async with Client.connect(server.url, key=BOB) as client:
            assert (await client.tool(tool="who"))["user"] == "bob"
            result = await client.send(b"hello " * 100_000, mimetype="text/plain")
            assert result["reply"] == ["HELLO " * 100_000 + "\n\n"]
            assert await client.tool(tool="blob", input={"data": "AAEC"}) == b"\0\1\2"

    anyio.run(talk, backend=backend)


def test_the_blocking_client_too(server: WsServer) -> None:
    with blocking.Client.connect(server.url, key=ADA) as client:
        assert client.tool(tool="who")["user"] == "ada"


async def test_a_wrong_key_or_none_is_not_authenticated(server: WsServer) -> None:
    for key in ("wrong", None):
        with pytest.raises(NotAuthenticated):
            async with Client.connect(server.url, key=key):
                pass


async def test_a_server_that_is_not_there_or_no_websocket_is_not_connected(server: WsServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotConnected, match="nobody listens"):
        async with Client.connect(f"ws://127.0.0.1:{port}"):
            pass
    with pytest.raises(NotConnected, match="cannot connect"):
        async with Client.connect(f"wss://127.0.0.1:{server.port}"):
            pass
    with anyio.fail_after(PATIENCE), socket.create_server(("127.0.0.1", 0)) as other:
        answering = threading.Thread(target=answer_once, args=(other,))
        answering.start()
        with pytest.raises(NotConnected, match="opened no WebSocket: HTTP/1.1 404"):
            async with Client.connect(f"ws://127.0.0.1:{other.getsockname()[1]}"):
                pass
        answering.join()


def answer_once(listening: socket.socket) -> None:
    """Answer one request like a server of something else."""
    end, _ = listening.accept()
    with end:
        end.recv(65536)
        end.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


async def test_a_server_that_ends_fails_the_calls(tmp_path: Path) -> None:
    with WsServer("--drain", "0.1") as server:
        async with Client.connect(server.url) as client:
            assert await client.tool(tool="add", input={"a": 1}) == {"sum": 2}
            server.process.kill()
            server.process.wait(PATIENCE)
            with pytest.raises((ServerExited, NotConnected)):
                await client.ping()


@pytest.mark.parametrize(
    "text", ["ws://", "ws://host:99999", "http://host", "ws://host/#x", "ws://host:x", "ws://a b", "ws:/x"]
)
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(UsageError):
        Client.connect(text)


def test_an_address_has_defaults_and_never_a_key() -> None:
    assert WebAddress.of("ws://host") == ("host", 5565, "/task/service", False)
    assert WebAddress.of("wss://[::1]:1/a?b=c") == ("::1", 1, "/a?b=c", True)
    with pytest.raises(UsageError, match="a key does not belong"):
        Client.connect("ws://key@host")
    with pytest.raises(UsageError, match="take a key"):
        Client.connect("unix:/tmp/x", key="key")


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A finished command of rrext."""
    command = [sys.executable, "-m", "rrext", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=plain_environment(**(env or {})),
        timeout=PATIENCE,
    )


def test_commands_take_the_key_from_the_environment_or_a_private_file(server: WsServer, tmp_path: Path) -> None:
    done = run("tool", "--at", server.url, "who", env={"ROCKETRIDE_APIKEY": ADA})
    assert (done.returncode, json.loads(done.stdout)["user"]) == (0, "ada"), done
    file = tmp_path / "key"
    file.write_text(f"{BOB}\n")
    file.chmod(0o600)
    for words in (("tool", "--at", server.url, "--key-file", str(file), "who"),):
        assert json.loads(run(*words).stdout)["user"] == "bob"
    listed = run("tools", "--at", server.url, "--key-file", str(file))
    assert "who" in listed.stdout
    (tmp_path / "hello.txt").write_text("hello")
    sent = run("send", "--at", server.url, "--key-file", str(file), str(tmp_path / "hello.txt"))
    assert "HELLO" in sent.stdout, sent
    file.chmod(0o644)
    refused = run("tool", "--at", server.url, "--key-file", str(file), "who")
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
    assert BOB not in refused.stderr


def test_a_command_without_its_key_says_so(server: WsServer) -> None:
    done = run("tool", "--at", server.url, "who")
    assert done.returncode == 2
    assert "Not authenticated" in done.stderr


def test_everything_works_through_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate(tmp_path)
    with WsServer("--tls-cert", str(cert), "--tls-key", str(key)) as server:
        assert server.url.startswith("wss://")
        with pytest.raises(NotConnected, match="certificate"), blocking.Client.connect(server.url):
            pass
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        with blocking.Client.connect(server.url) as client:
            assert client.tool(tool="add", input={"a": 1}) == {"sum": 2}
            assert client.send(b"x" * 300_000, mimetype="text/plain")["reply"] == ["X" * 300_000 + "\n\n"]
        done = run("tool", "--at", server.url, "add", "a=2", env={"SSL_CERT_FILE": str(cert)})
        assert json.loads(done.stdout) == {"sum": 3}, done


def opened() -> WebSocketClient:
    """A WebSocket whose handshake is done."""
    client = WebSocketClient("host:1", "/")
    nonce = websocket.b64encode(websocket.sha1(client._nonce + websocket.GUID).digest()).decode()
    answer = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {nonce}\r\n\r\n".encode()
    for index in range(len(answer) - 1):
        assert not client.opened(answer[index : index + 1])
    assert client.opened(answer[-1:])
    return client


def served(opcode: int, payload: bytes, *, is_final: bool = True) -> bytes:
    """A frame of a server."""
    frame = frame_of(opcode, payload)
    size = {126: 4, 127: 10}.get(frame[1] & 0x7F, 2)
    head = bytes((frame[0] if is_final else frame[0] & 0x7F, frame[1] & 0x7F))
    return head + frame[2:size] + payload


@given(st.lists(st.binary(max_size=300), min_size=1), st.integers(1, 50), st.booleans())
def test_messages_of_a_server_are_the_same_however_they_are_cut(messages: list[bytes], step: int, is_split: bool) -> None:
    client, data = opened(), b""
    for message in messages:
        if is_split:
            data += served(websocket.TEXT, message[:3], is_final=False) + served(websocket.PING, b"p")
            data += served(websocket.CONTINUATION, message[3:])
        else:
            data += served(websocket.TEXT, message)
    found = [frame for index in range(0, len(data), step) for frame in client.receive(data[index : index + step])]
    assert found == [b"Content-Length: %d\r\n\r\n%b" % (len(message), message) for message in messages]
    assert bool(client.replies) == is_split


@given(st.binary(max_size=1000), st.binary(min_size=4, max_size=4))
def test_a_mask_is_taken_off_by_itself(payload: bytes, mask: bytes) -> None:
    assert masked(masked(payload, mask), mask) == payload
    assert masked(payload, mask) == bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def test_raw_bytes_of_a_server_follow_the_first_line() -> None:
    client = opened()
    (frame,) = client.receive(served(websocket.BINARY, b'{"a":1}\none\ntwo'))
    assert frame == b'Content-Length: 14\r\nJson-Length: 7\r\n\r\n{"a":1}one\ntwo'
    list(client.receive(served(websocket.CLOSE, b"")))
    assert client.is_closed
