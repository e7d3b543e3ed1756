"""A server of HTTP in a process of its own, and requests to it by hand."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
from mcp_host import META, NODES, PATIENCE, PIPELINE, VERSION

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class HttpServer:
    """A spawned `rrext mcp --http`. `log` is what it wrote to stderr."""

    def __init__(self, *options: str, files: Sequence[Path] = (PIPELINE,), address: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "rrext", "mcp", *map(str, files), *NODES, "--http", address, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = ""
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(PATIENCE)
        found = re.search(r"listening at (http://.*:(\d+)/mcp)", self.log)
        assert found is not None, self.log
        self.url, self.port = found[1], int(found[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line.decode()
            if "listening at" in self.log:
                self._listening.set()
        self._listening.set()

    def connect(self) -> http.client.HTTPConnection:
        """A connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def send(
        self, method: str = "POST", body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of an answer."""
        connection = self.connect()
        try:
            connection.request(method, "/mcp", body or None, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
        """The status, and the answer of a request without a handshake."""
        status, _, body = self.send("POST", *request(method, params, **headers))
        try:
            return status, msgspec.json.decode(body)
        except msgspec.DecodeError:
            return status, body.decode()

    def result(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """The result of a request."""
        status, answer = self.ask(method, params, **headers)
        assert status == 200, answer
        return answer["result"]

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, in its form of the protocol."""
        return self.result("tools/call", {"name": name, "arguments": arguments})

    @contextmanager
    def waiting(self, tool: str, **arguments: Any) -> Iterator[http.client.HTTPResponse]:
        """The answer of a call that waits, after its first progress."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
        connection = self.connect()
        connection.request("POST", "/mcp", *request("tools/call", params))
        with closing(connection), connection.getresponse() as answer:
            while b"parked" not in answer.readline():
                pass
            yield answer

    def end(self) -> int:
        """End the server; its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def request(method: str, params: dict[str, Any] | None = None, **headers: str) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request without a handshake."""
    params = {**(params or {}), "_meta": META | (params or {}).get("_meta", {})}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    name = params.get({"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method, ""))
    named = {"Mcp-Name": name} if isinstance(name, str) else {}
    return body, {**ACCEPT, "MCP-Protocol-Version": VERSION, "Mcp-Method": method, **named, **headers}
