"""A tool that keeps the interpreter's lock: no thread of the server runs, and yet the server ends when it should."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from raw_client import PATIENCE, Ended, Server, tool
from test_ending import BUSY, DRAIN_AND_MORE, EOF_PROMISE, SHORT, Orphan, ended_within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no watchdog, as protocol.md says")


def held(server: Server, how: str = "hold_gil") -> int:
    """The number of a call that keeps the interpreter's lock for longer than any test."""
    seq = server.send_tool(how, {"seconds": 60} if how == "hold_gil" else {})
    server.heard(f"arrived at {how}")
    return seq


def watchdog_of(server: Server) -> int:
    """A descriptor of the process."""
    server.ask("rrext_ping")
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    named = [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == "rrext-watchdog\n"]
    assert len(named) == 1
    return os.pidfd_open(named[0])


def is_gone(process: int) -> bool:
    try:
        return bool(select.select([process], [], [], PATIENCE)[0])
    finally:
        os.close(process)


@pytest.mark.promise("life:gil:killed", "life:parent-death:exits")
@pytest.mark.parametrize("how", ["hold_gil", "backtracks"])
def test_a_tool_that_keeps_the_interpreter_does_not_outlive_stdin(server: Server, how: str) -> None:
    held(server, how)
    server.close_stdin()
    began = time.monotonic()
    assert ended_within(server, began, EOF_PROMISE) == -signal.SIGKILL
    assert f"in {how}" in server.stderr_text()
    server.heard("a tool kept the interpreter's lock")


@pytest.mark.promise("life:gil:killed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_tool_that_keeps_the_interpreter_does_not_outlive_a_signal(
    spawn: Callable[..., Server], number: signal.Signals
) -> None:
    server = spawn(*SHORT)
    held(server)
    began = time.monotonic()
    server.signal(number)
    assert ended_within(server, began, DRAIN_AND_MORE) == -signal.SIGKILL


@pytest.mark.promise("life:gil:killed", "life:parent-death:exits")
def test_a_tool_that_keeps_the_interpreter_does_not_outlive_the_client_though_a_sibling_holds_every_pipe() -> None:
    with ExitStack() as stack:
        orphan = Orphan()
        stack.callback(orphan.close)
        orphan.send(tool(1, "hold_gil", {"seconds": 60}))
        orphan.heard("arrived at hold_gil\n")
        orphan.kill_parent()
        began = time.monotonic()
        with pytest.raises(Ended):
            orphan.reader.read()
        assert orphan.is_gone_within(began + 2.0 + BUSY - time.monotonic())


STANDS_STILL = """
import signal, subprocess, sys, time
from rrext.server.watchdog import TRACE, Watchdog
signal.signal(TRACE, signal.SIG_IGN)
parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
watchdog = Watchdog()
watchdog.start(None, parent.pid, grace=0.1, drain=0.1)
parent.kill()
parent.wait()
watchdog.arm()
time.sleep(60)
"""
"""A server whose parent dies before its watchdog looks for the first time; nothing in it reads the bell."""


@pytest.mark.promise("life:gil:killed", "life:parent-death:exits")
def test_a_parent_that_dies_before_the_watchdog_looks_is_missed_all_the_same() -> None:
    ended = subprocess.run([sys.executable, "-c", STANDS_STILL], timeout=PATIENCE, capture_output=True)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.promise("life:gil:killed")
@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "shutdown"])
def test_nor_one_that_takes_the_interpreter_when_the_end_has_begun(
    spawn: Callable[..., Server], tmp_path: Path, how: str
) -> None:
    server = spawn("--drain", "1.0")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    server.send_tool("hold_gil_after", {"gate": str(gate), "seconds": 60})
    server.heard(f"arrived at {gate}")
    began = time.monotonic()
    if how == "end of stdin":
        server.close_stdin()
    elif how == "SIGTERM":
        server.signal(signal.SIGTERM)
    else:
        server.send("shutdown")
        # Once the tool has the interpreter, nothing is read any more.
        while server.answer(server.send_tool("add", {"a": 1})).get("code") != "shutting_down":
            pass
    gate.write_bytes(b"")
    assert ended_within(server, began, 2.0) == -signal.SIGKILL


@pytest.mark.promise("life:gil:killed")
def test_a_tool_that_keeps_the_interpreter_is_left_alone_while_its_client_lives(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT)
    server.call("hears_usr1")
    seq = server.send_tool("hold_gil", {"seconds": 2.5})
    server.heard("arrived at hold_gil")
    server.signal(signal.SIGUSR1)  # one that asks for no end
    assert server.body(seq)["result"] == 2.5
    assert server.ask("rrext_ping") == {"pong": True}


def test_the_watchdog_ends_with_its_server_however_that_ends(spawn: Callable[..., Server]) -> None:
    for how in ("end of stdin", "SIGTERM", "SIGKILL"):
        server = spawn()
        process = watchdog_of(server)
        if how == "end of stdin":
            server.close_stdin()
        else:
            server.signal(signal.Signals[how])
        assert server.wait() == (-signal.SIGKILL if how == "SIGKILL" else 0)
        assert is_gone(process), how


def test_a_server_whose_watchdog_was_ended_serves_and_ends(server: Server) -> None:
    process = watchdog_of(server)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    assert is_gone(process)
    assert server.call("add", {"a": 1}) == 2
    server.close_stdin()
    assert server.wait() == 0


@pytest.mark.promise("life:crash:traced")
@pytest.mark.parametrize("where", ["stderr", "log"])
def test_a_crash_leaves_where_it_was(spawn: Callable[..., Server], tmp_path: Path, where: str) -> None:
    log = tmp_path / "log"
    server = spawn(*(["--log-file", str(log)] if where == "log" else []))
    server.send_tool("reads_address_0")
    assert server.wait() == -signal.SIGSEGV
    said = log.read_text() if where == "log" else server.stderr_text()
    assert "Segmentation fault" in said
    assert "in reads_address_0" in said
