"""A server of HTTP in a process of its own, and requests to it by hand."""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from listening_server import ListeningServer
from mcp_host import META, NODES, PATIENCE, PIPELINE, VERSION

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class HttpServer(ListeningServer):
    """A spawned `rrext mcp --http`. `first` are lines that it runs before."""

    def __init__(
        self, *options: str, files: Sequence[Path] = (PIPELINE,), address: str = "127.0.0.1:0", first: str = ""
    ) -> None:
        main = f"import sys\n{first}\nfrom rrext.cli.main import main\nsys.exit(main(sys.argv[1:]))"
        program = ["-c", main] if first else ["-m", "rrext"]
        command = [sys.executable, *program, "mcp", *map(str, files), *NODES, "--http", address, *options]
        super().__init__(command)
        found = re.search(r"listening at (http://.*:(\d+)/mcp)", self.log)
        assert found is not None, self.log
        self.url, self.port = found[1], int(found[2])

    def connect(self) -> http.client.HTTPConnection:
        """A connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def send(
        self, method: str = "POST", body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of an answer."""
        return self.exchange(method, "/mcp", body or None, headers)

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


def request(method: str, params: dict[str, Any] | None = None, **headers: str) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request without a handshake."""
    params = {**(params or {}), "_meta": META | (params or {}).get("_meta", {})}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    name = params.get({"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method, ""))
    named = {"Mcp-Name": name} if isinstance(name, str) else {}
    return body, {**ACCEPT, "MCP-Protocol-Version": VERSION, "Mcp-Method": method, **named, **headers}


def two_users(folder: Path) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The headers of the users ada and bob, and the options of a server that knows their tokens."""
    path = folder / "tokens.toml"
    path.write_text('a-token-of-ada-0123 = "ada"\na-token-of-bob-0123 = "bob"\n')
    path.chmod(0o600)
    ada, bob = ({"Authorization": f"Bearer a-token-of-{name}-0123"} for name in ("ada", "bob"))
    return ada, bob, ["--tokens", str(path)]
