"""How a server ends: every request answered, the right exit code, in bounded time, whatever its tools do."""

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
from raw_client import PATIENCE, Ended, FrameReader, Server, command_line, environment, frame, request, tool

SHORT = ("--drain", "0.3")
DRAIN_AND_MORE = 1.3
EOF_PROMISE = 2.0
BUSY = 20.0
"""Seconds that a busy machine may take on top of a promise. What is stuck in these tests would take a minute, or for ever."""

STUCK = ["park", "wait", "wait_deaf", "park_until_cancelled", "block_loop", "park_main"]
"""A thread that hears nothing, a coroutine, one that ignores its cancellation, one that heeds it, and a stuck loop."""


def stuck(server: Server, how: str) -> int:
    """The number of a call that hangs."""
    seq = server.send_tool(how, {"gate": how})
    server.heard(f"arrived at {how}")
    return seq


def ended_within(server: Server, began: float, seconds: float) -> int:
    """The exit code, if the process is gone by the deadline that a promise names, as far as the machine allows."""
    code = server.wait()
    assert time.monotonic() - began < seconds + BUSY
    return code


# -- signals


@pytest.mark.promise("life:sigterm:bounded")
@pytest.mark.usefixtures("hang_up_ends")
@pytest.mark.parametrize(
    ("number", "ways"),
    [(signal.SIGTERM, STUCK), (signal.SIGINT, ["park", "block_loop"]), (signal.SIGHUP, ["wait", "park_main"])],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_signal_ends_the_server_with_0_and_an_answer_whatever_is_stuck(
    spawn: Callable[..., Server], number: signal.Signals, ways: list[str]
) -> None:
    servers = {how: spawn(*SHORT) for how in ways}
    calls = {how: stuck(server, how) for how, server in servers.items()}
    began = time.monotonic()
    for server in servers.values():
        server.signal(number)
    for how, server in servers.items():
        assert server.code(calls[how]) == "shutting_down", how
        assert server.until_end() == []
        assert ended_within(server, began, DRAIN_AND_MORE) == 0


def test_a_server_that_is_to_outlive_its_terminal_does(spawn: Callable[..., Server]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does it
    try:
        server = spawn(*SHORT)
    finally:
        signal.signal(signal.SIGHUP, before)
    server.signal(signal.SIGHUP)
    assert server.ask("rrext_ping") == {"pong": True}
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_sigterm_answers_everything_that_waits_behind_a_full_pool(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT, "--threads", "2")
    seqs = [server.send_tool("park", {"gate": "full"}) for _ in range(10)]
    seqs += [server.send_tool("add_later", {"a": 1}) for _ in range(5)]
    seqs += [server.send("rrext_process", {"subcommand": "open"}) for _ in range(5)]
    assert server.ask("rrext_ping") == {"pong": True}
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    assert {server.code(seq) for seq in seqs} == {"shutting_down"}
    assert server.until_end() == []
    assert ended_within(server, began, DRAIN_AND_MORE) == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_what_finishes_within_the_drain_is_answered_as_always(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "30")
    slow = [server.send_tool("park", {"gate": "g"}) for _ in range(3)]
    server.begun("g", 3)
    opener = server.send_tool("wait_and_release", {"gate": "go", "then": "g"})
    server.begun("go")
    server.signal(signal.SIGTERM)
    while server.answer(refused := server.send_tool("add", {"a": 1})).get("code") != "shutting_down":
        pass
    assert server.code(refused) == "shutting_down"
    assert server.ask("cancel", {"requestId": opener}) == {"cancelled": True}  # which releases the others
    assert [server.body(seq)["result"] for seq in slow] == ["g"] * 3
    assert server.until_end() == []
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_an_idle_server_ends_at_once(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "60")
    server.ask("rrext_ping")
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    assert ended_within(server, began, 1.0) == 0


def test_a_second_signal_changes_nothing(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT)
    seq = stuck(server, "park")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        server.signal(number)
    assert server.code(seq) == "shutting_down"
    assert server.wait() == 0


def test_a_tool_that_takes_sigterm_for_itself_does_not_keep_the_server(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT)
    server.call("adds_signal_handler")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded")
def test_a_setup_that_is_never_left_does_not_keep_the_server(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT, files=[Path(__file__).with_name("shared.pipe")])
    assert server.call("what_is_shared") == "shared"
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    assert ended_within(server, began, DRAIN_AND_MORE) == 0
    assert "leaving setup" in server.stderr_text()


def test_pipes_that_are_open_at_the_end_are_closed(spawn: Callable[..., Server]) -> None:
    server = spawn()
    server.open_pipe()
    server.open_pipe()
    server.close_stdin()
    assert server.wait() == 0
    assert server.stderr_text().count("meter closed") == 2


@pytest.mark.promise("life:sigterm:bounded", "call:answer:exactly-one")
@pytest.mark.parametrize("read", [0, 300])
@pytest.mark.parametrize("how", ["SIGTERM", "end of stdin"])
def test_an_end_in_the_middle_of_a_flood_answers_all_that_was_read(spawn: Callable[..., Server], read: int, how: str) -> None:
    """Requests are read in order, so those that are answered are the first ones, without a gap."""
    server = spawn("--threads", "4", "--drain", "60", limits={"eof_grace": 60.0})
    kinds = ("add", "add", "add", "add_on_loop", "add_later", "quick_or_parked", "text")
    given = {"text": {"size": 3000}, "quick_or_parked": {}}
    made = [(seq, kinds[seq // 23 % len(kinds)]) for seq in range(1, 2001)]
    server.call("begun", {"name": "nothing", "times": 0})
    server.answers.clear()
    flood = b"".join(tool(seq, kind, given.get(kind, {"a": seq})) for seq, kind in made)
    server.feed(flood)
    while len(server.answers) < read:
        server.read()
    server.signal(signal.SIGTERM) if how == "SIGTERM" else server.close_stdin_after_feeding()
    server.until_end()
    answered = sorted(server.answers)
    assert answered == list(range(1, len(answered) + 1))
    assert len(answered) >= read if how == "SIGTERM" else len(answered) == 2000
    assert server.wait() == 0


def test_a_notification_that_runs_is_waited_for_and_not_answered(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--drain", "60")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    params = {"subcommand": "tool", "tool": "park", "input": {"gate": str(gate)}}
    server.send_bytes(frame({"jsonrpc": "2.0", "method": "rrext_process", "params": params}))
    server.heard(f"arrived at {gate}")
    server.signal(signal.SIGTERM)
    gate.write_bytes(b"")
    assert server.until_end() == []
    assert server.wait() == 0


def test_a_notification_that_is_stuck_is_given_up(spawn: Callable[..., Server]) -> None:
    server = spawn(*SHORT)
    params = {"subcommand": "tool", "tool": "wait", "input": {"gate": "g"}}
    server.send_bytes(frame({"jsonrpc": "2.0", "method": "rrext_process", "params": params}))
    server.heard("arrived at g")
    server.signal(signal.SIGTERM)
    assert server.until_end() == []
    assert server.wait() == 0


# -- shutdown and disconnect


@pytest.mark.promise("life:sigterm:bounded")
@pytest.mark.parametrize("command", ["shutdown", "disconnect"])
def test_shutdown_fails_what_is_stuck_answers_itself_last_and_ends_with_0(spawn: Callable[..., Server], command: str) -> None:
    server = spawn(*SHORT)
    calls = [stuck(server, how) for how in ("park", "wait", "wait_deaf")]
    began = time.monotonic()
    last = server.send(command)
    late = [server.send_tool("add", {"a": 1}), server.send("shutdown"), server.send("rrext_ping")]
    answers = server.until_end()
    assert answers[-1]["request_seq"] == last
    assert answers[-1]["success"]
    assert answers[-1]["body"] == {}
    assert [server.code(seq) for seq in calls] == ["shutting_down"] * 3
    assert [server.code(seq) for seq in late[:2]] == ["shutting_down"] * 2
    assert server.body(late[2]) == {"pong": True}
    assert ended_within(server, began, DRAIN_AND_MORE) == 0


def test_shutdown_of_an_idle_server_is_answered_at_once(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "60")
    began = time.monotonic()
    assert server.ask("shutdown") == {}
    assert server.until_end() == []
    assert ended_within(server, began, 1.0) == 0


def test_two_shutdowns_in_one_write_are_both_answered(server: Server) -> None:
    server.send_bytes(request(1, "shutdown") + request(2, "shutdown") + tool(3, "add", {"a": 1}))
    server.until_end()
    assert server.body(1) == {}
    assert server.code(2) == server.code(3) == "shutting_down"
    assert server.wait() == 0


def test_shutdown_waits_for_calls_that_finish(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "30")
    calls = [server.send_tool("park", {"gate": "g"}) for _ in range(3)]
    server.begun("g", 3)
    opener = server.send_tool("wait_and_release", {"gate": "go", "then": "g"})
    server.begun("go")
    last = server.send("shutdown")
    server.send("cancel", {"requestId": opener})
    assert server.until_end()[-1]["request_seq"] == last
    assert [server.body(seq)["result"] for seq in calls] == ["g"] * 3
    assert server.wait() == 0


def test_a_drain_is_whole_also_after_reading_had_paused(spawn: Callable[..., Server], tmp_path: Path) -> None:
    server = spawn("--drain", "30", "--max-frame", str(64 * 1024 * 1024), "--log-level", "debug")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipe = server.open_pipe()
    pieces = [f"park:{gate}".encode(), bytes(33 * 1024 * 1024), bytes(33 * 1024 * 1024)]
    seqs = [server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, piece) for piece in pieces]
    server.heard("reading pauses")
    gate.write_bytes(b"")
    assert [server.body(seq) for seq in seqs] == [{}] * 3
    parked = server.send_tool("park", {"gate": "g"})
    opener = server.send_tool("wait_and_release", {"gate": "go", "then": "g"})
    server.begun("g")
    server.begun("go")
    last = server.send("shutdown")
    server.send("cancel", {"requestId": opener})
    assert server.until_end()[-1]["request_seq"] == last
    assert server.body(parked)["result"] == "g"


# -- the end of stdin


@pytest.mark.promise("life:parent-death:exits")
def test_the_end_of_stdin_ends_the_server_with_an_answer_whatever_is_stuck(spawn: Callable[..., Server]) -> None:
    servers = {how: spawn() for how in STUCK}
    calls = {how: stuck(server, how) for how, server in servers.items()}
    began = time.monotonic()
    for server in servers.values():
        server.close_stdin()
    for how, server in servers.items():
        assert server.code(calls[how]) in ("cancelled", "shutting_down"), how
        assert server.until_end() == []
        assert ended_within(server, began, EOF_PROMISE) == 0


def test_what_was_read_before_the_end_is_answered_if_it_finishes(server: Server) -> None:
    parked = server.send_tool("park", {"gate": "g"})
    server.begun("g")
    seqs = [server.send_tool("add", {"a": number}) for number in range(100)]
    release = server.send_tool("release", {"gate": "g"})
    server.close_stdin()
    assert [server.body(seq)["result"] for seq in seqs] == list(range(1, 101))
    assert server.body(release) == {"result": None}
    assert server.body(parked)["result"] == "g"
    assert server.until_end() == []
    assert server.wait() == 0


def test_the_end_of_stdin_cuts_a_drain_short(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "60")
    seq = stuck(server, "park")
    last = server.send("shutdown")
    began = time.monotonic()
    server.close_stdin()
    assert server.code(seq) == "shutting_down"
    assert server.body(last) == {}
    assert ended_within(server, began, EOF_PROMISE) == 0


def test_the_end_of_an_idle_stdin_is_the_end_at_once(spawn: Callable[..., Server]) -> None:
    server = spawn(limits={"eof_grace": 60.0})
    server.ask("rrext_ping")
    began = time.monotonic()
    server.close_stdin()
    assert ended_within(server, began, 1.0) == 0


@pytest.mark.parametrize("cut", [1, 15, 20, 30, 60])
def test_an_end_inside_a_frame_is_told_and_exits_with_1(server: Server, cut: int) -> None:
    running = server.send_tool("park", {"gate": "g"})
    server.begun("g")
    server.send_bytes(tool(99, "add", {"a": 1})[:cut])
    server.close_stdin()
    rest = server.until_end()
    (told,) = [answer for answer in rest if answer["request_seq"] == 0]
    assert told["code"] == "parse_error"
    assert server.code(running) == "cancelled"
    assert server.wait() == 1


@pytest.mark.parametrize(
    "garbage",
    [b"hello\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Length: -5\r\n\r\n", b"X: " + b"y" * 9000, b'{"seq": 1}\n'],
    ids=["no length", "no number", "negative", "endless header", "bare JSON"],
)
def test_unusable_bytes_are_told_then_the_server_exits_with_1(server: Server, garbage: bytes) -> None:
    running = server.send_tool("wait", {"gate": "g"})
    server.begun("g")
    began = time.monotonic()
    server.send_bytes(request(99, "rrext_ping") + garbage)
    rest = server.until_end()
    assert [answer["code"] for answer in rest if answer["request_seq"] == 0] == ["parse_error"]
    assert server.body(99) == {"pong": True}
    assert server.code(running) == "cancelled"
    assert ended_within(server, began, 1.0) == 1


@pytest.mark.parametrize("kind", ["pool", "executor"])
@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "stuck loop"])
def test_processes_that_tools_keep_end_with_the_server(spawn: Callable[..., Server], kind: str, how: str) -> None:
    server = spawn(*SHORT)
    processes = [os.pidfd_open(pid) for pid in server.call("keeps_processes", {"kind": kind})]
    assert len(processes) == 2
    if how == "stuck loop":
        stuck(server, "block_loop")
    if how == "end of stdin":
        server.close_stdin()
    else:
        server.signal(signal.SIGTERM)
    assert server.wait() == 0
    for process in processes:
        assert select.select([process], [], [], PATIENCE)[0], "it is still there"
        os.close(process)


def test_exit_handlers_run_and_may_not_keep_the_server(server: Server) -> None:
    server.call("adds_exit_handlers")
    server.close_stdin()
    began = time.monotonic()
    assert ended_within(server, began, 1.0) == 0
    assert "at exit" in server.stderr_text()


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM"])
def test_answers_that_nobody_reads_make_the_exit_code_1(spawn: Callable[..., Server], how: str) -> None:
    server = spawn(*SHORT)
    server.send_tool("text", {"size": 4_000_000})
    server.wait_until_blocked()
    server.close_stdin() if how == "end of stdin" else server.signal(signal.SIGTERM)
    assert server.wait() == 1
    assert "stdio did not read the last" in server.stderr_text()


def test_a_drain_waits_for_a_peer_that_reads_slowly(spawn: Callable[..., Server]) -> None:
    server = spawn("--drain", "60")
    seqs = [server.send_tool("text", {"size": 1_000_000}) for _ in range(20)]
    last = server.send("shutdown")
    server.wait_until_blocked()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.5)  # longer than what a peer gets after the drain
    assert server.until_end()[-1]["request_seq"] == last
    assert [len(server.body(seq)["result"]) for seq in seqs] == [1_000_000] * 20
    assert server.wait() == 0


# -- the parent


PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:])
print(child.pid, file=sys.stderr, flush=True)
child.wait()
"""


class Orphan:
    """A server whose parent is not this process, which holds every one of its pipes and so keeps them open."""

    def __init__(self) -> None:
        self.given, self._give = os.pipe()
        taken, self._taken = os.pipe()
        self.reader = FrameReader(taken)
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, *command_line()],
            stdin=self.given,
            stdout=self._taken,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert self.parent.stderr is not None
        self.process = os.pidfd_open(int(self.parent.stderr.readline()))

    def send(self, data: bytes) -> None:
        os.write(self._give, data)

    def heard(self, text: str) -> None:
        assert self.parent.stderr is not None
        while text.encode() not in self.parent.stderr.readline():
            pass

    def kill_parent(self) -> None:
        os.close(self._taken)  # else its end would never be seen; what the server reads stays open
        self.parent.kill()
        self.parent.wait(PATIENCE)

    def is_gone_within(self, seconds: float) -> bool:
        return bool(select.select([self.process], [], [], max(0.0, seconds))[0])

    def close(self) -> None:
        """Leave nothing behind, however the test went."""
        self.parent.kill()
        self.parent.wait(PATIENCE)
        if not self.is_gone_within(0):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)
        assert self.parent.stderr is not None
        self.parent.stderr.close()
        for fd in (self.given, self._give, self.reader.fd, self.process):
            os.close(fd)


@pytest.mark.promise("life:parent-death:exits")
def test_a_killed_parent_is_followed_though_a_sibling_holds_every_pipe() -> None:
    with ExitStack() as stack:
        orphans = {how: Orphan() for how in ("idle", *STUCK)}
        for how, orphan in orphans.items():
            stack.callback(orphan.close)
            orphan.send(tool(1, "add", {"a": 1}))
            assert orphan.reader.read()["body"] == {"result": 2}
            if how != "idle":
                orphan.send(tool(2, how, {"gate": how}))
                orphan.heard(f"arrived at {how}\n")
        for orphan in orphans.values():
            orphan.kill_parent()
        began = time.monotonic()
        for how, orphan in orphans.items():
            if how != "idle":
                assert orphan.reader.read()["request_seq"] == 2
            with pytest.raises(Ended):
                orphan.reader.read()
            assert orphan.is_gone_within(began + 2.0 + BUSY - time.monotonic()), f"{how} outlives its parent"


@pytest.mark.promise("life:parent-death:exits")
def test_a_client_that_is_killed_half_way_leaves_nothing_behind(spawn: Callable[..., Server]) -> None:
    client = """
