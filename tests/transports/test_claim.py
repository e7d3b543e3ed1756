"""While stdio is claimed, the peer reads frames only, and nobody else reads the peer's bytes."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

# Python's own buffer must be on: then even what was printed before the claim has not reached the peer.
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
CHILD = [sys.executable, str(Path(__file__).with_name("claim_child.py"))]


def run(what: str, given: bytes = b"", **how: object) -> subprocess.CompletedProcess[bytes]:
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENV, **how}
    return subprocess.run([*CHILD, what], input=given, check=False, timeout=50, **how)  # type: ignore[call-overload]


@pytest.mark.promise("stdio:stdout:frames-only")
def test_whatever_prints_the_peer_reads_frames_only() -> None:
    done = run("prints")
    assert done.returncode == 0
    assert done.stdout == b""
    said = sorted(done.stderr.decode().splitlines())
    ways = ["by C", "by a child", "by a shell", "by descriptor", "by print", "by print to stderr", "by the first stdout"]
    assert said == [*["before the claim"], *ways]


@pytest.mark.promise("stdio:stdout:frames-only")
def test_frames_stay_alone_even_if_stderr_is_the_same_pipe() -> None:
    assert run("prints", stderr=subprocess.STDOUT).stdout == b""
    done = run("reads", b"hello", stderr=subprocess.STDOUT)
    assert done.stdout == b"frame 7 hello"


@pytest.mark.promise("stdio:child:stdin-null")
def test_neither_python_nor_a_child_can_read_what_the_peer_sent() -> None:
    done = run("reads", b"hello")
    assert done.stdout == b"frame 7 hello"
    assert done.stderr.decode().splitlines() == ["before the claim", "input: '' b''", "child read ''"]


@pytest.mark.promise("stdio:stderr:never-blocks")
def test_prints_and_logs_that_nobody_reads_hold_nothing_up_and_are_counted() -> None:
    with subprocess.Popen([*CHILD, "floods"], stdin=-1, stdout=-1, stderr=-1, env=ENV) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"frame\n", "the answer waits for stderr"
        child.stdin.write(b"x")
        child.stdin.flush()
        lines = child.stderr.read().decode().splitlines()
        assert child.stdout.readline() == b"flushed\n"
    prints = [line for line in lines if re.fullmatch(r"print \d+ x{80}", line)]
    logs = [line for line in lines if re.fullmatch(r"\S+Z INFO flood log \d+ y{80}", line)]
    notices = [
        int(found[1])
        for line in lines
        if (found := re.search(r"(?:lines|events) dropped here, because nobody read them in time: (\d+)$", line))
    ]
    others = set(lines) - set(prints) - set(logs) - {"before the claim"}
    assert len(others) == len(notices) > 0, "a line was cut in two"
    assert len(prints) + len(logs) + sum(notices) == 40_000, "a line was lost without being counted"
    for part in (prints, logs):
        numbers = [int(re.findall(r"(?:print|log) (\d+)", line)[0]) for line in part]
        assert numbers == sorted(numbers)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="descriptions can be opened anew on Linux only")
def test_private_descriptors_do_not_share_their_flags() -> None:
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    os.set_blocking(read_in, False)  # somebody else did that, and may do it again
    with subprocess.Popen([*CHILD, "flags"], stdin=read_in, stdout=write_out, stderr=subprocess.PIPE, env=ENV) as child:
        with open(read_out, "rb") as answers:
            facts = ast.literal_eval(answers.readline().decode())
            assert facts == {"read blocks": True, "write blocks": False, "inherited": False, "private": True}
            assert os.get_blocking(write_out)
            assert not os.get_blocking(read_in)
            os.close(write_in)
        child.wait(50)
    for fd in (read_in, write_out):
        os.close(fd)


def test_what_was_claimed_can_be_given_back() -> None:
    done = run("restores", b"line\n")
    assert done.stdout == b"restored line\n"
    assert done.stderr == b"before the claim\nwhile claimed\nstderr too\n"


def test_sockets_can_be_claimed() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen([*CHILD, "echoes"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=ENV) as child,
    ):
        ours.sendall(b"hello")
        assert ours.recv(100) == b"frame hello"
        child.wait(50)


def test_a_file_keeps_what_is_in_it_and_its_position(tmp_path: Path) -> None:
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_bytes(b"skipped hello")
    with given.open("rb", buffering=0) as stdin, taken.open("wb", buffering=0) as stdout:
        stdin.seek(8)
        stdout.write(b"kept ")
        subprocess.run(
            [*CHILD, "echoes"], stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True, timeout=50, env=ENV
        )
    assert taken.read_bytes() == b"kept frame hello"


def test_a_closed_stderr_is_no_trouble() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *CHILD, "reads"], input=b"hello", stdout=-1, check=False, timeout=50, env=ENV
    )
    assert (done.returncode, done.stdout) == (0, b"frame 7 hello")


@pytest.mark.parametrize("closing", ["<&-", ">&-"])
def test_a_closed_stdin_or_stdout_is_said(closing: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closing}', "sh", *CHILD, "echoes"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=-1, check=False, timeout=50, env=ENV)
    assert done.returncode == 9
    assert b"no claim: Bad file descriptor" in done.stderr
