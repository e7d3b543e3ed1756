"""`rrext serve --ws`: what holds for a socket of this machine (`test_unix_socket.py`) holds for clients of a network."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_client import PATIENCE, Ended, Server, command_line, environment, tool
from web_client import WebClient, serve

pytestmark = pytest.mark.promise("ws:messages")


def test_without_stdio_nothing_is_read_there_and_its_end_ends_nothing(spawn: Callable[..., Server]) -> None:
    server, url = serve(spawn)
    server.send_bytes(tool(1, "add", {"a": 1}))
    server.close_stdin()
    with WebClient(url) as client:
        assert client.call("reads") == client.call("reads")
        assert client.call("prints") is not None
        server.signal(signal.SIGTERM)
        client.until_end()
    assert server.until_end() == []
    assert server.wait() == 0


def test_closed_stdin_and_stdout_are_no_hindrance() -> None:
    line = " ".join(f"'{part}'" for part in command_line("--ws", "127.0.0.1:0"))
    process = subprocess.Popen(["sh", "-c", f"exec {line} <&- >&-"], stderr=subprocess.PIPE, env=environment(), text=True)
    assert process.stderr is not None
    while (found := re.search(r"listening at (\S+)", said := process.stderr.readline())) is None:
        assert said
    with WebClient(found[1]) as client:
        assert client.call("add", {"a": 1}) == 2
    process.terminate()
    assert process.wait(PATIENCE) == 0
    process.stderr.close()


def test_with_stdio_both_are_served_and_the_client_there_ends_it(spawn: Callable[..., Server]) -> None:
    server, url = serve(spawn, "--stdio")
    with WebClient(url) as client:
        assert server.call("add", {"a": 1}) == client.call("add", {"a": 1}) == 2
        waiting = client.send_tool("wait", {"gate": "g"})
        server.begun("g")
        server.close_stdin()
        assert client.code(waiting) == "shutting_down"
        client.until_end()
    assert server.wait() == 0


def test_a_hang_up_ends_a_server_with_a_client_on_stdin_and_no_other_one(spawn: Callable[..., Server]) -> None:
    with_stdio, _ = serve(spawn, "--stdio")
    with_stdio.signal(signal.SIGHUP)
    assert with_stdio.wait() == 0
    server, url = serve(spawn, "--drain", "0.2")
    with WebClient(url) as client:
        held = client.send_tool("hold_gil", {"seconds": 1.5})
        server.heard("arrived at hold_gil")
        server.signal(signal.SIGHUP)  # no reason to kill a server that is stuck, either
        assert client.body(held)["result"] == 1.5
        server.signal(signal.SIGTERM)
        client.until_end()
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_a_signal_ends_the_server_though_a_tool_blocks_the_loop(spawn: Callable[..., Server]) -> None:
    server, url = serve(spawn, "--drain", "0.2")
    with WebClient(url) as client:
        parked = client.send_tool("wait", {"gate": "g"})
        client.begun("g")
        blocked = client.send_tool("block_loop", {"gate": "never"})
        server.heard("arrived at never")
        server.signal(signal.SIGTERM)
        assert {client.code(parked), client.code(blocked)} == {"shutting_down"}
        client.until_end()
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_a_drain_waits_for_the_calls_of_all_clients(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server, url = serve(spawn, "--drain", "60")
    gates = [tmp_path / "one", tmp_path / "other"]
    with WebClient(url) as one, WebClient(url) as other:
        calls = []
        for client, gate in zip((one, other), gates, strict=True):
            os.mkfifo(gate)
            calls.append(client.send_tool("park", {"gate": str(gate)}))
            server.heard(f"arrived at {gate}")
        server.signal(signal.SIGTERM)
        for client, gate, call in zip((one, other), gates, calls, strict=True):
            gate.write_bytes(b"")
            assert client.body(call)["result"] == str(gate)
            client.until_end()
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded", "call:answer:exactly-one")
@pytest.mark.parametrize("kind", ["add", "add_on_loop", "add_later"])
def test_all_that_was_read_before_the_end_is_answered(spawn: Callable[..., Server], kind: str) -> None:
    server, url = serve(spawn)
    with WebClient(url) as client:
        assert client.call(kind, {"a": 1}) == 2
        asked = [client.next_seq() for _ in range(400)]
        client.send_bytes(b"".join(tool(seq, kind, {"a": 1}) for seq in asked))
        last = client.send("rrext_ping")
        client.body(last)
        server.signal(signal.SIGTERM)
        client.until_end()
        answers = client.all_answers(asked)
        assert {answer.get("code", "done") for answer in answers} <= {"done", "shutting_down"}
    assert server.wait() == 0


def test_a_fork_of_the_server_does_not_keep_the_port(spawn: Callable[..., Server]) -> None:
    server, url = serve(spawn)
    with WebClient(url) as client:
        client.call("leaves_fork_behind")
        server.signal(signal.SIGKILL)
        server.wait()
        with pytest.raises((Ended, OSError)):
            client.read(5)
    port = int(url.rpartition(":")[2])
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
        again.listen()


@pytest.mark.parametrize("kind", ["calls", "pipes"])
def test_a_flood_of_one_client_delays_another_ones_call_by_a_few_calls(
    spawn: Callable[..., Server], tmp_path: Path, kind: str
) -> None:
    server, url = serve(spawn, "--threads", "1")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with WebClient(url) as floods, WebClient(url) as other:
        floods.send_tool("park", {"gate": str(gate)})
        server.heard(f"arrived at {gate}")
        waiting = [floods.send_tool("count", {"name": "turn"}) for _ in range(300)]
        if kind == "pipes":
            waiting += [floods.send("rrext_process", {"subcommand": "open"}) for _ in range(300)]
        floods.ask("tools")  # all of them wait in line by now: the process of the task answers it, a ping the server does
        mine = other.send_tool("count", {"name": "turn"})
        other.ask("tools")
        gate.write_bytes(b"")
        assert other.body(mine)["result"] <= 3
        for seq in waiting[:300]:
            floods.body(seq)


def test_the_log_says_whose_request_it_is(spawn: Callable[..., Server]) -> None:
    server, url = serve(spawn)
    with WebClient(url) as one, WebClient(url) as other:
        for client in (one, other):
            assert client.code(client.send_tool("raises", {"kind": "exit"})) == "tool_failed"
    server.heard("request=1 client=ws-1 Tool")
    server.heard("request=1 client=ws-2 Tool")
