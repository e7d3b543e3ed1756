"""What clients and failed calls held is free at once: the servers here never collect garbage."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from test_ws_load import HANDSHAKE, vanish
from websockets.exceptions import ConnectionClosed
from ws_server import HERE, PATIENCE, PIPELINE, WsClient, WsServer, resident

pytestmark = [pytest.mark.promise("ws:memory"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

MIB = 1 << 20
DATA = "x" * (2 * MIB)
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Freed memory leaves the process at once, and is seen to."""
FAILING: dict[str, Any] = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {
            "id": "failing_1",
            "provider": "failing",
            "config": {},
            "control": [{"classType": "tool", "from": "webhook_1"}],
            "input": [{"lane": "text", "from": "webhook_1"}],
        },
        {"id": "broken_1", "provider": "broken", "config": {}, "control": [{"classType": "tool", "from": "webhook_1"}]},
    ],
    "source": "webhook_1",
    "project_id": "failing",
}


def uncollected(folder: Path, *options: str, files: tuple[Path, ...] = (PIPELINE,), first: str = "") -> WsServer:
    """A server whose processes never collect garbage."""
    (folder / "sitecustomize.py").write_text("import gc\n\ngc.disable()\ngc.enable = gc.disable\n")
    return WsServer(*options, files=files, env={**MAPPED, "PYTHONPATH": str(folder)}, first=first)


def until_free(server: WsServer, client: WsClient, before: int) -> None:
    """Wait until the memory is as it was; the test's own timeout ends it."""
    while resident(server) - before > 10 * MIB:
        client.body("rrext_ping")


def left_and_free(server: WsServer) -> None:
    """Let clients vanish with unread answers, and wait until the memory is as it was."""
    with server.client() as other:
        other.tool("large", {"size": 1})
        before = resident(server)
        with ExitStack() as stack:
            clients = [stack.enter_context(server.client(max_queue=1)) for _ in range(12)]
            for client in clients:
                for _ in range(12):
                    client.post("rrext_process", subcommand="tool", tool="large", input={"size": 2 * MIB})
            while resident(server) - before < 15 * MIB:  # it keeps 22 to 31, as workers wait, and the system some too
                other.body("rrext_ping")
            for client in clients:
                vanish(client)
            until_free(server, other, before)


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_bytes_of_clients_that_vanish_with_unread_answers_are_free_at_once(tmp_path: Path, isolation: str) -> None:
    with uncollected(tmp_path, "--isolation", isolation) as server:
        left_and_free(server)


def test_what_many_clients_left_goes_back_to_the_system() -> None:
    with WsServer("--isolation", "none") as server:
        left_and_free(server)


UNFINISHED = (200 * MIB).to_bytes(8, "big") + bytes(4) + DATA.encode() * 10


@pytest.mark.parametrize("head", [b"\x81\xff", b"\x01\xfe\0\1\0\0\0\0x\x00\xff"], ids=["a frame", "pieces"])
def test_an_unfinished_message_of_a_client_that_vanishes_is_free_at_once(tmp_path: Path, head: bytes) -> None:
    with uncollected(tmp_path) as server, server.client() as other:
        other.tool("large", {"size": 1})
        before = resident(server)
        with server.client() as client:
            client.socket.socket.sendall(head + UNFINISHED)
            while resident(server) - before < 18 * MIB:
                other.body("rrext_ping")
            vanish(client)
        until_free(server, other, before)


def test_a_message_that_breaks_the_protocol_is_free_when_its_client_is_gone(tmp_path: Path) -> None:
    with uncollected(tmp_path) as server, server.client() as other:
        other.tool("large", {"size": 1})
        before = resident(server)
        for _ in range(2):
            with server.client() as client:
                size = (20 * MIB).to_bytes(8, "big") + bytes(4)
                client.socket.socket.sendall(b"\x01\xff" + size + bytes(20 * MIB) + b"\x81\x80" + bytes(4))
                with pytest.raises(ConnectionClosed, match="expected a continuation frame"):
                    client.socket.recv(PATIENCE)
        until_free(server, other, before)


LARGE = {"subcommand": "tool", "tool": "large", "input": {"size": 12 * MIB}}
HASTE = "from rrext.faces.http import listener\nlistener.CLIENT_PATIENCE = listener.LOOK_INTERVAL = 0.1\n"


