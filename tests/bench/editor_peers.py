"""What rrext offers an editor, beside language servers that people know: as each of them answers `initialize` itself.

    python tests/bench/editor_peers.py [--rounds N]

Installs the others into a cache folder, once. Prints two tables: the features, and how long a start and a keystroke take.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_peers import Missing, default_cache, once, run

from rrext import __version__

NODES = 500
PATIENCE = 60.0
STARTS = 3
ENCODINGS = ["utf-8", "utf-16", "utf-32"]
FEATURES = {
    "completion": "completionProvider",
    "hover": "hoverProvider",
    "signature help": "signatureHelpProvider",
    "definition": "definitionProvider",
    "references": "referencesProvider",
    "highlights": "documentHighlightProvider",
    "rename": "renameProvider",
    "document symbols": "documentSymbolProvider",
    "workspace symbols": "workspaceSymbolProvider",
    "folding": "foldingRangeProvider",
    "selection ranges": "selectionRangeProvider",
    "links": "documentLinkProvider",
    "inlay hints": "inlayHintProvider",
    "semantic tokens": "semanticTokensProvider",
    "formatting": "documentFormattingProvider",
    "colours": "colorProvider",
    "quick fixes": "codeActionProvider",
    "code lenses": "codeLensProvider",
    "commands": "executeCommandProvider",
}
"""Row → the capability that says so. An empty object means yes."""


def has(capabilities: dict[str, Any], name: str) -> bool:
    value = capabilities.get(name)
    return bool(value.get("commands", True)) if isinstance(value, dict) else bool(value)


def change_kind(capabilities: dict[str, Any]) -> Any:
    sync = capabilities.get("textDocumentSync")
    return sync.get("change") if isinstance(sync, dict) else sync


@dataclass(frozen=True)
class Peer:
    """A language server. `text` is a file with one mistake for `wrong`, which takes the mistake's number."""

    title: str
    install: Callable[[Path], list[str]]
    suffix: str
    language: str
    text: Callable[[str], str]
    configure: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] | None = None
    measured: bool = True


class Server:
    """A language server that was started, and its messages in the order in which they came."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder
        )
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._ids = itertools.count(1)
        self.settings: dict[str, Any] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while header := stdout.readline():
            size = 0
            while header.strip():
                if header.lower().startswith(b"content-length:"):
                    size = int(header.split(b":")[1])
                header = stdout.readline()
            body = stdout.read(size)
            if len(body) == size:  # else the server was ended meanwhile
                self._messages.put(json.loads(body))

    def send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        stdin.flush()

    def request(self, method: str, params: Any) -> Any:
        number = next(self._ids)
        self.send(id=number, method=method, params=params)
        return self.until(lambda message: message.get("id") == number and "method" not in message)["result"]

    def until(self, fits: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The next message that fits. Requests of the server are answered meanwhile, as an obliging editor does."""
        end = time.monotonic() + PATIENCE
        while True:
            message = self._messages.get(timeout=max(0.0, end - time.monotonic()))
            if "method" in message and "id" in message:
                self.send(id=message["id"], result=self._answer(message))
            elif fits(message):
                return message

    def _answer(self, message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        return [self.settings.get(item.get("section", "")) for item in message["params"]["items"]]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


# the servers


def rrext(_: Path) -> list[str]:
    program = Path(sys.executable).with_name("rrext")
    if not program.exists():
        raise Missing("install rrext for this Python first (pip install .)")
    return [str(program), "lsp"]


def from_pip(package: str, *command: str) -> Callable[[Path], list[str]]:
    def install(cache: Path) -> list[str]:
        folder = cache / package.replace("==", "-")

        def fill() -> None:
            venv.create(folder, with_pip=True)
            run(str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *package.split())

        once(folder, fill)
        return [str(folder / "bin" / command[0]), *command[1:]]

    return install


def from_npm(package: str, program: str) -> Callable[[Path], list[str]]:
    def install(cache: Path) -> list[str]:
        if shutil.which("npm") is None:
            raise Missing("no npm")
        folder = cache / package.replace("@", "-")
        npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package)
        once(folder, lambda: run(*npm))
        return [str(folder / "node_modules" / ".bin" / program), "--stdio"]

    return install


