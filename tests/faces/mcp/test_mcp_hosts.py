"""Hosts that read nothing, or are killed: the server keeps within its limits, and does not outlive them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from mcp_host import META, NODES, PATIENCE, PIPELINE, Host

COUNT = 2000

pytestmark = pytest.mark.promise("mcp:one-answer")


def test_a_host_that_reads_nothing_for_long_gets_every_answer_once(host: Host) -> None:
    """The answers are ten times as large as what may wait for it."""
    text = "x" * 40_000
    requests = [("tools/call", {"name": "echo", "arguments": {"value": text}})] * COUNT
    numbers: list[int] = []
    sending = threading.Thread(target=lambda: numbers.extend(host.ask(*request) for request in requests), daemon=True)
    sending.start()
    sending.join(1)  # by then the server reads no more
    answers = [host.message() for _ in range(COUNT)]
    sending.join(PATIENCE)
    assert sorted(answer["id"] for answer in answers) == numbers
    assert all(answer["result"]["structuredContent"] == {"result": text} for answer in answers)


SPAWNS = """
import subprocess, sys
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[int(sys.argv[1])])
server.stdin.write(sys.stdin.buffer.readline())
server.stdin.flush()
sys.stdout.buffer.write(server.stdout.readline())
sys.stdout.flush()
server.wait()
"""


@pytest.mark.parametrize("tool", ["wait", "park"])
def test_a_server_ends_with_a_host_that_is_killed_while_a_tool_runs(tool: str) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "rrext", "mcp", str(PIPELINE), *NODES]
    host = subprocess.Popen(
        [sys.executable, "-c", SPAWNS, str(writer), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[writer],
    )
    os.close(writer)
    assert host.stdin is not None
    assert host.stdout is not None
    params = {"name": tool, "arguments": {"key": "k"}, "_meta": {"progressToken": 1, **META}}
    host.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n")
    host.stdin.flush()
    assert b"notifications/progress" in host.stdout.readline()
    host.kill()
    host.wait(PATIENCE)
    assert os.read(reader, 1) == b""  # the server and its children have ended
    os.close(reader)
    host.stdin.close()
    host.stdout.close()
