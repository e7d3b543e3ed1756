"""A secret of a connection, and the authorization of a caller, are in nothing that a server writes or starts."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from leaky_nodes import WAYS
from listening import HERE, NODES, PATIENCE, Peer, found_in, surroundings

from rrext.nodes.sandbox.node import PythonNode

pytestmark = pytest.mark.promise("secrets:never-leave")

CORES = tuple(secrets.token_hex(8) for _ in range(8))
OF_VARIABLE = f"Bearer {CORES[0]}"
OF_FILE = f"{CORES[1]}/ü\"'\\ \t%+&={CORES[2]}"
OF_RING = f"{CORES[3]}:{CORES[4]}"
LITERAL = f"literal {CORES[5]}"
AUTHORIZATION = f"Bearer {CORES[6]}"
SERVER = HERE / "leaky_server.py"

Dialect = Literal["dap", "jsonrpc"]


class Place:
    """A folder with the file of connections and its secrets; `written` is all else that is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        self._private = folder / "private"
        for made in (self.folder, self.folder / "tmp", self._private):
            made.mkdir()
        key, ring = self._keep("key", OF_FILE + "\n"), self._keep("ring", OF_RING)
        self.connections = self._keep(
            "c.toml",
            f"""
            [leaky]
            provider = "http"
            url = "http://127.0.0.1:9/"
            forward_authorization = true
            [leaky.headers]
            Variable = "env:LEAKY_VARIABLE"
            File = "file:{key.name}"
            Ring = "keyring:rrext/me"
            Literal = {json.dumps(LITERAL)}
            [server]
            provider = "mcp"
            command = [{json.dumps(sys.executable)}, {json.dumps(str(SERVER))}]
            env = {{ KEY = "env:LEAKY_KEY" }}
            [broken]
            provider = "http"
            timeout = 0
            headers = {{ Key = "env:LEAKY_BROKEN" }}
            """,
        )
        self.variables = {
            "LEAKY_VARIABLE": OF_VARIABLE,
            "LEAKY_KEY": CORES[7],
            "LEAKY_BROKEN": OF_VARIABLE,
            "RING": str(ring),
            "PYTHON_KEYRING_BACKEND": "secret_ring.Ring",
            "TMPDIR": str(self.folder / "tmp"),
        }

    def _keep(self, name: str, text: str) -> Path:
        path = self._private / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    @property
    def written(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())

    def serve(self, dialect: Dialect, *options: str) -> Peer:
        return Peer(
            dialect,
            *("--connections", str(self.connections), "--log-file", "log", "--audit", *options),
            secrets=self.variables,
            folder=self.folder,
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=":")
    return Place(tmp_path)


def check(peer: Peer, place: Place, more: bytes = b"") -> None:
    for data in (*peer.news(), more, place.written):
        assert found_in(data, CORES) == []


def component(component_id: str, provider: str, config: Any) -> dict[str, Any]:
    made = {"id": component_id, "provider": provider, "config": config, "control": [{"classType": "tool", "from": "w"}]}
    return {**made, "input": [{"lane": "text", "from": "w"}]} if provider == "leaky_client" else made


def pipeline(*components: dict[str, Any]) -> dict[str, Any]:
    return {"components": [{"id": "w", "provider": "webhook"}, *components], "source": "w"}


def calls(peer: Peer, header: str) -> Iterator[int]:
    """Calls of all tools in all ways, with data on the way, and with an authorization."""
    for token in (header, f"{header} fails"):
        for way in WAYS:
            for tool in ("fail", "fail_later"):
                yield peer.send("rrext_process", subcommand="tool", tool=tool, token=token, input={"way": way})
            own = {"authorization": AUTHORIZATION, "userId": "u"}
            given = {"token": token, "input": {"way": way}, "progress": True, "events": True, "context": own}
            yield peer.send("rrext_process", subcommand="tool", tool="forward", **given)
        for tool in ("chunks", "wrong_result", "says", "surroundings"):
            yield peer.send("rrext_process", subcommand="tool", tool=tool, token=token, progress=True, stream=True, events=True)
        for name in ("fails to open", "o"):
            opened = {"subcommand": "open", "token": token, "mimeType": "text/plain", "object": {"name": name}}
            pipe = (peer.ask("rrext_process", **opened) or {}).get("pipe_id", 0)
            yield peer.send("rrext_process", subcommand="write", pipe_id=pipe, data="text")
            yield peer.send("rrext_process", subcommand="close", pipe_id=pipe)
        yield peer.send("tools", token=token)
        yield peer.send("rrext_get_task_status", token=token)
    yield peer.send("rrext_get_tasks")


