"""What a call of MCP over HTTP costs, beside the SDK's own server under the same web server: both take turns on one core."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

from bench_client import ENVIRONMENT
from bench_peers import SERVERS
from bench_subject import SUM, Figures, Size, Subject, check, no_collector, on_one_core, same_core

BLOCK = 50
VERSION = "2026-07-28"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add",
}
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}).encode()


def http_calls(subject: Subject, size: Size) -> Figures:
    """The median of both servers."""
    ours = [*subject.over_mcp().command, "--http", "127.0.0.1:0"]
    theirs = [sys.executable, str(SERVERS / "mcp_python_http.py")]
    taken: dict[str, list[float]] = {"over HTTP": [], "SDK over HTTP": []}
    with on_one_core(), ExitStack() as stack:
        connections = [stack.enter_context(connected(command)) for command in (ours, theirs)]
        turns = list(zip(taken.values(), connections, strict=True))
        for _, connection in turns:
            for _ in range(BLOCK):
                call(connection)
        with no_collector():
            for _ in range(size.calls // BLOCK):
                random.shuffle(turns)
                for values, connection in turns:
                    values += (call(connection) for _ in range(BLOCK))
    return {f"{name} p50 µs": statistics.median(values) * 1e6 for name, values in taken.items()}


@contextmanager
def connected(command: list[str]) -> Iterator[HTTPConnection]:
    """A connection to a server that says on stderr where it listens."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
    try:
        if core := same_core():
            os.sched_setaffinity(process.pid, core)
        assert process.stderr is not None
        url = urlsplit(process.stderr.readline().decode().split()[-1])
        with process.stderr, closing(HTTPConnection(url.netloc, timeout=30)) as connection:
            yield connection
    finally:
        process.kill()
        process.wait()


def call(connection: HTTPConnection) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    connection.request("POST", "/mcp", BODY, HEADERS)
    answer = connection.getresponse().read()
    took = time.perf_counter() - begun
    check(json.loads(answer)["result"]["structuredContent"], SUM)
    return took