@pytest.mark.parametrize("end", [b"\x88\x80" + bytes(4), b"\x83\x80" + bytes(4), b""], ids=["close", "break", "end of input"])
def test_a_client_that_ends_without_reading_its_answers_keeps_them_for_a_while_only(tmp_path: Path, end: bytes) -> None:
    with uncollected(tmp_path, first=HASTE) as server, server.client() as other:
        other.tool("large", {"size": 1})
        before = resident(server)
        text = json.dumps({"type": "request", "seq": 1, "command": "rrext_process", "arguments": LARGE}).encode()
        with ExitStack() as stack:
            raws = [stack.enter_context(server.connected()) for _ in range(3)]
            for raw in raws:
                raw.sendall(HANDSHAKE + b"\r\n" + b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text)
            while resident(server) - before < 24 * MIB:
                other.body("rrext_ping")
            for raw in raws:
                raw.sendall(end) if end else raw.shutdown(socket.SHUT_WR)
            until_free(server, other, before)


def test_the_data_of_calls_that_fail_is_free_when_they_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "failing.pipe"
    path.write_text(json.dumps(FAILING))
    with (
        uncollected(tmp_path, "--isolation", "none", "--nodes", str(HERE / "memory_nodes.py"), files=(path,)) as server,
        server.client() as client,
    ):
        grown: dict[str, int] = {}
        for name, way in WAYS.items():
            way(client)
            before = resident(server)
            for _ in range(4):
                way(client)
            for _ in range(1000):  # a late call is answered before its thread lets go
                client.body("rrext_ping")
                grown[name] = (resident(server) - before) // MIB
                if grown[name] <= 4:
                    break
        assert {name: size for name, size in grown.items() if size > 4} == {}


def test_a_pipeline_is_free_when_its_process_has_ended(tmp_path: Path) -> None:
    with uncollected(tmp_path, "--trust-clients") as server, server.client() as client:
        terminated(client)
        before = resident(server)
        for _ in range(4):
            terminated(client, DATA * 2)
        until_free(server, client, before)


SCARCE = """
from asyncio.selector_events import _SelectorSocketTransport as Transport
from rrext.faces.ws import protocol
write, whole_messages = Transport.write, protocol.whole_messages

def scarce_write(self, data):
    if len(data) > 1 << 20:
        raise MemoryError
    write(self, data)

def scarce_read(data, most):
    if len(data) > 10_000:
        raise MemoryError
    return whole_messages(data, most)

Transport.write, protocol.whole_messages = scarce_write, scarce_read
"""


@pytest.mark.promise("wire:no-memory")
@pytest.mark.parametrize(("tool", "size"), [("large", 2 * MIB), ("add", 20_000)])
def test_a_client_without_memory_for_its_message_or_answer_is_cut_off_and_others_go_on(tool: str, size: int) -> None:
    with WsServer("--isolation", "none", first=SCARCE) as server, server.client() as other:
        with server.client() as client:
            client.post("rrext_process", subcommand="tool", tool=tool, input={"size": size}, context={"pad": "x" * size})
            with pytest.raises(ConnectionClosed):
                client.answer(1)
        assert other.tool("add", {"a": 1}) == {"sum": 2}
        server.heard("its connection ends")
        server.end()
    assert server.log.count("no memory is left") == 1
    assert "Traceback" not in server.log


def call(tool: str, **more: Any) -> Callable[[WsClient], object]:
    """A call of a tool with data, which fails."""
    also = more.pop("also", {})

    def way(client: WsClient) -> None:
        client.failure("rrext_process", subcommand="tool", tool=tool, input={"data": DATA, **also}, **more)

    return way


def write(client: WsClient) -> None:
    """An object that fails, and is used on."""
    pipe = client.body("rrext_process", subcommand="open", mimeType="text/plain")["pipe_id"]
    for _ in range(3):
        client.failure("rrext_process", subcommand="write", pipe_id=pipe, data=DATA)
    client.body("rrext_process", subcommand="close", pipe_id=pipe)


def garbled(client: WsClient) -> None:
    """A message that is no JSON, and one that is no request."""
    for text in (DATA, json.dumps([DATA])):
        client.socket.send(text)
        assert client.answer(0)["success"] is False


def terminated(client: WsClient, data: str = DATA) -> None:
    """A pipeline that ends long before its time to live."""
    pipeline = {"components": FAILING["components"][:1], "source": "webhook_1", "project_id": "other", "description": data}
    client.body("execute", pipeline=pipeline, token="other", ttl=1000)
    client.body("terminate", token="other")


WAYS: dict[str, Callable[[WsClient], object]] = {
    "on a thread": call("refuse"),
    "on the loop": call("crash"),
    "on its own thread": call("refuse_same"),
    "chunks": call("chunks", stream=True),
    "late": call("stay", timeout=0.05),
    "wrong input": call("refuse", also={"data": [DATA]}),
    "no node": call("never"),
    "no such tool": call("nothing"),
    **{
        f"{outer} {inner}": call(outer, also={"tool": inner}) for outer in ("ask", "ask_async") for inner in ("refuse", "crash")
    },
    "inner late": call("ask", also={"tool": "stay"}, timeout=0.05),
    "object": write,
    "no request": garbled,
    "pipeline": terminated,
}
