"""The engine of a real `rrext lsp` ends with it, whatever the end, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.desks import NODES, pipeline

PATIENCE = 20.0  # seconds until a test gives up; the ends themselves take about one


class Process:
    """A spawned language server and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = (folder / "bench.pipe").as_uri()
        env = {**os.environ, "TMPDIR": str(folder)}
        command = [sys.executable, "-P", "-m", "rrext", "lsp"]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._last_id = 0

    def send(self, method: str, params: Any, *, is_request: bool = False) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if is_request:
            self._last_id += 1
            message["id"] = self._last_id
        body = json.dumps(message).encode()
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.popen.stdin.flush()
        return self._last_id

    def read(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        stdout = self.popen.stdout
        assert stdout is not None
        while True:
            length = 0
            while line := stdout.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            message = json.loads(stdout.read(length))
            if fits(message):
                return message

    def ask(self, method: str, params: Any) -> Any:
        request = self.send(method, params, is_request=True)
        return self.read(lambda message: message.get("id") == request and "method" not in message)["result"]

    def start(self) -> int:
        """Run tools, one of which is stuck from then on; the engine's process id."""
        options = {"trusted": True, "nodes": [str(NODES)]}
        self.ask(
            "initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": {}, "initializationOptions": options}
        )
        self.send("initialized", {})
        item = {"uri": self.uri, "languageId": "rocketride-pipe", "version": 1, "text": pipeline()}
        self.send("textDocument/didOpen", {"textDocument": item})
        pid = int(self.run("where")["result"]["pid"])
        self.send("rrext_process", {"subcommand": "tool", "tool": "block", "progress": True}, is_request=True)
        self.read(lambda message: message.get("method") == "rrext_progress")
        return pid

    def run(self, tool: str) -> Any:
        command = {"command": "rrext.runTool", "arguments": [{"uri": self.uri, "tool": tool, "input": {}}]}
        return self.ask("workspace/executeCommand", command)

    def results(self) -> list[Path]:
        """The folders with results."""
        return list(self.folder.glob("rrext-*"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    process.popen.kill()
    process.popen.wait()
    for stream in (process.popen.stdin, process.popen.stdout):
        if stream is not None:
            stream.close()


def gone(pid: int) -> None:
    """Wait until a process is gone, which is no child of ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    try:
        assert waiting.poll(1000 * PATIENCE), f"process {pid} is left behind"
    finally:
        os.close(descriptor)


def exit_properly(server: Process) -> None:
    server.ask("shutdown", None)
    server.send("exit", None)


def close_stdin(server: Process) -> None:
    assert server.popen.stdin is not None
    server.popen.stdin.close()


def terminate(server: Process) -> None:
    server.popen.send_signal(signal.SIGTERM)


@pytest.mark.promise("editor:engine:ends-with-it")
@pytest.mark.parametrize("end", [exit_properly, close_stdin, terminate])
def test_the_engine_ends_with_the_server_and_results_are_removed(server: Process, end: Callable[[Process], None]) -> None:
    pid = server.start()
    assert len(server.results()) == 1
    end(server)
    server.popen.wait(PATIENCE)
    gone(pid)
    assert server.results() == []


@pytest.mark.promise("editor:engine:ends-with-it")
def test_the_engine_ends_also_if_the_server_is_killed(server: Process) -> None:
    pid = server.start()
    server.popen.kill()
    gone(pid)
