"""`--trace`, and `rrext trace`: what happened in a call, as a tree."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import msgspec
import pytest
from commands import Done, call, component, here, pipeline

from rrext.cli.commands.trace import shown_time
from rrext.engine.local_engine import LocalEngine
from rrext.server.trace_file import TraceFile
from rrext.testing.sessions import pair

CREW = '''
from rrext import Node, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo, TurnUsage


class Boss(Node):
    """An agent that plays its part."""

    provider = "boss"

    class Config:
        key: str = ""

    @tool_function
    async def run_agent(self, query: str, bearer_token: str = "", *, ctx: ToolContext) -> dict:
        """Ask the agent."""
        tell, info = ctx.callbacks, CallInfo(tool="run_agent")
        tell.agent_start(info, "boss")
        tell.agent_turn_start(info, "boss", 1)
        tell.agent_chunk(info, "boss", f"I look with {self.config.key}.")
        usage = TurnUsage(model="large", input_tokens=1200, output_tokens=40, cost=0.0042, finish="tool_calls")
        tell.agent_turn_end(info, "boss", 1, usage)
        for name in ("no_such_tool", "find"):
            tell.agent_tool_call(info, "boss", name, {"what": "x"})
        try:
            await ctx.call("hand_1", "find", {"what": query})
        except ToolError as error:
            tell.agent_tool_result(info, "boss", "find", None, error)
        tell.agent_tool_result(info, "boss", "no_such_tool", None, ToolError("there is no such tool", code="unknown"))
        tell.agent_tool_call(info, "boss", "ask_helper", {})
        said = await ctx.call("help_1", "ask_helper", {})
        tell.agent_tool_result(info, "boss", "ask_helper", said, None)
        tell.agent_turn_start(info, "boss", 2)
        usage = TurnUsage(model="large", input_tokens=1300, output_tokens=9, cost=0.004, finish="stop")
        tell.agent_turn_end(info, "boss", 2, usage)
        tell.agent_end(info, "boss", None)
        return {"content": said}


class Helper(Node):
    """A sub-agent."""

    provider = "helper"

    @tool_function
    async def ask_helper(self, *, ctx: ToolContext) -> str:
        """Ask the helper."""
        tell, info = ctx.callbacks, CallInfo(tool="ask_helper")
        tell.agent_start(info, "helper")
        tell.agent_turn_start(info, "helper", 1)
        tell.agent_turn_end(info, "helper", 1, TurnUsage(input_tokens=10, output_tokens=2, estimated=True))
        tell.agent_end(info, "helper", None)
        return "found"


class Hand(Node):
    """A tool that fails."""

    provider = "hand"

    @tool_function
    def find(self, what: str) -> str:
        """Find it."""
        raise ToolError(f"nothing is {what!r}", code="nothing")
'''

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


@pytest.fixture
def crew(tmp_path: Path) -> tuple[str, str]:
    """A pipeline with an agent, and the file of its nodes."""
    (tmp_path / "crew.py").write_text(CREW)
    boss = component("boss_1", "boss", control="s", key="${ROCKETRIDE_KEY}")
    others = [component("hand_1", "hand", control="s"), component("help_1", "helper", control="s")]
    return pipeline(tmp_path, component("s", "tools"), boss, *others), str(tmp_path / "crew.py")


def drawn(done: Done) -> str:
    """A drawing without its times."""
    text = re.sub(r"  [\d.]+ (ms|s)\b", "  T", done.out.decode())
    return re.sub(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  ", "", text)


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
    done = here(capfd, "tool", str(path), "find", "--trace-content")
    assert done.code == 2
    done = here(capfd, "tool", str(path), "find", "--trace", str(tmp_path))
    assert (done.code, done.err.endswith(f"rrext: --trace {tmp_path}: Is a directory [usage]\n")) == (2, True)


def test_a_run_after_a_cut_line_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"rrext_trace":1}\n{"event":"call_en')
    TraceFile(str(path), content=False, on_failure=print).writer.close()
    assert path.read_text().splitlines()[-1].startswith('{"rrext_trace":1,')


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
        os.set_blocking(reader, True)
        trace.begin(engine)
        async with pair(engine, trusted=True) as client:
            while not trace.writer.drops:
                await client.tool(tool="stat_file", input={"path": "."})
            drops = trace.writer.drops
            read = b""
            while not trace.writer.flush(0):
                read += os.read(reader, 65536)
            await client.tool(tool="stat_file", input={"path": "."})
            read += os.read(reader, 65536)
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
