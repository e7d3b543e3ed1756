"""Descriptors 0, 1 and 2 of a real server: frames only, nobody reads with us, and stderr holds nothing up."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from forked import process
from raw_client import Ended, FrameReader, Server, environment, request, tool


@pytest.mark.promise("stdio:stdout:frames-only")
@pytest.mark.parametrize("how", ["prints", "prints_in_c", "child_prints", "child_prints_async", "forks"])
def test_whatever_a_tool_prints_the_client_reads_frames_only(server: Server, how: str) -> None:
    server.call(how)
    assert server.call("add", {"a": 1}) == 2
    server.close_stdin()
    assert server.until_end() == []  # `read` refuses any byte that belongs to no frame
    assert server.wait() == 0


@pytest.mark.promise("stdio:stdout:frames-only")
def test_what_is_printed_goes_to_stderr(server: Server) -> None:
    for how in ("prints", "prints_in_c", "child_prints", "forks"):
        server.call(how)
    for text in ("print\n", "print by the first stdout", "by fd", "by C", "by a shell", "by a child", "by a fork"):
        server.heard(text)


@pytest.mark.promise("stdio:stdout:frames-only")
def test_what_node_files_print_while_they_are_imported_goes_to_stderr(spawn: Callable[..., Server]) -> None:
    server = spawn(env={"PYTHONUNBUFFERED": "1"})
    server.ask("rrext_ping")
    server.heard("imported: this must not reach the client")
    server.heard("imported: nor may this")


@pytest.mark.promise("stdio:stdout:frames-only")
def test_prints_of_many_tools_at_once_do_not_cut_frames(server: Server) -> None:
    given = ({"what": f"x{number}"} for number in range(100))
    seqs = [server.send_tool("prints", each) for each in given]
    assert [answer["body"]["result"] for answer in server.all_answers(seqs)] == [f"x{number}" for number in range(100)]


@pytest.mark.promise("stdio:child:stdin-null")
def test_children_find_an_empty_stdin_while_requests_wait(server: Server) -> None:
    seq = server.send_tool("child_reads")
    others = [server.send_tool("add", {"a": number}) for number in range(200)]
    assert server.body(seq)["result"] == ["''", "end"]
    assert [server.body(other)["result"] for other in others] == list(range(1, 201))


@pytest.mark.promise("stdio:child:stdin-null")
def test_a_tool_finds_an_empty_stdin(server: Server) -> None:
    assert server.call("reads") == ["end of file", "", ""]


@pytest.mark.promise("stdio:child:stdin-null")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_works_and_says_nothing_to_the_client(server: Server, method: str) -> None:
    assert server.call("pool", {"method": method}) == [1, 4, 9]
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.promise("stdio:child:stdin-null")
def test_a_forked_child_that_outlives_the_server_holds_none_of_the_clients_pipes(server: Server) -> None:
    server.call("leaves_fork_behind")
    server.signal(signal.SIGKILL)
    server.wait()
    with pytest.raises(Ended):
        server.read()
    assert server.process.stdin is not None
    with pytest.raises(BrokenPipeError):
        os.write(server.process.stdin.fileno(), b"x")


@pytest.mark.promise("stdio:stderr:never-blocks")
def test_a_mebibyte_on_stderr_that_nobody_reads_delays_no_call(spawn: Callable[..., Server]) -> None:
    server = spawn(stderr=subprocess.PIPE)
    assert server.call("shouts", {"size": 1024 * 1024}) == 1024 * 1024
    assert server.call("add", {"a": 1}) == 2
    server.close_stdin()
    assert server.wait() == 0


@pytest.mark.promise("stdio:stderr:never-blocks")
def test_logging_that_nobody_reads_delays_no_call(spawn: Callable[..., Server]) -> None:
    server = spawn("--log-level", "debug", stderr=subprocess.PIPE)
    for first in range(0, 3000, 500):
        seqs = [server.send_tool("add", {"a": number}) for number in range(first, first + 500)]
        assert [server.body(seq)["result"] for seq in seqs] == list(range(first + 1, first + 501))


@pytest.mark.promise("stdio:stderr:never-blocks")
def test_a_stderr_whose_reader_is_gone_is_no_trouble(spawn: Callable[..., Server]) -> None:
    server = spawn(stderr=subprocess.PIPE)
    server.ask("rrext_ping")
    assert server.process.stderr is not None
    server.process.stderr.close()
    server.call("prints")
    server.call("shouts", {"size": 100_000})
    server.call("child_prints")
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.promise("stdio:stdout:frames-only")
def test_stderr_into_the_same_pipe_as_stdout_leaves_frames_alone(spawn: Callable[..., Server]) -> None:
    server = spawn(stderr=subprocess.STDOUT)
    for how in ("prints", "prints_in_c", "child_prints", "reads"):
        server.call(how)
    assert server.call("add", {"a": 1}) == 2


@pytest.mark.parametrize("words", ["serve nosuch.pipe", "mcp nosuch.pipe", "lsp --log-file nosuch/log"])
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_start_that_fails_says_why_in_the_one_pipe_of_stdout_and_stderr(words: str, kind: str) -> None:
    done = merged(words.split(), b"", kind)
    assert (done.returncode, done.stdout.count(b"\n")) == (2, 1)
    assert re.fullmatch(rb"rrext: .*nosuch.*: No such file or directory\n", done.stdout)


def test_a_refused_pipeline_is_answered_in_the_one_pipe_or_else_told_in_words(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pipe"
    wrong.write_text('{"components": 3}')
    told = merged(["serve", str(wrong)], b"")
    assert (told.returncode, told.stdout.startswith(f"{wrong}:1:16: error: ".encode())) == (2, True)
    answered = merged(["serve", str(wrong)], request(1, "rrext_ping"))
    assert (answered.returncode, answered.stdout.startswith(b"Content-Length: ")) == (2, True)
    assert b"1:16: error" not in answered.stdout


def test_a_server_without_frames_on_stdout_tells_all_in_the_one_pipe() -> None:
    with TemporaryDirectory(prefix="rrext-") as folder:  # a socket's path has at most 107 bytes
        words = [*PROGRAM, "serve", "--listen", f"unix:{folder}/s"]
        with process(words, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT, env=environment()) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == f"rrext: listening at unix:{folder}/s\n".encode()
            finally:
                server.kill()


PROGRAM = [sys.executable, "-m", "rrext"]


def merged(words: list[str], given: bytes, kind: str = "pipe") -> subprocess.CompletedProcess[bytes]:
    """A command that runs to its end, with stdout and stderr in one pipe or socket."""
    ends = [end.detach() for end in socket.socketpair()] if kind == "socket" else os.pipe()
    with (
        open(ends[0], "rb") as read_end,
        open(ends[1], "wb") as both,
        process([*PROGRAM, *words], stdin=-1, stdout=both, stderr=both, env=environment()) as started,
    ):
        assert started.stdin is not None
        both.close()
        started.stdin.write(given)
        started.stdin.close()
        out = read_end.read()
    return subprocess.CompletedProcess(words, started.returncode, out)


def test_an_empty_place_for_stderr_is_no_trouble(tmp_path: Path) -> None:
    from raw_client import command_line

    given = request(1, "rrext_ping") + tool(2, "prints") + tool(3, "child_prints")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command_line()],
        input=given,
        stdout=subprocess.PIPE,
        env=environment(),
        timeout=50,
        check=False,
    )
    assert done.returncode == 0
    read_fd, write_fd = os.pipe()
    os.write(write_fd, done.stdout)
    os.close(write_fd)
    reader = FrameReader(read_fd)
    assert {reader.read()["request_seq"] for _ in range(3)} == {1, 2, 3}
    assert select.select([read_fd], [], [], 0)[0]
    with pytest.raises(Ended):
        reader.read()
    os.close(read_fd)


@pytest.mark.parametrize("closing", ["<&-", ">&-"])
def test_a_closed_stdin_or_stdout_is_said_and_exits_with_2(closing: str) -> None:
    from raw_client import command_line

    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *command_line()],
        capture_output=True,
        env=environment(),
        timeout=50,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "stdin and stdout" in line