def pipeline(wrong: str) -> str:
    first = {"id": "in", "provider": "webhook", "config": {}}
    rest = [
        {"id": f"n{i}", "provider": "prompt", "config": {}, "input": [{"lane": "text", "from": "in"}]} for i in range(NODES - 2)
    ]
    last = {"id": "out", "provider": "response_text", "config": {}, "input": [{"lane": wrong, "from": "in"}]}
    return json.dumps({"components": [first, *rest, last], "source": "in", "version": 1}, indent=2)


def records(wrong: str) -> list[dict[str, Any]]:
    good = {"id": "n", "provider": "prompt", "config": {}, "input": [{"lane": "text", "from": "in"}]}
    return [*({**good, "id": f"n{i}"} for i in range(NODES - 1)), {**good, "input": [{"lane": wrong, "from": "in"}]}]


def as_yaml(wrong: str) -> str:
    lines = ["components:"]
    for record in records(wrong):
        lines += [f"  - id: {record['id']}", "    provider: prompt", "    config: {}", "    input:"]
        lines += [f"      - lane: {record['input'][0]['lane']}", "        from: in"]
    return "\n".join(lines) + "\n"


def as_python(wrong: str) -> str:
    functions = [f"def n{i}(text):\n    return text.strip()\n" for i in range(NODES)]
    return "\n".join(functions) + f"\n{wrong} = = 1\n"


EDGE = {"type": "object", "properties": {"lane": {"enum": ["text", "questions"]}, "from": {"type": "string"}}}
COMPONENT = {
    "type": "object",
    "required": ["id", "provider", "config"],
    "properties": {"id": {"type": "string"}, "input": {"type": "array", "items": EDGE}},
}
SCHEMA = {"type": "object", "properties": {"components": {"type": "array", "items": COMPONENT}}}

PEERS = [
    Peer(f"rrext {__version__}", rrext, ".pipe", "pipe", pipeline),
    Peer("esbonio 2.1.0", from_pip("esbonio==2.1.0", "esbonio", "server"), ".rst", "restructuredtext", str, measured=False),
    Peer(
        "jedi-language-server 0.47.0",
        from_pip("jedi-language-server==0.47.0", "jedi-language-server"),
        ".py",
        "python",
        as_python,
    ),
    Peer(
        "yaml-language-server 1.25.0",
        from_npm("yaml-language-server@1.25.0", "yaml-language-server"),
        ".yaml",
        "yaml",
        as_yaml,
        {"yaml": {"validate": True, "schemaStore": {"enable": False}, "schemas": {"schema.json": "*.yaml"}}},
    ),
    Peer(
        "vscode-json-language-server 4.10.0",
        from_npm("vscode-langservers-extracted@4.10.0", "vscode-json-language-server"),
        ".json",
        "json",
        lambda wrong: json.dumps({"components": records(wrong)}, indent=2),
        {"json": {"validate": {"enable": True}, "schemas": [{"fileMatch": ["*.json"], "schema": SCHEMA}]}},
        {"provideFormatter": True},
    ),
]


# measuring


def introduced(peer: Peer, command: list[str], folder: Path) -> tuple[Server, dict[str, Any], float]:
    """A server, its answer to `initialize`, and the seconds from its start until that answer."""
    started = time.perf_counter()
    server = Server(command, folder)
    server.settings = peer.configure
    link = {"dynamicRegistration": False}
    names = ["hover", "completion", "definition", "references", "rename", "codeAction", "codeLens", "documentSymbol"]
    names += ["foldingRange", "documentHighlight", "documentLink", "formatting", "colorProvider", "signatureHelp"]
    text: dict[str, Any] = dict.fromkeys([*names, "selectionRange", "inlayHint", "publishDiagnostics"], link)
    text["codeAction"] = {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}}}
    text["completion"] = {"completionItem": {"snippetSupport": True}}
    params = {
        "processId": os.getpid(),
        "rootUri": folder.as_uri(),
        "initializationOptions": peer.options,
        "workspaceFolders": [{"uri": folder.as_uri(), "name": "bench"}],
        "capabilities": {
            "textDocument": text,
            "workspace": {"configuration": True, "workspaceFolders": True},
            "general": {"positionEncodings": ENCODINGS},
        },
    }
    result = server.request("initialize", params)
    taken = time.perf_counter() - started
    server.send(method="initialized", params={})
    server.send(method="workspace/didChangeConfiguration", params={"settings": peer.configure})
    return server, result, taken


