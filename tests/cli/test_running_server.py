"""`rrext ps`, `logs` and `stop`: a running server, looked at and tended from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from commands import EXAMPLES, NODES, InProcess, call, component, pipeline, spawned, until

HEADS = ["TOKEN", "STATE", "FOR", "CALLS", "FAILED", "OBJECTS", "FAILED", "OPEN", "CPU", "MEMORY", "NAME"]


@pytest.fixture(params=["unix", "ws"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a server of two pipelines, and its process."""
    with TemporaryDirectory(prefix="rrext-") as folder:  # a socket's path has at most 107 bytes
        kinds = pipeline(Path(folder), component("w", "webhook"), component("k", "kinds", control="w"), name="kinds.pipe")
        where = ["--listen", f"unix:{folder}/s"] if request.param == "unix" else ["--ws", "127.0.0.1:0", "--trust-clients"]
        with spawned("serve", *where, "--nodes", NODES, kinds, str(EXAMPLES / "echo.pipe")) as process:
            assert process.stderr is not None
            yield until(process.stderr, "listening at").split()[-1], process


def test_what_runs_is_listed_until_it_is_stopped(served: tuple[str, subprocess.Popen[bytes]], run: InProcess) -> None:
    address, _ = served
    assert call("tool", "--at", address, "--token", "kinds", "content").code == 0
    lines = run("ps", "--at", address).out.decode().splitlines()
    assert lines[0].split() == HEADS
    assert [line.split()[:2] for line in lines[1:]] == [["kinds", "Running"], ["echo", "Running"]]
    assert [state["token"] for state in run("ps", "--at", address, "--json").lines] == ["kinds", "echo"]
    done = run("stop", "--at", address, "kind", "echo")
    assert done.code == 1
    assert done.err.startswith('rrext: kind: Your pipeline is not running. Did you mean "kinds"?')
    assert [state["token"] for state in run("ps", "--at", address, "--json").lines] == ["kinds"]


def test_failed_calls_of_tools_are_counted_and_told(served: tuple[str, subprocess.Popen[bytes]], run: InProcess) -> None:
    address, _ = served
    for tool, code in (("content", 0), ("refuse", 1), ("break_down", 1), ("nosuch", 2), ("break_down", 1)):
        assert call("tool", "--at", address, "--token", "kinds", tool).code == code
    rows = [line.split() for line in run("ps", "--at", address).out.decode().splitlines()]
    assert rows[1][0] == "kinds"
    assert rows[1][4:8] == ["5", "4", "0", "0"]  # after the time, which is a number and a unit
    first, second, last = run("logs", "--at", address, "--no-follow").out.decode().splitlines()
    assert first.startswith("earlier kinds error: k.refuse: ")
    assert second.startswith("earlier kinds error: nosuch: No handler found")
    assert last.startswith("earlier kinds error: k.break_down: ")
    assert last.endswith(" (2 times)")


@pytest.mark.parametrize("words", ["stop nosuch", "logs --no-follow nosuch", "tools --token nosuch"])
def test_a_pipeline_that_does_not_run_is_answered_with_the_command_that_lists_them(
    served: tuple[str, subprocess.Popen[bytes]], run: InProcess, words: str
) -> None:
    command, *rest = words.split()
    done = run(command, "--at", served[0], *rest)
    assert done.code in (1, 2)
    assert "Your pipeline is not running. `rrext ps` lists those that run [TASK_NOT_REGISTERED]" in done.err
    assert "execute" not in done.err


def test_the_log_tells_what_happens_until_ctrl_c(served: tuple[str, subprocess.Popen[bytes]], run: InProcess) -> None:
    address, _ = served
    with spawned("logs", "--at", address) as log:
        assert log.stdout is not None
        assert log.stderr is not None
        assert log.stderr.readline() == b"rrext: following; Ctrl-C ends (--no-follow: only what went wrong so far)\n"
        assert "task: running: " in until(log.stdout, "running")
        assert run("send", "--at", address, "--token", "echo", EXAMPLES / "library" / "welcome.txt").code == 0
        assert "object: welcome.txt" in until(log.stdout, "counts: 1 done, 0 failed")
        run("stop", "--at", address, "echo")
        until(log.stdout, "task: end terminated")
        log.send_signal(signal.SIGINT)
        assert log.wait(20) == 130


def test_the_log_of_one_pipeline_begins_with_its_failures_and_tells_no_other(
    served: tuple[str, subprocess.Popen[bytes]], run: InProcess, tmp_path: Path
) -> None:
    address, process = served
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"\xff\xfe\xfd")
    assert run("send", "--at", address, "--token", "echo", broken).code == 1
    done = run("logs", "--at", address, "--no-follow", "echo")
    assert (done.code, done.err) == (0, "")
    (line,) = done.out.decode().splitlines()
    assert line.startswith("earlier echo error: ")
    assert [json.loads(each)["event"] for each in run("logs", "--at", address, "--no-follow", "--json").out.splitlines()] == [
        "error"
    ]
    assert run("logs", "--at", address, "--no-follow", "kinds").out == b""
    with spawned("logs", "--at", address, "--json", "kinds") as log:
        assert log.stdout is not None
        until(log.stdout, "running")
        process.send_signal(signal.SIGTERM)
        told = [json.loads(each) for each in log.stdout]
        assert {each["body"]["__id"] for each in told} <= {"kinds.w"}
        assert log.wait(20) == 1


def test_without_a_server_it_is_said_what_to_do(run: InProcess, tmp_path: Path) -> None:
    for command in (["ps"], ["logs"], ["stop", "a"]):
        done = run(*command, "--at", f"unix:{tmp_path}/none")
        assert (done.code, "start a server with `rrext serve --listen" in done.err) == (2, True)