@pytest.mark.parametrize(
    ("header", "dialect"), [("Variable", "dap"), ("File", "jsonrpc"), ("Ring", "dap"), ("Literal", "jsonrpc")]
)
def test_whatever_a_node_does_with_a_secret_it_stays(header: str, dialect: Dialect, place: Place) -> None:
    with place.serve(dialect) as peer:
        for fails in (False, True):
            document = pipeline(component("l", "leaky_client", {"header": header, "fails": fails}))
            assert peer.ask("execute", pipeline=document, token=f"{header} fails" if fails else header) is not None
        told = [json.dumps(peer.answer(request)) for request in list(calls(peer, header))]
        assert sum(f"${{leaky.headers.{header}}}" in text for text in told) > len(WAYS), "failures say which secret it is about"
        assert sum("${authorization}" in text for text in told) > len(WAYS) // 2
        check(peer, place, peer.processes())
        peer.send("rrext_process", subcommand="tool", tool="crash", token=header)
        assert peer.process.wait(PATIENCE) == -signal.SIGSEGV
        peer.join()
        check(peer, place)
        log = (place.folder / "log").read_bytes()
        assert b"Segmentation fault" in log
        assert b"user=u" in log or b'"u"' in log, "there is an audit log"
        assert f"${{leaky.headers.{header}}}".encode() in log


@pytest.mark.skipif(PythonNode.unavailable() is not None, reason="the kernel has no sandbox")
def test_no_child_of_a_node_has_a_secret_in_its_environment(place: Place) -> None:
    program = "import os\nresult = ['PATH', dict(os.environ)]"
    leaky = component("l", "leaky_client", {"header": "Variable"})
    with place.serve("dap") as peer:
        assert peer.ask("execute", pipeline=pipeline(leaky, component("p", "tool_python", {})), token="t") is not None
        for tool, given in (("surroundings", {}), ("execute", {"code": program})):
            body = peer.ask("rrext_process", subcommand="tool", tool=tool, token="t", input=given)
            assert "PATH" in json.dumps(body)
        check(peer, place, peer.processes())
        peer.end()
        check(peer, place)


def test_whatever_a_server_outside_says_of_its_key_names_the_connection(place: Place) -> None:
    with place.serve("dap") as peer:
        assert peer.ask("execute", pipeline=pipeline(component("m", "tool_mcp_client", {"server": "server"})), token="t")
        told = json.dumps(peer.ask("tools", token="t"))
        assert '"Has ${server.env.KEY}."' in told
        for tool in ("fail", "refuse", "babble", "tell", "pack", f"with_{CORES[7]}", "end", "fail"):
            call = {"subcommand": "tool", "tool": tool, "token": "t", "progress": True, "events": True, "timeout": 20}
            told += json.dumps(peer.answer(peer.send("rrext_process", **call)))
        assert told.count("${server.env.KEY}") >= 20
        check(peer, place)
        peer.end()
        check(peer, place)
        assert b"${server.env.KEY}" in (place.folder / "log").read_bytes()


def test_no_command_says_a_secret(place: Place) -> None:
    path = place.folder / "p.pipe"
    (place.folder / "o.txt").write_text("text")
    lines = [
        *(["check"], ["tools"], ["send", "o.txt"], ["tool", "says"], ["tool", "surroundings"]),
        ["tool", "fail", "--input", '{"way": "chained"}'],
    ]
    path.write_text(json.dumps(pipeline(component("l", "leaky_client", {"header": "File"}))))
    for command, *words in lines:
        options = ["--nodes", str(NODES), "--connections", str(place.connections)]
        done = subprocess.run(
            [sys.executable, "-m", "rrext", command, *options, str(path), *words],
            cwd=place.folder,
            env=surroundings(place.variables),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert found_in(done.stdout + b"\n" + done.stderr + place.written, CORES) == [], (command, words)
        assert b"/broken" in done.stdout + done.stderr
