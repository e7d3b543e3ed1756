"""A place with secrets of every origin, servers outside that repeat them, and every process that a face starts there."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from api_server import ApiHost, Asked, Reply, api_host
from forked import process
from listening import HERE, NODES, PATIENCE, surroundings

PLACES = (
    "variable",
    "env",
    "file",
    "literal",
    "header",
    "query",
    "composio",
    "url",
    "child",
    "named",
    "pairs",
    "authorization",
    "token",
    "stranger",
)
SECRET = {place: secrets.token_hex(8) for place in PLACES}
"""Place of a secret → the letters and digits of it that no other text has."""
CALLER = f"Bearer {SECRET['authorization']}"
"""The authorization of the caller."""
STRANGER = SECRET["stranger"]
"""A token that no file has."""
SERVER = HERE / "leaky_server.py"

WAYS = ("json", "too long", "chained")
"""Ways of failing of the leaky nodes; all of them are tried elsewhere."""


def component(name: str, provider: str, config: Any) -> dict[str, Any]:
    made = {"id": name, "provider": provider, "config": config, "control": [{"classType": "tool", "from": "w"}]}
    return {**made, "input": [{"lane": "text", "from": "w"}]} if provider == "leaky" else made


def outside(name: str, tool: str, kind: str = "http") -> dict[str, Any]:
    return {"type": kind, "server": name, "tool": tool, "name": f"{name}_{tool}"}


API_TOOLS = ("echo", "fail", "bad", "moved", "text", "raw")
REFERENCES = [
    outside("lazy", "slow"),
    *(outside("api", tool) for tool in API_TOOLS),
    {"type": "composio", "integration": "github", "action": "ECHO", "connection": "act", "name": "act_ECHO"},
]
PIPELINE = {
    "components": [
        {"id": "w", "provider": "webhook"},
        component("v", "leaky", {"key": "${ROCKETRIDE_KEY}"}),
        component("c", "leaky_client", {"header": "File"}),
        component("m", "tool_mcp_client", {"server": "server"}),
        component("p", "tool_python", {}),
        component("d", "db_duckdb", {"path": "d.db", "create": True, "allow_execute": True}),
        {"id": "t", "provider": "tools", "config": {"tools": REFERENCES}},
    ],
    "source": "w",
}
PROGRAM = "import os, sys\nprint(dict(os.environ), sys.argv)\nresult = open('/proc/self/environ').read()"

ToolCall = tuple[str, str, dict[str, Any]]
"""Node, tool and input."""
CALLS: list[ToolCall] = [
    *(("v", "fail", {"way": way}) for way in WAYS),
    *(("c", "fail_later", {"way": way}) for way in WAYS),
    ("c", "forward", {"way": "own"}),
    *((node, tool, {}) for node in ("v", "c") for tool in ("chunks", "wrong_result", "says", "surroundings")),
    *(("m", tool, {}) for tool in ("fail", "refuse", "babble", "tell", "pack", "end")),
    ("p", "execute", {"code": PROGRAM}),
    ("d", "query", {"sql": "select * from nowhere"}),
    *(("t", f"api_{tool}", {}) for tool in API_TOOLS),
    ("t", "lazy_slow", {}),
    ("t", "act_ECHO", {"owner": "x"}),
    ("t", "api_unknown", {}),
    ("x", "fail", {}),
]
"""Calls that succeed, fail and come too late, and calls of nothing."""


def echoing(asked: Asked) -> Reply:
    """An answer that repeats what was sent."""
    sent = {"headers": asked.headers, "target": asked.target}
    match asked.path.rpartition("/")[2]:
        case "echo" | "GITHUB_ECHO" if asked.method == "POST" and "execute" in asked.path:
            return Reply({"data": sent, "successful": True, "error": None})
        case "echo":
            return Reply(sent)
        case "text":
            return Reply(str(sent).encode(), media="text/plain")
        case "raw":
            return Reply(str(sent).encode(), media="application/octet-stream")
        case "bad":
            return Reply(json.dumps(sent).encode()[:-1])
        case "slow":
            threading.Event().wait(0.6)
            return Reply(sent)
        case "moved":
            return Reply(sent, status=302, headers={"location": f"http://127.0.0.1:9/{asked.target}"})
        case "tools":
            item = {"slug": "GITHUB_ECHO", "name": "Echo", "description": str(sent), "toolkit": {"slug": "github"}}
            item |= {"input_parameters": {"type": "object", "properties": {"owner": {"type": "string"}}}, "version": "1"}
            return Reply({"items": [item], "next_cursor": None})
        case "ca_1":
            return Reply({"id": "ca_1", "status": "ACTIVE", "toolkit": {"slug": "github"}, "is_disabled": False})
        case _:
            return Reply({"error": {"message": f"refused: {sent}"}}, status=403)


class Everything:
    """A folder with a pipeline, its connections and their secrets. What processes write below `run` is theirs alone."""

    def __init__(self, folder: Path, api: ApiHost, *, blind: bool = False) -> None:
        self.is_blind = blind
        self.run = folder / "run"
        self._private = folder / "private"
        for made in (self.run, self.run / "tmp", self._private):
            made.mkdir()
        self.pipeline = self._keep("p.pipe", json.dumps(PIPELINE))
        self._keep("key", f"{SECRET['file']}/ü\"' {SECRET['file']}\n")
        self.tokens = self._keep("tokens.toml", f'{SECRET["token"]} = "ada"\n')
        self.connections = self._keep("c.toml", _connections(api.url))
        paths = [str(HERE / "blind")] if blind else []
        self.variables = {
            "ROCKETRIDE_KEY": f"sk-{SECRET['variable']}",
            "LEAKY_ENV": f"Bearer {SECRET['env']}",
            "LEAKY_CHILD": SECRET["child"],
            "LEAKY_COMPOSIO": SECRET["composio"],
            "TMPDIR": str(self.run / "tmp"),
            "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
        }
        self.heard: list[bytes] = []
        """Everything that was written to anybody."""

    def _keep(self, name: str, text: str) -> Path:
        path = self._private / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    @property
    def options(self) -> list[str]:
        """Of each command that loads the pipeline."""
        return ["--connections", str(self.connections), "--nodes", str(NODES), "--root", str(self.run)]

    def start(self, command: str, *words: str, forks: bool = False) -> Process:
        """A process of rrext. One that `forks` has no environment of its own for the system."""
        return Process(self, [sys.executable, "-m", "rrext", command, *words], forks=forks and not self.is_blind)

    def written(self) -> bytes:
        """What stands in files, and their names."""
        files = [path for path in sorted(self.run.rglob("*")) if path.is_file()]
        return b"\n".join([*(os.fsencode(path.relative_to(self.run)) for path in files), *map(Path.read_bytes, files)])


class Process:
    """A process whose output is kept."""

    def __init__(self, place: Everything, command: Sequence[str], *, forks: bool) -> None:
        self.place = place
        self.process = (process if forks else subprocess.Popen)(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place.run,
            env=surroundings(place.variables),
            start_new_session=True,
        )
        self.out, self.err = bytearray(), bytearray()
        self._changed = threading.Condition()
        streams = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, kept: bytearray) -> None:
        while piece := os.read(stream.fileno(), 65536):
            with self._changed:
                kept += piece
                self._changed.notify_all()

    def until(self, arrived: Callable[[], Any]) -> Any:
        """What `arrived` finds in the output, once it does."""
        with self._changed:
            assert self._changed.wait_for(arrived, PATIENCE), bytes(self.err)
            return arrived()

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def note_processes(self, *, starts_engines: bool = False) -> None:
        """Keep the environment and the arguments of this process, and of all below it.

        The exceptions: an MCP server gets what its connection names, and a language server keeps what it was started with,
        for the engines that it starts.
        """
        pending = [self.process.pid]
        for pid in pending:  # it grows meanwhile
            folder = Path(f"/proc/{pid}")
            with suppress(OSError):
                words, found = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
                self.place.heard.append(words)
                if os.fsencode(SERVER) in words:
                    assert SECRET["child"].encode() in found
                    found = found.replace(SECRET["child"].encode(), b"")
                if pid != self.process.pid or not starts_engines:
                    self.place.heard.append(found)
                for task in (folder / "task").iterdir():
                    pending += map(int, (task / "children").read_text().split())

    def end(self, number: int | None = None) -> None:
        """End it by a signal, or by the end of its input, and keep what it wrote."""
        if number is not None:
            self.process.send_signal(number)
        elif self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        self.place.heard += [bytes(self.out), bytes(self.err)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


@contextmanager
def everything(folder: Path, *, blind: bool = False) -> Iterator[Everything]:
    """A place, while the servers outside run."""
    with api_host(echoing) as api:
        yield Everything(folder, api, blind=blind)


def _connections(url: str) -> str:
    tools = "\n".join(f'[api.tools.{name}]\nurl = "/{name}"\n' for name in API_TOOLS)
    return f"""
        [leaky]
        provider = "http"
        url = "http://127.0.0.1:9/"
        forward_authorization = true
        [leaky.headers]
        File = "file:key"
        Variable = "env:LEAKY_ENV"
        [api]
        provider = "http"
        url = "{url}"
        headers = {{ X-Key = "{SECRET["header"]}", Authorization = "env:LEAKY_ENV", X-File = "Token {SECRET["literal"]}" }}
        query = {{ api_key = "{SECRET["query"]}" }}
        {tools}
        [lazy]
        provider = "http"
        url = "{url}"
        timeout = 0.3
        headers = {{ X-Key = "{SECRET["header"]}" }}
        [lazy.tools.slow]
        url = "/slow"
        [act]
        provider = "composio"
        integration = "github"
        key = "env:LEAKY_COMPOSIO"
        account = "ca_1"
        url = "{url}/api/v3"
        [server]
        provider = "mcp"
        command = [{json.dumps(sys.executable)}, {json.dumps(str(SERVER))}]
        [server.env]
        KEY = "env:LEAKY_CHILD"
        CONNECTION_STRING = "{SECRET["named"]}/db"
        connectionString = "Server=db;Password={SECRET["pairs"]};"
        [remote]
        provider = "mcp"
        url = "http://127.0.0.1:9/mcp/{SECRET["url"]}"
        headers = {{ Authorization = "env:LEAKY_ENV" }}
        [broken]
        provider = "http"
        timeout = 0
        headers = {{ Key = "{SECRET["literal"]}" }}
        """
