"""Tools that do to the process what they should not: the server goes on, and ends as it always does."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_client import PATIENCE, Server, command_line, environment, request, tool

HOSTILE = ["cancels_all_tasks", "stops_loop", "exits_in_a_task", "loses_streams"]


@pytest.mark.promise("life:tools:cannot-end-it")
@pytest.mark.parametrize("how", HOSTILE)
def test_a_server_goes_on_after_a_hostile_tool_and_ends_with_0(server: Server, how: str) -> None:
    waiting = server.send_tool("park", {"gate": "g"})
    server.begun("g")
    server.answer(server.send_tool(how))
    assert server.call("add", {"a": 1}) == 2
    assert server.call("add_later", {"a": 1}) == 2
    server.call("release", {"gate": "g"})
    assert server.body(waiting)["result"] == "g"
    server.close_stdin()
    assert server.until_end() == []
    assert server.wait() == 0


@pytest.mark.promise("life:tools:cannot-end-it", "life:sigterm:bounded")
@pytest.mark.parametrize("how", HOSTILE[:2])
def test_a_drain_goes_on_after_a_hostile_tool(spawn: Callable[..., Server], tmp_path: Path, how: str) -> None:
    server = spawn("--drain", "60")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    parked = server.send_tool("park", {"gate": str(gate)})
    server.heard(f"arrived at {gate}")
    hostile = server.send_tool("when_released", {"gate": "h", "tool": how})
    server.begun("h")
    opener = server.send_tool("wait_and_release", {"gate": "go", "then": "h"})
    server.begun("go")
    server.signal(signal.SIGTERM)
    while server.answer(server.send_tool("add", {"a": 1})).get("code") != "shutting_down":
        pass
    server.send("cancel", {"requestId": opener})
    server.answer(hostile)
    gate.write_bytes(b"")
    assert server.body(parked)["result"] == str(gate)
    assert server.until_end() == []
    assert server.wait() == 0


@pytest.mark.promise("life:tools:cannot-end-it", "call:answer:exactly-one")
@pytest.mark.parametrize("given", [None, {"suspends": False}, {"suspends": True}], ids=["thread", "loop", "suspended loop"])
@pytest.mark.parametrize("warm", [0, 5])
def test_a_fork_that_returns_from_its_tool_answers_nobody_and_ends(server: Server, given: dict[str, bool], warm: int) -> None:
    name, given = ("returns_from_fork", {}) if given is None else ("returns_from_fork_on_loop", given)
    for _ in range(warm):  # so that the thread that reads runs it
        server.call("add", {"a": 1})
    children = []
    for _ in range(3):
        child = server.call(name, given)
        assert child > 0
        children.append(child)
        assert server.call("add", {"a": 1}) == 2
        assert server.call("add_later", {"a": 1}) == 2
    for child in children:
        process = os.pidfd_open(child)  # nobody has waited for it, so the number is still its own
        assert select.select([process], [], [], PATIENCE)[0], "it is still there"
        os.close(process)
    server.close_stdin()
    assert server.until_end() == []
    assert server.wait() == 0


# -- stdout


def test_a_client_that_closes_only_its_reading_end_ends_an_idle_server(server: Server) -> None:
    assert server.call("add", {"a": 1}) == 2
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert server.wait() == 0


@pytest.mark.parametrize("kind", ["own", "tool"])
def test_answers_that_cannot_be_written_make_the_exit_code_1(tmp_path: Path, kind: str) -> None:
    requests = tmp_path / "requests"
    requests.write_bytes(request(1, "rrext_ping") if kind == "own" else tool(1, "add", {"a": 1}) + tool(2, "add", {"a": 1}))
    with requests.open("rb") as given, Path("/dev/full").open("wb") as taken:
        done = subprocess.run(
            command_line(),
            stdin=given,
            stdout=taken,
            stderr=subprocess.DEVNULL,
            env=environment(),
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1


@pytest.mark.promise("life:tools:cannot-end-it", "life:sigterm:bounded")
@pytest.mark.parametrize("remove", [False, True])
def test_a_signal_that_a_tool_listens_to_as_well_ends_the_server(spawn: Callable[..., Server], remove: bool) -> None:
    server = spawn("--drain", "60")
    server.call("adds_signal_handler", {"number": signal.SIGTERM, "remove": remove})
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert ("a tool heard 15" in server.stderr_text()) is not remove


def test_a_tool_hears_the_signals_that_it_listens_to(server: Server) -> None:
    server.call("adds_signal_handler", {})
    server.signal(signal.SIGUSR1)
    server.heard(f"a tool heard {int(signal.SIGUSR1)}")
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.promise("life:tools:cannot-end-it", "life:sigterm:bounded", "life:gil:killed")
@pytest.mark.parametrize("stuck", ["block_loop", "hold_gil"])
def test_a_signal_is_heard_though_a_tool_listens_to_signals_and_another_one_is_stuck(
    spawn: Callable[..., Server], stuck: str
) -> None:
    server = spawn("--drain", "0.5")
    server.call("adds_signal_handler", {})
    seq = server.send_tool(stuck, {"gate": "never"} if stuck == "block_loop" else {"seconds": 60})
    server.heard("arrived at")
    server.signal(signal.SIGTERM)
    if stuck == "block_loop":
        assert server.code(seq) == "shutting_down"
    assert server.wait() == (0 if stuck == "block_loop" else -signal.SIGKILL)
