"""The memory that a client costs who does not read, and the time that it costs others."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from ws_server import PATIENCE, PIPELINE, WsClient, WsServer

from rrext.faces.ws.app import MessageSink
from rrext.faces.ws.protocol import SocketProtocol

pytestmark = [pytest.mark.promise("call:unread:bounded"), pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

MIB = 1 << 20
CALLS = 160


@pytest.fixture(scope="module")
def task_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WsServer]:
    """A server with a process for each pipeline."""
    with WsServer("--isolation", "process", env={"FACE_STATE": str(tmp_path_factory.mktemp("state"))}) as server:
        yield server


@contextmanager
def deaf_client(server: WsServer, key: str | None = None) -> Iterator[WsClient]:
    """A client that reads only when it is told to."""
    with server.client(key, max_queue=1, ping_interval=None) as client:
        client.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        yield client


def peak(pid: int) -> int:
    """The most bytes that a process ever had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) << 10


def call_large(client: WsClient, key: str = "", **more: Any) -> int:
    """Send a call with a result of one MiB."""
    return client.post("rrext_process", subcommand="tool", tool="large", input={"size": MIB, "key": key}, **more)


def answers(client: WsClient, numbers: set[int]) -> list[dict[str, Any]]:
    """The answer to each of these requests, one each."""
    left, found = set(numbers), []
    while left:
        answer = json.loads(client.socket.recv(PATIENCE))
        if "request_seq" in answer:
            left.remove(answer["request_seq"])
            found.append(answer)
    return found


def test_results_that_a_client_does_not_read_fill_no_memory_and_hold_up_nobody(task_server: WsServer) -> None:
    with deaf_client(task_server) as deaf, task_server.client() as other:
        key = os.urandom(8).hex()
        assert len(deaf.tool("large", {"size": MIB})) == MIB
        before = peak(task_server.process.pid)
        numbers = {call_large(deaf, key=key) for _ in range(CALLS)}
        for number in range(100):
            assert other.tool("add", {"a": number}) == {"sum": number + 1}
        begun = len(other.tool("journal", {"key": key}))
        assert 0 < begun < CALLS - 20, "calls began though the answers of earlier ones were unread"
        assert peak(task_server.process.pid) - before < 40 * MIB < CALLS * MIB
        found = answers(deaf, numbers)
        assert [len(answer["body"]["result"]) for answer in found] == [MIB] * CALLS


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_many_clients_that_do_not_read_share_the_room_for_results(task_server: WsServer, isolation: str) -> None:
    with ExitStack() as stack:
        if isolation == "none":
            task_server = stack.enter_context(WsServer("--isolation", "none"))
        other = stack.enter_context(task_server.client())
        key = os.urandom(8).hex()
        assert len(other.tool("large", {"size": MIB, "key": key})) == MIB
        crowd = [stack.enter_context(deaf_client(task_server)) for _ in range(12)]
        stack.callback(lambda: [deaf.socket.socket.shutdown(socket.SHUT_RDWR) for deaf in crowd])
        numbers = [{call_large(deaf, key=key) for _ in range(60)} for deaf in crowd]
        for number in range(100):
            assert other.tool("add", {"a": number}) == {"sum": number + 1}
        begun = len(other.tool("journal", {"key": key}))
        assert begun < 12 * 15, "more calls began than the share of each connection has room for"
        assert len(answers(crowd[-1], numbers[-1])) == 60


def test_credit_comes_back_from_calls_that_were_cancelled_with_their_results_on_the_way(task_server: WsServer) -> None:
    with deaf_client(task_server) as deaf:
        for _ in range(3):
            numbers = {call_large(deaf) for _ in range(30)}
            streams = {
                deaf.post("rrext_process", subcommand="tool", tool=tool, input={"number": 40, "size": MIB // 4}, stream=True)
                for tool in ("slabs", "slabs_async")
            }
            cancels = {deaf.post("cancel", requestId=number) for number in sorted(numbers | streams)[::2]}
            for answer in answers(deaf, numbers | streams | cancels):
                assert answer["success"] or answer["code"] == "cancelled"
        assert deaf.tool("slabs", {"number": 3, "size": 1}) is not None
        assert len(deaf.tool("large", {"size": 8 * MIB})) == 8 * MIB


def test_opens_of_a_client_that_does_not_read_take_no_pipes_from_others(task_server: WsServer) -> None:
    with deaf_client(task_server) as deaf, task_server.client() as other:
        left = {call_large(deaf) for _ in range(CALLS)}
        left |= {deaf.post("rrext_process", subcommand="open") for _ in range(64)}
        pipe = other.body("rrext_process", subcommand="open", mimeType="text/plain")["pipe_id"]
        assert other.body("rrext_process", subcommand="close", pipe_id=pipe)
        while left:
            answer = json.loads(deaf.socket.recv(PATIENCE))
            left.remove(answer["request_seq"])
            if "pipe_id" in answer["body"]:
                left.add(deaf.post("rrext_process", subcommand="close", pipe_id=answer["body"]["pipe_id"]))


def test_a_pipeline_that_ends_while_results_wait_answers_each_call_once(task_server: WsServer) -> None:
    pipeline = json.loads(PIPELINE.read_text()) | {"project_id": "7d1f3a52-63c0-4d5e-8f7e-000000000001"}
    with deaf_client(task_server) as deaf, task_server.client() as other:
        deaf.body("execute", pipeline=pipeline, token="ends")
        numbers = {call_large(deaf, token="ends") for _ in range(60)}
        other.body("rrext_process", subcommand="tool", tool="add", input={"a": 1}, token="ends")
        other.body("terminate", token="ends")
        found = answers(deaf, numbers)
        assert len(found) == 60
        for answer in found:
            assert answer["success"] or answer["code"] in ("cancelled", "TASK_NOT_REGISTERED"), answer
        assert any(answer["success"] for answer in found)


class ReadingProtocol:
    """The protocol of a client that takes everything at once."""

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        self.writable.set()

    def send_messages(self, messages: Sequence[bytes]) -> None:
        """Send."""


async def test_who_waits_for_room_hears_also_of_what_another_thread_handed_over() -> None:
    sink = MessageSink(cast(Any, ReadingProtocol()), asyncio.get_running_loop())
    has_room = asyncio.Event()
    sink.on_room = has_room.set
    await asyncio.to_thread(sink.write, [bytes(2 * MIB)])
    await has_room.wait()
    assert sink.handed_bytes == 0


class Waiting:
    """A transport with bytes that wait for the client."""

    def __init__(self, size: int) -> None:
        self.size = size

    def is_closing(self) -> bool:
        """Whether it closes."""
        return False

    def get_write_buffer_size(self) -> int:
        """The bytes."""
        return self.size


async def test_what_tls_passes_on_late_is_watched_until_the_client_has_read_it() -> None:
    protocol: Any = SocketProtocol.__new__(SocketProtocol)
    below, has_read = Waiting(14 * MIB), asyncio.Event()
    protocol.loop, protocol.transport, protocol.writable = asyncio.get_running_loop(), Waiting(0), asyncio.Event()
    protocol._below, protocol._next_look, protocol._most_unsent, protocol._pong = below, None, 0, None
    protocol.on_more, protocol.on_writable = int, lambda: below.size or has_read.set()
    protocol.disconnected = False
    protocol.resume_writing()
    below.size = 0
    await asyncio.wait_for(has_read.wait(), PATIENCE)
