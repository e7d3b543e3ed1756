"""`rrext serve --listen unix:PATH`: the socket, its clients, and how they and the server end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import socket_client
from raw_client import PATIENCE, Ended, Server, command_line, environment, tool
from socket_client import SocketClient, folder, listen, refused

from rrext.limits import DEFAULTS
from rrext.transports import unix

pytestmark = pytest.mark.promise("socket:owner-only", "socket:clients:apart")


@pytest.fixture
def path() -> Iterator[Path]:
    """Where the socket of a test is."""
    with folder() as here:
        yield here / "s"


def gone(path: Path) -> None:
    """Return when the socket is not there any more."""
    until = time.monotonic() + PATIENCE
    while path.exists():
        assert time.monotonic() < until, "the socket stays"
        os.sched_yield()


# -- the socket


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP", "shutdown"])
def test_the_socket_is_its_owners_alone_and_goes_with_the_server(spawn: Callable[..., Server], path: Path, how: str) -> None:
    before = os.umask(0)
    try:
        server = listen(spawn, path)
    finally:
        os.umask(before)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2
        if how == "shutdown":
            assert client.ask("shutdown") == {}
        else:
            server.signal(getattr(signal, how))
        assert client.until_end() == []
    assert server.wait() == 0
    assert not path.exists()


@pytest.mark.parametrize("is_long", [False, True])
def test_a_socket_is_seen_when_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool) -> None:
    monkeypatch.chdir(tmp_path)
    path = "s" * unix.MAX_PATH if is_long else "s"
    seen: list[bool] = []

    class Watched(socket.socket):
        def listen(self, *given: int) -> None:
            seen.append(os.path.exists(path))
            super().listen(*given)

    monkeypatch.setattr(unix.socket, "socket", Watched)
    listener = unix.UnixListener(path, 5)
    assert seen == [is_long], "there is no room for another name beside a long one"
    assert os.listdir() == [path]
    client = unix.connect(path)
    assert client is not None
    client.close()
    listener.close()
    assert os.listdir() == []


def test_a_socket_that_a_killed_server_left_is_replaced(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    server.signal(signal.SIGKILL)
    server.wait()
    assert path.exists()
    with socket.socket(socket.AF_UNIX) as end, pytest.raises(ConnectionRefusedError):
        end.connect(str(path))
    listen(spawn, path)
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2


def test_a_socket_that_is_listened_to_is_left_to_its_server(spawn: Callable[..., Server], path: Path) -> None:
    listen(spawn, path)
    assert "a server listens there already" in refused(path)
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2


def test_of_servers_that_begin_at_once_on_a_stale_socket_one_serves(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    line = command_line("--listen", f"unix:{path}")
    starters = [
        subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(), text=True) for _ in range(4)
    ]
    said = []
    for starter in starters:
        assert starter.stderr is not None
        while "listen" not in (text := starter.stderr.readline()):
            assert text, "it said nothing of the socket"
        said.append(text)
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2
        assert client.ask("shutdown") == {}
    codes = [starter.wait(PATIENCE) for starter in starters]
    for starter in starters:
        assert starter.stderr is not None
        starter.stderr.close()
    assert sorted(codes) == [0, 2, 2, 2]
    assert sum("listening at" in text for text in said) == 1


def test_what_is_no_socket_is_left_as_it_is(path: Path) -> None:
    path.write_text("mine")
    assert "is no socket" in refused(path)
    assert path.read_text() == "mine"
    link = path.with_name("link")
    link.symlink_to(path.with_name("nothing"))
    assert "is no socket" in refused(link)
    assert link.is_symlink()


def test_a_socket_that_somebody_replaced_is_left_to_him(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    path.unlink()
    path.write_text("another's")
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert path.read_text() == "another's"


def test_addresses_that_cannot_be_are_usage_errors(path: Path) -> None:
    assert "No such file or directory" in refused(path / "below")
    assert "too long" in refused(path.with_name("x" * 200))
    line = [*command_line("--listen", "localhost:80")]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, env=environment(), timeout=50, check=False)
    assert done.returncode == 2
    assert b"unix:" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_processes_are_refused_whatever_the_mode(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    path.parent.chmod(0o755)

    def stranger() -> str:
        line = [sys.executable, socket_client.__file__, "65534", str(path)]
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        env = {**environment(), "PYTHONPATH": paths}
        return subprocess.run(line, capture_output=True, text=True, env=env, timeout=50, check=True).stdout.strip()

    assert stranger() == "PermissionError"
    path.chmod(0o666)
    assert stranger() in ("0", "ConnectionResetError")
    server.heard("a client of user 65534 is refused")
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2


# -- its clients


def test_clients_have_pipes_and_ids_of_their_own(spawn: Callable[..., Server], path: Path) -> None:
    listen(spawn, path)
    with SocketClient(path) as one, SocketClient(path) as other:
        pipe = one.open_pipe()
        close = {"subcommand": "close", "pipe_id": pipe}
        assert other.code(other.send("rrext_process", close)) == "pipe_not_open"
        assert other.code(other.send("cancel")) == "invalid_arguments"
        parked = one.send_tool("wait", {"gate": "mine"})
        other.begun("mine")
        assert other.ask("cancel", {"requestId": parked}) == {"cancelled": False}
        assert one.ask("cancel", {"requestId": parked}) == {"cancelled": True}
        assert one.ask("rrext_process", close)["name"]


def test_disconnect_ends_a_connection_and_shutdown_the_server(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path, "--drain", "0.2")
    with SocketClient(path) as one, SocketClient(path) as other, SocketClient(path) as third:
        parked = one.send_tool("wait", {"gate": "one"})
        waiting = other.send_tool("wait", {"gate": "other"})
        third.begun("one")
        third.begun("other")
        assert one.ask("disconnect") == {}
        assert one.code(parked) == "shutting_down"
        assert one.until_end() == []
        assert third.call("add", {"a": 1}) == 2
        assert third.ask("shutdown") == {}
        assert other.code(waiting) == "shutting_down"
        assert other.until_end() == third.until_end() == []
    assert server.wait() == 0


def test_a_client_that_goes_takes_its_calls_and_pipes_with_it(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    with SocketClient(path) as stays:
        with SocketClient(path) as goes:
            goes.open_pipe()
            goes.send_tool("park_until_cancelled", {"gate": "g"})
            stays.begun("g")
        server.heard("meter closed")
        until = time.monotonic() + PATIENCE
        while stays.ask("rrext_get_task_status").get("openPipes") or stays.call("counts").get("g"):
            assert time.monotonic() < until
            os.sched_yield()
        assert stays.call("add", {"a": 1}) == 2


def test_a_client_that_sends_nothing_more_gets_its_answers(spawn: Callable[..., Server], path: Path) -> None:
    listen(spawn, path)
    with SocketClient(path) as client:
        seqs = [client.send_tool("add_later", {"a": number}) for number in range(50)]
        client.end_input()
        assert [client.body(seq)["result"] for seq in seqs] == [number + 1 for number in range(50)]
        assert client.until_end() == []


def test_bytes_that_are_no_frames_end_their_connection_alone(spawn: Callable[..., Server], path: Path) -> None:
    listen(spawn, path)
    with SocketClient(path) as stays, SocketClient(path) as broken:
        broken.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        (answer,) = broken.until_end()
        assert answer["code"] == "parse_error"
        assert stays.call("add", {"a": 1}) == 2


def test_a_client_that_does_not_read_harms_nobody(spawn: Callable[..., Server], path: Path) -> None:
    listen(spawn, path)
    with SocketClient(path) as reads:
        with SocketClient(path) as stalls:
            stalls.end.setblocking(False)
            flood = b"".join(tool(seq, "text", {"size": 100_000}) for seq in range(1, 400))
            try:
                while flood:
                    flood = flood[stalls.end.send(flood) :]
            except BlockingIOError:
                pass
            for number in range(100):
                assert reads.call("add", {"a": number}) == number + 1
        assert reads.call("add", {"a": 1}) == 2
        assert reads.ask("shutdown") == {}
        assert reads.until_end() == []


def test_more_clients_than_may_be_are_refused_until_one_goes(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    clients = [SocketClient(path) for _ in range(DEFAULTS.max_connections)]
    for client in clients:
        client.ask("rrext_ping")
    with SocketClient(path) as one_more, pytest.raises((Ended, OSError)):
        one_more.read()
    server.heard("max_connections")
    clients.pop().close()
    until = time.monotonic() + PATIENCE
    while True:
        with SocketClient(path) as next_one:
            try:
                assert next_one.call("add", {"a": 1}) == 2
                break
            except (Ended, OSError):
                assert time.monotonic() < until, "the place is never free again"
    for client in clients:
        assert client.call("add", {"a": 1}) == 2
        client.close()


def test_connections_leave_no_descriptor_and_no_thread_behind(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)

    def held() -> int:
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    with SocketClient(path) as stays:
        stays.call("add", {"a": 1})
        before = held()
        for number in range(150):
            with SocketClient(path) as client:
                for each in range(number % 4):  # some are read by the loop at their end, some by a thread
                    client.call("add", {"a": each})
                if number % 3 == 0:
                    client.ask("disconnect")
                    client.until_end()
        until = time.monotonic() + PATIENCE
        while held() > before:
            assert time.monotonic() < until, f"{held()} descriptors, {before} before"
            os.sched_yield()
        assert stays.call("threads") < 40


def test_a_fork_of_the_server_does_not_keep_the_socket(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    with SocketClient(path) as client:
        client.call("leaves_fork_behind")
        server.signal(signal.SIGKILL)
        server.wait()
        with pytest.raises((Ended, OSError)):
            client.read(5)
    listen(spawn, path)


# -- fair to each other


@pytest.mark.parametrize("kind", ["calls", "pipes"])
def test_a_flood_of_one_client_delays_another_ones_call_by_a_few_calls(
    spawn: Callable[..., Server], path: Path, kind: str
) -> None:
    server = listen(spawn, path, "--threads", "1")
    gate = path.with_name("gate")
    os.mkfifo(gate)
    with SocketClient(path) as floods, SocketClient(path) as other:
        floods.send_tool("park", {"gate": str(gate)})
        server.heard(f"arrived at {gate}")
        waiting = [floods.send_tool("count", {"name": "turn"}) for _ in range(300)]
        if kind == "pipes":
            waiting += [floods.send("rrext_process", {"subcommand": "open"}) for _ in range(300)]
        floods.ask("rrext_ping")  # all of them wait in line by now
        mine = other.send_tool("count", {"name": "turn"})
        other.ask("rrext_ping")
        gate.write_bytes(b"")
        assert other.body(mine)["result"] <= 3
        for seq in waiting[:300]:
            floods.body(seq)


# -- stdio beside it, or not


def test_without_stdio_nothing_is_read_there_and_its_end_ends_nothing(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    server.send_bytes(tool(1, "add", {"a": 1}))
    server.close_stdin()
    with SocketClient(path) as client:
        assert client.call("reads") == client.call("reads")
        assert client.call("prints") is not None
        server.signal(signal.SIGTERM)
        client.until_end()
    assert server.until_end() == []
    assert server.wait() == 0


def test_closed_stdin_and_stdout_are_no_hindrance(path: Path) -> None:
    line = " ".join(f"'{part}'" for part in command_line("--listen", f"unix:{path}"))
    process = subprocess.Popen(["sh", "-c", f"exec {line} <&- >&-"], stderr=subprocess.PIPE, env=environment(), text=True)
    assert process.stderr is not None
    while "listening at" not in (said := process.stderr.readline()):
        assert said
    with SocketClient(path) as client:
        assert client.call("add", {"a": 1}) == 2
        client.ask("shutdown")
    assert process.wait(PATIENCE) == 0
    process.stderr.close()


def test_with_stdio_both_are_served_and_the_client_there_ends_it(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path, "--stdio")
    with SocketClient(path) as client:
        assert server.call("add", {"a": 1}) == client.call("add", {"a": 1}) == 2
        waiting = client.send_tool("wait", {"gate": "g"})
        server.begun("g")
        server.close_stdin()
        assert client.code(waiting) == "shutting_down"
        client.until_end()
    assert server.wait() == 0
    gone(path)


# -- the end


def test_a_signal_ends_the_server_though_a_tool_blocks_the_loop(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path, "--drain", "0.2")
    with SocketClient(path) as client:
        parked = client.send_tool("wait", {"gate": "g"})
        client.begun("g")
        blocked = client.send_tool("block_loop", {"gate": "never"})
        server.signal(signal.SIGTERM)
        assert {client.code(parked), client.code(blocked)} == {"shutting_down"}
        client.until_end()
    assert server.wait() == 0
    assert not path.exists()


def test_a_drain_waits_for_the_calls_of_all_clients(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path, "--drain", "60")
    gates = [path.with_name("one"), path.with_name("other")]
    with SocketClient(path) as one, SocketClient(path) as other:
        calls = []
        for client, gate in zip((one, other), gates, strict=True):
            os.mkfifo(gate)
            calls.append(client.send_tool("park", {"gate": str(gate)}))
            server.heard(f"arrived at {gate}")
        server.signal(signal.SIGTERM)
        gone(path)
        for client, gate, call in zip((one, other), gates, calls, strict=True):
            gate.write_bytes(b"")
            assert client.body(call)["result"] == str(gate)
            client.until_end()
    assert server.wait() == 0


@pytest.mark.promise("life:sigterm:bounded", "call:answer:exactly-one")
@pytest.mark.parametrize("kind", ["add", "add_on_loop", "add_later"])
@pytest.mark.parametrize("how", ["SIGTERM", "shutdown"])
def test_all_that_was_sent_before_the_end_is_answered(spawn: Callable[..., Server], path: Path, kind: str, how: str) -> None:
    server = listen(spawn, path)
    with SocketClient(path) as client, SocketClient(path) as other:
        assert client.call(kind, {"a": 1}) == other.call("add", {"a": 1}) == 2
        asked = [client.next_seq() for _ in range(400)]
        client.send_bytes(b"".join(tool(seq, kind, {"a": 1}) for seq in asked))
        if how == "SIGTERM":
            server.signal(signal.SIGTERM)
        else:
            other.send(how)
        client.until_end()
        answers = client.all_answers(asked)
        assert {answer.get("code", "done") for answer in answers} <= {"done", "shutting_down"}
        assert server.wait() == 0


def test_the_log_says_whose_request_it_is(spawn: Callable[..., Server], path: Path) -> None:
    server = listen(spawn, path)
    with SocketClient(path) as one, SocketClient(path) as other:
        for client in (one, other):
            assert client.code(client.send_tool("raises", {"kind": "exit"})) == "tool_failed"
    server.heard("request=1 client=unix-1 Tool")
    server.heard("request=1 client=unix-2 Tool")
