"""Stdin and stdout may be files, sockets, terminals and nothing at all."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import tty
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_client import Ended, FrameReader, Message, Server, command_line, environment, request, tool

MIXED = [
    tool(1, "add", {"a": 1}),
    request(2, "rrext_ping"),
    tool(3, "add_later", {"a": 2}),
    tool(4, "prints"),
    tool(5, "child_prints"),
    tool(6, "text", {"size": 300_000}),
]


def answers(reader: FrameReader) -> dict[int, Message]:
    """Every answer until the end, by request."""
    found = {}
    try:
        while True:
            message = reader.read()
            assert message["request_seq"] not in found
            found[message["request_seq"]] = message
    except Ended:
        return found


def check(found: dict[int, Message]) -> None:
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    results = {seq: message["body"].get("result") for seq, message in found.items()}
    assert results == {1: 2, 2: None, 3: 3, 4: "print", 5: 0, 6: "x" * 300_000}


def run(stdin: object, stdout: object, *options: str) -> int:
    return subprocess.run(
        command_line(*options),
        stdin=stdin,  # type: ignore[call-overload]
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=environment(),
        timeout=50,
        check=False,
    ).returncode


def test_requests_from_a_file_are_answered_into_a_file(tmp_path: Path) -> None:
    given, taken = tmp_path / "requests.bin", tmp_path / "answers.bin"
    given.write_bytes(b"".join(MIXED))
    taken.write_bytes(b"")
    with given.open("rb") as stdin, taken.open("ab") as stdout:
        assert run(stdin, stdout) == 0
    with taken.open("rb") as answered:
        check(answers(FrameReader(answered.fileno())))


def test_a_file_of_three_thousand_requests_is_answered_whole(tmp_path: Path) -> None:
    given = tmp_path / "requests.bin"
    names = ("add", "add_on_loop", "add_later")
    given.write_bytes(b"".join(tool(seq, names[seq // 50 % 3], {"a": seq}) for seq in range(1, 3_001)))
    with given.open("rb") as stdin, (tmp_path / "answers.bin").open("w+b") as stdout:
        assert run(stdin, stdout) == 0
        stdout.seek(0)
        found = answers(FrameReader(stdout.fileno()))
    assert {seq: message["body"]["result"] for seq, message in found.items()} == {seq: seq + 1 for seq in range(1, 3_001)}


def test_a_file_that_is_far_larger_than_what_may_wait_is_read_piece_by_piece(
    spawn: Callable[..., Server], tmp_path: Path
) -> None:
    given, gate = tmp_path / "requests.bin", tmp_path / "gate"
    os.mkfifo(gate)
    with given.open("wb") as file:
        file.write(tool(1, "park", {"gate": str(gate)}))
        for seq in range(2, 202):
            file.write(tool(seq, "echo", {"value": "x" * 1_000_000}))
    with given.open("rb") as stdin:
        server = spawn("--threads", "1", "--log-level", "debug", stdin=stdin)
    server.heard("reading pauses")
    assert server.memory() < 300 * 1024 * 1024
    gate.write_bytes(b"")
    assert all(len(server.body(seq)["result"]) == 1_000_000 for seq in range(2, 202))
    assert server.until_end() == []
    assert server.wait() == 0


def test_a_file_that_ends_inside_a_frame_is_told(tmp_path: Path) -> None:
    given = tmp_path / "requests.bin"
    given.write_bytes(MIXED[0] + MIXED[1][:-3])
    with given.open("rb") as stdin, (tmp_path / "answers.bin").open("w+b") as stdout:
        assert run(stdin, stdout) == 1
        stdout.seek(0)
        found = answers(FrameReader(stdout.fileno()))
    assert found[0]["code"] == "parse_error"


def test_nothing_to_read_is_nothing_to_do() -> None:
    done = subprocess.run(
        command_line(), stdin=subprocess.DEVNULL, capture_output=True, env=environment(), timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("shared", [True, False], ids=["one socket", "two sockets"])
def test_a_socket_is_a_connection(spawn: Callable[..., Server], shared: bool) -> None:
    ours, theirs = socket.socketpair()
    more, others = socket.socketpair()
    with ours, more:
        server = spawn(stdin=theirs, stdout=theirs if shared else others)
        theirs.close()
        others.close()
        reader = FrameReader(ours.fileno() if shared else more.fileno())
        for seq in range(100, 160):  # a thread takes over reading
            ours.sendall(tool(seq, "add", {"a": seq}))
            assert reader.read()["body"] == {"result": seq + 1}
        ours.sendall(tool(160, "park", {"gate": "g"}))
        server.heard("arrived at g")
        ours.sendall(tool(161, "add", {"a": 1}) + tool(162, "release", {"gate": "g"}))
        assert {reader.read()["request_seq"] for _ in range(3)} == {160, 161, 162}
        ours.sendall(b"".join(MIXED))
        ours.shutdown(socket.SHUT_WR)
        check(answers(reader))
        assert server.wait() == 0


def test_a_socket_whose_other_end_is_gone_ends_the_server(spawn: Callable[..., Server]) -> None:
    ours, theirs = socket.socketpair()
    server = spawn(stdin=theirs, stdout=theirs)
    theirs.close()
    reader = FrameReader(ours.fileno())
    for seq in range(1, 40):
        ours.sendall(tool(seq, "add", {"a": seq}))
        reader.read()
    ours.sendall(tool(100, "text", {"size": 10_000_000}))
    assert select.select([ours], [], [], 30)[0]
    ours.close()  # with bytes unread: a reset
    assert server.wait() == 0


def test_a_socket_that_does_not_block_because_somebody_else_wants_that(spawn: Callable[..., Server]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = spawn(stdin=theirs, stdout=theirs)
        reader = FrameReader(ours.fileno())
        before = 0
        for seq in range(1, 100):
            theirs.setblocking(False)  # the same open file description as the server's
            ours.sendall(tool(seq, "add", {"a": seq}))
            assert reader.read()["body"] == {"result": seq + 1}
            before = server.cpu_ticks()
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0.3)
        assert server.cpu_ticks() - before < 10, "it spins"
        ours.sendall(tool(200, "add", {"a": 1}))
        assert reader.read()["body"] == {"result": 2}


def test_a_terminal_as_stdout_gets_whole_frames(spawn: Callable[..., Server]) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    server = spawn(stdout=theirs)
    os.close(theirs)
    for made in MIXED:
        server.send_bytes(made)
    server.close_stdin()
    check(answers(FrameReader(ours)))
    assert server.wait() == 0
    os.close(ours)


def test_a_terminal_as_both_ends(spawn: Callable[..., Server]) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    server = spawn(stdin=theirs, stdout=theirs)
    os.close(theirs)
    reader = FrameReader(ours)
    for seq in range(1, 60):
        os.write(ours, tool(seq, "add", {"a": seq}))
        assert reader.read()["body"] == {"result": seq + 1}
    os.close(ours)  # the terminal is gone
    assert server.wait() == 0


def test_a_full_disk_under_stdout_ends_the_server() -> None:
    with open("/dev/full", "wb", buffering=0) as full, open("/dev/null", "rb"):
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"".join(MIXED))
        assert run(read_fd, full) == 1
        os.close(read_fd)
        os.close(write_fd)


def test_a_stdin_that_is_open_for_writing_too_is_no_trouble(tmp_path: Path) -> None:
    given = tmp_path / "requests.bin"
    given.write_bytes(b"".join(MIXED))
    with given.open("r+b") as stdin:
        done = subprocess.run(
            command_line(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            timeout=50,
            check=False,
        )
    assert done.returncode == 0
    assert given.read_bytes() == b"".join(MIXED)
