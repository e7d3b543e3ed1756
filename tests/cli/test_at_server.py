"""`--at unix:PATH` and `--at ws://HOST:PORT` in place of a file: what a command prints of a server's pipeline is what it prints
of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from command_terminal import at_terminal
from commands import EXAMPLES, NODES, Done, InProcess, call, component, environment, here, pipeline, spawned, until

SOURCE = component("webhook_1", "webhook")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path: a socket's has at most 107 bytes."""
    with TemporaryDirectory(prefix="rrext-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def kinds(folder: Path) -> str:
    """A pipeline whose node has a tool of each kind."""
    return pipeline(folder, SOURCE, component("kinds_1", "kinds", control="webhook_1"), name="kinds.pipe")


@pytest.fixture(scope="module", params=["unix", "ws"])
def kind(request: pytest.FixtureRequest) -> str:
    """What servers listen at."""
    return request.param


@contextmanager
def serving(kind: str, folder: Path, *files: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a server, and its process. The name of its socket is that of its first file."""
    where = ["--listen", f"unix:{folder}/{Path(files[0]).stem}"] if kind == "unix" else ["--ws", "127.0.0.1:0"]
    with spawned("serve", *where, "--nodes", NODES, *files) as process:
        assert process.stderr is not None
        yield until(process.stderr, "listening at").split()[-1], process


@pytest.fixture(scope="module")
def address(kind: str, folder: Path, kinds: str) -> Iterator[str]:
    """A server of two pipelines."""
    with serving(kind, folder, kinds, str(EXAMPLES / "echo.pipe")) as (address, _):
        yield address


CALLS: list[list[str]] = [
    ["greet", "--input", '{"name": "Ann", "times": 2}'],
    ["greet", "--input", '{"name": 7, "time": 2}'],
    ["gret"],
    ["greet", "--node", "kind_1"],
    ["content"],
    ["content", "--raw"],
    ["poem", "--raw"],
    ["count", "--input", '{"to": 4}'],
    ["count", "--stream"],
    ["words", "--stream", "--raw"],
    ["refuse"],
    ["nan"],
]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_call_prints_the_same_of_a_server_and_of_a_file(words: list[str], address: str, kinds: str, run: InProcess) -> None:
    of_file = (call if "--raw" in words else run)("tool", "--nodes", NODES, kinds, *words)  # raw bytes are no text
    of_server = call("tool", "--at", address, "--token", "kinds", *words)

    def told(done: Done, name: str) -> tuple[int, bytes, str]:
        return done.code, done.out, done.err.replace(name, "PIPELINE")

    assert told(of_server, f"--at {address} --token kinds") == told(of_file, kinds)


@pytest.fixture(scope="module")
def base(folder: Path) -> str:
    """A pipeline with an empty database in memory."""
    source = component("tools_1", "tools", mode="Source")
    return pipeline(folder, source, component("db_1", "db_sqlite", control="tools_1", allow_execute=True), name="base.pipe")


@pytest.fixture(scope="module")
def base_address(kind: str, folder: Path, base: str) -> Iterator[str]:
    """A server of that pipeline."""
    with serving(kind, folder, base) as (address, _):
        yield address


STATEMENTS: list[list[str]] = [
    ["select 1 as a, 'x' as b"],
    ["select 1 as a; select 2 as b", "--json"],
    ["select $1 as a", "-p", "40", "--table"],
    ["select nix"],
    ["insert into t values (1)"],
    ["begin; create table t (a int); insert into t values (1); select * from t; rollback", "--write"],
    ["begin; create table t (a int)", "--write"],
    ["--node", "db_2", "select 1"],
    ["--limit", "2", "select 1 as n union all select 2 union all select 3", "--csv"],
]


@pytest.mark.parametrize("words", STATEMENTS, ids=" ".join)
def test_a_statement_is_answered_the_same(words: list[str], base_address: str, base: str, run: InProcess) -> None:
    of_file = run("sql", base, *words)
    of_server = call("sql", "--at", base_address, *words)
    without_provider = of_file.err.replace(" (db_sqlite)", "")  # of which only a server knows
    assert (of_server.code, of_server.out, of_server.err) == (of_file.code, of_file.out, without_provider)


def test_rows_of_a_server_go_to_a_file_and_files_are_asked_here(base_address: str, tmp_path: Path, run: InProcess) -> None:
    path = tmp_path / "a.json"
    assert run("sql", "--at", base_address, "-o", str(path), "select 1 as a").code == 0
    assert json.loads(path.read_text()) == [{"a": 1}]
    done = run("sql", "--at", base_address, "a.csv", "select 1")
    assert (done.code, "a.csv is asked here" in done.err) == (2, True)


def test_a_prompt_asks_a_server(base_address: str, tmp_path: Path) -> None:
    with at_terminal(["sql", "--at", base_address, "--write"], folder=tmp_path, NO_COLOR="1") as terminal:
        terminal.until("db_1>")
        for line, answer in (("create table v (a int);", "db_1>"), ("begin;", "db_1*>"), ("select 42 as a;", "42\n")):
            terminal.type(f"{line}\r")
            terminal.until(answer)
        terminal.until("db_1*>")
        terminal.type("\x04")
        terminal.until("rolled back")
        assert terminal.ended() == 0


def test_progress_is_shown_and_a_late_tool_fails(address: str) -> None:
    done = call("tool", "--at", address, "--token", "kinds", "steps")
    assert done.value == "done"
    assert "3/4 (75%) third" in done.err
    late = call("tool", "--at", address, "--token", "kinds", "endless_async", "--timeout", "0.2")
    assert late.code == 1
    assert "tool_timeout" in late.err


def test_tools_are_listed_the_same(address: str, kinds: str, run: InProcess) -> None:
    of_file = run("tools", "--nodes", NODES, kinds)
    of_server = call("tools", "--at", address, "--token", "kinds")
    assert (of_server.code, of_server.out) == (of_file.code, of_file.out) != (0, b"")
    assert run("tools", "--at", address, "--token", "kinds", "--json").value["tools"]


def test_files_are_sent_the_same(address: str, tmp_path: Path, run: InProcess) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "b.md").write_text("# hi")
    (tmp_path / "empty.txt").write_text("")
    of_file = run("send", str(EXAMPLES / "echo.pipe"), str(tmp_path), "--jobs", "1")
    of_server = call("send", "--at", address, "--token", "echo", str(tmp_path), "--jobs", "1")
    assert of_server.code == of_file.code == 0
    lines = [of_server.lines, of_file.lines]
    if address.startswith("ws:"):  # there is a user there, and ids of objects are a user's
        assert lines[0][0]["result"]["objectId"] != lines[1][0]["result"]["objectId"]
        for line in (*lines[0], *lines[1]):
            del line["result"]["objectId"]
    assert lines[0] == lines[1]
    assert of_server.err == of_file.err


def test_many_files_and_a_large_one_are_sent_at_once(address: str, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    (tmp_path / "large.txt").write_text("x" * 3_000_000)
    done = call("send", "--at", address, "--token", "echo", str(tmp_path))
    assert done.code == 0
    assert len(done.lines) == 101
    assert all("result" in line for line in done.lines)


def test_a_sync_needs_the_pipelines_file(address: str, tmp_path: Path, capfd: Any) -> None:
    done = here(capfd, "send", "--sync", "--at", address, "--token", "echo", str(tmp_path))
    assert done.code == 2
    assert "FILE.pipe" in done.err


def test_a_server_of_several_pipelines_asks_for_a_token(address: str, run: InProcess) -> None:
    done = run("tool", "--at", address, "greet")
    assert done.code == 2
    assert "--token" in done.err
    assert "echo, kinds" in done.err
    assert run("tools", f"--at={address}", "--token", "kind").code == 2


def test_without_a_server_the_error_says_how_to_start_one(folder: Path, tmp_path: Path, run: InProcess) -> None:
    for words in (["tool", "greet"], ["tools"], ["send", str(tmp_path)]):
        done = run(words[0], "--at", f"unix:{folder}/nobody", *words[1:])
        assert done.code == 2
        assert f"rrext serve --listen unix:{folder}/nobody" in done.err
        assert done.out == b""
    assert "unix:" in run("tools", "--at", "nobody").err


def test_options_of_a_files_nodes_are_refused(address: str, capfd: Any) -> None:
    for words in (["tool", "greet", "--nodes", "x.py"], ["tools", "--root", "."], ["send", "x", "--wait", "1"]):
        done = here(capfd, words[0], "--at", address, *words[1:])
        assert done.code == 2
        assert "unrecognized arguments" in done.err


def test_options_may_stand_between_a_file_and_its_tool(kinds: str, run: InProcess) -> None:
    assert run("tool", kinds, "--nodes", NODES, "poem").code == 0


def test_ctrl_c_cancels_the_tool_in_the_server(kind: str, folder: Path) -> None:
    waiting = pipeline(folder, SOURCE, component("w_1", "waiting", control="webhook_1"), name="waiting.pipe")
    with serving(kind, folder, waiting) as (address, server):
        assert server.stderr is not None
        with spawned("tool", "--at", address, "park") as client:
            until(server.stderr, "begun")
            os.kill(client.pid, signal.SIGINT)
            assert client.wait(20) == 130
            assert client.stderr is not None
            assert client.stderr.read().endswith(b"rrext: cancelled\n")
        until(server.stderr, "unwound")


def test_a_server_that_dies_in_a_call_is_a_failure_of_the_call(kind: str, folder: Path) -> None:
    waiting = pipeline(folder, SOURCE, component("w_1", "waiting", control="webhook_1"), name="dying.pipe")
    with serving(kind, folder, waiting) as (address, server):
        assert server.stderr is not None
        with spawned("tool", "--at", address, "park") as client:
            until(server.stderr, "begun")
            os.kill(server.pid, signal.SIGKILL)
            assert client.wait(20) == 1
            assert client.stderr is not None
            assert b"server_exited" in client.stderr.read()


def test_a_stream_that_nobody_reads_any_more_ends_in_the_server_too(kind: str, folder: Path) -> None:
    kinds = pipeline(folder, SOURCE, component("k_1", "kinds", control="webhook_1"), name="unread.pipe")
    with serving(kind, folder, kinds) as (address, server):
        assert server.stderr is not None
        with spawned("tool", "--at", address, "endless", "--stream") as client:
            assert client.stdout is not None
            assert client.stderr is not None
            client.stdout.readline()
            client.stdout.close()
            assert client.wait(20) == 141
            assert client.stderr.read() == b""
        until(server.stderr, "closed")


def test_a_server_that_closes_at_once_is_no_server(folder: Path) -> None:
    address = f"unix:{folder}/closes"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/closes")
        listener.listen()

        def close() -> None:
            listener.accept()[0].close()

        closing = threading.Thread(target=close)
        closing.start()
        done = call("tool", "--at", address, "poem")
        closing.join()
    assert done.code == 2
    assert "closed the connection at once" in done.err


def test_one_call_of_a_server_pays_for_no_event_loop_no_log_and_no_inspection(address: str) -> None:
    """Their import takes as long as the start of a server that has little to do; that of logging a tenth of the call, that of
    `inspect` with the module that imports it for msgspec a sixth.
    """
    script = (
        "import sys\n"
        "from rrext.cli import start\n"
        f"sys.argv[1:] = ['tool', '--at', {address!r}, '--token', 'kinds', 'poem']\n"
        "code = start()\n"
        "heavy = {'asyncio', 'anyio', 'inspect', 'logging', 'rrext.client.client', 'traceback', 'typing_extensions'}\n"
        "sys.exit(code or ' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_program_knows_the_types_of_typing_extensions() -> None:
    """Although msgspec was imported without that module."""
    script = (
        "import sys\n"
        "from rrext.cli import start\n"
        "sys.argv[1:] = ['--version']\n"
        "start()\n"
        "import msgspec, typing_extensions as t\n"
        "Row = t.TypedDict('Row', {'a': t.Required[int], 'b': t.NotRequired[t.Annotated[str, msgspec.Meta(max_length=2)]]})\n"
        "print(msgspec.json.decode(b'{\"a\":1}', type=Row), msgspec.json.schema_components([Row])[1]['Row']['required'])\n"
        'for wrong in (b\'{}\', b\'{"a":1,"b":"long"}\'):\n'
        "    try:\n"
        "        print(msgspec.json.decode(wrong, type=Row))\n"
        "    except msgspec.ValidationError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment(), text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == [
        "{'a': 1} ['a']",
        "Object missing required field `a`",
        "Expected `str` of length <= 2 - at `$.b`",
    ]


def test_a_loop_of_calls_starts_no_server(address: str) -> None:
    """Each is answered by the one process that runs already."""
    script = f'for i in 1 2 3 4 5; do "$0" -m rrext tool --at {address} --token kinds poem || exit 1; done'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, check=True)
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 5
