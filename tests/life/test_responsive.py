"""Others are answered while tools compute, block and overstay; and what does that is named."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_client import Server
from socket_client import SocketClient, folder, listen

PROMISE = 0.1
TURNS = 5
ROUNDS = 4


def cancel_and_ping(server: Server) -> float:
    """Seconds for a ping, a call and its cancel, many times: of the server's own processor time, as all of it is in use."""
    began = server.cpu_ticks()
    for _ in range(TURNS):
        server.ask("rrext_ping")
        waiting = server.send_tool("wait", {"gate": "never"})
        server.send("cancel", {"requestId": waiting})
        assert server.code(waiting) == "cancelled"
    return (server.cpu_ticks() - began) / os.sysconf("SC_CLK_TCK")


def leave_behind(server: Server, kind: str, times: int) -> None:
    """Have so many calls overstay their deadline, which grows until the machine reaches them before it is over."""
    timeout, held = 0.05, 0
    while held < times:
        late = [server.send_tool(kind, {"gate": "g"}, timeout=timeout) for _ in range(times - held)]
        # One that was counted late already keeps the last place.
        assert {server.code(seq) for seq in late} <= {"tool_timeout", "unavailable"}
        held = server.ask("rrext_get_task_status")["leftBehind"].get(f"worker_1.{kind}", 0)
        timeout *= 2
    assert held == times


@pytest.mark.promise("tool:sync:others-answered")
def test_pings_and_cancels_are_answered_while_32_tools_compute(spawn: Callable[..., Server]) -> None:
    server = spawn()
    server.call("add", {"a": 1})
    for _ in range(32):
        server.send_tool("spin", {"gate": "never"})
    server.heard("arrived at never\n", times=32)
    rounds = [cancel_and_ping(server) for _ in range(ROUNDS)]
    assert sorted(rounds)[ROUNDS // 2 - 1] < 2 * TURNS * PROMISE


@pytest.mark.promise("call:no-thread:error")
def test_a_server_that_gets_no_more_threads_answers_and_reads_on(spawn: Callable[..., Server]) -> None:
    one_arena = {"MALLOC_ARENA_MAX": "1"}
    idle = spawn(env=one_arena)
    idle.call("add", {"a": 1})
    size = next(line for line in Path(f"/proc/{idle.pid}/status").read_text().splitlines() if line.startswith("VmPeak"))
    limit = int(size.split()[1]) * 1024 + 40 * 1024 * 1024
    server = spawn(env=one_arena, before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    parked = [server.send_tool("park", {"gate": "g"}) for _ in range(30)]
    server.heard("no more threads")
    waiting = [server.send_tool("add", {"a": 1}) for _ in range(10)]
    for _ in range(5):
        assert server.ask("rrext_ping") == {"pong": True}
        assert server.call("add_on_loop", {"a": 1}) == 2
    opener = server.send_tool("wait_and_release", {"gate": "go", "then": "g"})
    server.heard("arrived at go")
    server.send("cancel", {"requestId": opener})
    assert {server.body(seq)["result"] for seq in parked} == {"g"}
    assert {server.body(seq)["result"] for seq in waiting} == {2}
    server.close_stdin()
    assert server.wait() == 0


@pytest.mark.promise("tool:async:block-named")
def test_an_async_tool_that_blocks_the_loop_is_named_and_counted(server: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    blocking = server.send_tool("block_loop", {"gate": str(gate)})
    server.heard("worker_1.block_loop blocks the event loop")
    gate.write_bytes(b"")
    server.answer(blocking)
    server.heard("in block_loop")
    server.heard("in park")
    blocks = {"count": 1, "tools": {"worker_1.block_loop": 1}}
    assert server.ask("rrext_get_task_status")["loopBlocks"] == blocks


def test_a_tool_that_awaits_for_long_blocks_nothing(server: Server) -> None:
    waiting = server.send_tool("wait", {"gate": "g"})
    server.heard("arrived at g")
    parked = server.send_tool("park", {"gate": "p"})
    server.begun("p")
    for _ in range(300):
        server.call("add_later", {"a": 1})
    server.send("cancel", {"requestId": waiting})
    server.call("release", {"gate": "p"})
    server.body(parked)
    assert server.ask("rrext_get_task_status")["loopBlocks"] == {"count": 0, "tools": {}}


@pytest.mark.promise("pool:left-behind:unavailable")
@pytest.mark.parametrize("kind", ["park", "wait_deaf"])
def test_tools_that_outlive_their_deadline_and_fill_the_places_are_named(spawn: Callable[..., Server], kind: str) -> None:
    server = spawn("--threads", "2")
    leave_behind(server, kind, 2)
    waiting = [server.send_tool("add", {"a": 1}), server.send("rrext_process", {"subcommand": "open"})]
    for seq in (*waiting, server.send_tool("add_on_loop", {"a": 1})):
        assert server.code(seq) == "unavailable"
        assert server.answers[seq]["data"]["leftBehind"] == {f"worker_1.{kind}": 2}
    server.heard("all 2 are held by calls that were answered and have not returned: worker_1.")


@pytest.mark.promise("pool:left-behind:unavailable")
def test_every_client_is_told_who_keeps_the_places_and_gets_one_when_they_are_back(
    spawn: Callable[..., Server], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with folder() as here:
        listen(spawn, here / "s", "--threads", "1")
        with SocketClient(here / "s") as gone, SocketClient(here / "s") as one, SocketClient(here / "s") as other:
            gone.send_tool("park", {"gate": str(gate)})
            with gate.open("wb"):
                gone.close()
                for client in (one, other):
                    seq = client.send_tool("add", {"a": 1})
                    assert client.code(seq) == "unavailable"
                    assert "worker_1.park (1, for " in client.answers[seq]["message"]
            while one.ask("rrext_get_task_status")["leftBehind"]:
                pass
            assert one.call("add", {"a": 1}) == other.call("add", {"a": 1}) == 2


def test_a_tool_that_returned_is_not_left_behind(server: Server) -> None:
    leave_behind(server, "park", 1)
    server.call("release", {"gate": "g"})
    while server.ask("rrext_get_task_status")["leftBehind"]:
        pass
