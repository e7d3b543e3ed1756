"""Commands wherever they are started: with few means, without streams, in an environment of another taste. Each works, or
says in a sentence what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NODES = """from rrext import Node, tool_function


class Adder(Node):
    provider = "adder"
    title = "Adder"

    @tool_function
    def add(self, a: int, b: int) -> int:
        print("a line with ü")
        return a + b
"""
PIPELINE = {
    "components": [
        {"id": "hook_1", "provider": "webhook", "config": {}},
        {"id": "adder_1", "provider": "adder", "config": {}, "control": [{"classType": "tool", "from": "hook_1"}]},
    ]
}
CALL = {"subcommand": "tool", "tool": "add", "input": {"a": 1, "b": 2}}
FRAME = json.dumps({"type": "request", "seq": 1, "command": "rrext_process", "arguments": CALL})
CLIENT = {"name": "host", "version": "1"}
HOST = [
    {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
]
COMMANDS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "check": (("check",), "", ""),
    "tool": (("tool", "add", "a=1", "b=2"), "", "3\n"),
    "process": (("serve", "--isolation", "process"), f"Content-Length: {len(FRAME)}\r\n\r\n{FRAME}", '"result":3}}'),
    "mcp": (("mcp",), "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in HOST), '"text":"3"'),
}
"""Name → the words, what is read from stdin, what is on stdout at the end."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """The words for a pipeline with a tool that prints."""
    nodes, pipeline = tmp_path / "adder_nodes.py", tmp_path / "pípe.pipe"
    nodes.write_text(NODES, encoding="utf-8")
    pipeline.write_text(json.dumps(PIPELINE))
    return str(pipeline), "--nodes", str(nodes)


def ended(
    name: str, files: tuple[str, ...], first: str = ":", last: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command at its end: `first` is a line of the shell before it, `last` are redirections."""
    (word, *more), given, _ = COMMANDS[name]
    command = ["sh", "-c", f'{first}; exec "$@" {last}', "sh", sys.executable, "-m", "rrext", word, *files, *more]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        command, input=given, capture_output=True, encoding="utf-8", timeout=60, check=False, env=kept | variables
    )


@pytest.mark.parametrize("name", ["tool", "process", "mcp"])
def test_a_command_works_where_nothing_is_as_usual(name: str, files: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    first = f"ulimit -n 64; ulimit -f 0; ulimit -c 0; mkdir {gone}; cd {gone}; rmdir {gone}"
    strange = {
        "LC_ALL": "POSIX",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
        "PYTHONOPTIMIZE": "2",
        "PYTHONPATH": f"{gone}:/dev/null",
        "PYTHONUTF8": "0",
        "PYTHONWARNINGS": "error",
        "TMPDIR": str(gone),
    }
    done = ended(name, files, first, **strange)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert COMMANDS[name][2] in done.stdout


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("name", ["check", "tool"])
def test_a_command_works_without_anyone_who_hears_its_messages(name: str, stderr: str, files: tuple[str, ...]) -> None:
    done = ended(name, files, last=stderr)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == COMMANDS[name][2]


@pytest.mark.parametrize("name", ["tool", "process"])
def test_a_command_without_threads_says_so_in_a_sentence(name: str, files: tuple[str, ...]) -> None:
    done = ended(name, files, "ulimit -s 4000000; ulimit -v 3000000")  # kilobytes: no stack of a thread finds room
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("the system gives no thread, and one is needed: raise the limits for it (ulimit -u, ulimit -v)")