import subprocess, sys, os, signal
sys.path[:0] = sys.argv[1:]
import raw_client
from raw_client import Server, frame
raw_client.process = subprocess.Popen  # whose parent is this process
server = Server()
pipe = server.open_pipe()
server.send("rrext_process", {"subcommand": "write", "pipe_id": pipe}, b"half of it")
server.send_tool("park", {"gate": "g"})
server.begun("g")
server.send_bytes(frame(b"x" * 1000)[:500])
print(server.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", client, *map(str, Path(__file__).parents[:2])], stdout=subprocess.PIPE, env=environment()
    ) as killed:
        assert killed.stdout is not None
        process = os.pidfd_open(int(killed.stdout.readline()))
        killed.kill()
    assert select.select([process], [], [], 2.0 + BUSY)[0]
    os.close(process)


# -- the client does not read any more


def test_a_client_that_closes_its_reading_end_ends_the_server(server: Server) -> None:
    stuck(server, "park")
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.send("rrext_ping")
    began = time.monotonic()
    assert ended_within(server, began, 1.0) == 0


def test_a_client_that_closes_its_reading_end_behind_a_full_pipe_ends_the_server(server: Server) -> None:
    server.send_tool("text", {"size": 4_000_000})
    assert server.process.stdout is not None
    assert select.select([server.process.stdout], [], [], PATIENCE)[0]
    server.process.stdout.close()
    assert server.wait() == 0


def test_exceptions_that_end_programs_end_only_their_call(server: Server) -> None:
    for kind in ("exit", "interrupt", "generator", "stop"):
        assert server.code(server.send_tool("raises", {"kind": kind})) == "tool_failed"
    for number in range(50):
        assert server.call("add", {"a": number}) == number + 1
    for kind in ("exit", "interrupt", "generator", "stop"):
        assert server.code(server.send_tool("raises", {"kind": kind})) == "tool_failed"
    assert server.call("add", {"a": 1}) == 2