def keystrokes(peer: Peer, server: Server, whole: bool, folder: Path, rounds: int) -> list[float]:
    """Seconds from each keystroke inside a word that is wrong until diagnostics that were made for it."""
    path = folder / f"bench{peer.suffix}"
    text = peer.text("wrong")
    path.write_text(text, encoding="utf-8")
    uri = path.as_uri()
    item = {"uri": uri, "languageId": peer.language, "version": 0, "text": text}
    server.send(method="textDocument/didOpen", params={"textDocument": item})
    ranges = places(server.until(about(uri, [])))
    before = text[: text.index("wrong")]
    line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    taken: list[float] = []
    for number in range(1, rounds + 1):
        place = {"line": line, "character": column}
        change = {"range": {"start": place, "end": place}, "text": "x"}
        if whole:
            text = text[: len(before)] + "x" + text[len(before) :]
            change = {"text": text}
        started = time.perf_counter()
        document = {"uri": uri, "version": number}
        server.send(method="textDocument/didChange", params={"textDocument": document, "contentChanges": [change]})
        ranges = places(server.until(about(uri, ranges)))
        taken.append(time.perf_counter() - started)
        time.sleep(0.05)  # nobody types faster
    return taken


def about(uri: str, old: list[Any]) -> Callable[[dict[str, Any]], Any]:
    """Diagnostics of a document that has some, at other places than before: the mistake grows with every keystroke."""

    def fits(message: dict[str, Any]) -> bool:
        if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
            return False
        return places(message) not in ([], old)

    return fits


def places(message: dict[str, Any]) -> list[Any]:
    return [diagnostic["range"] for diagnostic in message["params"]["diagnostics"]]


def measured(peer: Peer, command: list[str], rounds: int) -> tuple[str, dict[str, Any], str]:
    """The server's name, its capabilities, and its row of times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
        starts: list[float] = []
        for _ in range(STARTS):
            server, result, taken = introduced(peer, command, folder)
            starts.append(taken)
            server.close()
        server, result, _ = introduced(peer, command, folder)
        cells = ["not measured", "–"]
        if peer.measured:
            whole = change_kind(result["capabilities"]) == 1
            times = sorted(keystrokes(peer, server, whole, folder, rounds))
            cells = [f"{statistics.median(times) * 1000:.0f} ms", f"{times[int(len(times) * 0.95)] * 1000:.0f} ms"]
        server.close()
    return (
        peer.title,
        result["capabilities"],
        f"| {peer.title} | {statistics.median(starts) * 1000:.0f} ms | {' | '.join(cells)} |",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="keystrokes for each server (%(default)s)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where servers are installed (%(default)s)")
    given = parser.parse_args()
    found: list[tuple[str, dict[str, Any], str]] = []
    for peer in PEERS:
        try:
            found.append(measured(peer, peer.install(given.cache.expanduser().resolve()), given.rounds))
        except (Missing, OSError, queue.Empty) as error:
            print(f"{peer.title} is not measured: {error or 'it did not answer'}", file=sys.stderr)
    print(f"| feature | {' | '.join(title for title, _, _ in found)} |\n|---|{'---|' * len(found)}")
    for feature, name in FEATURES.items():
        print(f"| {feature} | {' | '.join('yes' if has(capabilities, name) else '–' for _, capabilities, _ in found)} |")
    units = [capabilities.get("positionEncoding", "utf-16") for _, capabilities, _ in found]
    print(f"| columns counted in | {' | '.join(units)} |")
    kinds = ["changes" if change_kind(capabilities) == 2 else "whole texts" for _, capabilities, _ in found]
    print(f"| edits arrive as | {' | '.join(kinds)} |")
    print(f"\n| server | start | keystroke to diagnostics, {NODES} entries, p50 | p95 |\n|---|---|---|---|")
    print("\n".join(row for _, _, row in found))
    return 0 if any(title.startswith("rrext") for title, _, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
