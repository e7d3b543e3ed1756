"""A host that speaks the Model Context Protocol by hand: lines of JSON to a server that it spawned, and lines back."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from forked import process

FACES = Path(__file__).resolve().parents[1]
PIPELINE = FACES / "face.pipe"
NODES = [word for name in ("face_nodes", "face_fates", "face_lanes") for word in ("--nodes", str(FACES / f"{name}.py"))]
PATIENCE = 30.0
"""Seconds until an answer that does not come is a failure."""

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Host:
    """A spawned server, and the messages that came from it. `shakes_hands` says which era is spoken, `first` are lines that the
    server runs before.
    """

    def __init__(
        self,
        *options: str,
        files: Sequence[Path] = (PIPELINE,),
        shakes_hands: bool = False,
        capabilities: Mapping[str, Any] = {},
        first: str = "",
    ) -> None:
        main = f"import sys\n{first}\nfrom rrext.cli.main import main\nsys.exit(main(sys.argv[1:]))"
        program = ["-c", main] if first else ["-m", "rrext"]
        command = [sys.executable, *program, "mcp", *map(str, files), *NODES, *options]
        start = subprocess.Popen if first else process  # a forked process has imported what these lines change
        self.process = start(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.notes: list[dict[str, Any]] = []
        """The notifications so far, with the answers that were not asked for by the id that is waited for."""
        self._shakes_hands = shakes_hands
        self._number = 0
        self._arrived: queue.Queue[bytes] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if shakes_hands:
            self.initialized = self.result(
                "initialize", {**HELLO, "capabilities": capabilities, "protocolVersion": "2025-11-25"}
            )
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._arrived.put(line)
        self._arrived.put(b"")

    def write(self, line: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        """Send a message."""
        self.write(msgspec.json.encode(message) + b"\n")

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; its id."""
        self._number += 1
        params = dict(params or {})
        if not self._shakes_hands and method != "initialize":
            params["_meta"] = META | params.get("_meta", {})
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def message(self) -> dict[str, Any]:
        """The next message. Raises `EOFError` at the end of the output."""
        line = self._arrived.get(timeout=PATIENCE)
        if not line:
            raise EOFError
        return msgspec.json.decode(line)

    def answer(self, request_id: int) -> dict[str, Any]:
        """The answer to a request."""
        while True:
            message = self.message()
            if message.get("id") == request_id:
                return message
            self.notes.append(message)

    def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request."""
        answer = self.answer(self.ask(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def failure(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The error of a request."""
        answer = self.answer(self.ask(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, in its form of the protocol."""
        return self.result("tools/call", {"name": name, "arguments": arguments})

    def value(self, name: str, /, **arguments: Any) -> Any:
        """The structured result of a tool."""
        result = self.call(name, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def close_input(self) -> None:
        """Send no more."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> int:
        """Close stdin; the server's exit code."""
        self.close_input()
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


HELLO: dict[str, Any] = {"capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
