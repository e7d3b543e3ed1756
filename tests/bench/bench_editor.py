"""What an editor measures: keystrokes sent over stdio, and the diagnostics of the text that each of them leaves."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_client import JsonRpc, Server

HERE = Path(__file__).resolve().parent
URI, TOOLS_URI = "file:///bench/pipeline.pipe", (HERE / "editor.pipe").as_uri()
VALID, BROKEN = "x", ', "title": "Do it"'
"""What is typed: a letter into a text again and again, or a member, which breaks the file until it is whole."""


def pipeline(nodes: int) -> str:
    """A chain of so many nodes, as a visual editor writes it."""
    ui = {"measured": {"width": 150, "height": 66}, "nodeType": "default"}
    chain: list[dict[str, Any]] = [{"id": "chat_1", "provider": "chat", "config": {"mode": "Source"}}]
    for i in range(nodes - 2):
        chain.append(
            {
                "id": f"prompt_{i}",
                "provider": "prompt",
                "config": {"instructions": [f"Do the thing {i}"]},
                "input": [{"lane": "questions", "from": chain[-1]["id"]}],
            }
        )
    chain.append(
        {
            "id": "end_1",
            "provider": "response_questions",
            "config": {},
            "input": [{"lane": "questions", "from": chain[-1]["id"]}],
        }
    )
    components = [node | {"ui": {"position": {"x": 200 * i, "y": 0}, **ui}} for i, node in enumerate(chain)]
    return json.dumps({"project_id": "bench", "components": components}, indent=2)


@dataclass
class Typist:
    """Types one character at a time at a place in the middle of a document."""

    text: str
    typed: str
    version: int = 1
    count: int = 0

    def __post_init__(self) -> None:
        lines = self.text.split("\n")
        middle = len(lines) // 2
        self.line = next(i for i in range(middle, len(lines)) if "Do the thing" in lines[i])
        line = lines[self.line]
        if self.typed is BROKEN:  # after the list that ends on the next line
            self.line += 1
            line = lines[self.line]
            self.column = len(line)
        else:
            self.column = line.index("thing")

    def key(self) -> bytes:
        """The next keystroke; when all of it is typed it is deleted again, from its end."""
        self.version += 1
        turn, at = divmod(self.count, len(self.typed))
        self.count += 1
        backwards = self.typed is BROKEN and turn % 2 == 1
        start = self.column + (len(self.typed) - 1 - at if backwards else at if self.typed is BROKEN else 0)
        end = start + backwards
        change = {
            "range": {"start": {"line": self.line, "character": start}, "end": {"line": self.line, "character": end}},
            "text": "" if backwards else self.typed[at],
        }
        document = {"uri": URI, "version": self.version}
        return note("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})


def note(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def request(number: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


class EditorSession:
    """One language server with one document open in it."""

    def __init__(self, command: list[str], text: str) -> None:
        self.server = Server(command, JsonRpc(), seconds=120)
        self.on_answer: Callable[[], None] = lambda: None
        capabilities = {"textDocument": {"publishDiagnostics": {"versionSupport": True}}}
        options = {"trusted": True, "nodes": [str(HERE / "editor_nodes.py")]}
        params = {"processId": None, "rootUri": None, "capabilities": capabilities, "initializationOptions": options}
        self.server.send(request(1, "initialize", params))
        while self.take().get("id") != 1:
            pass
        self.start = time.perf_counter() - self.server.spawned
        self.server.send(note("initialized", {}))
        self.open(URI, text)
        self.problems = self.published(1)

    def __enter__(self) -> EditorSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def open(self, uri: str, text: str) -> None:
        item = {"uri": uri, "languageId": "pipe", "version": 1, "text": text}
        self.server.send(note("textDocument/didOpen", {"textDocument": item}))

    def take(self) -> dict[str, Any]:
        """The next message; what the server asks is answered with nothing."""
        message = json.loads(self.server.receive())
        if "id" in message and "method" in message:
            self.server.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": None}).encode())
        elif "id" in message:
            self.on_answer()
        return message

    def published(self, version: int) -> int:
        """Wait for the diagnostics of this version; how many there are."""
        while True:
            message = self.take()
            params = message.get("params") or {}
            if params.get("uri") == URI and params.get("version") == version and "diagnostics" in params:
                return len(params["diagnostics"])

    def latencies(self, typist: Typist, count: int, *, burst: int = 1, pause: float = 0.0) -> Iterator[float]:
        """Seconds from a keystroke to its diagnostics. Of `burst` keys, which are `pause` seconds apart, the last counts."""
        for _ in range(count):
            for _ in range(burst - 1):
                self.server.send(typist.key())
                time.sleep(pause)
            key = typist.key()
            began = time.perf_counter()
            self.server.send(key)
            self.published(typist.version)
            yield time.perf_counter() - began

    def flood(self, line: int, window: int = 8) -> None:
        """From now on so many requests are never answered: each answer is followed by the next one."""
        place = {"textDocument": {"uri": URI}, "position": {"line": line, "character": 8}}
        asked = itertools.cycle(["textDocument/hover", "textDocument/definition", "textDocument/completion"])
        numbers = itertools.count(1_000_000)

        def ask() -> None:
            self.server.send(request(next(numbers), next(asked), place))

        self.on_answer = ask
        for _ in range(window):
            ask()

    def run_busy_tool(self, seconds: float) -> None:
        """Have a tool begin that keeps a core busy for so long."""
        self.open(TOOLS_URI, (HERE / "editor.pipe").read_text())
        arguments = [{"uri": TOOLS_URI, "node": "busy_1", "tool": "spin", "input": {"seconds": seconds}}]
        self.server.send(request(2, "workspace/executeCommand", {"command": "rrext.runTool", "arguments": arguments}))
