"""Ctrl-C and SIGTERM reach the tool itself, and always end the command."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from commands import NODES, component, pipeline, spawned, until


@pytest.fixture
def waiting(tmp_path: Path) -> str:
    parts = [component(name, name, control="w") for name in ("waiting", "lending")]
    return pipeline(tmp_path, component("w", "webhook"), *parts)


def begun(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    until(process.stderr, "begun")


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate()
    return process.returncode, out, err.decode()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_async_tool_unwinds(number: int, code: int, waiting: str) -> None:
    with spawned("tool", waiting, "park", "--node", "waiting", "--nodes", NODES) as process:
        begun(process)
        process.send_signal(number)
        assert ended(process) == (code, b"", "rrext: cancelled\nunwound\n")


def test_a_sync_tool_sees_it_in_its_context(waiting: str) -> None:
    with spawned("tool", waiting, "look", "--nodes", NODES) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        code, out, err = ended(process)
    assert (code, out) == (130, b"")
    assert sorted(err.splitlines()) == ["rrext: cancelled", "saw Cancelled"]


@pytest.mark.parametrize("tool", ["stuck", "stuck_main", "own_thread"])
def test_a_tool_that_does_not_look_is_left_behind(tool: str, waiting: str) -> None:
    with spawned("tool", waiting, tool, "--nodes", NODES) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        code, out, _ = ended(process)
    assert (code, out) == (130, b"")


def test_what_was_taken_is_given_back_after_ctrl_c(waiting: str) -> None:
    with spawned("tool", waiting, "park", "--node", "lending", "--nodes", NODES) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (130, b"", "rrext: cancelled\ngiven back\n")


def test_a_second_ctrl_c_ends_at_once(waiting: str) -> None:
    with spawned("tool", waiting, "stuck", "--nodes", NODES) as process:
        begun(process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        until(process.stderr, "cancelled")
        process.send_signal(signal.SIGINT)
        assert ended(process) == (130, b"", "")


def test_a_reader_that_stands_still_does_not_keep_the_command(tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("k", "kinds", control="w"))
    with spawned("tool", path, "endless", "--stream", "--nodes", NODES) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the rest stays in the pipe, which is full soon
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_a_file_that_never_ends_does_not_keep_the_command(tmp_path: Path) -> None:
    path = pipeline(tmp_path, component("w", "webhook"), component("l", "loud", "text:w"))
    words = ("send", path, "/dev/stdin", "--mime", "text/plain", "--nodes", NODES)
    with spawned(*words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.write(process.stdin.fileno(), b"x" * 10)
        until(process.stderr, "loud text")
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read().decode()
        assert process.wait() == 130
        process.stdin.close()
    assert b'"cancelled"' in out
    assert "sent: 0 done, 0 failed, 1 cancelled" in err
