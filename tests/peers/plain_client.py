"""A client of the Model Context Protocol that changes nothing: it speaks lines of JSON, and returns results as they came."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSION = "2025-11-25"


class PlainClient:
    """Asks one question after the other. Questions of the server are answered by `answers`, by method; others are refused."""

    def __init__(self, process: subprocess.Popen[bytes], answers: Mapping[str, Callable[[Any], Any]]) -> None:
        self._process = process
        self._answers = answers
        self._number = 0
        self.heard: list[dict[str, Any]] = []
        """The notifications."""
        self.server: dict[str, Any] = {}
        """The result of `initialize`."""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """`{result}` or `{error}`."""
        self._number += 1
        number = f"q{self._number}"
        self._say({"id": number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == number and "method" not in message:
                return {key: message[key] for key in ("result", "error") if key in message}
            if "id" not in message:
                self.heard.append(message)
            elif "method" in message:
                self._answer(message)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def shake_hands(self, capabilities: Mapping[str, Any]) -> None:
        about = {"name": "plain", "version": "1"}
        answer = self.ask("initialize", protocolVersion=VERSION, capabilities=capabilities, clientInfo=about)
        self.server = answer["result"]
        self._say({"method": "notifications/initialized"})

    def _answer(self, question: dict[str, Any]) -> None:
        answer = self._answers.get(question["method"])
        said = {"error": {"code": -32601, "message": "no"}} if answer is None else {"result": answer(question.get("params"))}
        self._say({"id": question["id"], **said})

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server ended"
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def plain_client(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    answers: Mapping[str, Callable[[Any], Any]] = {},
    capabilities: Mapping[str, Any] | None = None,
) -> Iterator[PlainClient]:
    """A client of a server that this starts and ends, after the handshake."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=cwd
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        client = PlainClient(process, answers)
        client.shake_hands(capabilities or {})
        yield client
    finally:
        process.stdin.close()
        process.terminate()  # not every server ends with its input
        process.wait()
        process.stdout.close()
