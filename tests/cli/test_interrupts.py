"""Ctrl-C and SIGTERM reach the tool itself, and always end the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import EXAMPLES, NODES, component, environment, pipeline, spawned, until

from rrext import __version__


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


# -- while a command starts and ends

INTERRUPTED = """
import atexit, os, signal, sys

number = int(sys.argv.pop(1))
imports = []


def look(event, given):
    if event == "import" and (imports or given[0] == "rrext.cli.main"):
        imports.append(given[0])
        if len(imports) == number:
            os.kill(os.getpid(), signal.SIGINT)


if number:
    sys.addaudithook(look)
else:
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from rrext.cli import start

sys.exit(start())
"""
"""A program that runs a command, and gets SIGINT at the import of that number; with 0, at its end."""


@pytest.mark.parametrize("number", [1, 2, 10, 30, 60])
@pytest.mark.parametrize("words", ["tools FILE", "sql FILE select+1", "nodes", "serve FILE", "lsp"])
def test_ctrl_c_while_a_command_starts_ends_it_without_a_word(words: str, number: int) -> None:
    given = [str(EXAMPLES / "sqlite.pipe") if word == "FILE" else word.replace("+", " ") for word in words.split()]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(number), *given], env=environment(), stdin=subprocess.PIPE, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_at_the_end_of_a_command_ends_it_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, "0", "--version"], env=environment(), capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    ignored = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{INTERRUPTED}"
    done = subprocess.run([sys.executable, "-c", ignored, "2", "--version"], env=environment(), capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rrext {__version__}\n".encode(), b"")


def test_next_to_nothing_is_imported_before_a_command_is_ready_for_ctrl_c() -> None:
    look = "import os, sys; before = set(sys.modules); import rrext.cli; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", look], env=environment(), capture_output=True, check=True)
    assert set(done.stdout.decode().split()) <= {"__future__", "rrext", "rrext.cli", "rrext.version"}


def test_ctrl_c_leaves_no_file_half_fixed(tmp_path: Path) -> None:
    path = tmp_path / "p.pipe"
    path.write_text('{"components": [{"id": "w", "provider": "webhok"}]}')
    program = "import os\nreplace = os.replace\nos.replace = lambda *names: (os.kill(os.getpid(), 2), replace(*names))\n"
    command = [sys.executable, "-c", program + INTERRUPTED, "9999", "check", "--fix", str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")
    assert [file.name for file in tmp_path.iterdir()] == ["p.pipe"]
    assert "webhook" in path.read_text()
