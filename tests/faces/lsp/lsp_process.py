"""`rrext lsp` as a process of its own, and a client of a few lines: blocking reads, a deadline on each wait."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forked import process
from life.raw_client import PATIENCE, Ended, FrameReader, environment, frame

__all__ = ["PATIENCE", "LspProcess", "frame"]

STUCK = Path(__file__).with_name("lsp_stuck.py")
URI = "file:///project/test.pipe"


class LspProcess:
    """A server in a session of its own. Its stderr is kept. `stuck` has features that never end."""

    def __init__(
        self,
        *options: str,
        cwd: Path | None = None,
        stdin: Any = subprocess.PIPE,
        env: Mapping[str, str] | None = None,
        stuck: bool = False,
    ) -> None:
        program = [str(STUCK)] if stuck else ["-m", "rrext", "lsp"]
        self.process = process(
            [sys.executable, *program, *options],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env={**environment(), **(env or {})},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.out = FrameReader(self.process.stdout.fileno())
        self.messages: list[dict[str, Any]] = []
        self._ids = 0
        self._sending = threading.Lock()
        self._said = bytearray()
        self._saying = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        while piece := os.read(self.process.stderr.fileno(), 65536):
            with self._saying:
                self._said += piece
                self._saying.notify_all()

    # sending

    def send_bytes(self, data: bytes) -> None:
        """Write all of it, however long the server takes to read."""
        assert self.process.stdin is not None
        rest = memoryview(data)
        with self._sending:
            while rest:
                rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def feed(self, data: bytes) -> None:
        """The same from a thread; what is sent afterwards waits for it."""
        threading.Thread(target=self.send_bytes, args=[data], daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        self.send_bytes(frame({"jsonrpc": "2.0", **message}))

    def post(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, "params": params})

    def start(self, options: Any = None, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        """Introduce a client; the answer to `initialize`."""
        params = {"processId": None, "rootUri": None, "capabilities": capabilities or {}, "initializationOptions": options}
        result = self.request("initialize", params)
        self.notify("initialized", {})
        return result

    def open(self, text: str, version: int = 1) -> None:
        item = {"uri": URI, "languageId": "pipe", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def rest(self) -> None:
        """Return when the server has taken all that was sent, and sleeps."""
        assert self.process.stdin is not None
        until, waiting = time.monotonic() + PATIENCE, bytearray(b"    ")
        while any(waiting) or not self._sleeps():
            fcntl.ioctl(self.process.stdin.fileno(), termios.FIONREAD, waiting)
            assert time.monotonic() < until, "the server goes on and on"
            os.sched_yield()

    def _sleeps(self) -> bool:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "S" for task in tasks)

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    # receiving

    def read(self) -> dict[str, Any]:
        message = self.out.read()
        self.messages.append(message)
        return message

    def answer(self, request_id: int) -> dict[str, Any]:
        """The whole answer to a request."""
        for message in self.messages:
            if message.get("id") == request_id and "method" not in message:
                return message
        while (message := self.read()).get("id") != request_id or "method" in message:
            pass
        return message

    def request(self, method: str, params: Any = None) -> Any:
        answer = self.answer(self.post(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    def diagnostics(self, version: int = 1) -> list[dict[str, Any]]:
        """What is told of a version of the document, if that has not been read already."""
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["version"] == version:
                return message["params"]["diagnostics"]

    def until_end(self) -> list[dict[str, Any]]:
        """Whatever else comes, until stdout ends."""
        rest: list[dict[str, Any]] = []
        try:
            while True:
                rest.append(self.read())
        except Ended:
            return rest

    # the process

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(PATIENCE)

    def said(self) -> str:
        """All that was written to stderr, once the process has ended."""
        self._listener.join(PATIENCE)
        return self._said.decode()

    def heard(self, text: str) -> None:
        """Return when the server has said this on stderr."""
        with self._saying:
            assert self._saying.wait_for(lambda: text.encode() in self._said, PATIENCE), f"{text!r} was never said"

    def memory(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the process is gone")

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def edits(count: int, start: int = 2) -> Sequence[bytes]:
    """Frames of edits, each of which puts one more line before all others."""
    place = {"line": 0, "character": 0}
    change = {"range": {"start": place, "end": place}, "text": "\n"}
    return [
        frame(
            {
                "jsonrpc": "2.0",
                "method": "textDocument/didChange",
                "params": {"textDocument": {"uri": URI, "version": start + i}, "contentChanges": [change]},
            }
        )
        for i in range(count)
    ]
