"""The language server as a process: what it does with the bytes of its client, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.lsp_process import STUCK, URI, LspProcess, edits, frame
from life.raw_client import PATIENCE, Ended, FrameReader, environment

MIB = 1024 * 1024
BROKEN = '{"components": [{"id": "in", "provider": "webhok", "config": {}}]}'

NOISY = '''
import os, subprocess, sys

print("printed while it was imported")
os.write(1, b"written while it was imported\\n")
subprocess.run([sys.executable, "-c", "print('printed by a child')"])

from rrext import Node

class Noisy(Node):
    """Makes noise."""

    provider = "noisy"
'''
MARKING = '''
from pathlib import Path
from rrext import Node

Path("imported").touch()

class Marking(Node):
    """Was imported."""

    provider = "marking"
'''
MARKED = '{"components": [{"id": "a", "provider": "marking", "config": {}}]}'

Spawn = Callable[..., LspProcess]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    started: list[LspProcess] = []

    def start(*options: str, **how: Any) -> LspProcess:
        started.append(LspProcess(*options, **how))
        return started[-1]

    yield start
    for process in started:
        process.stop()


def hello(options: Any = None) -> bytes:
    params = {"capabilities": {}, "initializationOptions": options}
    return frame({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params})


def quiet(process: LspProcess) -> None:
    said = process.said()
    assert "Traceback" not in said, said


# how it ends


def test_shutdown_and_exit_is_0_and_exit_alone_is_1(spawn: Spawn) -> None:
    polite, rude = spawn(), spawn()
    for process in (polite, rude):
        process.start()
    polite.request("shutdown")
    for process in (polite, rude):
        process.notify("exit")
    assert (polite.wait(), rude.wait()) == (0, 1)
    assert polite.said() == ""


def test_the_end_of_stdin_is_1_and_0_after_shutdown(spawn: Spawn) -> None:
    polite, rude = spawn(), spawn()
    for process in (polite, rude):
        process.start()
    polite.request("shutdown")
    for process in (polite, rude):
        process.close_stdin()
    assert (polite.wait(), rude.wait()) == (0, 1)
    assert polite.said() == rude.said() == ""


def test_stdin_may_end_anywhere(spawn: Spawn) -> None:
    said = (
        hello() + frame({"jsonrpc": "2.0", "method": "initialized"}) + frame({"jsonrpc": "2.0", "id": 2, "method": "nothing"})
    )
    cuts = [0, 17, len(hello()) - 1, len(hello()), len(said)]
    processes = {cut: spawn() for cut in cuts}
    for cut, process in processes.items():
        process.send_bytes(said[:cut])
        process.close_stdin()
    for cut, process in processes.items():
        answered = [message["id"] for message in process.until_end() if "method" not in message]
        assert answered == ["hello"] * (cut >= len(hello())) + [2] * (cut == len(said)), cut
        assert process.wait() == 1
        quiet(process)
        is_cut_off = cut not in (0, len(hello()), len(said))
        assert ("ended inside a frame" in process.said()) == is_cut_off, cut


def test_what_was_asked_before_stdin_ended_is_answered(spawn: Spawn) -> None:
    process = spawn(stuck=True)
    process.start()
    slow = process.post("test/slow")
    process.close_stdin()
    assert process.answer(slow)["result"] == "done"
    assert process.until_end() == []
    assert process.wait() == 1


@pytest.mark.usefixtures("hang_up_ends")
@pytest.mark.parametrize(
    ("number", "ways"),
    [(signal.SIGTERM, ["nothing", "wait", "deaf", "block"]), (signal.SIGINT, ["wait", "block"]), (signal.SIGHUP, ["block"])],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_signal_ends_it_whatever_is_stuck(spawn: Spawn, number: signal.Signals, ways: list[str]) -> None:
    processes = {how: spawn(stuck=True) for how in ways}
    asked: dict[str, int] = {}
    for how, process in processes.items():
        process.start()
        if how != "nothing":
            asked[how] = process.post(f"test/{how}")
            process.heard(f"arrived at {how}")
    for process in processes.values():
        process.process.send_signal(number)
    assert {how: process.wait() for how, process in processes.items()} == dict.fromkeys(processes, 1)
    if "wait" in processes:
        assert processes["wait"].answer(asked["wait"])["error"]["code"] == -32800
    assert "the event loop is stuck" in processes["block"].said()
    for process in processes.values():
        quiet(process)


def test_a_parent_that_dies_is_followed_though_a_sibling_holds_the_pipe() -> None:
    to_server, client_end = os.pipe()
    out_read, out_write = os.pipe()
    parent = (
        "import subprocess, sys, signal\n"
        f"server = subprocess.Popen([sys.executable, {str(STUCK)!r}], stdin={to_server}, stdout={out_write})\n"
        "print(server.pid, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, pass_fds=[to_server, out_write], env=environment()
    ) as killed:
        assert killed.stdout is not None
        server = os.pidfd_open(int(killed.stdout.readline()))
        os.close(to_server)
        os.close(out_write)
        os.write(client_end, hello())
        reader = FrameReader(out_read)
        assert reader.read()["id"] == "hello"
        killed.kill()
    with pytest.raises(Ended):
        reader.read()
    assert select.select([server], [], [], PATIENCE)[0], "the server outlives its parent"
    for fd in (client_end, out_read, server):
        os.close(fd)


# bytes that are no messages


def test_what_is_no_frame_is_answered_and_ends_it(spawn: Spawn) -> None:
    for data in (b"{}\n", b"Content-Length: x\r\n\r\n"):
        process = spawn()
        process.send_bytes(data)
        (answer,) = process.until_end()
        assert answer["id"] is None
        assert answer["error"]["code"] == -32700
        assert process.wait() == 1
        quiet(process)


def test_a_document_that_is_too_large_for_a_frame_is_told_of_and_nothing_else_is_lost(spawn: Spawn) -> None:
    process = spawn()
    process.start()
    item = {"uri": URI, "languageId": "pipe", "version": 1, "text": "x" * (17 * MIB)}
    huge = {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": item}}
    process.feed(frame(huge))
    told = process.read()
    assert told["method"] == "textDocument/publishDiagnostics"
    (found,) = told["params"]["diagnostics"]
    assert (told["params"]["uri"], found["code"], found["severity"]) == (URI, "too_large", 1)
    assert "max_frame is 16777216" in found["message"]
    edit = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "text": "{"}
    document = {"uri": URI, "version": 2}
    process.send({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": [edit]}})
    assert process.request("textDocument/hover", {"textDocument": {"uri": URI}, "position": edit["range"]["start"]}) is None
    process.open(BROKEN, 2)
    assert process.diagnostics(2)[0]["code"] == "unknown_provider"
    process.feed(frame({"jsonrpc": "2.0", "id": 99, "method": "nothing", "params": "x" * (17 * MIB)}))
    assert process.answer(99)["error"]["code"] == -32700
    process.request("shutdown")


def test_a_file_over_max_pipeline_is_a_problem_like_any_other(spawn: Spawn) -> None:
    process = spawn()
    process.start()
    process.feed(
        frame(
            {
                "jsonrpc": "2.0",
                "method": "textDocument/didOpen",
                "params": {"textDocument": {"uri": URI, "version": 1, "text": "[" * (9 * MIB)}},
            }
        )
    )
    assert [found["code"] for found in process.diagnostics()] == ["too_large"]


# a client that does not read


def test_a_client_that_does_not_read_for_a_while_loses_nothing_and_costs_little(spawn: Spawn) -> None:
    process = spawn()
    process.start()
    components = [{"id": f"n{i}", "provider": "nothing like it", "config": {}} for i in range(900)]
    process.open(json.dumps({"components": components}, indent=1))
    first = process.diagnostics()
    assert len(first) >= 900
    before = process.memory()
    one_by_one, at_once = 30, 970
    for edit in edits(one_by_one):
        process.send_bytes(edit)
        process.rest()
    process.send_bytes(b"".join(edits(at_once, 2 + one_by_one)))
    assert process.memory() - before < 40 * MIB
    seen = 0
    while process.read()["params"]["version"] < 1 + one_by_one + at_once:
        seen += 1
    assert seen < one_by_one / 2, "what is out of date is not told of"
    last = process.messages[-1]["params"]["diagnostics"]
    moved = [found["range"]["start"]["line"] - 1000 for found in last]
    assert moved == [found["range"]["start"]["line"] for found in first], "the text is the client's"
    assert process.request("shutdown") is None


# what others print


def test_what_nodes_print_while_they_are_imported_stays_off_the_wire(spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    process = spawn("--nodes", "noisy.py", cwd=tmp_path)
    process.start({"trusted": True})
    process.open(BROKEN.replace("webhok", "noisy"))
    assert "unknown_provider" not in [found["code"] for found in process.diagnostics()]
    process.request("shutdown")
    process.notify("exit")
    assert process.until_end() == []
    said = process.said()
    assert all(text in said for text in ("printed while", "written while", "printed by a child"))


# trust


@pytest.mark.parametrize("by", ["command line", "options", "entry point"])
@pytest.mark.parametrize("trusted", [False, True])
def test_code_is_imported_only_with_trust(spawn: Spawn, tmp_path: Path, by: str, trusted: bool) -> None:
    """A file that is imported leaves a mark."""
    (tmp_path / "marking.py").write_text(MARKING)
    env = {}
    if by == "entry point":
        info = tmp_path / "site" / "marking-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: marking\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[rrext.nodes]\nmarking = marking:Marking\n")
        env = {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(tmp_path / "site"), str(tmp_path)])}
    process = spawn(*(["--nodes", "marking.py"] if by == "command line" else []), cwd=tmp_path, env=env)
    options = {"trusted": trusted} | ({"nodes": [str(tmp_path / "marking.py")]} if by == "options" else {})
    process.start(options)
    process.open(MARKED)
    found = process.diagnostics()
    process.request("shutdown")
    assert (tmp_path / "imported").exists() == trusted
    unknown = [item["severity"] for item in found if item["code"] == "unknown_provider"]
    assert unknown == ([] if trusted else [3]), "without trust it is information: code that is not loaded may define it"


# the client's process


@pytest.mark.promise("editor:client:ends-with-it")
def test_the_server_ends_with_the_process_that_the_client_names(spawn: Spawn) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as client:
        process = spawn("--log-level", "info")
        asked = process.post("initialize", {"processId": client.pid, "rootUri": None, "capabilities": {}})
        assert "result" in process.answer(asked)
        client.kill()
        assert process.wait() == 1, "nobody said shutdown"
        assert "the client's process is gone" in process.said()


def test_a_process_of_another_machine_does_not_end_the_server(spawn: Spawn) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    process = spawn()
    asked = process.post("initialize", {"processId": ended.pid, "rootUri": None, "capabilities": {}})
    assert "result" in process.answer(asked)
    process.open(BROKEN)
    assert process.diagnostics()
    assert process.request("shutdown") is None


# people


def test_an_end_of_stdin_before_anything_was_said_is_explained(spawn: Spawn) -> None:
    process = spawn(stdin=subprocess.DEVNULL)
    assert process.wait() == 1
    assert "editors start this command" in process.said()


def test_a_person_at_a_terminal_is_told_what_it_is_for() -> None:
    primary, secondary = pty.openpty()
    process = LspProcess(stdin=secondary)
    try:
        os.close(secondary)
        process.heard("rrext lsp talks to an editor")
        os.write(primary, b"\x04")
        assert process.wait() == 1
        quiet(process)
    finally:
        os.close(primary)
        process.stop()


def test_closed_descriptors_are_an_error_of_usage() -> None:
    command = f"exec {sys.executable} -m rrext lsp <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=environment(), text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr.startswith("rrext: stdin and stdout must be open")


def test_the_log_goes_to_a_file_that_only_its_owner_reads(spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "lsp.log"
    process = spawn("--log-file", str(path))
    process.start({"unknown": 1})
    process.notify("textDocument/didChange", {})
    process.request("shutdown")
    process.notify("exit")
    assert process.wait() == 0
    log = path.read_text()
    assert "textDocument/didChange cannot be used" in log
    assert "ending: exit" in log
    assert path.stat().st_mode & 0o077 == 0
    assert process.said() == ""


def test_a_log_file_that_cannot_be_written_is_an_error_of_usage(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn("--log-file", str(tmp_path))
    assert process.wait() == 2
    assert "--log-file" in process.said()
