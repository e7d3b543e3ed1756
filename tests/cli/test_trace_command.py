"""`--trace`, and `rrext trace`: what happened in a call, as a tree."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import msgspec
import pytest
from commands import Done, call, component, here

from rrext.cli.commands.servers.trace import shown_time
from rrext.engine.local_engine import LocalEngine
from rrext.server.journal.trace_file import TraceFile
from rrext.testing.sessions import pair

TREE = """\
boss_1.run_agent  T  3 turns  ~2,510 → ~51 tokens  $0.0082
└─ agent boss  T  3 turns  ~2,510 → ~51 tokens  $0.0082
   ├─ turn 1  T
   │  ├─ chat large  T  1,200 → 40 tokens  $0.0042  tool_calls
   │  ├─ hand_1.find  T  nothing: nothing is 'x'
   │  ├─ no_such_tool  T  unknown: there is no such tool
   │  └─ help_1.ask_helper  T
   │     └─ agent helper  T  1 turn  ~10 → ~2 tokens
   │        └─ turn 1  T
   │           └─ chat  T  ~10 → ~2 tokens
   └─ turn 2  T
      └─ chat large  T  1,300 → 9 tokens  $0.004  stop
"""


def drawn(done: Done) -> str:
    """A drawing without its times."""
    text = re.sub(r"  [\d.]+ (ms|s)\b", "  T", done.out.decode())
    return re.sub(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  ", "", text)


@pytest.mark.parametrize(
    ("kind", "told"), [("shared", "(mode 0644); chmod 600"), ("link", "a link to a file"), ("dangling", "No such file")]
)
def test_no_trace_goes_to_a_file_of_others_or_through_a_link_to_a_file(
    kind: str, told: str, crew: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, real = tmp_path / "t.jsonl", tmp_path / "real.jsonl"
    if kind == "shared":
        path.touch()
        path.chmod(0o644)
    else:
        path.symlink_to(real)
    if kind == "link":
        real.touch(0o600)
    done = here(capfd, "tool", crew[0], "run_agent", "query=x", "--nodes", crew[1], "--trace", str(path))
    assert (done.code, f"--trace {path}: " in done.err, told in done.err) == (2, True, True), done.err
    assert all(file.stat().st_size == 0 for file in (path, real) if file.exists())
    assert real.exists() == (kind == "link")


@pytest.mark.promise("trace:tree")
def test_a_trace_is_drawn_with_turns_tokens_money_and_errors(
    crew: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETRIDE_KEY", "correct-horse-battery")
    file, nodes = crew
    path = tmp_path / "t.jsonl"
    words = ["tool", file, "run_agent", "query=x", "bearer_token=a-token-of-mine", "--nodes", nodes, "--trace", str(path)]
    assert here(capfd, *words).value == {"content": "found"}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    text = path.read_text()
    assert not any(content in text for content in ("I look", "arguments", '"result"', '"data"', "a-token-of-mine", "horse"))
    done = here(capfd, "trace", str(path))
    assert (done.code, drawn(done)) == (0, TREE)
    assert done.err == "4 calls of tools, 2 failed; ~2,510 → ~51 tokens  $0.0082\n"

    monkeypatch.setenv("ROCKETRIDE_KEY", "correct-horse-battery")  # a command takes the variables from its process
    assert here(capfd, *words, "--trace-content").code == 0
    text = path.read_text()
    assert "I look with ${ROCKETRIDE_KEY}." in text
    assert not any(secret in text for secret in ("a-token-of-mine", "correct-horse"))
    done = here(capfd, "trace", str(path))
    assert drawn(done).startswith(TREE + TREE[: TREE.index("\n") + 1]), "a second run is appended"
    told = drawn(done)[len(TREE) :]
    assert '│  in  {"query":"x","bearer_token":"•••"}\n│  out {"content":"found"}\n' in told
    assert "   │  │     out I look with ${ROCKETRIDE_KEY}.\n" in told
    assert '"what":"x"' in told


def test_a_file_that_is_no_trace_or_lacks_lines_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    done = here(capfd, "trace", str(path))
    assert (done.code, done.err) == (2, f"rrext: {path}: No such file or directory\n")
    path.write_text('{"a": 1}\n')
    done = here(capfd, "trace", str(path))
    assert (done.code, done.err) == (2, f"rrext: {path}: no trace file of rrext\n")
    path.write_text('{"rrext_trace":2}\n')
    assert "a trace of form 2; this version reads form 1" in here(capfd, "trace", str(path)).err
    start = {"event": "call_started", "time": 1.0, "call": 1, "command": "tool", "tool": "find", "node_id": "n"}
    lines = [{"rrext_trace": 1}, start, {"event": "dropped", "count": 3}]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines) + b'{"event":"call_en')
    done = here(capfd, "trace", str(path))
    assert (done.code, done.out.decode()) == (
        1,
        "… 3 events are missing: the file took no more\n… a line is cut off\n1970-01-01 00:00:01.000  n.find  not ended\n",
    )
    assert done.err == "0 calls of tools\n"
    done = here(capfd, "tool", str(path), "find", "--trace-content")
    assert done.code == 2
    done = here(capfd, "tool", str(path), "find", "--trace", str(tmp_path))
    assert (done.code, done.err.endswith(f"rrext: --trace {tmp_path}: Is a directory [usage]\n")) == (2, True)


def test_a_run_after_a_cut_line_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.touch(0o600)
    path.write_text('{"rrext_trace":1}\n{"event":"call_en')
    TraceFile(str(path), content=False, on_failure=print).writer.close()
    assert path.read_text().splitlines()[-1].startswith('{"rrext_trace":1,')


def what_is_there(reader: int) -> bytes:
    """What a pipe has now; the thread of the writer may have written all, and not have said so yet."""
    try:
        return os.read(reader, 65536)
    except BlockingIOError:
        return b""


@pytest.mark.promise("trace:never-blocks")
async def test_a_trace_that_nobody_reads_blocks_no_call_and_counts_what_it_lost(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    engine = LocalEngine()
    files = component("files_1", "tool_filesystem", control="s", root=str(tmp_path))
    try:
        engine.load({"components": [component("s", "tools"), files]}, token="t")
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        trace = TraceFile(path, content=False, on_failure=print)
        trace.begin(engine)
        async with pair(engine, trusted=True) as client:
            while not trace.writer.drops:
                await client.tool(tool="stat_file", input={"path": "."})
            drops = trace.writer.drops
            read = b""
            while not trace.writer.flush(0):
                read += what_is_there(reader)
            await client.tool(tool="stat_file", input={"path": "."})
            while b'"dropped"' not in read:
                read += what_is_there(reader)
    finally:
        await engine.aclose()
    lost = [json.loads(line) for line in read.splitlines() if b'"dropped"' in line]
    assert lost == [{"event": "dropped", "count": drops}]
    trace.writer.close()
    os.close(reader)


def test_a_server_with_processes_for_its_tasks_writes_their_events_too(crew: tuple[str, str], tmp_path: Path) -> None:
    file, nodes = crew
    request = {"command": "rrext_process", "arguments": {"subcommand": "tool", "tool": "run_agent", "input": {"query": "x"}}}
    body = json.dumps({"type": "request", "seq": 1, **request}).encode()
    frame = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    path = str(tmp_path / "t.jsonl")
    done = call(
        "serve", file, "--nodes", nodes, "--isolation", "process", "--trace", path, stdin=frame, ROCKETRIDE_KEY="horse-battery"
    )
    assert b'"content":"found"' in done.out
    assert drawn(call("trace", path)) == TREE


def test_times_are_shown_as_people_compare_them() -> None:
    times = [shown_time(each) for each in (0.00004, 0.0123, 0.0998, 1.239, 200.0)]
    assert times == ["0.04 ms", "12 ms", "0.10 s", "1.24 s", "3 min"]
